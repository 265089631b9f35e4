// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pace of repairs: when the next one may begin.

use super::MILLISECOND;

/// How long the service waits after a change, in nanoseconds, to handle all changes of a swarm
/// together: a device is created, renamed and set up in quick succession.
pub(super) const SWARM: u64 = 50 * MILLISECOND;
/// The longest pause between two repairs that another program keeps undoing.
const LONGEST: u64 = 60_000 * MILLISECOND;
/// A repair that begins this long after the last one does not lengthen the pause.
const CALM: u64 = 60_000 * MILLISECOND;

/// A pause that doubles while repairs follow one another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) pause: u64,
    last: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            pause: SWARM,
            last: 0,
        }
    }

    /// Counts a repair at the time `now`.
    pub(super) fn worked(&mut self, now: u64) {
        let follows = self.last != 0 && now.saturating_sub(self.last) < CALM.max(2 * self.pause);
        self.pause = if follows {
            (self.pause * 2).min(LONGEST)
        } else {
            SWARM
        };
        self.last = now;
    }

    /// Returns when to handle a change that is reported at `now`: after the swarm, and not before
    /// the pause since the last repair has passed.
    pub(super) fn next(&self, now: u64) -> u64 {
        (now + SWARM).max(self.last.saturating_add(self.pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pulse::joins;

    #[test]
    fn repairs_that_follow_one_another_become_rare() {
        let mut pace = Pace::new();
        let mut now = 1_000 * MILLISECOND;
        let mut within_a_second = 0;
        for count in 0..40 {
            let at = pace.next(now);
            if at - now <= 1_000 * MILLISECOND {
                within_a_second = count + 1;
            }
            assert!(at >= now + SWARM && at - now <= LONGEST + SWARM);
            pace.worked(at);
            now = at;
        }
        assert!(within_a_second >= 5, "{within_a_second}");
        assert_eq!(pace.pause, LONGEST);
        // After a calm period the pause is short again.
        now += 3 * LONGEST;
        pace.worked(now);
        assert_eq!(pace.pause, SWARM);
    }

    /// With looks every 10 s and beats every 30 s, nothing but the looks wakes the service, and no
    /// beat is late.
    #[test]
    fn beats_join_looks() {
        let (look, pulse) = (10, 30);
        let (mut next, mut alone, mut longest, mut last) = (pulse, 0, 0, 0);
        for now in 1_u64..600 {
            let looks = now % look == 3;
            let joined = looks && joins(next, now, look);
            if joined || now == next {
                alone += u64::from(!looks);
                longest = longest.max(now - last);
                (last, next) = (now, now + pulse);
            }
        }
        assert_eq!(alone, 0);
        assert!(longest <= pulse, "{longest}");
    }
}
