// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots over time: throughput, latency, queues. One panel per arm.

use super::axis::Scale;
use super::canvas::{Canvas, Drawing, stroke};
use super::panel::Panel;
use super::transmitted;
use crate::Findings;
use weirgate_experiment::{Direction, Experiment, Recording};
use weirgate_measure::series::{self, Series};

/// Pixels above the first panel, for the names of phases and of the arm.
const TOP: f64 = 40.0;

/// Height of a panel, and the space to the next.
const HEIGHT: f64 = 128.0;
const SPACE: f64 = 30.0;

/// Pixels below the last panel.
const BELOW: f64 = 42.0;

/// The largest number of sampled queues or TCP senders in one panel; more could not be
/// distinguished.
const MOST_SAMPLED: usize = 4;

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// A line through the values of each second.
    Line,
    /// A dot for each value.
    Dots,
    /// Steps: each value holds until the next.
    Steps,
}

/// One kind of plot over time.
struct Kind {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    style: Style,
}

/// Draws the IP throughput of every flow, second by second.
#[must_use]
pub fn throughput(findings: &Findings) -> Option<Drawing> {
    let kind = Kind {
        name: "throughput",
        title: "Throughput over time",
        unit: "IP, kbit/s",
        style: Style::Line,
    };
    draw(findings, &kind, |experiment, recording| {
        let curves = series::throughput(experiment, recording).unwrap_or_default();
        curves
            .into_iter()
            .map(|curve| while_active(experiment, curve))
            .collect()
    })
}

/// Draws the round-trip time of every probe.
#[must_use]
pub fn latency(findings: &Findings) -> Option<Drawing> {
    let kind = Kind {
        name: "latency",
        title: "Round-trip time over time",
        unit: "round trip, ms",
        style: Style::Dots,
    };
    draw(findings, &kind, series::latency)
}

/// Draws the bytes in flight of each TCP sender.
#[must_use]
pub fn outstanding(findings: &Findings) -> Option<Drawing> {
    let kind = Kind {
        name: "outstanding",
        title: "Outstanding data over time",
        unit: "sent, not acknowledged, kB",
        style: Style::Steps,
    };
    draw(findings, &kind, |experiment, recording| {
        series::senders(experiment, recording, MOST_SAMPLED, |sample| {
            sample.outstanding_bytes as f64 / 1e3
        })
    })
}

/// Draws the smoothed round trip of each TCP sender.
#[must_use]
pub fn smoothed(findings: &Findings) -> Option<Drawing> {
    let kind = Kind {
        name: "smoothed",
        title: "TCP's smoothed round-trip time",
        unit: "round trip, ms",
        style: Style::Steps,
    };
    draw(findings, &kind, |experiment, recording| {
        series::senders(experiment, recording, MOST_SAMPLED, |sample| {
            f64::from(sample.srtt_us) / 1e3
        })
    })
}

/// Draws the backlog in bytes at the line and in the gateway.
#[must_use]
pub fn queues(findings: &Findings) -> Option<Drawing> {
    let kind = Kind {
        name: "queues",
        title: "Queues over time",
        unit: "waiting, kB",
        style: Style::Steps,
    };
    draw(findings, &kind, |experiment, recording| {
        let mut curves = series::queues(experiment, recording);
        let idle = |name: &str| match name {
            "modem" => !transmitted(recording, Direction::Up),
            "exchange" => !transmitted(recording, Direction::Down),
            _ => false,
        };
        curves.retain(|curve| !idle(&curve.name));
        let mut curves = chosen(curves);
        for curve in &mut curves {
            for point in &mut curve.points {
                point.1 /= 1e3;
            }
        }
        curves
    })
}

/// Keeps the most useful sampled queues: the longest, and classes rather than qdiscs, which
/// contain the packets of their classes.
fn chosen(curves: Vec<Series>) -> Vec<Series> {
    let line = |curve: &Series| matches!(curve.name.as_str(), "modem" | "exchange");
    let (mut kept, mut sampled): (Vec<Series>, Vec<Series>) = curves.into_iter().partition(line);
    // A class has a minor number: `wan-1:30`, where `wan-30:` and `wan` are qdiscs.
    let class = |curve: &Series| {
        curve
            .name
            .rsplit_once(':')
            .is_some_and(|(_, minor)| !minor.is_empty())
    };
    if sampled.iter().any(class) {
        sampled.retain(class);
    }
    let longest = |curve: &Series| curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    sampled.sort_by(|one, other| longest(other).total_cmp(&longest(one)));
    // A class with a single child class contains the same packets as that child.
    let mut known: Vec<Vec<(f64, f64)>> = Vec::new();
    sampled.retain(|curve| {
        let new = !known.contains(&curve.points);
        known.push(curve.points.clone());
        new
    });
    kept.extend(sampled.into_iter().take(MOST_SAMPLED));
    kept
}

