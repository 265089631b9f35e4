// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the DiffServ experiments, for each pair of senders: the thesis's figures, theory,
//! and measurement.
//!
//! Theory is the expectation in the experiment's file. Measurements are from outcomes (`weirgate
//! lab run FILE --json`). The thesis's figures are in `ds-table.toml`.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// One Mbit/s of the thesis (2^20 bit/s) in kbit/s.
const BINARY: f64 = 1048.576;

/// The thesis's measurement of a sender.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sender {
    /// Its name in the experiment.
    flow: String,
    /// The goodput in units of 2^20 bit/s, if the thesis has the pair.
    mbit: Option<f64>,
    /// For datagrams: the jitter in ms, if it is stated.
    jitter: Option<f64>,
    /// The number of lost datagrams or segments, if it is stated.
    lost: Option<u32>,
    /// The number of datagrams that were sent.
    of: Option<u32>,
}

/// A pair of senders.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    name: String,
    experiment: String,
    arm: String,
    phase: String,
    senders: [Sender; 2],
}

/// All pairs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pairs {
    pair: Vec<Pair>,
}

impl Pairs {
    fn read(root: &Path) -> Result<Self> {
        let path = root.join("tools/xtask/ds-table.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }
}

/// Figures by experiment, arm and metric, with the expected values.
type Figures = BTreeMap<(String, String, String), (f64, Option<f64>)>;

/// Prints the tables of all outcomes in a folder. With a document to check, reports which lines it
/// lacks.
#[allow(clippy::print_stdout, reason = "the table is what is asked for")]
pub fn run(root: &Path, folder: &Path, check: Option<&Path>) -> Result<()> {
    let figures = read(folder)?;
    if figures.is_empty() {
        bail!(
            "{} has no outcome: `weirgate lab run FILE --json` writes one",
            folder.display()
        );
    }
    let lines = lines(&Pairs::read(root)?.pair, &figures);
    println!("{}", lines.join("\n"));
    let Some(path) = check else { return Ok(()) };
    let document = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let stated: BTreeSet<&str> = document.lines().collect();
    let missing: Vec<&String> = lines
        .iter()
        .filter(|line| !line.is_empty() && !stated.contains(line.as_str()))
        .collect();
    match missing[..] {
        [] => Ok(()),
        [first, ..] => bail!(
            "{}: {} lines are not as measured, the first: {first}",
            path.display(),
            missing.len()
        ),
    }
}

fn lines(pairs: &[Pair], figures: &Figures) -> Vec<String> {
    let measured = |pair: &&Pair| {
        let metric = |sender: &Sender| format!("{}.goodput.{}.mean_kbit", pair.phase, sender.flow);
        let mut senders = pair.senders.iter();
        senders.any(|sender| pair.figure(figures, metric(sender)).is_some())
    };
    let mut lines = vec![
        "| | first: thesis | theory | measured | second: thesis | theory | measured |".to_owned(),
        "|---|---:|---:|---:|---:|---:|---:|".to_owned(),
    ];
    for pair in pairs.iter().filter(measured) {
        let cells = pair.cells(|sender| goodput(figures, pair, sender));
        lines.push(format!("| {} | {cells} |", pair.name));
    }
    lines.extend([
        String::new(),
        "| | first: jitter, thesis | measured | lost, thesis | measured | second: jitter, thesis | \
         measured | lost, thesis | measured |"
            .to_owned(),
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|".to_owned(),
    ]);
    for pair in pairs.iter().filter(measured) {
        let cells = pair.cells(|sender| fate(figures, pair, sender));
        lines.push(format!("| {} | {cells} |", pair.name));
    }
    lines.extend(ratios(figures));
    lines
}

/// Compares two flows in one class with round trips of 1:4: the ratio of the near one's goodput to
/// the other's.
fn ratios(figures: &Figures) -> Vec<String> {
    let of = |arm: &str, flow: &str| {
        let metric = format!("full.goodput.{flow}.mean_kbit");
        let key = ("ds-rtt".to_owned(), arm.to_owned(), metric);
        figures.get(&key).map(|(kbit, _)| *kbit)
    };
    let rows = ["red", "wred"].into_iter().filter_map(|arm| {
        let (near, far) = (of(arm, "near")?, of(arm, "far")?);
        Some(format!(
            "| {arm} | {near:.0} | {far:.0} | {:.2} |",
            near / far
        ))
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    let head = [
        "",
        "| | near, kbit/s | far | ratio |",
        "|---|---:|---:|---:|",
    ];
    head.map(str::to_owned).into_iter().chain(rows).collect()
}

impl Pair {
    fn cells(&self, cells: impl Fn(&Sender) -> String) -> String {
        let [first, second] = &self.senders;
        format!("{} | {}", cells(first), cells(second))
    }

    fn figure(&self, figures: &Figures, metric: String) -> Option<(f64, Option<f64>)> {
        let (experiment, arm) = (self.experiment.clone(), self.arm.clone());
        figures.get(&(experiment, arm, metric)).copied()
    }
}

/// Returns the goodput: thesis, theory, measurement.
fn goodput(figures: &Figures, pair: &Pair, sender: &Sender) -> String {
    let metric = format!("{}.goodput.{}.mean_kbit", pair.phase, sender.flow);
    let (measured, theory) = pair.figure(figures, metric).unzip();
    let shown = |kbit: Option<f64>| kbit.map_or_else(|| "-".to_owned(), mbit);
    format!(
        "{} | {} | {}",
        shown(sender.mbit.map(|mbit| mbit * BINARY)),
        shown(theory.flatten()),
        shown(measured)
    )
}

/// Returns the jitter in ms and losses (for TCP, retransmitted segments): thesis and measurement.
fn fate(figures: &Figures, pair: &Pair, sender: &Sender) -> String {
    let measured = |quantity: &str, statistic: &str| {
        let metric = format!("{}.{quantity}.{}.{statistic}", pair.phase, sender.flow);
        pair.figure(figures, metric).map(|(measured, _)| measured)
    };
    let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let jitter = |ms: f64| format!("{ms:.1}");
    let part = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let lost = sender.lost.map(|lost| match sender.of {
        Some(sent) => part(f64::from(lost) / f64::from(sent)),
        None => lost.to_string(),
    });
    let datagrams = measured("loss", "ratio").map(part);
    let again = || measured("retransmitted", "segments").map(|count| count.to_string());
    format!(
        "{} | {} | {} | {}",
        shown(sender.jitter.map(jitter)),
        shown(measured("jitter", "mean_ms").map(jitter)),
        shown(lost),
        shown(datagrams.or_else(again))
    )
}

/// Formats Mbit/s of 10^6 bit/s; small ones with a third decimal.
fn mbit(kbit: f64) -> String {
    if kbit < 995.0 {
        format!("{:.3}", kbit / 1e3)
    } else {
        format!("{:.2}", kbit / 1e3)
    }
}

fn read(folder: &Path) -> Result<Figures> {
    let mut figures = Figures::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|kind| kind != "json") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let Ok(outcome) = serde_json::from_str::<Value>(&text) else {
            continue;
        };
        let experiment = outcome["experiment"].as_str().unwrap_or_default();
        for (arm, own) in outcome["arms"].as_object().into_iter().flatten() {
            for (metric, value) in own["metrics"].as_object().into_iter().flatten() {
                let expected = &own["expected"][metric];
                // A bound is not a figure of theory.
                let bound = expected["tolerance"].as_str().unwrap_or_default();
                let theory = expected["value"].as_f64();
                let theory = theory.filter(|_| !bound.starts_with("at "));
                let key = (experiment.to_owned(), arm.clone(), metric.clone());
                if let Some(value) = value.as_f64() {
                    figures.insert(key, (value, theory));
                }
            }
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_of_an_experiment_and_its_arm() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pairs = Pairs::read(&root).expect("the pairs are right").pair;
        assert!(!pairs.is_empty());
        for pair in pairs {
            let stem = pair.experiment.strip_prefix("ds-").expect("one of these");
            let path = root.join(format!("experiments/ds/{stem}.toml"));
            let text = fs::read_to_string(path).expect("an experiment");
            for name in [
                &pair.arm,
                &pair.phase,
                &pair.senders[0].flow,
                &pair.senders[1].flow,
            ] {
                assert!(
                    text.contains(&format!("name = \"{name}\"")),
                    "{}",
                    pair.name
                );
            }
        }
    }
}
