// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round trips of the traffic itself to outside ends, each over its own minimum. A queue before
//! the line delays all of them; a queue elsewhere delays only some. So the median of those that
//! were seen in one reading counts.

use crate::reflector::Baseline;
use std::collections::BTreeMap;
use weirgate_units::Arrange as _;

const SECOND: u64 = 1_000_000_000;
/// The maximum number of ends that are stored.
const MOST: usize = 64;
/// An end with fewer round trips than this, or for less time, does not count yet: its minimum may
/// contain a queue.
const OFTEN: u32 = 5;
const LONG: u64 = SECOND / 2;

#[derive(Debug, Clone, Copy)]
struct End {
    baseline: Baseline,
    first: u64,
    last: u64,
    times: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Passive {
    ends: BTreeMap<u32, End>,
    /// The round trips of one reading, and its time.
    at: u64,
    deltas: Vec<u64>,
}

impl Passive {
    /// Takes the shortest round trip to an end. Returns the verdict of all ends in this reading,
    /// or `None` if none of them counts yet.
    pub(crate) fn take(&mut self, at: u64, end: u32, round_trip: u64, loaded: bool) -> Option<u64> {
        if at != self.at {
            self.at = at;
            self.deltas.clear();
        }
        if !self.ends.contains_key(&end) && self.ends.len() >= MOST {
            let oldest = self.ends.iter().min_by_key(|(_, one)| one.last);
            if let Some(oldest) = oldest.map(|(number, _)| *number) {
                self.ends.remove(&oldest);
            }
        }
        let one = self.ends.entry(end).or_insert(End {
            baseline: Baseline::default(),
            first: at,
            last: at,
            times: 0,
        });
        one.last = at;
        one.times = one.times.saturating_add(1);
        let round_trip = i64::try_from(round_trip).unwrap_or(i64::MAX / 2);
        let delta = one.baseline.delta(at, round_trip, loaded);
        if one.times >= OFTEN && at.saturating_sub(one.first) >= LONG {
            self.deltas.push(delta);
            self.deltas.arrange();
        }
        // Of two values, the smaller one.
        let middle = self.deltas.len().checked_sub(1)? / 2;
        self.deltas.get(middle).copied()
    }

    /// See [`Baseline`].
    pub(crate) fn begin(&mut self) {
        for one in self.ends.values_mut() {
            one.baseline.begin();
        }
    }

    /// See [`Baseline`].
    pub(crate) fn take_lately(&mut self) {
        for one in self.ends.values_mut() {
            one.baseline.take_lately();
        }
    }

    /// See [`Baseline`].
    pub(crate) fn give_in(&mut self, at: u64) {
        for one in self.ends.values_mut() {
            one.baseline.give_in(at);
        }
    }

    /// The shortest round trips that are known.
    pub(crate) fn least(&self) -> impl Iterator<Item = i64> {
        self.ends.values().filter_map(|one| one.baseline.least())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Each end from the beginning on, every 100 ms, for a second.
    fn known(ends: &[(u32, u64)]) -> Passive {
        let mut passive = Passive::default();
        for look in 0..10 {
            for (end, round_trip) in ends {
                passive.take(look * SECOND / 10, *end, *round_trip, true);
            }
        }
        passive
    }

    #[test]
    fn a_queue_delays_all_ends_and_another_one_some() {
        let mut passive = known(&[
            (1, 10 * MILLISECOND),
            (2, 50 * MILLISECOND),
            (3, 90 * MILLISECOND),
        ]);
        let mut queue = None;
        for (end, round_trip) in [(1, 10), (2, 90), (3, 90)] {
            queue = passive.take(SECOND, end, round_trip * MILLISECOND, true);
        }
        assert_eq!(queue, Some(0));
        let then = SECOND + SECOND / 10;
        for (end, round_trip) in [(1, 50), (2, 90), (3, 130)] {
            queue = passive.take(then, end, round_trip * MILLISECOND, true);
        }
        let queue = queue.expect("they are known");
        assert!(
            (39 * MILLISECOND..=40 * MILLISECOND).contains(&queue),
            "{queue}"
        );
    }

    #[test]
    fn a_new_end_says_nothing_yet() {
        let mut passive = Passive::default();
        for look in 0..5 {
            assert_eq!(passive.take(look * SECOND / 20, 1, MILLISECOND, true), None);
        }
        assert_eq!(
            passive
                .take(SECOND, 1, 2 * MILLISECOND, true)
                .map(|delta| delta / 100_000),
            Some(9)
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut passive = Passive::default();
        for end in 0..1_000 {
            passive.take(u64::from(end), end, MILLISECOND, true);
        }
        assert_eq!(passive.ends.len(), MOST);
        assert!(passive.ends.contains_key(&999));
    }
}
