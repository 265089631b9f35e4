// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment with each kind of expectation, and measurements of it.

use std::collections::BTreeMap;
use weirgate_experiment::Experiment;
use weirgate_ledger::{Digest, Entry, Machine, MadeWith, Measurement, content};
use weirgate_measure::repeat::combine;
use weirgate_measure::{ArmFigures, judge};

/// The file's expectations, after its head.
pub const EXPECTED: &str = r#"
[[expect]]
arm = "gate"
metric = "rtt.p.mean_ms"
value = 30
tolerance = "10%"
source = "Brouer 2005, section 6.2"

[[expect]]
arm = "gate"
metric = "rtt.p.max_ms"
at-most = 38
source = "a bound"
thesis = 62

[[expect]]
arm = "gate"
metric = "goodput.up.mean_kbit"
at-least = "0.9 * goodput.up.mean_kbit@plain"
source = "nothing is given up"

[[expect]]
arm = "plain"
metric = "rtt.p.mean_ms"
value = 1136
tolerance = "5%"
source = "Brouer 2005, section 3.6"
explained-by = "queue.modem.max_bytes"
reason = "the buffer holds less"

[[expect]]
arm = "plain"
metric = "queue.modem.max_bytes"
at-most = 60000
source = "the buffer"

[[expect]]
arm = "plain"
metric = "loss.p.ratio"
at-most = 0
source = "a hope"
reason = "a full buffer drops"
"#;

/// The file before its expectations.
pub const HEAD: &str = r#"
version = 1
name = "sample"
title = "A gate beside a plain line"
source = "a test"
settle = "1s"

[topology.line]
up = { rate = "512kbit", buffer = "60kB" }
down = { rate = "2mbit", buffer = "60kB" }

[[phase]]
name = "only"
end = "10s"

[[traffic]]
name = "up"
kind = "tcp"
from = "host1"
to = "server1"

[[probe]]
name = "p"
from = "host1"
to = "provider"
interval = "100ms"

[[arm]]
name = "plain"

[[arm]]
name = "gate"
policy = "policies/gate.toml"
"#;

/// Changes of figures and of the file.
#[derive(Default)]
pub struct Other<'a> {
    /// Factors for the figures of all runs, by arm and metric.
    pub figures: &'a [(&'a str, &'a str, f64)],
    /// Texts of the file that are replaced.
    pub file: &'a [(&'a str, &'a str)],
    /// The contents of the guest's image.
    pub guest: &'a str,
}

/// The experiment.
pub fn experiment(other: &Other<'_>) -> (Experiment, String) {
    let mut text = format!("{HEAD}{EXPECTED}");
    for (from, to) in other.file {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let (experiment, problems) = weirgate_experiment::parse(&text);
    (experiment.unwrap_or_else(|| panic!("{problems:?}")), text)
}

/// Returns the experiment's entry.
pub fn entry(other: &Other<'_>) -> Entry {
    let (experiment, text) = experiment(other);
    let figures: [(&str, &str, [f64; 3]); 6] = [
        ("gate", "rtt.p.mean_ms", [29.1, 30.2, 30.5]),
        ("gate", "rtt.p.max_ms", [33.7, 36.1, 34.0]),
        ("gate", "goodput.up.mean_kbit", [431.25, 431.0, 431.125]),
        ("plain", "goodput.up.mean_kbit", [440.0, 441.0, 439.0]),
        ("plain", "rtt.p.mean_ms", [950.0, 951.5, 949.0]),
        (
            "plain",
            "queue.modem.max_bytes",
            [60000.0, 59800.0, 60000.0],
        ),
    ];
    let mut runs = vec![BTreeMap::new(); 3];
    for (arm, metric, values) in figures {
        let times = |one: &&(&str, &str, f64)| (one.0, one.1) == (arm, metric);
        let times = other.figures.iter().find(times).map_or(1.0, |one| one.2);
        for (run, value) in runs.iter_mut().zip(values) {
            let own: &mut BTreeMap<String, f64> = run.entry(arm.to_owned()).or_default();
            own.insert(metric.to_owned(), value * times);
        }
    }
    let recordings = ["gate", "plain"].map(|arm| {
        let digests = [1, 2, 3].map(|seed| Digest::of(format!("{arm}{seed}").as_bytes()));
        (arm.to_owned(), digests.to_vec())
    });
    let measurement = Measurement {
        made_with: MadeWith {
            setup: content(&text).setup,
            files: BTreeMap::from([("policies/gate.toml".to_owned(), Digest::of(b"gate"))]),
            measure: Digest::of(b"measure"),
            machine: Some(Machine {
                guest: Digest::of(other.guest.as_bytes()),
                kernel: Digest::of(b"kernel"),
                release: "6.1.0-1".to_owned(),
                emulator: "10.0.13".to_owned(),
            }),
        },
        seeds: vec![1, 2, 3],
        recordings: recordings.into(),
        runs,
    };
    let of_run = |run: &BTreeMap<String, BTreeMap<String, f64>>| -> BTreeMap<_, _> {
        let arm = |(arm, metrics): (&String, &BTreeMap<String, f64>)| {
            let (name, metrics) = (arm.clone(), metrics.clone());
            (arm.clone(), ArmFigures { arm: name, metrics })
        };
        run.iter().map(arm).collect()
    };
    let runs: Vec<BTreeMap<String, ArmFigures>> = measurement.runs.iter().map(of_run).collect();
    let verdicts = judge(&experiment, &combine(&runs).0, &BTreeMap::new());
    Entry::new(
        &experiment,
        content(&text).expectations,
        &measurement,
        &verdicts,
    )
}
