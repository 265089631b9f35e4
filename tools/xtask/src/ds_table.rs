// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the DiffServ experiments: the thesis's figures, what theory gives,
//! what was measured, of each pair of senders.
//!
//! Theory is the expectation of the experiment's own file; what was measured is
//! read from outcomes (`weirgate lab run FILE --json`), the thesis's figures stand
//! here, in its Mbit/s of 2^20 bits.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// One Mbit/s of the thesis in kbit/s.
const BINARY: f64 = 1048.576;

/// Datagrams of a sender of the thesis: 20 MB in the pairs, 60 s in the
/// appendix, where it calls the hosts f3 (9.5 Mbit/s) and f5 (10).
const ALL: u32 = 14_267;
const F3: u32 = 50_824;
const F5: u32 = 53_499;

/// What the thesis measured of a sender.
#[derive(Clone, Copy)]
struct Sender {
    /// Its name in the experiment.
    flow: &'static str,
    /// Mbit/s of 2^20 bits, where the thesis has the pair.
    mbit: Option<f64>,
    /// Of datagrams: the jitter in ms, where it is stated.
    jitter: Option<f64>,
    /// What was lost, where it is stated.
    lost: Option<Lost>,
}

#[derive(Clone, Copy)]
enum Lost {
    /// Datagrams of so many.
    Of(u32, u32),
    /// Segments.
    Segments(u32),
}

/// A pair of senders.
struct Pair {
    name: &'static str,
    experiment: &'static str,
    arm: &'static str,
    phase: &'static str,
    senders: [Sender; 2],
}

const fn udp(flow: &'static str, mbit: f64, jitter: f64, lost: u32) -> Sender {
    let jitter = Some(jitter);
    let lost = Some(Lost::Of(lost, ALL));
    Sender {
        flow,
        mbit: Some(mbit),
        jitter,
        lost,
    }
}

/// Datagrams in the appendix, whose jitter is not stated.
const fn lost(flow: &'static str, mbit: f64, lost: u32, sent: u32) -> Sender {
    let lost = Some(Lost::Of(lost, sent));
    Sender {
        flow,
        mbit: Some(mbit),
        jitter: None,
        lost,
    }
}

const fn tcp(flow: &'static str, mbit: f64, lost: Option<u32>) -> Sender {
    let lost = match lost {
        Some(lost) => Some(Lost::Segments(lost)),
        None => None,
    };
    Sender {
        flow,
        mbit: Some(mbit),
        jitter: None,
        lost,
    }
}

/// A sender of a pair that the thesis does not have.
const fn ours(flow: &'static str) -> Sender {
    Sender {
        flow,
        mbit: None,
        jitter: None,
        lost: None,
    }
}

const fn pair(
    name: &'static str,
    experiment: &'static str,
    arm: &'static str,
    phase: &'static str,
    first: Sender,
    second: Sender,
) -> Pair {
    let senders = [first, second];
    Pair {
        name,
        experiment,
        arm,
        phase,
        senders,
    }
}

