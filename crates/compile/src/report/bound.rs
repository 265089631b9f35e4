// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wait as the sum of its steps.

use weirgate_units::Span;

/// A worst-case wait with its derivation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The wait: the sum of the steps.
    pub wait: Span,
    /// The steps.
    pub steps: Vec<Step>,
}

/// One summand of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is waited for.
    pub what: String,
    /// How long at most.
    pub time: Span,
}

/// The wait in a full queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullQueue {
    /// It has a bound.
    Bound(Bound),
    /// It has none.
    NoHardBound {
        /// Why.
        reason: String,
    },
}

impl Bound {
    pub(super) fn of(steps: Vec<Step>) -> Self {
        let wait = steps.iter().fold(Span::ZERO, |sum, step| sum + step.time);
        Self { wait, steps }
    }
}

/// Milliseconds to a hundredth.
pub(crate) fn ms(span: Span) -> String {
    format!("{:.2} ms", span.as_millis_f64())
}
