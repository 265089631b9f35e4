// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The campaign's picture: a small plot for each line and load, with a point for each arm.

use super::figures::Run;
use std::fmt::Write as _;

/// Plots in a row, and the size of each with its margins, in pixels.
const COLUMNS: usize = 3;
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 60.0;
const BOTTOM: f64 = 36.0;

/// The colours of weirgate's arms, cake's, and others.
const COLOURS: [&str; 3] = ["#1b6ca8", "#c0562f", "#555555"];

/// Returns the picture of these runs.
pub fn svg(runs: &[Run<'_>]) -> String {
    let mut plots: Vec<Vec<&Run<'_>>> = Vec::new();
    for run in runs.iter().filter(|run| run.figures.is_some()) {
        let same = |plot: &Vec<&Run<'_>>| {
            plot.first().is_some_and(|first| {
                (&first.line.name, &first.load.name) == (&run.line.name, &run.load.name)
            })
        };
        match plots.last_mut().filter(|plot| same(plot)) {
            Some(plot) => plot.push(run),
            None => plots.push(vec![run]),
        }
    }
    let rows = plots.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (WIDTH * COLUMNS as f64, HEIGHT * rows as f64);
    let mut text = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (index, plot) in plots.iter().enumerate() {
        let x = (index % COLUMNS) as f64 * WIDTH;
        let y = (index / COLUMNS) as f64 * HEIGHT;
        let _ = writeln!(text, "<g transform=\"translate({x} {y})\">");
        draw(&mut text, plot);
        text.push_str("</g>\n");
    }
    text + "</svg>\n"
}

/// Draws a plot. Delay has a logarithmic scale, because it is a hundred times as long without
/// control; lost goodput has a linear one.
fn draw(text: &mut String, plot: &[&Run<'_>]) {
    let points: Vec<(&str, f64, f64)> = plot
        .iter()
        .filter_map(|run| {
            let figures = run.figures?;
            Some((run.arm, (1.0 - figures.kept) * 100.0, figures.delay[1]))
        })
        .collect();
    let Some(first) = plot.first() else {
        return;
    };
    let most = points.iter().map(|point| point.1).fold(5.0, f64::max);
    let least = points.iter().map(|point| point.1).fold(0.0, f64::min);
    let low = points.iter().map(|point| point.2).fold(f64::MAX, f64::min) / 1.2;
    let high = points.iter().map(|point| point.2).fold(0.0, f64::max) * 1.2;
    let across = |given: f64| LEFT + (given - least) / (most - least) * (WIDTH - LEFT - RIGHT);
    let down = |delay: f64| {
        let part = (delay / low).ln() / (high / low).ln();
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    };
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"14\" font-weight=\"bold\">{}</text>\
         <text x=\"{LEFT}\" y=\"27\">{}</text>\n\
         <path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
         <text x=\"{right}\" y=\"{:.0}\" text-anchor=\"end\">% of the line given up; \
         upwards: 95 % of the delay, ms</text>",
        first.line.about,
        first.load.about,
        HEIGHT - 6.0
    );
    for given in (0..=20)
        .map(|step| f64::from(step) * 5.0)
        .filter(|given| *given <= most)
    {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{given}</text>",
            across(given),
            bottom + 12.0
        );
    }
    for delay in [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0] {
        if (low..high).contains(&delay) {
            let y = down(delay);
            let _ = writeln!(
                text,
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{delay}</text>",
                LEFT - 4.0,
                y + 3.0
            );
        }
    }
    for (arm, given, delay) in points {
        let colour = match arm {
            "none" | "sqm" => COLOURS[2],
            _ if arm.starts_with("cake") || arm == "autorate" => COLOURS[1],
            _ => COLOURS[0],
        };
        let (x, y) = (across(given), down(delay));
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{arm}</text>",
            x + 5.0,
            y + 3.0
        );
    }
}
