// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of numbers: percentiles, histograms, fairness.
//!
//! Percentiles are nearest rank: the smallest sample that at least the requested part of all
//! samples does not exceed. Every percentile is therefore an observed value, and 1 of 1000 samples
//! lies above the 99.9th.

/// Samples in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sorted(Vec<u64>);

impl Sorted {
    /// Sorts the samples.
    pub fn new(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the samples, ascending.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// Returns the smallest sample.
    pub fn min(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// Returns the largest sample.
    pub fn max(&self) -> Option<u64> {
        self.0.last().copied()
    }

    /// Returns the arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        if self.0.is_empty() {
            return None;
        }
        let sum: u128 = self.0.iter().map(|&sample| u128::from(sample)).sum();
        Some(sum as f64 / self.0.len() as f64)
    }

    /// Returns a percentile in thousandths (999 is p99.9) by nearest rank: the smallest sample for
    /// 0, the largest from 1000 on.
    pub fn per_mille(&self, per_mille: u32) -> Option<u64> {
        let count = self.0.len() as u128;
        let rank = (count * u128::from(per_mille)).div_ceil(1000);
        let rank = rank.clamp(1, count.max(1)) as usize;
        self.0.get(rank - 1).copied()
    }

    /// Returns how many samples are at most `bound`.
    pub fn at_most(&self, bound: u64) -> usize {
        self.0.partition_point(|&sample| sample <= bound)
    }
}

/// Counts of samples in bins of equal width, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The width of a bin, in the unit of the samples.
    pub width: u64,
    /// Index and count of non-empty bins, ascending; bin `i` holds samples from `i * width` to
    /// below `(i + 1) * width`.
    pub bins: Vec<(u64, u64)>,
    /// The number of samples.
    pub total: u64,
}

impl Histogram {
    /// Counts samples; a width of 0 counts as 1.
    pub fn new(samples: &Sorted, width: u64) -> Self {
        let width = width.max(1);
        let mut bins: Vec<(u64, u64)> = Vec::new();
        for sample in samples.as_slice() {
            let bin = sample / width;
            match bins.last_mut() {
                Some(last) if last.0 == bin => last.1 += 1,
                _ => bins.push((bin, 1)),
            }
        }
        Self {
            width,
            bins,
            total: samples.len() as u64,
        }
    }
}

/// Returns Jain's fairness index, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has
/// everything. Returns `None` without members or if all are 0.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns the arithmetic mean of numbers.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_few_samples_are_exact() {
        let of = |samples: &[u64], p| Sorted::new(samples.to_vec()).per_mille(p);
        assert_eq!(of(&[], 500), None);
        assert_eq!(of(&[7], 0), Some(7));
        assert_eq!(of(&[7], 999), Some(7));
        assert_eq!(of(&[1, 2], 500), Some(1));
        assert_eq!(of(&[1, 2], 501), Some(2));
        assert_eq!(of(&[1, 2, 3, 4, 5], 500), Some(3));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(of(&hundred, 950), Some(95));
        assert_eq!(of(&hundred, 990), Some(99));
        assert_eq!(of(&hundred, 999), Some(100));
        let thousand: Vec<u64> = (1..=1000).collect();
        assert_eq!(of(&thousand, 999), Some(999));
        assert_eq!(of(&thousand, 1000), Some(1000));
    }

    #[test]
    fn histogram_puts_a_bound_into_the_upper_bin() {
        let samples = Sorted::new(vec![0, 199_999, 200_000, 1_000_000]);
        let histogram = Histogram::new(&samples, 200_000);
        assert_eq!(histogram.bins, [(0, 2), (1, 1), (5, 1)]);
        assert_eq!(histogram.total, 4);
    }

    #[test]
    fn jain_knows_its_bounds() {
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0]), Some(0.5));
        // (1 + 2 + 3)^2 / (3 * 14)
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn percentiles_keep_their_order(samples in prop::collection::vec(0u64..1 << 40, 1..300)) {
            let sorted = Sorted::new(samples.clone());
            let mut last = sorted.min().unwrap();
            for per_mille in [0, 1, 500, 950, 990, 999, 1000] {
                let value = sorted.per_mille(per_mille).unwrap();
                prop_assert!(value >= last);
                prop_assert!(samples.contains(&value));
                let covered = sorted.at_most(value) as f64 / samples.len() as f64;
                prop_assert!(covered + 1e-12 >= f64::from(per_mille) / 1000.0);
                last = value;
            }
            prop_assert_eq!(sorted.max(), Some(last));
            let mean = sorted.mean().unwrap();
            prop_assert!(mean >= sorted.min().unwrap() as f64 - 0.5 && mean <= last as f64 + 0.5);
        }

        #[test]
        fn histograms_lose_no_sample(samples in prop::collection::vec(0u64..5_000_000, 0..300)) {
            let sorted = Sorted::new(samples.clone());
            let histogram = Histogram::new(&sorted, 200_000);
            let counted: u64 = histogram.bins.iter().map(|bin| bin.1).sum();
            prop_assert_eq!(counted, samples.len() as u64);
            for (bin, count) in histogram.bins {
                let inside = samples.iter().filter(|&&s| s / 200_000 == bin).count();
                prop_assert_eq!(inside as u64, count);
            }
        }

        #[test]
        fn jain_lies_between_one_share_and_equality(
            shares in prop::collection::vec(0.0f64..1e6, 1..20),
        ) {
            if let Some(index) = jain(&shares) {
                prop_assert!(index <= 1.0 + 1e-9);
                prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-9);
            }
        }
    }
}
