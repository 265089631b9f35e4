// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares all arms: ranges of round trips and mean rates, by phase.

use super::axis::{Scale, label};
use super::canvas::{Anchor, Canvas, Drawing, Path, WIDTH, fill, stroke};
use super::panel::short;
use crate::format::number;
use crate::{Findings, Run};
use weirgate_experiment::{Node, Traffic, TrafficKind};
use weirgate_measure::predict::ip_ceiling_kbit;

const ROW: f64 = 19.0;
const TOP: f64 = 34.0;
/// The left edge of the ranges, right of the arms' names.
const LEFT: f64 = 164.0;
/// The widths of the ranges beside rates, and of one rate.
const RANGE: f64 = 272.0;
const RATE: f64 = 96.0;
const GAP: f64 = 56.0;

/// The largest lengths of an arm's and of a flow's name, in characters.
const ARM: usize = 23;
const FLOW: usize = 12;

/// A flow whose rate is shown.
struct Shown<'a> {
    name: &'a str,
    ceiling: f64,
}

/// One arm in one phase.
struct Row<'a> {
    y: f64,
    name: &'a str,
    series: usize,
    phase: &'a str,
    run: &'a Run<'a>,
}

impl Row<'_> {
    fn figure(&self, rest: &str) -> Option<f64> {
        figure(self.run, self.phase, rest)
    }

    fn middle(&self) -> f64 {
        self.y + ROW / 2.0
    }
}

fn figure(run: &Run, phase: &str, rest: &str) -> Option<f64> {
    run.figures.metrics.get(&format!("{phase}.{rest}")).copied()
}

/// Draws, for every phase and arm, the minimum, median, p99 and maximum of the first probe's round
/// trip, and the rate of the first flow in each direction.
#[must_use]
pub fn comparison(findings: &Findings) -> Option<Drawing> {
    let probe = &findings.experiment.probes.first()?.name;
    let mut canvas = Canvas::default();
    let (rows, bottom) = rows(&mut canvas, findings, probe);
    let ends = |statistic: &str| {
        let name = format!("rtt.{probe}.{statistic}_ms");
        rows.iter()
            .filter_map(move |row| row.figure(&name))
            .collect::<Vec<f64>>()
    };
    let min = ends("min").into_iter().reduce(f64::min)?;
    let max = ends("max").into_iter().reduce(f64::max)?;
    let flows = flows(findings);
    let range = if flows.is_empty() {
        WIDTH - LEFT - 40.0
    } else {
        RANGE
    };
    let x = Scale::fitting(min, max, (LEFT, LEFT + range), 6);
    let mut grid = Path::default();
    for tick in x.ticks(6) {
        grid.move_to(x.position(tick), TOP - 4.0);
        grid.vertical_to(bottom);
        canvas.text(
            x.position(tick),
            bottom + 14.0,
            Anchor::Middle,
            "",
            &label(tick),
        );
    }
    canvas.path("g", &grid);
    canvas.text(
        LEFT,
        16.0,
        Anchor::Start,
        "t",
        &format!("round trip of {}, ms", short(probe, ARM)),
    );
    for (index, flow) in flows.iter().enumerate() {
        rate_axis(&mut canvas, flow, rate_left(index), bottom);
    }
    let mut parts = Vec::new();
    for row in &rows {
        canvas.text(
            LEFT - 8.0,
            row.middle() + 4.0,
            Anchor::End,
            "n",
            &short(row.name, ARM),
        );
        parts.extend(round_trip(&mut canvas, row, probe, &x));
        for (index, flow) in flows.iter().enumerate() {
            rate(&mut canvas, row, flow, rate_left(index));
        }
    }
    let text = "line: min to max; bar: median (dot) to p99; rates against what the line carries";
    canvas.text(LEFT, bottom + 32.0, Anchor::Start, "", text);
    let title = "All arms by phase".to_owned();
    Some(canvas.finish("comparison", title, parts.join(" "), bottom + 42.0))
}

