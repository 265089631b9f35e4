// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares texts from constructed figures with golden texts.

use std::collections::BTreeMap;
use weirgate_experiment::Experiment;
use weirgate_measure::predict::Prediction;
use weirgate_measure::{ArmFigures, JudgedExpectation, calculate, judge};
use weirgate_report::html::{Section, page};
use weirgate_report::{Findings, Run, missed, terminal, try_summary};

const UPLOADS: &str = r#"
version = 1
name = "by-hand"
title = "An upload joins"
source = "nowhere"
about = "For tests."

[topology]
kind = "access-line"

[topology.line]
framing = "atm"
overhead = 28
up = { rate = "512kbit", delay = "2ms", buffer = "200kB" }
down = { rate = "2000kbit", delay = "2ms", buffer = "40kB" }

[[phase]]
name = "alone"
end = "20s"

[[phase]]
name = "uploads"
end = "60s"

[[traffic]]
name = "down"
kind = "tcp"
from = "server1"
to = "host1"

[[traffic]]
name = "up"
kind = "tcp"
from = "host1"
to = "server1"
during = ["uploads"]

[[probe]]
name = "interactive"
from = "host1"
to = "provider"
interval = "50ms"

[[arm]]
name = "modem-only"
about = "as it is"

[[arm]]
name = "weirgate"
about = "as it should be"

[[expect]]
arm = "modem-only"
metric = "uploads.rtt.interactive.mean_ms"
value = 1000
tolerance = "10%"
source = "a thesis"

[[expect]]
arm = "weirgate"
metric = "uploads.rtt.interactive.max_ms"
at-most = 36
source = "the issue"

[[expect]]
arm = "weirgate"
metric = "uploads.rtt.interactive.p99_ms"
at-most = 36
source = "the issue"
"#;

const CALCULATION: &str = r#"
version = 1
name = "sum"
title = "A sum"
source = "nowhere"
about = "For tests."

[[figure]]
name = "cells"
formula = "wire-bytes(adsl:bridged-vc-fcs, 40) / 53"
about = "cells of a small packet"

[[expect]]
arm = "calculation"
metric = "calculated.cells.value"
value = 2
tolerance = "0"
source = "a thesis"
"#;

fn experiment(text: &str) -> Experiment {
    let (experiment, problems) = weirgate_experiment::parse(text);
    experiment.unwrap_or_else(|| panic!("{problems:#?}"))
}

fn figures(arm: &str, list: &[(&str, f64)]) -> ArmFigures {
    ArmFigures {
        arm: arm.into(),
        metrics: list
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
    }
}

fn both() -> [ArmFigures; 2] {
    [
        figures(
            "modem-only",
            &[
                ("alone.rtt.interactive.mean_ms", 162.25),
                ("alone.iprate.down.mean_kbit", 1761.6),
                ("uploads.rtt.interactive.mean_ms", 1139.2),
                ("uploads.rtt.interactive.p99_ms", 1180.0),
                ("uploads.rtt.interactive.max_ms", 1201.0),
                ("uploads.iprate.down.mean_kbit", 441.0),
                ("uploads.iprate.up.mean_kbit", 437.6),
                ("uploads.util.up.ratio", 1.0),
            ],
        ),
        figures(
            "weirgate",
            &[
                ("alone.rtt.interactive.mean_ms", 9.5),
                ("alone.iprate.down.mean_kbit", 1740.0),
                ("uploads.rtt.interactive.mean_ms", 14.94),
                ("uploads.rtt.interactive.max_ms", 33.5),
                ("uploads.iprate.down.mean_kbit", 1702.0),
                ("uploads.iprate.up.mean_kbit", 372.0),
                ("uploads.util.up.ratio", 0.9931),
            ],
        ),
    ]
}

