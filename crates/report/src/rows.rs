// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses which figures a table shows.
//!
//! For every phase, a table shows the mean, p99 and longest round trip of each probe, the rate of
//! each flow, the utilisation of the line, and every figure with an expectation. With many phases,
//! it shows only the first probe's mean and the figures with expectations.

use crate::{Findings, format};
use weirgate_experiment::{Experiment, Metric, Quantity, Statistic, TrafficKind};

/// The largest number of phases for which everything is shown.
const FEW_PHASES: usize = 6;

/// A table of figures: arms are columns, phases are blocks of rows. For a single arm, phases are
/// columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) blocks: Vec<Block>,
}

/// The rows of one phase, or of all phases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// Its heading; empty where the table needs none.
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// One kind of figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Its name without the phase: `rtt interactive mean`.
    pub(crate) label: String,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Its value in each column.
    pub(crate) values: Vec<Option<f64>>,
    /// Half the width of each value's confidence interval, for several runs.
    pub(crate) halves: Vec<Option<f64>>,
}

impl Row {
    /// Returns the text of each column's cell.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Option<String>> + '_ {
        let halves = self.halves.iter().copied().chain(std::iter::repeat(None));
        self.values.iter().zip(halves).map(|(value, half)| {
            let value = format::number((*value)?);
            Some(match half {
                Some(half) => format!("{value} ±{}", format::number(half)),
                None => value,
            })
        })
    }
}

/// The heading for the whole run among phases.
const WHOLE: &str = "whole run";

/// Returns the table of an experiment.
pub(crate) fn table(findings: &Findings) -> Table {
    let experiment = findings.experiment;
    let phases = experiment
        .phases
        .iter()
        .map(|phase| Some(phase.name.as_str()));
    let mut blocks: Vec<Block> = phases
        .chain([None])
        .map(|phase| Block {
            title: phase.unwrap_or(WHOLE).to_owned(),
            rows: metrics(experiment, phase)
                .iter()
                .filter_map(|m| row(findings, m))
                .collect(),
        })
        .collect();
    blocks.retain(|block| !block.rows.is_empty());
    let table = Table {
        columns: findings
            .runs
            .iter()
            .map(|run| run.figures.arm.clone())
            .collect(),
        blocks,
    };
    if findings.runs.len() == 1 && table.blocks.len() > 1 {
        transposed(&table)
    } else {
        table
    }
}

/// Converts the blocks of a single column to columns.
fn transposed(table: &Table) -> Table {
    let columns: Vec<String> = table
        .blocks
        .iter()
        .map(|block| block.title.clone())
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    for (column, block) in table.blocks.iter().enumerate() {
        for row in &block.rows {
            let value = row.values.first().copied().flatten();
            let half = row.halves.first().copied().flatten();
            let same = |known: &&mut Row| known.label == row.label && known.unit == row.unit;
            if let Some(known) = rows.iter_mut().find(same) {
                known.values[column] = value;
                known.halves[column] = half;
            } else {
                let mut values = vec![None; columns.len()];
                values[column] = value;
                let mut halves = vec![None; columns.len()];
                halves[column] = half;
                rows.push(Row {
                    values,
                    halves,
                    ..row.clone()
                });
            }
        }
    }
    Table {
        columns,
        blocks: vec![Block {
            title: String::new(),
            rows,
        }],
    }
}

fn row(findings: &Findings, metric: &Metric) -> Option<Row> {
    let name = metric.to_string();
    let values: Vec<Option<f64>> = findings
        .runs
        .iter()
        .map(|run| run.figures.metrics.get(&name).copied())
        .collect();
    let half = |run: &crate::Run<'_>| {
        let own = findings.intervals.get(&run.figures.arm)?;
        own.get(&name).copied()
    };
    let halves = findings.runs.iter().map(half).collect();
    let unit = format::unit(&name);
    let label = label(metric);
    values.iter().any(Option::is_some).then_some(Row {
        label,
        unit,
        values,
        halves,
    })
}

