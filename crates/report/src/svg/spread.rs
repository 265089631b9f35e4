// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions of round-trip times: the share below each time, and histograms with bins of 0.2 ms
//! (Brouer 7.3). They show the first probe, in the phase with the longest round trips.

use super::axis::Scale;
use super::canvas::{Canvas, Drawing, Path, stroke};
use super::panel::Panel;
use super::{focus, window_of};
use crate::Findings;
use crate::format::number;
use weirgate_measure::series::round_trips;
use weirgate_measure::stats::{Histogram, Sorted};

/// The width of a bin, in nanoseconds.
const BIN_NS: u64 = 200_000;

/// Converts nanoseconds to milliseconds.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Round trips of one probe in one phase, by arm.
struct Answers<'a> {
    probe: &'a str,
    phase: &'a str,
    arms: Vec<(&'a str, Sorted)>,
}

/// Returns the answers of each arm that has any.
fn answers<'a>(findings: &Findings<'a>) -> Option<Answers<'a>> {
    let probe = findings.experiment.probes.first()?;
    let phase = focus(findings)?;
    let arms: Vec<(&str, Sorted)> = findings
        .runs
        .iter()
        .filter_map(|run| {
            let recording = run.recording?;
            let window = window_of(findings.experiment, recording, Some(phase))?;
            let rtts = round_trips(recording, 0, window.start_ns, window.end_ns);
            (!rtts.is_empty()).then_some((run.figures.arm.as_str(), rtts))
        })
        .collect();
    let probe = probe.name.as_str();
    (!arms.is_empty()).then_some(Answers { probe, phase, arms })
}

/// Draws the share of round trips up to each time, all arms in one panel.
#[must_use]
pub fn distribution(findings: &Findings) -> Option<Drawing> {
    let Answers { probe, phase, arms } = answers(findings)?;
    let none = (0.0, 0.0);
    let min = arms.iter().filter_map(|arm| arm.1.min()).min().map(ms)?;
    let max = arms.iter().filter_map(|arm| arm.1.max()).max().map(ms)?;
    let x = Scale::fitting(min, max, none, 8);
    let mut canvas = Canvas::default();
    let panel = Panel::new(x, Scale::linear((0.0, 100.0), none), 12.0, 200.0);
    panel.rows(&mut canvas, 5, "share of probes, %");
    panel.columns(&mut canvas, 8, &format!("round trip of {probe}, ms"), true);
    let mut ends = Vec::new();
    let mut parts = Vec::new();
    for (series, (arm, rtts)) in arms.iter().enumerate() {
        let count = rtts.len() as f64;
        let mut points = vec![(rtts.min().map_or(0.0, ms), 0.0)];
        let all = rtts.as_slice().iter().enumerate();
        points.extend(all.map(|(index, &rtt)| (ms(rtt), (index + 1) as f64 / count * 100.0)));
        canvas.path(
            &format!("l {}", stroke(series)),
            &panel.line(&points, f64::INFINITY),
        );
        // Distribute names evenly: every curve ends at 100 %.
        let height = 92.0 - series as f64 * 84.0 / arms.len() as f64;
        ends.push((series, *arm, height));
        let median = rtts.per_mille(500).map_or(0.0, ms);
        let high = rtts.per_mille(990).map_or(0.0, ms);
        parts.push(format!(
            "{arm}: median {} ms, p99 {} ms.",
            number(median),
            number(high)
        ));
    }
    panel.names(&mut canvas, &ends);
    let title = format!("Share of round trips under a bound, phase {phase}");
    Some(canvas.finish("distribution", title, parts.join(" "), 12.0 + 200.0 + 42.0))
}

/// Draws histograms with bins of 0.2 ms, one panel per arm, each on its own scale.
#[must_use]
pub fn histogram(findings: &Findings) -> Option<Drawing> {
    const HEIGHT: f64 = 92.0;
    const STEP: f64 = HEIGHT + 54.0;
    let Answers { probe, phase, arms } = answers(findings)?;
    let mut canvas = Canvas::default();
    let none = (0.0, 0.0);
    for (index, (arm, rtts)) in arms.iter().enumerate() {
        let histogram = Histogram::new(rtts, BIN_NS);
        let share = |count: u64| count as f64 / histogram.total as f64 * 100.0;
        let highest = histogram
            .bins
            .iter()
            .map(|bin| share(bin.1))
            .fold(0.0, f64::max);
        let low = rtts.min().map_or(0.0, ms);
        let high = rtts.max().map_or(0.0, ms);
        // In a smaller range, single bins would be bars as wide as the plot.
        let span = (high - low).max(10.0);
        let x = Scale::linear(((low - span * 0.03).max(0.0), low + span * 1.03), none);
        let y = Scale::from_zero(highest, none, 3);
        let panel = Panel::new(x, y, 22.0 + index as f64 * STEP, HEIGHT);
        panel.rows(&mut canvas, 3, "% per 0.2 ms");
        panel.columns(&mut canvas, 8, "", true);
        let mut bars = Path::default();
        let mut last: Option<(i64, f64)> = None;
        for &(bin, count) in &histogram.bins {
            let at = panel.x.position(ms(bin * BIN_NS + BIN_NS / 2));
            let (column, height) = (at.floor() as i64, share(count));
            // Of several bins in one pixel, draw only the highest.
            if last.is_some_and(|(seen, tallest)| seen == column && tallest >= height) {
                continue;
            }
            last = Some((column, height));
            bars.move_to(at, panel.bottom());
            bars.vertical_to(panel.y.position(height));
        }
        canvas.path(&format!("d {}", stroke(index)), &bars);
        panel.title(&mut canvas, arm);
    }
    let height = 22.0 + arms.len() as f64 * STEP - 30.0;
    let title = format!("Histogram of round trips in ms, bins of 0.2 ms, phase {phase}");
    let ranges: Vec<String> = arms
        .iter()
        .map(|(arm, rtts)| {
            let end = |value: Option<u64>| number(value.map_or(0.0, ms));
            format!("{arm}: {} to {} ms.", end(rtts.min()), end(rtts.max()))
        })
        .collect();
    let description = format!(
        "Round trips of {probe}, one panel per arm. {}",
        ranges.join(" ")
    );
    Some(canvas.finish("histogram", title, description, height))
}