#[test]
fn the_summary_tells_what_happened() {
    let [before, after] = both();
    let expected = "\
While an upload ran, an interactive packet and its answer took 1139 ms on
average with the modem alone, 1201 ms at worst. Under the policy they took
14.9 ms, 33.5 ms at worst: 76.3 times shorter.

The download beside it got 441 kbit/s, 24.9 % of what the line carries; under
the policy it got 1702 kbit/s, 96.2 %.

The upload itself went from 438 kbit/s (96.6 % of the line) to 372 kbit/s
(82.2 %); the difference carries the acknowledgements of the faster download.

while uploads run        modem-only      weirgate
  round trip, mean          1139 ms       14.9 ms
  round trip, longest       1201 ms       33.5 ms
  download               441 kbit/s   1702 kbit/s
  upload                 438 kbit/s    372 kbit/s
download alone           modem-only      weirgate
  round trip, mean           162 ms        9.5 ms
  download              1762 kbit/s   1740 kbit/s
";
    assert_eq!(try_summary(&experiment(UPLOADS), &before, &after), expected);
    // Missing figures are not an error.
    let nothing = figures("x", &[]);
    assert_eq!(try_summary(&experiment(UPLOADS), &nothing, &nothing), "");
}

fn shown<T>(experiment: &Experiment, arms: &[ArmFigures], show: impl FnOnce(&Findings) -> T) -> T {
    let none = BTreeMap::new();
    let calculated = BTreeMap::from([(
        "modem-only".to_owned(),
        vec![Prediction {
            metric: "uploads.rtt.interactive.mean_ms".into(),
            value: 1146.0,
            derivation: "the windows hold 44 packets".into(),
        }],
    )]);
    let by_name = arms
        .iter()
        .map(|arm| (arm.arm.clone(), arm.clone()))
        .collect();
    let verdicts: Vec<JudgedExpectation> = judge(experiment, &by_name, &calculated);
    let runs: Vec<Run> = arms
        .iter()
        .map(|figures| Run {
            figures,
            recording: None,
            parameters: &none,
        })
        .collect();
    show(&Findings {
        experiment,
        seed: 1,
        seeds: 1,
        intervals: &BTreeMap::new(),
        runs: &runs,
        verdicts: &verdicts,
        calculated: &calculated,
        tried: &[],
        policies: &none,
    })
}

#[test]
fn the_terminal_shows_arms_beside_each_other() {
    let expected = "\
by-hand: An upload joins

alone                        modem-only  weirgate
  rtt interactive mean, ms          162       9.5
  IP rate down mean, kbit/s        1762      1740
uploads
  rtt interactive mean, ms         1139      14.9
  rtt interactive p99, ms          1180         -
  rtt interactive max, ms          1201      33.5
  IP rate down mean, kbit/s         441      1702
  IP rate up mean, kbit/s           438       372
  utilisation up                      1     0.993

1 of 3 expectations are kept, 2 not.
  explained modem-only uploads.rtt.interactive.mean_ms
            1139 ms, expected 1000 ms within 10 % (+13.9 %)
            Source: a thesis.
            Calculated: 1146 ms. The windows hold 44 packets.
  kept      weirgate uploads.rtt.interactive.max_ms
            33.5 ms, expected at most 36 ms (-6.9 %)
  no data   weirgate uploads.rtt.interactive.p99_ms
            no figure, expected at most 36 ms
            the run recorded too little of `interactive` for it.
            Source: the issue.
";
    let text = shown(&experiment(UPLOADS), &both(), terminal);
    assert_eq!(text, expected);
}

#[test]
fn a_call_is_told_in_words() {
    const CALL: &str = "
[[traffic]]
name = \"call\"
kind = \"voice\"
from = \"host1\"
to = \"server1\"
interval = \"20ms\"
packet = 200
";
    let (head, rest) = UPLOADS.split_once("[[probe]]").unwrap();
    let experiment = experiment(&format!("{head}{CALL}\n[[probe]]{rest}"));
    let mut arms = both();
    for (arm, r, mos) in [(0, 44.25, 2.28), (1, 93.206, 4.4094)] {
        let metrics = &mut arms[arm].metrics;
        metrics.insert("uploads.rating.call.r".into(), r);
        metrics.insert("uploads.mos.call.score".into(), mos);
    }
    let text = shown(&experiment, &arms, terminal);
    let table = "  R of call                        44.2      93.2\n  MOS of call                      2.28      4.41\n";
    assert!(text.contains(table), "{text}");
    let words = "
call in uploads: R 44.2, MOS 2.28 with modem-only, which is not recommended
(users nearly all dissatisfied); R 93.2, MOS 4.41 with weirgate, which is best
(users very satisfied).
";
    assert!(text.contains(words), "{text}");
    let html = shown(&experiment, &arms, |findings| {
        page("Calls", &[Section::new(findings)])
    });
    assert!(html.contains("which is best (users very satisfied)"));
}

