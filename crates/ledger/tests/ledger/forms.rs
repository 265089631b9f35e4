// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the stored form and the pages.

use crate::sample::{Other, entry, experiment};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_ledger::{
    Arm, Digest, Entry, Expected, Figure, Machine, MadeWith, Row, Standing, group, index, parse,
    plot,
};
use weirgate_testing::golden;

#[test]
fn an_entry_has_a_line_for_each_figure() {
    let entry = entry(&Other::default());
    let text = entry.to_toml();
    golden("crates/ledger/tests/golden/entry.toml", &text);
    let (again, problems) = parse(&text);
    assert_eq!(again.as_ref(), Some(&entry), "{problems:?}");
    let figures: usize = entry.arms.iter().map(|arm| arm.figures.len()).sum();
    let lines = text.lines().filter(|line| line.contains("metric = "));
    assert_eq!(lines.count(), figures);
    assert_eq!(entry.counts(), [4, 1, 1]);
    // No reason excuses a figure that was not measured.
    let unexplained: Vec<_> = entry.unexplained().collect();
    assert_eq!(unexplained, [("plain", "loss.p.ratio")]);
}

#[test]
fn a_miss_without_a_reason_is_named() {
    let other = Other {
        figures: &[("gate", "rtt.p.max_ms", 1.1)],
        ..Other::default()
    };
    let entry = entry(&other);
    let named: Vec<_> = entry.unexplained().collect();
    assert_eq!(named, [("plain", "loss.p.ratio"), ("gate", "rtt.p.max_ms")]);
}

#[test]
fn a_mechanism_that_is_not_as_expected_explains_nothing() {
    let other = Other {
        figures: &[("plain", "queue.modem.max_bytes", 1.1)],
        ..Other::default()
    };
    assert_eq!(entry(&other).counts(), [3, 0, 3]);
}

#[test]
fn pages_have_thesis_theory_and_measurement() {
    let rows = || {
        let unknown = Other {
            file: &[("name = \"sample\"", "name = \"adsl-0.1\"")],
            ..Other::default()
        };
        [
            Row {
                experiment: experiment(&Other::default()).0,
                entry: Some(entry(&Other::default())),
                holds: vec!["Every packet passes one gate".to_owned()],
            },
            Row {
                experiment: experiment(&unknown).0,
                entry: None,
                holds: Vec::new(),
            },
        ]
    };
    let pages = format!("{}\n{}", index(&rows()), group("own", &rows()));
    golden("crates/ledger/tests/golden/pages.md", &pages);
    assert!(!group("adsl", &rows()).contains("adsl-0.1"));
    let plots: Vec<String> = rows()
        .iter()
        .filter_map(|row| plot(row.entry.as_ref()?))
        .collect();
    golden("crates/ledger/tests/golden/plot.svg", &plots.concat());
}

#[test]
fn mistakes_are_reported_with_line_and_column() {
    let good = entry(&Other::default()).to_toml();
    let mut report = String::new();
    for (from, to) in [
        ("version = 1", "version = 2"),
        ("seeds = [1, 2, 3]", "seeds = [1, 2, \"x\"]"),
        ("seeds = [1, 2, 3]", "seeds = [1, 2]"),
        ("setup = \"", "setup = \"z"),
        ("release = \"6.1.0-1\"\n", ""),
        ("emulator = \"10.0.13\"\n", ""),
        ("mean = 950.166667", "mean = 950.2"),
        ("judged = 36.1, ", ""),
        ("runs = \"950 ", "runs = \"nan "),
        ("verdict = \"kept\"", "verdict = \"fine\""),
        ("verdict = \"missed\"", "verdict = \"kept\""),
        (", explained-by = \"queue.modem.max_bytes\"", ""),
        ("experiment = \"sample\"\n", ""),
        ("[made-with]", "[made-by]"),
        ("figures = [", "figures = ["),
    ] {
        assert!(good.contains(from), "{from}");
        let wrong = good.replacen(from, to, 1);
        let (entry, problems) = parse(&wrong);
        assert_eq!(entry.is_none(), from != to, "{to}");
        for problem in problems {
            let (line, column) = problem.line_column(&wrong);
            writeln!(
                report,
                "{line}:{column}: {}: {}",
                problem.code, problem.message
            )
            .unwrap();
        }
        report.push('\n');
    }
    golden("crates/ledger/tests/golden/mistakes.txt", &report);
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<u64>().prop_map(|bits| Digest::of(&bits.to_le_bytes()))
}

fn expected() -> impl Strategy<Value = Expected> {
    let number = || proptest::option::of(-1e9..1e9);
    let verdict = prop_oneof![
        Just(Standing::Kept),
        (".*", ".*").prop_map(|(by, reason)| Standing::Explained { by, reason }),
        ".*".prop_map(|reason| Standing::Missed { reason }),
    ];
    let parts = (".*", number(), number(), number(), verdict);
    parts.prop_map(|(promise, value, thesis, theory, verdict)| Expected {
        promise,
        value,
        thesis,
        theory,
        verdict,
    })
}

fn figure() -> impl Strategy<Value = Figure> {
    let metric = prop_oneof![
        Just("rtt.p.max_ms".to_owned()),
        Just("a.rtt.p.min_ms".to_owned()),
        ".*"
    ];
    let runs = proptest::collection::vec(-1e9..1e9, 0..5);
    let parts = (metric, runs, proptest::option::of(expected()));
    parts.prop_map(|(metric, runs, expected)| Figure {
        metric,
        runs,
        expected,
    })
}

prop_compose! {
    fn any_entry()(
        experiment in ".*",
        seeds in proptest::collection::vec(any::<u64>(), 0..4),
        [setup, measure, expectations, guest, kernel] in [digest(), digest(), digest(), digest(), digest()],
        path in ".*",
        has_machine in any::<bool>(),
        arms in proptest::collection::vec((".*", proptest::collection::vec(figure(), 0..4)), 0..3),
    ) -> Entry {
        let recordings = vec![guest.clone(); seeds.len()];
        let machine = Machine { guest, kernel, release: path.clone(), emulator: path.clone() };
        Entry {
            experiment,
            seeds,
            made_with: MadeWith {
                files: BTreeMap::from([(path, setup.clone())]),
                setup,
                measure,
                machine: has_machine.then_some(machine),
            },
            expectations,
            arms: arms.into_iter().map(|(name, figures)| Arm {
                name,
                recordings: recordings.clone(),
                figures,
            }).collect(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(entry in any_entry()) {
        let text = entry.to_toml();
        let (again, problems) = parse(&text);
        prop_assert_eq!(again, Some(entry), "{:?}\n{}", problems, text);
    }

    #[test]
    fn no_text_is_too_wrong_to_read(text in ".*") {
        let _ = parse(&text);
        let _ = parse(&format!("version = 1\n{text}"));
    }
}