/// Of what TCP lost in DS-A4b the thesis prints more than can have been sent.
#[rustfmt::skip]
const PAIRS: [Pair; 34] = [
    pair("DS-1.1", "ds-1.1", "half", "full", udp("flow1", 4.5, 9.294, 4926), udp("flow2", 4.6, 1.421, 4918)),
    pair("DS-1.2", "ds-1.1", "half-swapped", "full", udp("flow1", 4.5, 8.294, 5029), udp("flow2", 4.6, 1.345, 4913)),
    pair("DS-1.3", "ds-1.1", "priority-far", "full", udp("flow1", 7.0, 0.708, 0), udp("flow2", 2.1, 11.459, 9876)),
    pair("DS-1.4", "ds-1.1", "priority-near", "full", udp("flow1", 7.0, 0.683, 47), udp("flow2", 2.2, 12.69, 9838)),
    pair("DS-1.5", "ds-1.1", "weights", "full", udp("flow1", 6.6, 0.683, 691), udp("flow2", 2.5, 8.838, 9154)),
    pair("DS-1.6", "ds-1.6", "half", "full", udp("flow1", 6.9, 0.736, 100), tcp("flow2", 3.8, Some(0))),
    pair("DS-1.7", "ds-1.7", "half", "full", tcp("flow1", 3.5, None), tcp("flow2", 3.4, None)),
    pair("DS-2.1", "ds-2.1", "shaped", "full", udp("flow1", 1.1, 15.313, 11979), udp("flow2", 7.0, 0.268, 0)),
    pair("DS-2.1, policed", "ds-2.1", "policed", "full", ours("flow1"), ours("flow2")),
    pair("DS-2.2", "ds-2.2", "shaped", "full", udp("flow1", 1.0, 21.664, 12255), tcp("flow2", 5.7, None)),
    pair("DS-3.1", "ds-1.1", "first-first", "full", udp("flow1", 7.0, 0.759, 0), udp("flow2", 2.2, 8.322, 9829)),
    pair("DS-3.2", "ds-1.1", "second-first", "full", udp("flow1", 2.2, 3.371, 9839), udp("flow2", 7.0, 0.735, 0)),
    pair("DS-4.1", "ds-4.1", "small-and-red", "full", udp("flow1", 2.7, 0.708, 8659), udp("flow2", 6.4, 0.596, 1253)),
    pair("DS-4.2", "ds-4.2", "small-and-red", "full", tcp("flow1", 3.2, None), tcp("flow2", 3.5, Some(10))),
    pair("DS-4.3", "ds-4.3", "small-and-red", "full", udp("flow1", 4.8, 1.204, 4518), tcp("flow2", 4.1, None)),
    pair("DS-4.4", "ds-4.4", "half-and-red", "full", tcp("flow1", 3.6, Some(0)), tcp("flow2", 3.4, Some(107))),
    pair("DS-4.5", "ds-4.5", "half-and-red", "full", tcp("flow1", 3.6, Some(11)), tcp("flow2", 3.4, Some(21))),
    pair("DS-A1a, pfifo 50", "ds-a1", "pfifo", "tcp-tcp", tcp("tcp1", 3.6, None), tcp("tcp2", 3.5, None)),
    pair("DS-A1b, pfifo 50", "ds-a1", "pfifo", "tcp-udp", tcp("tcp1", 0.0649, Some(71)), lost("udp2", 9.1, 4826, F5)),
    pair("DS-A1c, pfifo 50", "ds-a1", "pfifo", "udp-udp", lost("udp1", 2.5, 37231, F3), lost("udp2", 6.6, 18133, F5)),
    pair("DS-A1a, pfifo 100", "ds-a1", "pfifo-100", "tcp-tcp", tcp("tcp1", 3.6, None), tcp("tcp2", 3.6, None)),
    pair("DS-A1b, pfifo 100", "ds-a1", "pfifo-100", "tcp-udp", tcp("tcp1", 0.0714, Some(48)), lost("udp2", 9.1, 4727, F5)),
    pair("DS-A1c, pfifo 100", "ds-a1", "pfifo-100", "udp-udp", lost("udp1", 2.6, 36276, F3), lost("udp2", 6.6, 17915, F5)),
    pair("DS-A2a, bfifo 75 kB", "ds-a1", "bfifo", "tcp-tcp", tcp("tcp1", 3.4, None), tcp("tcp2", 3.1, None)),
    pair("DS-A2b, bfifo 75 kB", "ds-a1", "bfifo", "tcp-udp", tcp("tcp1", 0.0929, Some(71)), lost("udp2", 9.1, 4832, F5)),
    pair("DS-A2c, bfifo 75 kB", "ds-a1", "bfifo", "udp-udp", lost("udp1", 2.6, 36881, F3), lost("udp2", 6.6, 18160, F5)),
    pair("DS-A2a, bfifo 150 kB", "ds-a1", "bfifo-150k", "tcp-tcp", tcp("tcp1", 3.3, None), tcp("tcp2", 3.7, None)),
    pair("DS-A2b, bfifo 150 kB", "ds-a1", "bfifo-150k", "tcp-udp", tcp("tcp1", 0.0891, Some(73)), lost("udp2", 9.1, 4790, F5)),
    pair("DS-A2c, bfifo 150 kB", "ds-a1", "bfifo-150k", "udp-udp", lost("udp1", 2.6, 36539, F3), lost("udp2", 6.6, 18136, F5)),
    pair("DS-A3a, SFQ", "ds-a1", "sfq", "tcp-tcp", tcp("tcp1", 3.5, Some(0)), tcp("tcp2", 3.5, Some(0))),
    pair("DS-A3b, SFQ", "ds-a1", "sfq", "tcp-udp", tcp("tcp1", 0.85, Some(0)), lost("udp2", 8.3, 9162, F5)),
    pair("DS-A3c, SFQ", "ds-a1", "sfq", "udp-udp", lost("udp1", 3.6, 31165, F3), lost("udp2", 5.5, 23858, F5)),
    pair("DS-A4a, RED", "ds-a1", "red", "tcp-tcp", tcp("tcp1", 6.1, Some(51)), tcp("tcp2", 0.35, Some(51))),
    pair("DS-A4b, RED", "ds-a1", "red", "tcp-udp", tcp("tcp1", 0.0785, None), lost("udp2", 4.6, 28952, F5)),
];

