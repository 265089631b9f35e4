// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The schedule of the packets of a constant-rate stream, as pure arithmetic.

/// The absolute schedule `start + n * interval` of one run.
///
/// It does not drift: a late sender sends everything that is due, and is on schedule again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    start_ns: u64,
    interval_ns: u64,
    count: u64,
    done: u64,
}

impl Pace {
    /// Returns the schedule of a run, with at most `limit` packets if given. A packet is due at
    /// the start, but none at the end. An interval of 0 counts as 1 ns.
    #[must_use]
    pub fn new((start_ns, end_ns): (u64, u64), interval_ns: u64, limit: Option<u64>) -> Self {
        let interval_ns = interval_ns.max(1);
        let fitting = end_ns.saturating_sub(start_ns).div_ceil(interval_ns);
        Self {
            start_ns,
            interval_ns,
            count: fitting.min(limit.unwrap_or(u64::MAX)),
            done: 0,
        }
    }

    /// Returns when the next packet is due; `None` after the last.
    #[must_use]
    pub const fn next_ns(&self) -> Option<u64> {
        if self.done < self.count {
            // The result is before the run's end, so this cannot overflow.
            Some(self.start_ns + self.done * self.interval_ns)
        } else {
            None
        }
    }

    /// Takes at most `most` of the packets that are due at `now_ns`. Returns their number.
    pub fn take(&mut self, now_ns: u64, most: u64) -> u64 {
        let Some(since_ns) = now_ns.checked_sub(self.start_ns) else {
            return 0;
        };
        let due = (since_ns / self.interval_ns + 1).min(self.count);
        let taken = due.saturating_sub(self.done).min(most);
        self.done += taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use proptest::prelude::*;

    #[test]
    fn due_packets_are_caught_up() {
        let mut pace = Pace::new((1_000, 2_000), 100, None);
        assert_eq!(pace.next_ns(), Some(1_000));
        assert_eq!(pace.take(999, 64), 0);
        assert_eq!(pace.take(1_000, 64), 1);
        assert_eq!(pace.take(1_099, 64), 0);
        assert_eq!(pace.take(1_450, 64), 4);
        assert_eq!(pace.next_ns(), Some(1_500));
        assert_eq!(pace.take(9_000, 3), 3);
        assert_eq!(pace.take(9_000, 64), 2);
        assert_eq!(pace.next_ns(), None);
    }

    #[test]
    fn a_limit_ends_it() {
        let mut pace = Pace::new((0, 1_000), 10, Some(7));
        assert_eq!(pace.take(5_000, 64), 7);
        assert_eq!(pace.next_ns(), None);
    }

    proptest! {
        #[test]
        fn however_it_is_woken_it_sends_the_same_number(
            start in 0_u64..1_000_000,
            length in 0_u64..100_000,
            interval in 0_u64..5_000,
            wakes in proptest::collection::vec(0_u64..50_000, 0..40),
        ) {
            let mut pace = Pace::new((start, start + length), interval, None);
            let whole = length.div_ceil(interval.max(1));
            let mut now = start;
            let mut sent = 0;
            for wake in wakes {
                now += wake;
                while let taken @ 1.. = pace.take(now, 16) {
                    sent += taken;
                }
                let due = ((now - start) / interval.max(1) + 1).min(whole);
                prop_assert_eq!(sent, due);
            }
            while let taken @ 1.. = pace.take(u64::MAX, 16) {
                sent += taken;
            }
            prop_assert_eq!(sent, whole);
        }
    }
}
