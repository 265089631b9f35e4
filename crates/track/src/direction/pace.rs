// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How experiments are made: seldom on a steady line, often on one that changes all the time.

use super::rate::{MILLISECOND, SECOND, part};

/// How experiments are made.
#[derive(Debug)]
pub(super) struct Pace {
    /// Pauses between experiments: after one that went well, and the most after some that
    /// did not.
    pub(super) soon: u64,
    pub(super) later: u64,
    /// So long the shaper must have been full.
    pub(super) full: u64,
    /// What the first step of an experiment brings above the known rate, in thousandths, and
    /// the steps that follow it.
    pub(super) first: u64,
    pub(super) steps: [u64; 4],
}
/// On a line that was steady lately. An experiment costs a queue, and shows nothing mostly.
pub(super) const STEADY: Pace = Pace {
    soon: 2 * SECOND,
    later: 4 * SECOND,
    full: SECOND,
    first: 30,
    steps: [60, 120, 240, 400],
};
/// On a line that has changed lately, and will again: LTE, 5G, satellites.
const RESTLESS: Pace = Pace {
    soon: 150 * MILLISECOND,
    later: 600 * MILLISECOND,
    full: 300 * MILLISECOND,
    first: 80,
    steps: [120, 200, 300, 400],
};

/// For so long a change is lately.
const LATELY: u64 = 20 * SECOND;
/// For so long nothing is known of the line.
const FIRST: u64 = 10 * SECOND;
/// A rise or fall is found in steps. What follows the last one within this time belongs to it.
const GOES_ON: u64 = 2 * SECOND;
/// A change of so many thousandths is one of the line, and no error of what is known of it.
const CHANGED: u64 = 150;

/// What is known of the line's rate, and whether it stays.
#[derive(Debug)]
pub(super) struct Known {
    /// At the last of its changes.
    rate: u64,
    /// Since when it is looked at.
    begun: Option<u64>,
    /// The last two changes that were seen: when, and whether it rose.
    changes: [Option<(u64, bool)>; 2],
}

impl Known {
    /// Of a line that is said to have this rate.
    pub(super) const fn new(rate: u64) -> Self {
        Self {
            rate,
            begun: None,
            changes: [None; 2],
        }
    }

    /// The line is looked at from now on.
    pub(super) const fn begin(&mut self, at: u64) {
        self.begun = Some(at);
    }

    /// How experiments are made now.
    pub(super) fn pace(&self, at: u64) -> &'static Pace {
        // One change may be the only one, as when a modem trains anew.
        let since = |then: u64| at.saturating_sub(then);
        let lately =
            |change: &Option<(u64, bool)>| change.is_some_and(|(then, _)| since(then) < LATELY);
        // And at first nothing is known.
        let new = self.begun.is_some_and(|then| since(then) < FIRST);
        if new || self.changes.iter().all(lately) {
            &RESTLESS
        } else {
            &STEADY
        }
    }

    /// The line is known to carry this now.
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

/// When a queue that an experiment makes is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shows {
    /// Nanoseconds of a queue that is too long.
    pub(crate) threshold: u64,
    /// Nanoseconds until answers tell of it.
    pub(crate) answers: u64,
}

impl Shows {
    /// Nanoseconds after a rate has gone so many thousandths above the line's.
    pub(super) fn within(&self, more: u64) -> u64 {
        part(self.threshold, 1_000, more)
            .saturating_add(self.answers)
            .min(2 * SECOND)
    }
}
