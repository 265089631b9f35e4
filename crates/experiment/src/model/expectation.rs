// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment expects of a figure.

use crate::{Formula, NoValue};
use std::collections::BTreeMap;

/// An expected figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The arm it speaks of.
    pub arm: String,
    /// The metric's full name.
    pub metric: String,
    /// What is promised. Where there is a formula, the number in here is 0 and
    /// [`Expectation::promise_for`] puts in the formula's.
    pub promise: Promise,
    /// What the promised number is calculated from, with figures of the same
    /// arm, where it is not a literal.
    pub formula: Option<Formula>,
    /// Where the figure comes from.
    pub source: String,
    /// The source's own figure, where the promised one is calculated or a bound.
    pub thesis: Option<f64>,
    /// The figure that explains why the promise is broken, if it is.
    pub mechanism: Option<Mechanism>,
    /// Why the promise is broken, if it is; may be empty.
    pub reason: String,
}

/// A figure that explains another one. Its experiment expects something of it too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mechanism {
    /// The arm that it is measured in.
    pub arm: String,
    /// The metric's full name.
    pub metric: String,
}

/// What is promised of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// Within a part of the value: 0.02 is 2 %.
    Near {
        /// The value.
        value: f64,
        /// The allowed deviation as a part of it.
        tolerance: f64,
    },
    /// Within an absolute distance.
    Within {
        /// The value.
        value: f64,
        /// The allowed deviation in the metric's unit.
        tolerance: f64,
    },
    /// At least.
    AtLeast(f64),
    /// At most.
    AtMost(f64),
}

impl Promise {
    /// The same promise of another number.
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
    /// An expectation with a literal number, and no field about a broken promise.
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

    /// The promise with its number, from the metrics of its arm.
    pub fn promise_for(&self, metrics: &BTreeMap<String, f64>) -> Result<Promise, NoValue> {
        match &self.formula {
            None => Ok(self.promise),
            Some(formula) => Ok(self.promise.of(formula.value(metrics)?)),
        }
    }
}
