// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time-sequence plots of segments, acknowledgements, retransmissions and SACK, in the style of
//! tcptrace. They show two excerpts of the first and of the last arm: the start of the phase with
//! the longest round trips, and the first retransmission.

use super::axis::Scale;
use super::canvas::{Anchor, Canvas, Drawing, Path};
use super::focus;
use super::panel::Panel;
use crate::Findings;
use weirgate_experiment::{Direction, Recording};
use weirgate_measure::series;
use weirgate_measure::series::{Mark, MarkKind, direction, has_segments};

const HEIGHT: f64 = 210.0;
const STEP: f64 = HEIGHT + 70.0;
const TOP: f64 = 26.0;

/// How long the excerpts last before and after their times, in nanoseconds.
const BEGINNING: (u64, u64) = (500_000_000, 3_000_000_000);
const LOSS: (u64, u64) = (300_000_000, 1_700_000_000);

/// The largest number of marks in one excerpt; a fast line's excerpt is cut.
const MOST: usize = 6000;

/// Kinds of marks: name in the key, class, colour.
const KINDS: [(MarkKind, &str, &str, usize); 5] = [
    (MarkKind::Data, "segment", "l", 0),
    (MarkKind::Ack, "acknowledged", "l", 2),
    (MarkKind::Sack, "SACK block", "d", 3),
    (MarkKind::Retransmission, "sent again", "d", 1),
    (MarkKind::Dropped, "dropped", "d", 6),
];

/// Returns excerpts of the first download, or of the first upload if there is none.
fn excerpts<'a>(findings: &Findings<'a>) -> Vec<Excerpt<'a>> {
    let mut arms: Vec<(&str, &Recording)> = findings
        .runs
        .iter()
        .filter_map(|run| Some((run.figures.arm.as_str(), run.recording?)))
        .collect();
    // The arms between the first and the last add little.
    if arms.len() > 2 {
        arms.drain(1..arms.len() - 1);
    }
    arms.into_iter()
        .flat_map(|(arm, recording)| of_arm(findings, arm, recording))
        .collect()
}

/// A time interval of one flow.
struct Excerpt<'a> {
    arm: &'a str,
    flow: &'a str,
    what: String,
    from_s: f64,
    to_s: f64,
    marks: Vec<Mark>,
}

fn of_arm<'a>(findings: &Findings<'a>, arm: &'a str, recording: &'a Recording) -> Vec<Excerpt<'a>> {
    let experiment = findings.experiment;
    let tcp: Vec<usize> = (0..recording.flows.len())
        .filter(|&flow| has_segments(recording, flow))
        .collect();
    let down = tcp
        .iter()
        .find(|&&flow| direction(experiment, recording, flow) == Some(Direction::Down));
    let Some(&flow) = down.or(tcp.first()) else {
        return Vec::new();
    };
    let name = recording.flows[flow].name.as_str();
    let cut = |time: u64, around: (u64, u64), what: String| {
        let (from, to) = (time.saturating_sub(around.0), time + around.1);
        let mut marks = series::time_sequence(experiment, recording, flow, from, to);
        marks.truncate(MOST);
        let (from_s, to_s) = (from as f64 / 1e9, to as f64 / 1e9);
        Excerpt {
            arm,
            flow: name,
            what,
            from_s,
            to_s,
            marks,
        }
    };
    let mut found = Vec::new();
    let phase =
        focus(findings).and_then(|name| experiment.phases.iter().find(|phase| phase.name == name));
    if let Some(phase) = phase {
        let what = format!("at the start of {}", phase.name);
        found.push(cut(phase.start.as_nanos(), BEGINNING, what));
    }
    let all = series::time_sequence(experiment, recording, flow, 0, u64::MAX);
    // Slow start ends with losses; a later loss shows recovery better.
    let again = |mark: &&Mark| mark.kind == MarkKind::Retransmission;
    let settled = experiment.settle.as_secs_f64();
    let loss = all.iter().filter(again).find(|mark| mark.at_s >= settled);
    if let Some(mark) = loss.or_else(|| all.iter().find(again)) {
        let time = (mark.at_s * 1e9) as u64;
        found.push(cut(time, LOSS, "around a retransmission".to_owned()));
    }
    found.retain(|excerpt| !excerpt.marks.is_empty());
    found
}

/// Draws the excerpts.
#[must_use]
pub fn time_sequence(findings: &Findings) -> Option<Drawing> {
    let excerpts = excerpts(findings);
    if excerpts.is_empty() {
        return None;
    }
    let mut canvas = Canvas::default();
    let mut parts = Vec::new();
    for (index, excerpt) in excerpts.iter().enumerate() {
        let title = format!("{}: {}, {}", excerpt.arm, excerpt.flow, excerpt.what);
        draw(&mut canvas, excerpt, &title, TOP + index as f64 * STEP);
        let count = |kind| {
            excerpt
                .marks
                .iter()
                .filter(|mark| mark.kind == kind)
                .count()
        };
        parts.push(format!(
            "{title}: {} segments, {} sent again, {} dropped, {} acknowledgements, {} with SACK.",
            count(MarkKind::Data),
            count(MarkKind::Retransmission),
            count(MarkKind::Dropped),
            count(MarkKind::Ack),
            count(MarkKind::Sack)
        ));
    }
    let height = TOP + excerpts.len() as f64 * STEP - 26.0;
    let title = "Time-sequence plots".to_owned();
    Some(canvas.finish("time-sequence", title, parts.join(" "), height))
}

fn draw(canvas: &mut Canvas, excerpt: &Excerpt, title: &str, top: f64) {
    let origin = excerpt
        .marks
        .iter()
        .map(|mark| mark.from)
        .min()
        .unwrap_or(0);
    let kilobytes = |bytes: i64| (bytes - origin) as f64 / 1e3;
    let highest = excerpt
        .marks
        .iter()
        .map(|mark| kilobytes(mark.to))
        .fold(0.0, f64::max);
    let none = (0.0, 0.0);
    let x = Scale::linear((excerpt.from_s, excerpt.to_s), none);
    let panel = Panel::new(x, Scale::from_zero(highest, none, 5), top, HEIGHT);
    panel.rows(canvas, 5, "sequence number, kB");
    panel.columns(canvas, 8, "seconds", true);
    canvas.text(panel.x.pixels().0, top - 9.0, Anchor::Start, "t", title);
    let mut names = Vec::new();
    for (order, (kind, name, class, colour)) in KINDS.into_iter().enumerate() {
        let mut path = Path::default();
        let own = excerpt.marks.iter().filter(|mark| mark.kind == kind);
        for mark in own {
            let at = panel.x.position(mark.at_s);
            let (low, high) = (
                panel.y.position(kilobytes(mark.from)),
                panel.y.position(kilobytes(mark.to)),
            );
            if kind == MarkKind::Ack {
                if path.is_empty() {
                    path.move_to(at, low);
                } else {
                    path.horizontal_to(at);
                    path.vertical_to(low);
                }
            } else {
                path.move_to(at, low);
                path.vertical_to(high);
            }
        }
        if !path.is_empty() {
            canvas.path(&format!("{class} c{colour}"), &path);
            names.push((colour, name, highest * (0.9 - 0.12 * order as f64)));
        }
    }
    panel.names(canvas, &names);
}
