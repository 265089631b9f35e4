// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random starts and lengths of short flows, from a seed alone.
//!
//! Every flow has its own generator, so that adding a flow to an experiment does not change the
//! others.

use weirgate_units::fnv1a_64;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014). It needs one addition and one mixing per number, passes BigCrush, and has no weak
/// seeds.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// The odd integer nearest to 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Returns the generator for one flow of a run.
    #[must_use]
    pub fn of_flow(seed: u64, name: &str, instance: u16) -> Self {
        let hash = fnv1a_64(name.bytes().chain(instance.to_be_bytes()));
        let mut random = Self { state: seed };
        random.state = random.bits() ^ hash;
        random
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniformly distributed number above 0, up to and including 1. Its logarithm is
    /// finite.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an exponentially distributed number with the given mean: a gap of a Poisson
    /// process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Returns a Pareto distributed number with the given mean. `shape` must be above 1,
    /// otherwise the mean is infinite.
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let least = mean * (shape - 1.0) / shape;
        least / self.unit().powf(1.0 / shape)
    }
}

/// Poisson starts and Pareto lengths within one run, in order of time.
#[derive(Debug, Clone)]
pub struct ShortFlowSchedule {
    random: Random,
    mean_gap_ns: f64,
    mean_bytes: f64,
    shape: f64,
    at_ns: u64,
    end_ns: u64,
}

/// One short flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortFlow {
    /// When it starts.
    pub start_ns: u64,
    /// How many bytes of payload it carries, at least 1.
    pub bytes: u64,
}

impl ShortFlowSchedule {
    /// Returns the schedule of a run from `start_ns` to `end_ns`.
    #[must_use]
    pub const fn new(
        random: Random,
        (start_ns, end_ns): (u64, u64),
        mean_gap_ns: u64,
        mean_bytes: u64,
        shape: f64,
    ) -> Self {
        Self {
            random,
            mean_gap_ns: mean_gap_ns as f64,
            mean_bytes: mean_bytes as f64,
            shape,
            at_ns: start_ns,
            end_ns,
        }
    }

    /// Returns the generator in its current state, for the next run.
    #[must_use]
    pub fn into_random(self) -> Random {
        self.random
    }
}

impl Iterator for ShortFlowSchedule {
    type Item = ShortFlow;

    fn next(&mut self) -> Option<ShortFlow> {
        // Use at least 1 ns, so that the loop ends for any mean gap.
        let gap_ns = self.random.exponential(self.mean_gap_ns).max(1.0) as u64;
        self.at_ns = self.at_ns.saturating_add(gap_ns);
        let bytes = self.random.pareto(self.mean_bytes, self.shape).max(1.0) as u64;
        (self.at_ns < self.end_ns).then_some(ShortFlow {
            start_ns: self.at_ns,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, ShortFlow, ShortFlowSchedule};

    const RUN: (u64, u64) = (5_000_000_000, 305_000_000_000);

    fn schedule(seed: u64, name: &str, instance: u16) -> Vec<ShortFlow> {
        let random = Random::of_flow(seed, name, instance);
        ShortFlowSchedule::new(random, RUN, 1_000_000_000, 5_000, 1.4).collect()
    }

    #[test]
    fn is_splitmix64() {
        // The reference implementation's first outputs for seed 1234567.
        let mut random = Random { state: 1_234_567 };
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        assert_eq!(schedule(1, "mice", 0), schedule(1, "mice", 0));
        assert_ne!(schedule(1, "mice", 0), schedule(2, "mice", 0));
        assert_ne!(schedule(1, "mice", 0), schedule(1, "mice", 1));
        assert_ne!(schedule(1, "mice", 0), schedule(1, "rats", 0));
    }

    #[test]
    fn starts_stay_inside_the_run_in_order() {
        let flows = schedule(7, "mice", 0);
        assert!(flows.iter().all(|f| (RUN.0..RUN.1).contains(&f.start_ns)));
        assert!(flows.windows(2).all(|w| w[0].start_ns < w[1].start_ns));
        assert!(flows.iter().all(|f| f.bytes >= 1_428));
    }

    #[test]
    fn means_are_those_asked_for() {
        let count = 200_000;
        let mut random = Random::of_flow(3, "x", 0);
        let gaps: f64 = (0..count).map(|_| random.exponential(2.0)).sum();
        assert!((gaps / f64::from(count) - 2.0).abs() < 0.02);
        // With shape 3 the variance is finite, so that the sample mean converges.
        let lengths: f64 = (0..count).map(|_| random.pareto(5_000.0, 3.0)).sum();
        assert!((lengths / f64::from(count) - 5_000.0).abs() < 50.0);
    }

    #[test]
    fn a_mean_gap_of_zero_ends() {
        let random = Random::of_flow(3, "x", 0);
        let flows = ShortFlowSchedule::new(random, (0, 1_000), 0, 0, 1.1);
        assert_eq!(flows.count(), 999);
    }
}
