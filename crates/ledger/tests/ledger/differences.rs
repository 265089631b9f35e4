// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of comparisons.

use crate::sample::{Other, entry};
use weirgate_ledger::{Change, Repetition, compare, repeats};

fn differences(stored: &Other<'_>, new: &Other<'_>) -> Vec<(Change, String)> {
    let findings = compare(&entry(stored), &entry(new));
    let differences = findings.iter();
    differences
        .map(|one| (one.change, one.to_string()))
        .collect()
}

#[test]
fn nothing_changed_tells_nothing() {
    assert_eq!(differences(&Other::default(), &Other::default()), []);
}

#[test]
fn a_kept_expectation_that_breaks_is_worse_and_names_its_figure() {
    let slower = Other {
        figures: &[("gate", "rtt.p.max_ms", 1.25)],
        ..Other::default()
    };
    let found = differences(&Other::default(), &slower);
    let worse = "worse: sample, arm `gate`: rtt.p.max_ms: at most 38: 45.125, missed; the ledger has \
                 36.1, kept";
    assert_eq!(found[0], (Change::Worse, worse.to_owned()));
    // The opposite change is an improvement.
    assert_eq!(differences(&slower, &Other::default())[0].0, Change::Better);
}

#[test]
fn an_old_miss_is_no_difference() {
    let lossy = Other {
        figures: &[("plain", "rtt.p.mean_ms", 1.001)],
        ..Other::default()
    };
    assert_eq!(differences(&Other::default(), &lossy), []);
}

#[test]
fn an_explanation_that_breaks_is_worse() {
    let fuller = Other {
        figures: &[("plain", "queue.modem.max_bytes", 1.1)],
        ..Other::default()
    };
    let found = differences(&Other::default(), &fuller);
    let changes: Vec<Change> = found.iter().map(|one| one.0).collect();
    assert_eq!(changes, [Change::Worse, Change::Worse], "{found:?}");
}

#[test]
fn a_mean_that_leaves_its_interval_has_moved() {
    let moved = Other {
        figures: &[("plain", "rtt.p.mean_ms", 1.02)],
        ..Other::default()
    };
    let found = differences(&Other::default(), &moved);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, Change::Moved);
}

#[test]
fn a_loosened_expectation_is_reported() {
    for (from, to) in [("at-most = 38", "at-most = 40"), ("\"10%\"", "\"12%\"")] {
        let loosened = Other {
            file: &[(from, to)],
            ..Other::default()
        };
        let found = differences(&Other::default(), &loosened);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, Change::Expectation);
        assert!(found[0].0.is_worse());
    }
    let dropped = Other {
        file: &[(
            "[[expect]]\narm = \"plain\"\nmetric = \"loss.p.ratio\"\nat-most = 0\n\
             source = \"a hope\"\nreason = \"a full buffer drops\"\n",
            "",
        )],
        ..Other::default()
    };
    let found = differences(&Other::default(), &dropped);
    assert!(found[0].1.contains("is expected no more"), "{found:?}");
    // In the other direction, the expectation is new and missed.
    assert_eq!(differences(&dropped, &Other::default())[0].0, Change::Worse);
}

#[test]
fn settling_and_policies_make_a_result_stale() {
    let before = entry(&Other::default());
    for (from, to, words) in [
        (
            "settle = \"1s\"",
            "settle = \"2s\"",
            "what the experiment runs",
        ),
        ("end = \"10s\"", "end = \"12s\"", "what the experiment runs"),
    ] {
        let other = Other {
            file: &[(from, to)],
            ..Other::default()
        };
        let differences = before.made_with.differences(&entry(&other).made_with);
        assert_eq!(differences, [words]);
    }
    let mut policy = before.clone();
    policy.made_with.files.clear();
    let differences = before.made_with.differences(&policy.made_with);
    assert_eq!(differences, ["`policies/gate.toml`"]);
}

#[test]
fn the_same_parts_have_to_give_the_same_bits() {
    let stored = entry(&Other::default());
    let same = repeats(&stored, &stored);
    // Six recordings, six expectations, and a figure of a formula.
    let all = Repetition::Bits {
        same: 13,
        other: Vec::new(),
    };
    assert_eq!(same, all);
    let nearly = entry(&Other {
        figures: &[("gate", "rtt.p.mean_ms", 1.000_001)],
        ..Other::default()
    });
    let repeated = repeats(&stored, &nearly);
    assert!(!repeated.agrees(), "{repeated:?}");
}

#[test]
fn other_parts_have_to_give_the_same_means_within_intervals() {
    let stored = entry(&Other::default());
    let elsewhere = |times| {
        entry(&Other {
            figures: &[("gate", "rtt.p.mean_ms", times)],
            guest: "built elsewhere",
            ..Other::default()
        })
    };
    let repeated = repeats(&stored, &elsewhere(1.01));
    assert!(repeated.agrees(), "{repeated:?}");
    let repeated = repeats(&stored, &elsewhere(1.5));
    let Repetition::Intervals {
        differences,
        outside,
        ..
    } = &repeated
    else {
        panic!("{repeated:?}");
    };
    assert_eq!(differences, &["the guest's image"]);
    assert_eq!(outside.len(), 1);
}
