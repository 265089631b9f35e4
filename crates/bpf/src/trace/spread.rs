// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histograms of times (`bpf/passive/spread.h`).

use crate::layout::{SPREAD_LEAST, SPREAD_PLACES, SPREAD_STEPS, spread};

const STEPS: usize = SPREAD_STEPS as usize;

/// A histogram of times from 1 µs to 17 s, with eight bins per octave. It also has the number of
/// times and their sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The number of times.
    pub count: u64,
    /// The sum of the times in nanoseconds.
    pub sum_ns: u64,
    steps: Vec<u32>,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            count: 0,
            sum_ns: 0,
            steps: vec![0; STEPS],
        }
    }
}

impl From<&spread> for Spread {
    fn from(spread: &spread) -> Self {
        Self {
            count: spread.count,
            sum_ns: spread.sum_ns,
            steps: spread.steps.to_vec(),
        }
    }
}

impl Spread {
    /// Returns the difference from an earlier copy. If the earlier one has counted more, it is
    /// not a copy of the same histogram, and all of this one is returned.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if before.count > self.count {
            return self.clone();
        }
        let steps = self.steps.iter().zip(&before.steps);
        Self {
            count: self.count - before.count,
            sum_ns: self.sum_ns.wrapping_sub(before.sum_ns),
            // The counter of a bin has 32 bits and wraps.
            steps: steps.map(|(now, then)| now.wrapping_sub(*then)).collect(),
        }
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        for (own, more) in self.steps.iter_mut().zip(&other.steps) {
            *own = own.wrapping_add(*more);
        }
    }

    /// Iterates over the bins that are not empty: their bounds in nanoseconds, and their counts.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let steps = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        steps.map(|(step, count)| (bound(step), bound(step + 1), u64::from(*count)))
    }

    /// Returns the mean in nanoseconds; `None` without any times.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// Returns a quantile, given in thousandths, in nanoseconds. Within a bin, times are assumed
    /// to be uniform. Returns `None` without any times.
    pub fn at_most_ns(&self, thousandths: u64) -> Option<u64> {
        // Sum the bins, because `count` may differ from their sum if a packet is counted during
        // the read.
        let all: u64 = self.steps.iter().map(|step| u64::from(*step)).sum();
        if all == 0 {
            return None;
        }
        let wanted = (all * thousandths).div_ceil(1000).max(1);
        let mut passed = 0;
        for (step, count) in self.steps.iter().enumerate() {
            let count = u64::from(*count);
            if passed + count >= wanted {
                let (from, to) = (bound(step), bound(step + 1));
                return Some(from + (to - from) * (wanted - passed) / count);
            }
            passed += count;
        }
        None
    }
}

/// Returns the lower bound of a bin in nanoseconds.
fn bound(step: usize) -> u64 {
    if step == 0 {
        return 0;
    }
    let (doubling, part) = (step >> SPREAD_PLACES, step & ((1 << SPREAD_PLACES) - 1));
    let whole = 1_u64 << (doubling as u32 + SPREAD_LEAST);
    whole + (whole >> SPREAD_PLACES) * part as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_on_from_one_another() {
        let bounds: Vec<u64> = (0..=STEPS).map(bound).collect();
        assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        assert_eq!(bound(STEPS), 1 << 34);
        // No bin is wider than an eighth of its lower bound.
        for pair in bounds[1..].windows(2) {
            assert!(pair[1] - pair[0] <= pair[0] / 8, "{pair:?}");
        }
    }

    #[test]
    fn what_came_since_has_a_mean_and_a_spread() {
        let mut before = Spread {
            count: 3,
            sum_ns: 3_000,
            ..Spread::default()
        };
        before.steps[1] = 3;
        assert_eq!(before.at_most_ns(1000), Some(bound(2)));
        let mut now = before.clone();
        now.count = 103;
        now.sum_ns = 3_000 + 100 * 5_000_000;
        let step = (0..STEPS)
            .rfind(|step| bound(*step) <= 5_000_000)
            .expect("a step");
        now.steps[step] = 100;
        let since = now.since(&before);
        assert_eq!(since.mean_ns(), Some(5_000_000));
        let median = since.at_most_ns(500).expect("some");
        assert!(median.abs_diff(5_000_000) < 5_000_000 / 8, "{median}");
        // The counters started again.
        assert_eq!(before.since(&now), before);
        assert_eq!(Spread::default().mean_ns(), None);
        assert_eq!(Spread::default().at_most_ns(500), None);
    }
}