/// Draws the names of phases. Returns the position of each arm in each phase, and the bottom of
/// the last one. With a single arm, a row has the name of its phase.
fn rows<'a>(canvas: &mut Canvas, findings: &Findings<'a>, probe: &str) -> (Vec<Row<'a>>, f64) {
    let mut y = TOP;
    let single = findings.runs.len() == 1;
    let mut rows = Vec::new();
    let name = format!("rtt.{probe}.max_ms");
    for phase in findings
        .experiment
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
    {
        if findings
            .runs
            .iter()
            .all(|run| figure(run, phase, &name).is_none())
        {
            continue;
        }
        if !single {
            canvas.text(8.0, y + 13.0, Anchor::Start, "t", phase);
            y += ROW;
        }
        for (series, run) in findings.runs.iter().enumerate() {
            let name = if single { phase } else { &run.figures.arm };
            rows.push(Row {
                y,
                name,
                series,
                phase,
                run,
            });
            y += ROW;
        }
        y += if single { 0.0 } else { 5.0 };
    }
    (rows, y + 2.0)
}

fn rate_left(index: usize) -> f64 {
    LEFT + RANGE + 28.0 + index as f64 * (RATE + GAP)
}

fn rate_axis(canvas: &mut Canvas, flow: &Shown, left: f64, bottom: f64) {
    let heading = format!("{}, kbit/s", short(flow.name, FLOW));
    canvas.text(left, 16.0, Anchor::Start, "t", &heading);
    canvas.path("a", &Path::line(left, TOP - 4.0, left, bottom));
    let right = left + RATE;
    canvas.path("g", &Path::line(right, TOP - 4.0, right, bottom));
    let ceiling = format!("of {}", label(flow.ceiling.round()));
    canvas.text(right, bottom + 14.0, Anchor::Middle, "", &ceiling);
}

/// Draws a range, and returns it in words.
fn round_trip(canvas: &mut Canvas, row: &Row, probe: &str, x: &Scale) -> Option<String> {
    let of = |statistic: &str| row.figure(&format!("rtt.{probe}.{statistic}_ms"));
    let (min, p50, p99, max) = (of("min")?, of("p50")?, of("p99")?, of("max")?);
    let middle = row.middle();
    let line = Path::line(x.position(min), middle, x.position(max), middle);
    canvas.path(&format!("l {}", stroke(row.series)), &line);
    let width = (x.position(p99) - x.position(p50)).max(1.0);
    let hint = format!(
        "{}, {}: min {} ms, median {} ms, p99 {} ms, max {} ms",
        row.run.figures.arm,
        row.phase,
        number(min),
        number(p50),
        number(p99),
        number(max)
    );
    canvas.rect(
        &fill(row.series),
        (x.position(p50), middle - 3.5, width, 7.0),
        &hint,
    );
    canvas.dot(&fill(row.series), x.position(p50), middle, 4.5, &hint);
    Some(format!("{hint}."))
}

fn rate(canvas: &mut Canvas, row: &Row, flow: &Shown, left: f64) {
    let Some(rate) = row.figure(&format!("iprate.{}.mean_kbit", flow.name)) else {
        return;
    };
    let width = (rate / flow.ceiling).clamp(0.0, 1.1) * RATE;
    let arm = &row.run.figures.arm;
    let hint = format!(
        "{arm}, {}: {} {} kbit/s",
        row.phase,
        flow.name,
        number(rate)
    );
    let middle = row.middle();
    canvas.rect(&fill(row.series), (left, middle - 6.0, width, 12.0), &hint);
    canvas.text(
        left + width + 4.0,
        middle + 4.0,
        Anchor::Start,
        "n",
        &number(rate),
    );
}

/// Returns the first flow of each direction, with the line's rate in that direction.
fn flows<'a>(findings: &Findings<'a>) -> Vec<Shown<'a>> {
    let line = &findings.experiment.topology.line;
    let near = |node| matches!(node, Node::Host(_) | Node::Gateway);
    let down = |traffic: &&Traffic| !near(traffic.from) && near(traffic.to);
    let up = |traffic: &&Traffic| near(traffic.from) && !near(traffic.to);
    let bulk =
        |traffic: &&Traffic| matches!(traffic.kind, TrafficKind::Tcp(_) | TrafficKind::Quic(_));
    let traffic = || findings.experiment.traffic.iter().filter(bulk);
    let shown = |traffic: &'a Traffic, rate| Shown {
        name: &traffic.name,
        ceiling: ip_ceiling_kbit(line, rate),
    };
    let found = [
        traffic()
            .find(down)
            .map(|traffic| shown(traffic, line.down.rate)),
        traffic()
            .find(up)
            .map(|traffic| shown(traffic, line.up.rate)),
    ];
    found
        .into_iter()
        .flatten()
        .filter(|shown| shown.ceiling > 0.0)
        .collect()
}