/// `try` prints this; a measured mechanism prevents exit status 1.
#[test]
fn what_was_missed_is_told_with_its_mechanism() {
    const BOUND: &str = r#"
[[expect]]
arm = "weirgate"
metric = "uploads.rtt.interactive.max_ms"
at-most = 30
source = "weirgate check"
explained-by = "uploads.util.up.ratio"
reason = "the line is full"

[[expect]]
arm = "weirgate"
metric = "uploads.util.up.ratio"
at-least = 0.99
source = "the line"
"#;
    let (head, _) = UPLOADS.split_once("[[expect]]").unwrap();
    let experiment = experiment(&format!("{head}{BOUND}"));
    let judged = |arms: &[ArmFigures]| shown(&experiment, arms, |it| it.verdicts.to_vec());
    let mut arms = both();
    let verdicts = judged(&arms);
    assert_eq!(
        missed(&verdicts),
        "
Not as expected:
  broken    weirgate uploads.rtt.interactive.max_ms
            33.5 ms, expected at most 30 ms (+11.7 %)
            Source: weirgate check.
            Explained: the line is full.
"
    );
    let explained = |all: &[JudgedExpectation]| -> Vec<bool> {
        all.iter().map(|one| one.has_mechanism(all)).collect()
    };
    assert_eq!(explained(&verdicts), [true, false]);
    // The mechanism's own figure is not as expected, so it explains nothing.
    *arms[1].metrics.get_mut("uploads.util.up.ratio").unwrap() = 0.9;
    let verdicts = judged(&arms);
    assert_eq!(explained(&verdicts), [false, false]);
    assert!(missed(&verdicts).contains("Supposed: the line is full."));
    *arms[1]
        .metrics
        .get_mut("uploads.rtt.interactive.max_ms")
        .unwrap() = 29.0;
    *arms[1].metrics.get_mut("uploads.util.up.ratio").unwrap() = 1.0;
    assert_eq!(missed(&judged(&arms)), "");
}

#[test]
fn a_single_arm_has_its_phases_beside_each_other() {
    let mut experiment = experiment(UPLOADS);
    experiment.expectations.clear();
    let text = shown(&experiment, &both()[..1], terminal);
    let expected = "\
by-hand: An upload joins

                                alone   uploads
  rtt interactive mean, ms        162      1139
  IP rate down mean, kbit/s      1762       441
  rtt interactive p99, ms           -      1180
  rtt interactive max, ms           -      1201
  IP rate up mean, kbit/s           -       438
  utilisation up                    -         1

Nothing was expected.
";
    assert_eq!(text, expected);
}

#[test]
fn many_arms_go_into_several_tables_of_80_columns() {
    let mut experiment = experiment(UPLOADS);
    let names = [
        "modem-only",
        "naive",
        "thesis-htb",
        "thesis-htb-minimal",
        "weirgate",
        "cake",
        "x",
    ];
    let arms: Vec<ArmFigures> = names
        .iter()
        .map(|name| ArmFigures {
            arm: (*name).into(),
            ..both()[0].clone()
        })
        .collect();
    experiment.expectations.clear();
    let text = shown(&experiment, &arms, terminal);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    for name in names {
        assert!(text.contains(name), "{name} in {text}");
    }
    assert_eq!(text.matches("\nalone").count(), 2, "{text}");
}

#[test]
fn a_calculation_needs_no_recording() {
    let experiment = experiment(CALCULATION);
    let arm = calculate(&experiment).unwrap();
    shown(&experiment, &[arm], |findings| {
        let text = terminal(findings);
        assert!(
            text.contains("  cells") && text.contains("The expectation is kept."),
            "{text}"
        );
        let html = page("Sums", &[Section::new(findings)]);
        assert!(
            html.contains("1 of 1 kept") && !html.contains("<svg"),
            "{html}"
        );
    });
}

#[test]
fn a_page_of_several_experiments_has_an_index() {
    let one = shown(&experiment(UPLOADS), &both(), Section::new);
    let sum = experiment(CALCULATION);
    let two = shown(&sum, &[calculate(&sum).unwrap()], Section::new);
    let html = page("All", &[one, two]);
    assert!(html.contains("<a href=\"#x-by-hand\">by-hand</a>"));
    assert!(html.contains("<section id=\"x-by-hand\""));
    assert!(html.contains("2 of 4 expectations are kept, 2 not."));
}
