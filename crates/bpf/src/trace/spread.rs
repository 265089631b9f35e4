// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distribution of times (`bpf/passive/spread.h`).

use crate::layout::{SPREAD_LEAST, SPREAD_PLACES, SPREAD_STEPS, spread};

const STEPS: usize = SPREAD_STEPS as usize;

/// Times: how many, how long together, and how many in each step of an eighth of
/// a doubling, from 1 µs to 17 s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Their sum in ns.
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
    /// What came since an earlier look at the same; all of it where that one is
    /// not of the same, because it counted more.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if before.count > self.count {
            return self.clone();
        }
        let steps = self.steps.iter().zip(&before.steps);
        Self {
            count: self.count - before.count,
            sum_ns: self.sum_ns.wrapping_sub(before.sum_ns),
            // A step counts to 2^32 and begins anew.
            steps: steps.map(|(now, then)| now.wrapping_sub(*then)).collect(),
        }
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        for (own, more) in self.steps.iter_mut().zip(&other.steps) {
            *own = own.wrapping_add(*more);
        }
    }

    /// Of every step that holds any: where it begins and ends in ns, and how many
    /// it holds.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let steps = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        steps.map(|(step, count)| (bound(step), bound(step + 1), u64::from(*count)))
    }

    /// The mean in ns; nothing without any.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// The time in ns that a part of them, of a thousand, does not exceed; known
    /// to the step, within which it is taken to be even. Nothing without any.
    pub fn at_most_ns(&self, thousandths: u64) -> Option<u64> {
        // Counted here: a packet may be counted in one place and not yet in
        // the other when this is read.
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

/// Where a step begins, in ns.
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
        // An eighth of a doubling at most.
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
        // It began anew.
        assert_eq!(before.since(&now), before);
        assert_eq!(Spread::default().mean_ns(), None);
        assert_eq!(Spread::default().at_most_ns(500), None);
    }
}
