// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A calculated figure, and the deviation of a measured one from it.

/// A calculated figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The metric's full name.
    pub metric: String,
    /// Its value, in the metric's unit.
    pub value: f64,
    /// Its derivation from line and traffic, in words and numbers.
    pub derivation: String,
}

impl Prediction {
    /// Returns the deviation of a measured figure, relative to this one.
    pub fn deviation(&self, measured: f64) -> f64 {
        if self.value == 0.0 {
            return if measured == 0.0 { 0.0 } else { f64::INFINITY };
        }
        (measured - self.value) / self.value
    }
}
