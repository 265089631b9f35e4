// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plot of a stored result: each figure beside what is expected of it, what the thesis measured
//! and what theory says.
//!
//! All figures of an experiment share one axis: the ratio to the thesis's figure, or to the promised
//! number if there is none. The axis is logarithmic, from a quarter to four times.

use crate::{Entry, Expected, Figure};
use std::fmt::Write as _;

/// The width of a plot, in pixels.
const WIDTH: f64 = 760.0;
/// Where the axis begins and ends, in pixels.
const AXIS: (f64, f64) = (400.0, 740.0);
/// The height of a figure's row, in pixels.
const ROW: f64 = 17.0;
/// The height of legend and axis, in pixels.
const HEAD: f64 = 46.0;
/// The largest ratio on the axis; the smallest is its inverse.
const LARGEST: f64 = 4.0;
/// Ratios that the axis names.
const NAMED: [(f64, &str); 5] = [
    (0.25, "1/4"),
    (0.5, "1/2"),
    (1.0, "1"),
    (2.0, "2"),
    (4.0, "4"),
];

/// The part of the axis that a promise allows.
enum Allowed {
    AtMost(f64),
    AtLeast(f64),
    Between(f64, f64),
}

/// A figure's row.
struct Row<'e> {
    label: String,
    expected: &'e Expected,
    allowed: Allowed,
    /// What all numbers of the row are divided by.
    reference: f64,
    measured: f64,
    interval: f64,
}

impl<'e> Row<'e> {
    /// Returns the row of a figure; `None` if a ratio says nothing about it, as for a zero.
    fn new(arm: &str, figure: &Figure, expected: &'e Expected) -> Option<Self> {
        let allowed = allowed(expected)?;
        let promised = match allowed {
            Allowed::AtMost(limit) | Allowed::AtLeast(limit) => limit,
            Allowed::Between(low, high) => f64::midpoint(low, high),
        };
        let reference = expected.thesis.unwrap_or(promised);
        let measured = figure.judged()?;
        let whole = reference > 0.0 && measured > 0.0;
        whole.then(|| Self {
            label: format!("{arm}: {}", figure.metric),
            expected,
            allowed,
            reference,
            measured,
            interval: figure.interval().unwrap_or(0.0),
        })
    }
}

/// Returns the numbers that a promise allows, such as `440 within 10%` or `at most 70`.
fn allowed(expected: &Expected) -> Option<Allowed> {
    let promise = expected.promise.as_str();
    let number = |text: &str| expected.value.or_else(|| text.parse().ok());
    if let Some(limit) = promise.strip_prefix("at most ") {
        return number(limit).map(Allowed::AtMost);
    }
    if let Some(limit) = promise.strip_prefix("at least ") {
        return number(limit).map(Allowed::AtLeast);
    }
    let (value, tolerance) = promise.rsplit_once(" within ")?;
    let value = number(value)?;
    let room = match tolerance.strip_suffix('%') {
        Some(percent) => value * percent.parse::<f64>().ok()? / 100.0,
        None => tolerance.parse().ok()?,
    };
    Some(Allowed::Between(value - room, value + room))
}

/// Returns the plot of a result as SVG; `None` if it has no figure that a ratio describes.
#[must_use]
pub fn plot(entry: &Entry) -> Option<String> {
    let rows: Vec<Row<'_>> = entry
        .expected()
        .filter_map(|(arm, figure, expected)| Row::new(&arm.name, figure, expected))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let count = rows.len() as f64;
    let height = HEAD + ROW * count + 6.0;
    let mut text = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escaped(&format!("{}: measured beside expected", entry.experiment))
    );
    text.push_str(LEGEND);
    for (ratio, name) in NAMED {
        let x = place(ratio);
        let colour = if name == "1" { "#888" } else { "#ddd" };
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{HEAD}\" x2=\"{x:.1}\" y2=\"{height}\" stroke=\"{colour}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{name}</text>",
            HEAD - 6.0
        );
    }
    for (at, row) in rows.iter().enumerate() {
        draw(&mut text, row, HEAD + ROW * (at as f64 + 0.5));
    }
    text.push_str("</svg>\n");
    Some(text)
}

const LEGEND: &str = "<g fill=\"#333\"><rect x=\"8\" y=\"9\" width=\"16\" height=\"8\" \
    fill=\"#cde5cd\"/><text x=\"30\" y=\"17\">expected</text><circle cx=\"104\" cy=\"13\" r=\"3.5\" \
    fill=\"#1b6e1b\"/><text x=\"112\" y=\"17\">kept</text><circle cx=\"154\" cy=\"13\" r=\"3.5\" \
    fill=\"#c47f00\"/><text x=\"162\" y=\"17\">explained</text><circle cx=\"232\" cy=\"13\" \
    r=\"3.5\" fill=\"#b3261e\"/><text x=\"240\" y=\"17\">missed</text><path d=\"M298 8v10\" \
    stroke=\"#333\" stroke-width=\"2\"/><text x=\"304\" y=\"17\">thesis</text><path \
    d=\"M354 13l4-4 4 4-4 4z\" fill=\"none\" stroke=\"#333\"/><text x=\"367\" \
    y=\"17\">theory</text></g>\n";

/// Draws a row: what is allowed, thesis and theory, and the measured figure with its interval.
fn draw(text: &mut String, row: &Row<'_>, y: f64) {
    let at = |value: f64| place(value / row.reference);
    let (from, to) = match row.allowed {
        Allowed::AtMost(limit) => (AXIS.0, at(limit)),
        Allowed::AtLeast(limit) => (at(limit), AXIS.1),
        Allowed::Between(low, high) => (at(low), at(high)),
    };
    let _ = write!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#333\">{}</text><rect \
         x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"10\" fill=\"#cde5cd\"/>",
        AXIS.0 - 8.0,
        y + 4.0,
        escaped(&row.label),
        y - 5.0,
        (to - from).max(1.0)
    );
    if let Some(thesis) = row.expected.thesis {
        let (x, top) = (at(thesis), y - 6.0);
        let _ = write!(
            text,
            "<path d=\"M{x:.1} {top:.1}v12\" stroke=\"#333\" stroke-width=\"2\"/>"
        );
    }
    if let Some(theory) = row.expected.theory {
        let x = at(theory) - 4.0;
        let _ = write!(
            text,
            "<path d=\"M{x:.1} {y:.1}l4-4 4 4-4 4z\" fill=\"none\" stroke=\"#333\"/>"
        );
    }
    let colour = match row.expected.verdict.word() {
        "kept" => "#1b6e1b",
        "explained" => "#c47f00",
        _ => "#b3261e",
    };
    let _ = writeln!(
        text,
        "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{colour}\"/><circle cx=\"{:.1}\" cy=\"{y:.1}\" \
         r=\"3.5\" fill=\"{colour}\"/>",
        at(row.measured - row.interval),
        at(row.measured + row.interval),
        at(row.measured)
    );
}

/// Returns the place of a ratio on the axis, in pixels; what is beyond it is at its end.
fn place(ratio: f64) -> f64 {
    let (from, to) = AXIS;
    let ratio = ratio.clamp(LARGEST.recip(), LARGEST);
    let part = f64::midpoint(ratio.ln() / LARGEST.ln(), 1.0);
    from + part * (to - from)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
