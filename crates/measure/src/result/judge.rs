// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares figures with the experiment's promises, and builds the result document.

use crate::ArmFigures;
use crate::predict::Prediction;
use std::borrow::Cow;
use std::collections::BTreeMap;
use weirgate_experiment::{
    ArmOutcome, Expectation, Expected, Experiment, Metric, Outcome, Promise, Recording,
};

/// The tolerance for binary fractions of a figure exactly on a bound, relative to the bound; far
/// below the rounding of figures.
const FRACTION: f64 = 1e-9;

/// The largest relative deviation of a measured figure that the calculation explains.
const CALCULATED_WITHIN: f64 = 0.05;

/// Version of the result document.
const VERSION: u32 = 1;

/// Whether a promise was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The figure is as promised.
    Kept,
    /// The figure is not as promised.
    Broken,
    /// The figure is missing, with the reason.
    NoData(String),
}

/// One expectation and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedExpectation {
    /// The expectation.
    pub expectation: Expectation,
    /// The promise with its number; `None` if a formula has no value.
    pub promise: Option<Promise>,
    /// The measured figure.
    pub measured: Option<f64>,
    /// Whether the promise was kept.
    pub judgement: Judgement,
    /// For several runs: half the width of the 95 % confidence interval of
    /// [`JudgedExpectation::deviation`], run by run ([`crate::result::repeat::margin`]).
    pub margin: Option<f64>,
    /// The value that follows from line and traffic alone, if it can be calculated.
    pub calculated: Option<Prediction>,
}

impl JudgedExpectation {
    /// Returns whether the promise was kept.
    pub fn kept(&self) -> bool {
        self.judgement == Judgement::Kept
    }

    /// Returns the promised value.
    pub fn promised(&self) -> Option<f64> {
        self.promise.map(promised)
    }

    /// Returns the measured minus the promised value, in the metric's unit.
    pub fn deviation(&self) -> Option<f64> {
        Some(self.measured? - self.promised()?)
    }

    /// Returns whether the promise is broken but the calculation predicts the figure within 5 %.
    pub fn explained(&self) -> bool {
        let predicted = |calculated: &Prediction| {
            self.measured
                .is_some_and(|m| calculated.deviation(m).abs() <= CALCULATED_WITHIN)
        };
        self.judgement == Judgement::Broken && self.calculated.as_ref().is_some_and(predicted)
    }

    /// Returns whether the broken promise is explained by a mechanism that the experiment names
    /// (`explained-by`). All expectations on the mechanism's figure in `all` must be kept.
    pub fn has_mechanism(&self, all: &[Self]) -> bool {
        let Some(mechanism) = self.expectation.mechanism.as_ref().filter(|_| !self.kept()) else {
            return false;
        };
        let mut own = all.iter().filter(|one| {
            (&one.expectation.arm, &one.expectation.metric) == (&mechanism.arm, &mechanism.metric)
        });
        own.next().is_some_and(Self::kept) && own.all(Self::kept)
    }
}

pub(crate) fn promised(promise: Promise) -> f64 {
    match promise {
        Promise::Near { value, .. }
        | Promise::Within { value, .. }
        | Promise::AtLeast(value)
        | Promise::AtMost(value) => value,
    }
}

/// Judges every expectation on an arm that ran, in the file's order.
///
/// `calculated` holds predictions by arm; see [`crate::predict::predict`].
pub fn judge(
    experiment: &Experiment,
    arms: &BTreeMap<String, ArmFigures>,
    calculated: &BTreeMap<String, Vec<Prediction>>,
) -> Vec<JudgedExpectation> {
    let verdict = |expectation: &Expectation| {
        let figures = arms.get(&expectation.arm)?;
        let measured = figures.metrics.get(&expectation.metric).copied();
        let promise = expectation.promise_for(&figures_for(expectation, figures, arms));
        let judgement = match (measured, &promise) {
            (None, _) => Judgement::NoData(why_absent(experiment, figures, &expectation.metric)),
            (Some(_), Err(error)) => Judgement::NoData(format!("the promised number: {error}")),
            (Some(measured), Ok(promise)) if keeps(*promise, measured) => Judgement::Kept,
            (Some(_), Ok(_)) => Judgement::Broken,
        };
        let predictions = calculated.get(&expectation.arm);
        let calculated = predictions
            .and_then(|list| list.iter().find(|p| p.metric == expectation.metric))
            .cloned();
        Some(JudgedExpectation {
            expectation: expectation.clone(),
            promise: promise.ok(),
            measured,
            judgement,
            margin: None,
            calculated,
        })
    };
    experiment.expectations.iter().filter_map(verdict).collect()
}

/// Returns the values for an expectation's formula: the figures of its arm, and those of the other
/// arms in the formula.
pub(crate) fn figures_for<'a>(
    expectation: &Expectation,
    figures: &'a ArmFigures,
    arms: &BTreeMap<String, ArmFigures>,
) -> Cow<'a, BTreeMap<String, f64>> {
    match &expectation.formula {
        Some(formula) if !formula.of_others().is_empty() => {
            let other = |arm: &str| arms.get(arm).map(|figures| &figures.metrics);
            Cow::Owned(formula.figures_of(&figures.metrics, other))
        }
        _ => Cow::Borrowed(&figures.metrics),
    }
}

