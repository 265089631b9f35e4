// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of one run of one arm.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run of one arm, self-contained: the guest has no other input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The experiment file's text.
    pub experiment: String,
    /// The arm to run. A sweep's value is already chosen.
    pub arm: String,
    /// Values for the arm's sweep parameters (`{rate}` in its commands).
    pub parameters: BTreeMap<String, String>,
    /// Seed of all randomness in the run.
    pub seed: u64,
    /// Texts of the files that the experiment names (policies), by the path written there.
    pub files: BTreeMap<String, String>,
    /// Paths in the guest of compiled disciplines that are not in the kit, by the path written
    /// in the experiment.
    #[serde(default)]
    pub disciplines: BTreeMap<String, String>,
}
