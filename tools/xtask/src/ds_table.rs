// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the DiffServ experiments: the thesis's figure, what theory gives,
//! what was measured, of each pair of senders.
//!
//! Theory is the expectation of the experiment's own file; what was measured is
//! read from outcomes (`weirgate lab run FILE --json`), the thesis's figures stand
//! here, in its Mbit/s of 2^20 bits.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One Mbit/s of the thesis in kbit/s.
const BINARY: f64 = 1048.576;

/// A pair of senders: its name, experiment, arm, phase, its two flows, and what
/// the thesis measured of each.
type Pair = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    [&'static str; 2],
    [f64; 2],
);

const PAIRS: [Pair; 33] = [
    (
        "DS-1.1",
        "ds-1.1",
        "half",
        "full",
        ["flow1", "flow2"],
        [4.5, 4.6],
    ),
    (
        "DS-1.2",
        "ds-1.1",
        "half-swapped",
        "full",
        ["flow1", "flow2"],
        [4.5, 4.6],
    ),
    (
        "DS-1.3",
        "ds-1.1",
        "priority-far",
        "full",
        ["flow1", "flow2"],
        [7.0, 2.1],
    ),
    (
        "DS-1.4",
        "ds-1.1",
        "priority-near",
        "full",
        ["flow1", "flow2"],
        [7.0, 2.2],
    ),
    (
        "DS-1.5",
        "ds-1.1",
        "weights",
        "full",
        ["flow1", "flow2"],
        [6.6, 2.5],
    ),
    (
        "DS-1.6",
        "ds-1.6",
        "half",
        "full",
        ["flow1", "flow2"],
        [6.9, 3.8],
    ),
    (
        "DS-1.7",
        "ds-1.7",
        "half",
        "full",
        ["flow1", "flow2"],
        [3.5, 3.4],
    ),
    (
        "DS-2.1",
        "ds-2.1",
        "shaped",
        "full",
        ["flow1", "flow2"],
        [1.1, 7.0],
    ),
    (
        "DS-2.2",
        "ds-2.2",
        "shaped",
        "full",
        ["flow1", "flow2"],
        [1.0, 5.7],
    ),
    (
        "DS-3.1",
        "ds-1.1",
        "first-first",
        "full",
        ["flow1", "flow2"],
        [7.0, 2.2],
    ),
    (
        "DS-3.2",
        "ds-1.1",
        "second-first",
        "full",
        ["flow1", "flow2"],
        [2.2, 7.0],
    ),
    (
        "DS-4.1",
        "ds-4.1",
        "small-and-red",
        "full",
        ["flow1", "flow2"],
        [2.7, 6.4],
    ),
    (
        "DS-4.2",
        "ds-4.2",
        "small-and-red",
        "full",
        ["flow1", "flow2"],
        [3.2, 3.5],
    ),
    (
        "DS-4.3",
        "ds-4.3",
        "small-and-red",
        "full",
        ["flow1", "flow2"],
        [4.8, 4.1],
    ),
    (
        "DS-4.4",
        "ds-4.4",
        "half-and-red",
        "full",
        ["flow1", "flow2"],
        [3.6, 3.4],
    ),
    (
        "DS-4.5",
        "ds-4.5",
        "half-and-red",
        "full",
        ["flow1", "flow2"],
        [3.6, 3.4],
    ),
    (
        "DS-A1a, pfifo 50",
        "ds-a1",
        "pfifo",
        "tcp-tcp",
        ["tcp1", "tcp2"],
        [3.6, 3.5],
    ),
    (
        "DS-A1b, pfifo 50",
        "ds-a1",
        "pfifo",
        "tcp-udp",
        ["tcp1", "udp2"],
        [0.0649, 9.1],
    ),
    (
        "DS-A1c, pfifo 50",
        "ds-a1",
        "pfifo",
        "udp-udp",
        ["udp1", "udp2"],
        [2.5, 6.6],
    ),
    (
        "DS-A1a, pfifo 100",
        "ds-a1",
        "pfifo-100",
        "tcp-tcp",
        ["tcp1", "tcp2"],
        [3.6, 3.6],
    ),
    (
        "DS-A1b, pfifo 100",
        "ds-a1",
        "pfifo-100",
        "tcp-udp",
        ["tcp1", "udp2"],
        [0.0714, 9.1],
    ),
    (
        "DS-A1c, pfifo 100",
        "ds-a1",
        "pfifo-100",
        "udp-udp",
        ["udp1", "udp2"],
        [2.6, 6.6],
    ),
    (
        "DS-A2a, bfifo 75 kB",
        "ds-a1",
        "bfifo",
        "tcp-tcp",
        ["tcp1", "tcp2"],
        [3.4, 3.1],
    ),
    (
        "DS-A2b, bfifo 75 kB",
        "ds-a1",
        "bfifo",
        "tcp-udp",
        ["tcp1", "udp2"],
        [0.0929, 9.1],
    ),
    (
        "DS-A2c, bfifo 75 kB",
        "ds-a1",
        "bfifo",
        "udp-udp",
        ["udp1", "udp2"],
        [2.6, 6.6],
    ),
    (
        "DS-A2a, bfifo 150 kB",
        "ds-a1",
        "bfifo-150k",
        "tcp-tcp",
        ["tcp1", "tcp2"],
        [3.3, 3.7],
    ),
    (
        "DS-A2b, bfifo 150 kB",
        "ds-a1",
        "bfifo-150k",
        "tcp-udp",
        ["tcp1", "udp2"],
        [0.0891, 9.1],
    ),
    (
        "DS-A2c, bfifo 150 kB",
        "ds-a1",
        "bfifo-150k",
        "udp-udp",
        ["udp1", "udp2"],
        [2.6, 6.6],
    ),
    (
        "DS-A3a, SFQ",
        "ds-a1",
        "sfq",
        "tcp-tcp",
        ["tcp1", "tcp2"],
        [3.5, 3.5],
    ),
    (
        "DS-A3b, SFQ",
        "ds-a1",
        "sfq",
        "tcp-udp",
        ["tcp1", "udp2"],
        [0.85, 8.3],
    ),
    (
        "DS-A3c, SFQ",
        "ds-a1",
        "sfq",
        "udp-udp",
        ["udp1", "udp2"],
        [3.6, 5.5],
    ),
    (
        "DS-A4a, RED",
        "ds-a1",
        "red",
        "tcp-tcp",
        ["tcp1", "tcp2"],
        [6.1, 0.35],
    ),
    (
        "DS-A4b, RED",
        "ds-a1",
        "red",
        "tcp-udp",
        ["tcp1", "udp2"],
        [0.0785, 4.6],
    ),
];

/// A figure, and what is expected of it.
type Figures = BTreeMap<(String, String, String), (f64, Option<f64>)>;

/// Prints the table of all outcomes in a folder.
#[allow(clippy::print_stdout, reason = "the table is what is asked for")]
pub fn run(folder: &Path) -> Result<()> {
    let figures = read(folder)?;
    if figures.is_empty() {
        bail!(
            "{} has no outcome: `weirgate lab run FILE --json` writes one",
            folder.display()
        );
    }
    println!("| | first: thesis | theory | measured | second: thesis | theory | measured |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (name, experiment, arm, phase, flows, thesis) in PAIRS {
        let cells = flows.into_iter().zip(thesis).map(|(flow, thesis)| {
            let metric = format!("{phase}.goodput.{flow}.mean_kbit");
            let key = (experiment.to_owned(), arm.to_owned(), metric);
            let (measured, theory) = figures.get(&key).copied().unzip();
            let shown = |kbit: Option<f64>| match kbit {
                Some(kbit) => mbit(kbit),
                None => "-".to_owned(),
            };
            format!(
                "{} | {} | {}",
                mbit(thesis * BINARY),
                shown(theory.flatten()),
                shown(measured)
            )
        });
        let cells: Vec<String> = cells.collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(())
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
