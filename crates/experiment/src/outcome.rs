// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result document that `weirgate lab run --json` prints.
//!
//! It has only values that are equal in every run of one seed. Wall time and machine are
//! reported elsewhere.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: String,
    /// Version of this format.
    pub version: u32,
    /// The kernel that ran.
    pub kernel: String,
    /// The seed.
    pub seed: u64,
    /// Number of runs with consecutive seeds, over which the figures are averaged.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub seeds: u16,
    /// Length of an arm's run in virtual seconds.
    pub virtual_seconds: f64,
    /// Figures by arm.
    pub arms: BTreeMap<String, ArmOutcome>,
}

/// The figures of one arm.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ArmOutcome {
    /// Figures by metric name.
    pub metrics: BTreeMap<String, f64>,
    /// Expectations by metric name.
    pub expected: BTreeMap<String, Expected>,
    /// Half the width of the 95 % confidence interval by metric name, if there were several
    /// runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interval: BTreeMap<String, f64>,
}

const fn one() -> u16 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_one(seeds: &u16) -> bool {
    *seeds == 1
}

/// An expected figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The value.
    pub value: f64,
    /// `2%`, `0.5` (in the metric's unit), `at least` or `at most`.
    pub tolerance: String,
    /// The source of the value.
    pub source: String,
}
