// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the results of two runs with the same seeds.

use crate::compare::{interval, overlap};
use crate::{Change, Entry, Finding};

/// How a second run of an entry's seeds compares with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repetition {
    /// The inputs are the same: every recording and figure must be the same.
    Bits {
        /// How many recordings and figures are the same, bit for bit.
        same: usize,
        /// The recordings and figures that differ.
        other: Vec<String>,
    },
    /// The inputs differ: every mean must lie within the intervals.
    Intervals {
        /// The inputs that differ.
        differences: Vec<String>,
        /// How many means lie within their intervals.
        within: usize,
        /// The means outside their intervals.
        outside: Vec<Finding>,
    },
}

impl Repetition {
    /// Returns whether the second run confirms the first.
    #[must_use]
    pub fn agrees(&self) -> bool {
        match self {
            Self::Bits { other, .. } => other.is_empty(),
            Self::Intervals { outside, .. } => outside.is_empty(),
        }
    }
}

/// Compares a second run with the stored entry.
#[must_use]
pub fn repeats(stored: &Entry, new: &Entry) -> Repetition {
    let differences = stored.made_with.differences(&new.made_with);
    if differences.is_empty() {
        return bits(stored, new);
    }
    let mut within = 0;
    let mut outside = Vec::new();
    for arm in &stored.arms {
        let again = new.arms.iter().find(|one| one.name == arm.name);
        for line in &arm.figures {
            let figures = again.iter().flat_map(|arm| &arm.figures);
            let mut same = figures.filter(|one| one.metric == line.metric);
            let found = same.next();
            if found.is_some_and(|found| overlap(line, found)) {
                within += 1;
                continue;
            }
            let now = found.map_or_else(|| "no figure".to_owned(), interval);
            outside.push(Finding {
                change: Change::Moved,
                experiment: stored.experiment.clone(),
                arm: arm.name.clone(),
                metric: line.metric.clone(),
                what: format!("{now}, was {}", interval(line)),
            });
        }
    }
    outside.dedup();
    Repetition::Intervals {
        differences,
        within,
        outside,
    }
}

fn bits(stored: &Entry, new: &Entry) -> Repetition {
    let mut same = 0;
    let mut other = Vec::new();
    for arm in &stored.arms {
        let name = &arm.name;
        let Some(again) = new.arms.iter().find(|one| &one.name == name) else {
            other.push(format!("the arm `{name}` was not run"));
            continue;
        };
        for (at, recording) in arm.recordings.iter().enumerate() {
            if again.recordings.get(at) == Some(recording) {
                same += 1;
            } else {
                let seed = stored.seeds.get(at).copied().unwrap_or_default();
                other.push(format!("the recording of `{name}` with seed {seed}"));
            }
        }
        for line in &arm.figures {
            let mut figures = again.figures.iter();
            let found = figures.find(|one| one.metric == line.metric);
            if found.is_some_and(|found| found.runs == line.runs) {
                same += 1;
            } else {
                other.push(format!("{} of `{name}`", line.metric));
            }
        }
    }
    other.dedup();
    Repetition::Bits { same, other }
}
