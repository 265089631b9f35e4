// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts judgements to lines of the ledger.

use crate::measurement::Measurement;
use crate::{Arm, Digest, Entry, Expected, Figure, Standing};
use weirgate_experiment::{Expectation, Experiment, Promise};
use weirgate_measure::{self as measure, Judgement};

/// The theses' authors. If a source begins with one of them, its value (not its limit) is the
/// thesis's figure.
const AUTHORS: [&str; 4] = ["Braithwaite", "Brouer", "Mylonas", "Shah"];

impl Entry {
    /// Returns the entry of a measurement. `verdicts` judge its means.
    #[must_use]
    pub fn new(
        experiment: &Experiment,
        expectations: Digest,
        measurement: &Measurement,
        verdicts: &[measure::JudgedExpectation],
    ) -> Self {
        let arm = |arm: &weirgate_experiment::Arm| Arm {
            name: arm.name.clone(),
            recordings: measurement
                .recordings
                .get(&arm.name)
                .cloned()
                .unwrap_or_default(),
            figures: lines(&arm.name, measurement, verdicts),
        };
        Self {
            experiment: experiment.name.clone(),
            seeds: measurement.seeds.clone(),
            made_with: measurement.made_with.clone(),
            expectations,
            arms: experiment.arms.iter().map(arm).collect(),
        }
    }
}

/// Returns the lines of an arm: its expectations in order, then the figures that explain them.
fn lines(
    arm: &str,
    measurement: &Measurement,
    verdicts: &[measure::JudgedExpectation],
) -> Vec<Figure> {
    let figure = |metric: &str, expected| Figure {
        metric: metric.to_owned(),
        runs: measurement.values(arm, metric),
        expected,
    };
    let own = verdicts.iter().filter(|one| one.expectation.arm == arm);
    let mut lines: Vec<Figure> = own
        .map(|one| figure(&one.expectation.metric, Some(expected(one, verdicts))))
        .collect();
    for metric in verdicts.iter().flat_map(|one| named(one, arm)) {
        if lines.iter().all(|line| line.metric != metric) {
            lines.push(figure(&metric, None));
        }
    }
    lines
}

/// Returns the figures of an arm that an expectation's formula names.
fn named(verdict: &measure::JudgedExpectation, arm: &str) -> Vec<String> {
    let expectation = &verdict.expectation;
    let Some(formula) = &expectation.formula else {
        return Vec::new();
    };
    let mut names = Vec::new();
    if expectation.arm == arm {
        names.extend(formula.metrics().iter().map(ToString::to_string));
    }
    for (metric, other) in formula.of_others() {
        if other == arm {
            names.push(metric.to_string());
        }
    }
    names
}

fn expected(verdict: &measure::JudgedExpectation, all: &[measure::JudgedExpectation]) -> Expected {
    let expectation = &verdict.expectation;
    let formula = expectation.formula.is_some();
    let value = verdict.promised();
    let literal = value.filter(|_| !formula && is_value(expectation.promise));
    let thesis = expectation.thesis.or_else(|| {
        let named = AUTHORS.iter().any(|it| expectation.source.starts_with(it));
        literal.filter(|_| named)
    });
    let calculated = verdict.calculated.as_ref();
    let theory = match (formula && is_value(expectation.promise), calculated) {
        (true, _) => value,
        (false, Some(prediction)) => Some(rounded(prediction.value)),
        (false, None) => literal.filter(|_| expectation.thesis.is_some()),
    };
    Expected {
        promise: promise(expectation),
        value: value.filter(|_| formula).map(rounded),
        thesis,
        theory: theory.map(rounded),
        verdict: verdict_of(verdict, all),
    }
}

fn rounded(value: f64) -> f64 {
    measure::repeat::rounded(value)
}

const fn is_value(promise: Promise) -> bool {
    matches!(promise, Promise::Near { .. } | Promise::Within { .. })
}

/// Returns the promise in the words of the experiment file.
fn promise(expectation: &Expectation) -> String {
    let number = |value: f64| match &expectation.formula {
        Some(formula) => formula.to_string(),
        None => value.to_string(),
    };
    match expectation.promise {
        Promise::Near { value, tolerance } => {
            // At most three decimals: 0.02 is `2%`, not `2.0000000000000004%`.
            let percent = (tolerance * 1e5).round() / 1e3;
            format!("{} within {percent}%", number(value))
        }
        Promise::Within { value, tolerance } => format!("{} within {tolerance}", number(value)),
        Promise::AtLeast(bound) => format!("at least {}", number(bound)),
        Promise::AtMost(bound) => format!("at most {}", number(bound)),
    }
}

fn verdict_of(
    verdict: &measure::JudgedExpectation,
    all: &[measure::JudgedExpectation],
) -> Standing {
    let expectation = &verdict.expectation;
    let reason = expectation.reason.clone();
    if verdict.kept() {
        return Standing::Kept;
    }
    match &expectation.mechanism {
        Some(mechanism) if verdict.has_mechanism(all) => Standing::Explained {
            by: if mechanism.arm == expectation.arm {
                mechanism.metric.clone()
            } else {
                format!("{}@{}", mechanism.metric, mechanism.arm)
            },
            reason,
        },
        _ if !reason.is_empty() => Standing::Missed { reason },
        _ => Standing::Missed {
            reason: match (&verdict.judgement, &verdict.calculated) {
                (Judgement::NoData(why), _) => format!("there is no figure: {why}"),
                (_, Some(prediction)) if verdict.explained() => format!(
                    "line and traffic alone give {}: {}",
                    rounded(prediction.value),
                    prediction.derivation
                ),
                _ => String::new(),
            },
        },
    }
}