/// Removes the zeros of seconds in which a flow had no run.
fn while_active(experiment: &Experiment, mut curve: Series) -> Series {
    let runs = experiment
        .traffic
        .iter()
        .filter(|traffic| traffic.name == curve.name);
    let runs: Vec<(f64, f64)> = runs
        .flat_map(|traffic| &traffic.runs)
        .map(|run| (run.0.as_secs_f64(), run.1.as_secs_f64()))
        .collect();
    let active = |at: f64| runs.iter().any(|run| at + 1.0 > run.0 && at < run.1);
    curve
        .points
        .retain(|point| point.1 > 0.0 || active(point.0));
    curve
}

fn draw(
    findings: &Findings,
    kind: &Kind,
    curves: impl Fn(&Experiment, &Recording) -> Vec<Series>,
) -> Option<Drawing> {
    let experiment = findings.experiment;
    let arms: Vec<(&str, &Recording, Vec<Series>)> = findings
        .runs
        .iter()
        .filter_map(|run| Some((run.figures.arm.as_str(), run.recording?)))
        .map(|(arm, recording)| (arm, recording, curves(experiment, recording)))
        .filter(|(_, _, curves)| curves.iter().any(|curve| !curve.points.is_empty()))
        .collect();
    let all = || {
        arms.iter()
            .flat_map(|arm| &arm.2)
            .flat_map(|curve| &curve.points)
    };
    let duration = arms.iter().map(|arm| arm.1.duration_ns).max()? as f64 / 1e9;
    let max = all().map(|point| point.1).fold(0.0, f64::max);
    let min = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let none = (0.0, 0.0);
    let y = match kind.style {
        Style::Dots => Scale::fitting(min, max, none, 4),
        Style::Line | Style::Steps => Scale::from_zero(max, none, 4),
    };
    // Assign colours by name, so that they are the same in every arm.
    let mut names: Vec<&str> = Vec::new();
    for curve in arms.iter().flat_map(|arm| &arm.2) {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    let mut canvas = Canvas::default();
    let last = arms.len() - 1;
    for (index, (arm, _, curves)) in arms.iter().enumerate() {
        let top = TOP + index as f64 * (HEIGHT + SPACE);
        let panel = Panel::new(Scale::linear((0.0, duration), none), y, top, HEIGHT);
        panel.phases(&mut canvas, experiment, index == 0);
        panel.rows(&mut canvas, 4, kind.unit);
        let mut ends = Vec::new();
        // The first curve is the most important: it is drawn last, above the others.
        for curve in curves.iter().rev().filter(|c| !c.points.is_empty()) {
            let series = names
                .iter()
                .position(|name| *name == curve.name)
                .unwrap_or(0);
            let (class, path) = match kind.style {
                Style::Line => ("l", panel.line(&curve.points, 1.5)),
                Style::Dots => ("d", panel.dots(&curve.points)),
                Style::Steps => ("l thin", panel.steps(&curve.points, duration)),
            };
            canvas.path(&format!("{class} {}", stroke(series)), &path);
            ends.push((series, curve.name.as_str(), ending(&curve.points)));
        }
        panel.columns(
            &mut canvas,
            8,
            "seconds since the start of traffic",
            index == last,
        );
        panel.title(&mut canvas, arm);
        panel.names(&mut canvas, &ends);
    }
    let height = TOP + arms.len() as f64 * (HEIGHT + SPACE) - SPACE + BELOW;
    let description = describe(kind, &arms, y.is_log());
    Some(canvas.finish(kind.name, kind.title.to_owned(), description, height))
}

/// Returns the height of a curve's name: the median of its last tenth.
fn ending(points: &[(f64, f64)]) -> f64 {
    let from = points.len() - (points.len() / 10).max(1);
    let mut last: Vec<f64> = points[from..].iter().map(|point| point.1).collect();
    last.sort_by(f64::total_cmp);
    last[last.len() / 2]
}

fn describe(kind: &Kind, arms: &[(&str, &Recording, Vec<Series>)], log: bool) -> String {
    let mut parts = vec![format!(
        "{} ({}), one panel per arm on one {} scale.",
        kind.title,
        kind.unit,
        if log { "logarithmic" } else { "linear" }
    )];
    for (arm, _, curves) in arms {
        for curve in curves.iter().filter(|curve| !curve.points.is_empty()) {
            let values = || curve.points.iter().map(|point| point.1);
            parts.push(format!(
                "{arm}, {}: from {} to {}.",
                curve.name,
                crate::format::number(values().fold(f64::INFINITY, f64::min)),
                crate::format::number(values().fold(0.0, f64::max))
            ));
        }
    }
    parts.join(" ")
}
