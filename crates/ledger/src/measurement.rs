// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of an experiment's runs, before they are judged.

use crate::{Digest, Entry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The inputs of a measurement: everything that could change the figures of another run with the
/// same seeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeWith {
    /// The digest of what is run: [`Content::setup`](crate::Content::setup).
    pub setup: Digest,
    /// Policies, traces and disciplines, by their path in the experiment.
    pub files: BTreeMap<String, Digest>,
    /// The sources of the crate that computes figures.
    pub measure: Digest,
    /// The machine; none for a calculation.
    pub machine: Option<Machine>,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The guest's image.
    pub guest: Digest,
    /// The kernel that it boots.
    pub kernel: Digest,
    /// The kernel's release.
    pub release: String,
    /// The version of qemu, whose devices have their own clocks.
    pub emulator: String,
}

/// The figures of one run by arm and metric.
pub type RunFigures = BTreeMap<String, BTreeMap<String, f64>>;

/// The figures and recordings of an experiment's runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The inputs of the runs.
    pub made_with: MadeWith,
    /// The seeds; none for a calculation.
    pub seeds: Vec<u64>,
    /// The recordings by arm, one for each seed; for a sweep, those of the best value.
    pub recordings: BTreeMap<String, Vec<Digest>>,
    /// The figures, one for each seed; one for a calculation.
    pub runs: Vec<RunFigures>,
}

impl MadeWith {
    /// Lists the inputs that differ, in words. If none does, the same runs give the same bits.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut list = Vec::new();
        if self.setup != other.setup {
            list.push("what the experiment runs".to_owned());
        }
        let paths = self.files.keys().chain(other.files.keys());
        let mut changed: Vec<&String> = paths
            .filter(|path| self.files.get(*path) != other.files.get(*path))
            .collect();
        changed.sort_unstable();
        changed.dedup();
        list.extend(changed.into_iter().map(|path| format!("`{path}`")));
        if self.measure != other.measure {
            list.push("the crate `measure`".to_owned());
        }
        match (&self.machine, &other.machine) {
            (Some(one), Some(other)) => {
                if one.guest != other.guest {
                    list.push("the guest's image".to_owned());
                }
                if one.kernel != other.kernel {
                    list.push(format!("the kernel ({}, {})", one.release, other.release));
                }
                if one.emulator != other.emulator {
                    list.push(format!("qemu ({}, {})", one.emulator, other.emulator));
                }
            }
            (None, None) => {}
            _ => list.push("whether a machine is needed".to_owned()),
        }
        list
    }

    /// Returns a digest of everything that a measurement with these seeds depends on.
    #[must_use]
    pub fn key(&self, seeds: &[u64]) -> Digest {
        Digest::of(format!("{self:?} {seeds:?}").as_bytes())
    }
}

impl Measurement {
    /// Returns the measurement that an entry was made of, as far as the entry has it: the figures
    /// that are expected, and those that formulas name. Judging it needs no run.
    #[must_use]
    pub fn of_entry(entry: &Entry) -> Self {
        let mut runs = vec![RunFigures::new(); entry.seeds.len().max(1)];
        for arm in &entry.arms {
            for line in &arm.figures {
                for (run, value) in runs.iter_mut().zip(&line.runs) {
                    let own = run.entry(arm.name.clone()).or_default();
                    own.insert(line.metric.clone(), *value);
                }
            }
        }
        let recordings = entry.arms.iter();
        let recordings = recordings.map(|arm| (arm.name.clone(), arm.recordings.clone()));
        Self {
            made_with: entry.made_with.clone(),
            seeds: entry.seeds.clone(),
            recordings: recordings.collect(),
            runs,
        }
    }

    /// Returns the values of a figure, run by run; runs without it are left out.
    #[must_use]
    pub fn values(&self, arm: &str, metric: &str) -> Vec<f64> {
        let of_run = |run: &RunFigures| run.get(arm)?.get(metric).copied();
        self.runs.iter().filter_map(of_run).collect()
    }
}
