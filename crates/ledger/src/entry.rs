// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stored result of one experiment.

use crate::Digest;
use crate::measurement::MadeWith;
use weirgate_measure::repeat::{figure, half_width, rounded};
use weirgate_measure::stats::mean;

/// One experiment's stored result.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The experiment's name.
    pub experiment: String,
    /// The seeds of its runs; none for a calculation.
    pub seeds: Vec<u64>,
    /// The inputs of its runs.
    pub made_with: MadeWith,
    /// The digest of the expectations: [`Content::expectations`](crate::Content::expectations).
    pub expectations: Digest,
    /// Its arms, in the order of the experiment file.
    pub arms: Vec<Arm>,
}

/// The figures of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Its recordings, one for each seed; none for a calculation.
    pub recordings: Vec<Digest>,
    /// A line for each expectation, then one for each further figure in a formula or an
    /// explanation.
    pub figures: Vec<Figure>,
}

/// One line: a figure and its expectation.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The metric's full name.
    pub metric: String,
    /// Its values, run by run; none where no run has it.
    pub runs: Vec<f64>,
    /// The expectation; absent if the figure only explains others.
    pub expected: Option<Expected>,
}

/// An expectation and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The promise, such as `440 within 10%` or `at most 70`, formulas as they are
    /// written.
    pub promise: String,
    /// The promised number, where it follows from a formula.
    pub value: Option<f64>,
    /// The figure of the thesis.
    pub thesis: Option<f64>,
    /// The figure of theory, from a formula, or from line and traffic alone.
    pub theory: Option<f64>,
    /// The verdict.
    pub verdict: Standing,
}

/// The verdict on an expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The figure is as expected.
    Kept,
    /// The figure differs, because of a mechanism whose own figure is as expected.
    Explained {
        /// The mechanism's figure, `METRIC` or `METRIC@ARM`.
        by: String,
        /// The mechanism.
        reason: String,
    },
    /// The figure differs, without a mechanism that explains it.
    Missed {
        /// The reason; if it is empty in a new entry, the entry is not accepted.
        reason: String,
    },
}

impl Standing {
    /// Returns the verdict's word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Explained { .. } => "explained",
            Self::Missed { .. } => "missed",
        }
    }

    /// Returns how bad the verdict is: a larger number is worse.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::Kept => 0,
            Self::Explained { .. } => 1,
            Self::Missed { .. } => 2,
        }
    }
}

impl Figure {
    /// Returns the mean over the runs.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        mean(&self.runs).map(rounded)
    }

    /// Returns half the width of the mean's 95 % confidence interval; `None` for fewer than two
    /// runs.
    #[must_use]
    pub fn interval(&self) -> Option<f64> {
        half_width(&self.runs).map(rounded)
    }

    /// Returns the figure that is judged: the mean, but the largest run of a `max` and the smallest
    /// of a `min`.
    #[must_use]
    pub fn judged(&self) -> Option<f64> {
        figure(&self.metric, &self.runs)
    }
}

impl Entry {
    /// Returns the expectations with their arms and figures.
    pub fn expected(&self) -> impl Iterator<Item = (&Arm, &Figure, &Expected)> {
        self.arms.iter().flat_map(|arm| {
            let lines = arm.figures.iter();
            lines.filter_map(move |line| Some((arm, line, line.expected.as_ref()?)))
        })
    }

    /// Returns how many expectations are kept, explained and missed.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for (_, _, expected) in self.expected() {
            counts[usize::from(expected.verdict.rank())] += 1;
        }
        counts
    }

    /// Returns arm and metric of each miss without a reason, or without a figure in some run: no
    /// reason excuses what was not measured. An entry with one is not accepted.
    pub fn unexplained(&self) -> impl Iterator<Item = (&str, &str)> {
        self.expected().filter_map(|(arm, line, expected)| {
            let Standing::Missed { reason } = &expected.verdict else {
                return None;
            };
            let silent = reason.is_empty() || line.runs.len() < self.seeds.len();
            silent.then_some((arm.name.as_str(), line.metric.as_str()))
        })
    }
}