/// A figure, and what is expected of it.
type Figures = BTreeMap<(String, String, String), (f64, Option<f64>)>;

/// Prints the tables of all outcomes in a folder; with a document to check, says
/// which of their lines it does not have.
#[allow(clippy::print_stdout, reason = "the table is what is asked for")]
pub fn run(folder: &Path, check: Option<&Path>) -> Result<()> {
    let figures = read(folder)?;
    if figures.is_empty() {
        bail!(
            "{} has no outcome: `weirgate lab run FILE --json` writes one",
            folder.display()
        );
    }
    let lines = lines(&figures);
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

fn lines(figures: &Figures) -> Vec<String> {
    let measured = |pair: &&Pair| {
        let metric = |sender: &Sender| format!("{}.goodput.{}.mean_kbit", pair.phase, sender.flow);
        let mut senders = pair.senders.iter();
        senders.any(|sender| pair.figure(figures, metric(sender)).is_some())
    };
    let mut lines = vec![
        "| | first: thesis | theory | measured | second: thesis | theory | measured |".to_owned(),
        "|---|---:|---:|---:|---:|---:|---:|".to_owned(),
    ];
    for pair in PAIRS.iter().filter(measured) {
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
    for pair in PAIRS.iter().filter(measured) {
        let cells = pair.cells(|sender| fate(figures, pair, sender));
        lines.push(format!("| {} | {cells} |", pair.name));
    }
    lines.extend(ratios(figures));
    lines
}

/// Of two flows in one class whose round trips are 1:4, how much more the near one
/// has.
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
        let (experiment, arm) = (self.experiment.to_owned(), self.arm.to_owned());
        figures.get(&(experiment, arm, metric)).copied()
    }
}

/// Goodput: thesis, theory, measured.
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

/// Jitter in ms and losses, of TCP segments sent again: thesis and measured.
fn fate(figures: &Figures, pair: &Pair, sender: &Sender) -> String {
    let measured = |quantity: &str, statistic: &str| {
        let metric = format!("{}.{quantity}.{}.{statistic}", pair.phase, sender.flow);
        pair.figure(figures, metric).map(|(measured, _)| measured)
    };
    let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let jitter = |ms: f64| format!("{ms:.1}");
    let part = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let lost = sender.lost.map(|lost| match lost {
        Lost::Of(lost, sent) => part(f64::from(lost) / f64::from(sent)),
        Lost::Segments(lost) => lost.to_string(),
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

/// Mbit/s of 10^6 bits, small ones with a third place.
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
                // A bound is no figure of theory.
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