/// Returns a metric in words, without its phase and unit.
pub(crate) fn label(metric: &Metric) -> String {
    let statistic = match metric.statistic {
        Statistic::Only => "",
        Statistic::Min => "min",
        Statistic::Mean => "mean",
        Statistic::P50 => "median",
        Statistic::P95 => "p95",
        Statistic::P99 => "p99",
        Statistic::P999 => "p99.9",
        Statistic::Max => "max",
        Statistic::Variation => "variation",
        Statistic::WithinMs(bound) => return within(metric, bound),
        Statistic::Writing => "written and read back",
        Statistic::Writes => "requests",
        Statistic::Steps => "steps",
        Statistic::Failures => "failed",
        Statistic::Unshaped => "unshaped",
    };
    let word = match metric.quantity {
        Quantity::IpRate => "IP rate",
        Quantity::PacketRate => "packets",
        Quantity::Util => "utilisation",
        Quantity::Gap => "longest gap",
        Quantity::Silence => "line without a packet",
        Quantity::Rating => "R of",
        Quantity::Opinion => "MOS of",
        Quantity::Calculated => "",
        quantity => quantity.word(),
    };
    let parts = [word, &metric.subject, statistic];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// Returns a whole metric in words, for readers who do not know its name: its phase and meaning,
/// such as `uploads: round trip interactive mean`.
pub(crate) fn in_words(metric: &Metric) -> String {
    let mut words = label(metric);
    if let Some(rest) = words.strip_prefix("rtt ") {
        words = format!("round trip {rest}");
    }
    match &metric.phase {
        Some(phase) => format!("{phase}: {words}"),
        None => words,
    }
}

fn within(metric: &Metric, bound: u32) -> String {
    format!(
        "{} {} <= {bound} ms",
        metric.quantity.word(),
        metric.subject
    )
}

fn metrics(experiment: &Experiment, phase: Option<&str>) -> Vec<Metric> {
    let in_phase = |metric: Metric| match phase {
        Some(phase) => metric.in_phase(phase),
        None => metric,
    };
    let mut found: Vec<Metric> = Vec::new();
    let few = experiment.phases.len() <= FEW_PHASES;
    // If there are phases, they replace the whole run.
    if phase.is_some() || experiment.phases.is_empty() {
        found.extend(usual(experiment, few).into_iter().map(in_phase));
    }
    let expected = experiment
        .expectations
        .iter()
        .map(|expectation| expectation.metric.as_str())
        .filter_map(|name| name.parse::<Metric>().ok())
        .filter(|metric| metric.phase.as_deref() == phase);
    for metric in expected.chain(figures(experiment, phase)) {
        if !found.contains(&metric) {
            found.push(metric);
        }
    }
    found
}

fn figures(experiment: &Experiment, phase: Option<&str>) -> Vec<Metric> {
    let calculated = experiment.figures.iter().filter(|_| phase.is_none());
    let calculated =
        calculated.map(|figure| Metric::new(Quantity::Calculated, &figure.name, Statistic::Only));
    let most = experiment.arms.iter().map(|arm| arm.then.len()).max();
    let changes = (1..=most.filter(|_| phase.is_none()).unwrap_or(0)).flat_map(|number| {
        [
            Statistic::Only,
            Statistic::Writing,
            Statistic::Steps,
            Statistic::Writes,
            Statistic::Failures,
            Statistic::Unshaped,
        ]
        .map(|statistic| Metric::new(Quantity::Change, number.to_string(), statistic))
    });
    calculated.chain(changes).collect()
}

fn usual(experiment: &Experiment, few: bool) -> Vec<Metric> {
    let mut found = Vec::new();
    let rtt = |name: &str, statistic| Metric::new(Quantity::Rtt, name, statistic);
    if !few {
        let first = experiment.probes.first();
        return first
            .map(|probe| rtt(&probe.name, Statistic::Mean))
            .into_iter()
            .collect();
    }
    for probe in &experiment.probes {
        for statistic in [Statistic::Mean, Statistic::P99, Statistic::Max] {
            found.push(rtt(&probe.name, statistic));
        }
    }
    for traffic in &experiment.traffic {
        let statistics: &[(Quantity, Statistic)] = match traffic.kind {
            TrafficKind::Tcp(_) | TrafficKind::Quic(_) => &[(Quantity::IpRate, Statistic::Mean)],
            TrafficKind::Syns { .. } => &[(Quantity::PacketRate, Statistic::Only)],
            TrafficKind::Udp { .. } => &[
                (Quantity::PacketRate, Statistic::Only),
                (Quantity::Loss, Statistic::Only),
            ],
            TrafficKind::Requests { .. } => &[
                (Quantity::Response, Statistic::Mean),
                (Quantity::Response, Statistic::P95),
            ],
            TrafficKind::ShortFlows { .. } => &[
                (Quantity::Connect, Statistic::Mean),
                (Quantity::Response, Statistic::Mean),
                (Quantity::Response, Statistic::P95),
                (Quantity::Slowdown, Statistic::Mean),
                (Quantity::Unfinished, Statistic::Only),
            ],
            TrafficKind::Voice { .. } => &[
                (Quantity::Jitter, Statistic::Mean),
                (Quantity::Loss, Statistic::Only),
                (Quantity::Rating, Statistic::Only),
                (Quantity::Opinion, Statistic::Only),
            ],
        };
        for &(quantity, statistic) in statistics {
            found.push(Metric::new(quantity, &traffic.name, statistic));
        }
        for part in traffic.parts() {
            for quantity in [Quantity::Response, Quantity::Slowdown] {
                found.push(Metric::new(quantity, &part.name, Statistic::Mean));
            }
        }
    }
    for link in ["up", "down"] {
        found.push(Metric::new(Quantity::Util, link, Statistic::Only));
    }
    found
}
