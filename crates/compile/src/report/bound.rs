// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Worst-case waits as sums of steps.

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
    /// The cause of the wait.
    pub what: String,
    /// The longest time that it takes.
    pub time: Span,
}

/// The wait in a full queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullQueue {
    /// The wait has a bound.
    Bound(Bound),
    /// The wait has no bound.
    NoHardBound {
        /// The reason.
        reason: String,
    },
}

impl Bound {
    pub(super) fn of(steps: Vec<Step>) -> Self {
        let wait = steps.iter().fold(Span::ZERO, |sum, step| sum + step.time);
        Self { wait, steps }
    }
}

/// Formats a time in milliseconds with two decimal places.
pub(crate) fn ms(span: Span) -> String {
    format!("{:.2} ms", span.as_millis_f64())
}
