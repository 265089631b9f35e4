// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment expects of a metric.

use crate::{Formula, NoValue};
use std::collections::BTreeMap;

/// An expected figure: the value of a metric in one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The arm it applies to.
    pub arm: String,
    /// The metric's full name.
    pub metric: String,
    /// The condition. If there is a formula, the number here is 0, and
    /// [`Expectation::promise_for`] replaces it with the formula's value.
    pub promise: Promise,
    /// The formula of the number, from metrics of the same arm; absent where the number is a
    /// literal.
    pub formula: Option<Formula>,
    /// Where the figure comes from.
    pub source: String,
    /// The figure that the source states, where the number is calculated or a bound.
    pub thesis: Option<f64>,
    /// The metric that explains a missed expectation.
    pub mechanism: Option<Mechanism>,
    /// Why the expectation is missed; empty if it is met.
    pub reason: String,
}

/// A metric that explains another one. The experiment must have an expectation for it too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mechanism {
    /// The arm in which it is measured.
    pub arm: String,
    /// The metric's full name.
    pub metric: String,
}

/// The condition that a figure must meet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// Within a relative tolerance: 0.02 is 2 %.
    Near {
        /// The value.
        value: f64,
        /// The allowed deviation as a fraction of the value.
        tolerance: f64,
    },
    /// Within an absolute tolerance.
    Within {
        /// The value.
        value: f64,
        /// The allowed deviation in the metric's unit.
        tolerance: f64,
    },
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
}

impl Promise {
    /// Returns the same condition with another number.
    #[must_use]
    pub fn of(self, value: f64) -> Self {
        match self {
            Self::Near { tolerance, .. } => Self::Near { value, tolerance },
            Self::Within { tolerance, .. } => Self::Within { value, tolerance },
            Self::AtLeast(_) => Self::AtLeast(value),
            Self::AtMost(_) => Self::AtMost(value),
        }
    }
}

impl Expectation {
    /// Returns an expectation with a literal number, and without an explanation.
    pub fn new(
        arm: impl Into<String>,
        metric: impl Into<String>,
        promise: Promise,
        source: impl Into<String>,
    ) -> Self {
        Self {
            arm: arm.into(),
            metric: metric.into(),
            promise,
            formula: None,
            source: source.into(),
            thesis: None,
            mechanism: None,
            reason: String::new(),
        }
    }

    /// Returns the condition with its number, which a formula computes from the arm's metrics.
    pub fn promise_for(&self, metrics: &BTreeMap<String, f64>) -> Result<Promise, NoValue> {
        match &self.formula {
            None => Ok(self.promise),
            Some(formula) => Ok(self.promise.of(formula.value(metrics)?)),
        }
    }
}
