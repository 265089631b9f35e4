// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures with their goals, and processes that end with a measurement.

use std::process::Child;

/// The goal of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// No goal: the figure is shown for comparison.
    Beside,
}

/// One measured figure.
pub struct Figure {
    pub what: &'static str,
    pub value: f64,
    pub goal: Goal,
}

impl Figure {
    pub fn kept(&self) -> bool {
        match self.goal {
            Goal::AtLeast(limit) => self.value >= limit,
            Goal::AtMost(limit) => self.value <= limit,
            Goal::Beside => true,
        }
    }

    pub fn row(&self) -> String {
        let (sign, limit) = match self.goal {
            Goal::AtLeast(limit) => (">=", limit),
            Goal::AtMost(limit) => ("<=", limit),
            Goal::Beside => return format!("{:<58}{:>9.3}", self.what, self.value),
        };
        let kept = if self.kept() { "kept" } else { "missed" };
        let goal = format!("{sign} {limit}");
        // Goals in hundredths need three decimals.
        let digits = if limit < 1.5 { 3 } else { 2 };
        format!(
            "{:<58}{:>9.digits$}   {goal:<8}{kept}",
            self.what, self.value
        )
    }
}

/// Kills a process when it is dropped.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
