// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single runs, the parts of measurements.

use crate::{Digest, MadeWith, Measurement, RunFigures};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of one arm with one seed, the smallest unit that is run by itself. For an arm with a
/// sweep, it is the result of the best value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleRun {
    /// The experiment's name.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// The inputs of the run.
    pub made_with: MadeWith,
    /// The digest of its recording.
    pub recording: Digest,
    /// The figures by metric.
    pub figures: BTreeMap<String, f64>,
}

impl Measurement {
    /// Assembles the results of single runs, given in any order.
    #[must_use]
    pub fn of_single_runs(made_with: &MadeWith, seeds: &[u64], runs: &[SingleRun]) -> Self {
        let mut whole = Self {
            made_with: made_with.clone(),
            seeds: seeds.to_vec(),
            recordings: BTreeMap::new(),
            runs: Vec::new(),
        };
        for seed in seeds {
            let mut figures = RunFigures::new();
            for run in runs.iter().filter(|run| run.seed == *seed) {
                let recordings = whole.recordings.entry(run.arm.clone()).or_default();
                recordings.push(run.recording.clone());
                figures.insert(run.arm.clone(), run.figures.clone());
            }
            whole.runs.push(figures);
        }
        whole
    }
}
