// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pace of experiments: rare on a steady line, frequent on a line that changes all the time.

use super::rate::{MILLISECOND, SECOND, part};

/// The pace of experiments.
#[derive(Debug)]
pub(super) struct Pace {
    /// Pauses between experiments: after a successful one, and the longest after failures.
    pub(super) soon: u64,
    pub(super) later: u64,
    /// How long the shaper must have been full.
    pub(super) full: u64,
    /// How far the first step of an experiment goes above the known rate, in thousandths, and the
    /// following steps.
    pub(super) first: u64,
    pub(super) steps: [u64; 4],
}
/// For a line that has been steady. An experiment costs a queue, and mostly shows nothing.
pub(super) const STEADY: Pace = Pace {
    soon: 2 * SECOND,
    later: 4 * SECOND,
    full: SECOND,
    first: 30,
    steps: [60, 120, 240, 400],
};
/// For a line that changes often: LTE, 5G, satellites.
const RESTLESS: Pace = Pace {
    soon: 150 * MILLISECOND,
    later: 600 * MILLISECOND,
    full: 300 * MILLISECOND,
    first: 80,
    steps: [120, 200, 300, 400],
};

/// How long a change counts as recent.
const LATELY: u64 = 20 * SECOND;
/// How long a new line counts as unknown.
const FIRST: u64 = 10 * SECOND;
/// A rise or fall is found in several steps. A step within this time after the last one belongs
/// to the same change.
const GOES_ON: u64 = 2 * SECOND;
/// A change of this many thousandths is a change of the line, and no error of measurement.
const CHANGED: u64 = 150;

/// What is known of the line's rate, and whether it stays.
#[derive(Debug)]
pub(super) struct Known {
    /// The rate at the last change.
    rate: u64,
    /// Since when the line is observed.
    begun: Option<u64>,
    /// The last two changes: their times, and whether the rate rose.
    changes: [Option<(u64, bool)>; 2],
}

impl Known {
    /// Makes it for a line with this configured rate.
    pub(super) const fn new(rate: u64) -> Self {
        Self {
            rate,
            begun: None,
            changes: [None; 2],
        }
    }

    /// Records the start of the observation.
    pub(super) const fn begin(&mut self, at: u64) {
        self.begun = Some(at);
    }

    /// Returns the present pace of experiments.
    pub(super) fn pace(&self, at: u64) -> &'static Pace {
        // A single change may remain the only one, as when a modem retrains.
        let since = |then: u64| at.saturating_sub(then);
        let lately =
            |change: &Option<(u64, bool)>| change.is_some_and(|(then, _)| since(then) < LATELY);
        // At first nothing is known.
        let new = self.begun.is_some_and(|then| since(then) < FIRST);
        if new || self.changes.iter().all(lately) {
            &RESTLESS
        } else {
            &STEADY
        }
    }

    /// Records that the line carries this rate now.
    pub(super) fn learn(&mut self, at: u64, rate: u64) {
        let (less, more) = (rate.min(self.rate), rate.max(self.rate));
        if less < part(more, 1_000 - CHANGED, 1_000) {
            let rises = rate > self.rate;
            let [_, last] = self.changes;
            let goes_on =
                last.is_some_and(|(then, rose)| rose == rises && at.saturating_sub(then) < GOES_ON);
            if !goes_on {
                self.changes[0] = last;
            }
            self.changes[1] = Some((at, rises));
            self.rate = rate;
        }
    }
}

/// When a queue that an experiment causes becomes known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shows {
    /// The delay of a queue that is too long, in nanoseconds.
    pub(crate) threshold: u64,
    /// Nanoseconds until answers show it.
    pub(crate) answers: u64,
}

impl Shows {
    /// Nanoseconds until it is known, if the rate is this many thousandths above the line's.
    pub(super) fn within(&self, more: u64) -> u64 {
        part(self.threshold, 1_000, more)
            .saturating_add(self.answers)
            .min(2 * SECOND)
    }
}