pub(crate) fn keeps(promise: Promise, measured: f64) -> bool {
    let room = FRACTION * promised(promise).abs().max(1.0);
    match promise {
        Promise::Near { value, tolerance } => {
            (measured - value).abs() <= tolerance * value.abs() + room
        }
        Promise::Within { value, tolerance } => (measured - value).abs() <= tolerance + room,
        Promise::AtLeast(bound) => measured >= bound - room,
        Promise::AtMost(bound) => measured <= bound + room,
    }
}

/// Returns why a figure is missing, as far as its name shows.
fn why_absent(experiment: &Experiment, figures: &ArmFigures, name: &str) -> String {
    let metric: Metric = match name.parse() {
        Ok(metric) => metric,
        Err(error) => return format!("{error}"),
    };
    if let Some(phase) = &metric.phase {
        if !experiment.phases.iter().any(|known| &known.name == phase) {
            return format!("the experiment has no phase `{phase}`");
        }
        let prefix = format!("{phase}.");
        if !figures.metrics.keys().any(|key| key.starts_with(&prefix)) {
            return format!("the run did not last to the end of phase `{phase}`");
        }
    }
    let middle = format!(".{}.", metric.subject);
    let word = metric.quantity.word();
    let subjects: Vec<&str> = figures
        .metrics
        .keys()
        .filter_map(|key| key.parse::<Metric>().ok().map(|metric| (key, metric)))
        .filter(|(_, known)| known.quantity == metric.quantity && known.phase == metric.phase)
        .filter_map(|(key, _)| key.split('.').rev().nth(1))
        .collect();
    let same = figures.metrics.keys().any(|key| key.contains(&middle));
    match (subjects.is_empty(), same) {
        (true, _) => format!("the run recorded nothing for `{word}`"),
        (false, true) => format!("the run recorded too little of `{}` for it", metric.subject),
        (false, false) => {
            let mut known = subjects;
            known.sort_unstable();
            known.dedup();
            format!(
                "nothing is known of `{}`; `{word}` has {}",
                metric.subject,
                known.join(", ")
            )
        }
    }
}

/// Converts a promise for the result document: the value, and the tolerance as `2%`, as an absolute
/// number, or as `at least` and `at most`. Returns `None` if a formula lacks a figure.
pub fn expected(expectation: &Expectation, metrics: &BTreeMap<String, f64>) -> Option<Expected> {
    let promise = expectation.promise_for(metrics).ok()?;
    let tolerance = match promise {
        Promise::Near { tolerance, .. } => {
            // Written with at most three decimals: 0.02 is `2%`, not
            // `2.0000000000000004%`.
            format!("{}%", (tolerance * 1e5).round() / 1e3)
        }
        Promise::Within { tolerance, .. } => format!("{tolerance}"),
        Promise::AtLeast(_) => "at least".to_owned(),
        Promise::AtMost(_) => "at most".to_owned(),
    };
    let source = expectation.source.clone();
    Some(Expected {
        value: promised(promise),
        tolerance,
        source,
    })
}

/// Returns the expectations on an arm by metric name. A second expectation on one metric is named
/// `NAME#2`, and so on.
fn expected_of(
    experiment: &Experiment,
    figures: &ArmFigures,
    arms: &BTreeMap<String, ArmFigures>,
) -> BTreeMap<String, Expected> {
    let mut all = BTreeMap::new();
    let own = experiment
        .expectations
        .iter()
        .filter(|e| e.arm == figures.arm);
    for expectation in own {
        let Some(expected) = expected(expectation, &figures_for(expectation, figures, arms)) else {
            continue;
        };
        let mut name = expectation.metric.clone();
        let mut number = 1;
        while all.contains_key(&name) {
            number += 1;
            name = format!("{}#{number}", expectation.metric);
        }
        all.insert(name, expected);
    }
    all
}

/// Builds the result document of the arms that ran. The kernel is that of the recordings, the
/// virtual time that of the longest one.
pub fn outcome(
    experiment: &Experiment,
    seed: u64,
    recordings: &[&Recording],
    arms: &BTreeMap<String, ArmFigures>,
) -> Outcome {
    let arm = |figures: &ArmFigures| ArmOutcome {
        metrics: figures.metrics.clone(),
        expected: expected_of(experiment, figures, arms),
        interval: BTreeMap::new(),
    };
    let longest = recordings
        .iter()
        .map(|recording| recording.duration_ns)
        .max()
        .unwrap_or(0);
    Outcome {
        experiment: experiment.name.clone(),
        version: VERSION,
        kernel: recordings
            .first()
            .map(|recording| recording.kernel.clone())
            .unwrap_or_default(),
        seed,
        seeds: 1,
        virtual_seconds: (longest as f64 / 1e6).round() / 1e3,
        arms: arms
            .iter()
            .map(|(name, figures)| (name.clone(), arm(figures)))
            .collect(),
    }
}
