// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting in bounded memory.

use std::collections::BTreeMap;

/// The words of a set's bits: 4,096 bits.
const WORDS: usize = 64;

/// A set of hashes that may forget, and that may believe to have what it has not. It is a Bloom
/// filter (Bloom, CACM 1970) of two bits an entry, in two generations.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    bits: [[u64; WORDS]; 2],
    /// The bits of the younger generation that are set.
    set: usize,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            bits: [[0; WORDS]; 2],
            set: 0,
        }
    }
}

impl Seen {
    fn places(hash: u64) -> [(usize, u64); 2] {
        [hash, hash >> 32].map(|part| {
            let bit = part as usize % (WORDS * 64);
            (bit / 64, 1 << (bit % 64))
        })
    }

    pub(crate) fn contains(&self, hash: u64) -> bool {
        let places = Self::places(hash);
        let has = |bits: &[u64; WORDS]| places.iter().all(|(word, bit)| bits[*word] & bit != 0);
        self.bits.iter().any(has)
    }

    /// Adds a hash; returns whether it is new. When half of the bits are set, the older generation
    /// is forgotten.
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        let new = !self.contains(hash);
        if self.set * 2 >= WORDS * 64 {
            self.turn();
        }
        for (word, bit) in Self::places(hash) {
            self.set += usize::from(self.bits[0][word] & bit == 0);
            self.bits[0][word] |= bit;
        }
        new
    }

    /// Forgets the older generation, and begins another one.
    pub(crate) fn turn(&mut self) {
        self.bits = [[0; WORDS], self.bits[0]];
        self.set = 0;
    }
}

/// The places of [`Frequent`].
const PLACES: usize = 8;

/// The most frequent of many things: Misra and Gries, "Finding Repeated Elements", 1982. What makes
/// up more than a ninth of all has a place. Counts are too low, never too high.
#[derive(Debug, Clone)]
pub(crate) struct Frequent<K> {
    counts: BTreeMap<K, u32>,
    pub(crate) all: u32,
}

impl<K> Default for Frequent<K> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            all: 0,
        }
    }
}

impl<K: Ord + Copy> Frequent<K> {
    pub(crate) fn add(&mut self, key: K) {
        self.all = self.all.saturating_add(1);
        if let Some(count) = self.counts.get_mut(&key) {
            *count = count.saturating_add(1);
        } else if self.counts.len() < PLACES {
            self.counts.insert(key, 1);
        } else {
            self.counts.values_mut().for_each(|count| *count -= 1);
            self.counts.retain(|_, count| *count > 0);
        }
    }

    /// Returns the sum of the largest counts.
    pub(crate) fn sum_of_first(&self, number: usize) -> u32 {
        let mut rest = self.counts.clone();
        let mut sum = 0_u32;
        for _ in 0..number {
            let Some((key, count)) = largest(&rest) else {
                break;
            };
            sum = sum.saturating_add(count);
            rest.remove(&key);
        }
        sum
    }

    /// Returns the most frequent one and its count.
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        largest(&self.counts)
    }

    /// Halves all counts.
    pub(crate) fn halve(&mut self) {
        self.counts.values_mut().for_each(|count| *count /= 2);
        self.counts.retain(|_, count| *count > 0);
        self.all /= 2;
    }
}

fn largest<K: Ord + Copy>(counts: &BTreeMap<K, u32>) -> Option<(K, u32)> {
    let largest = counts.iter().max_by_key(|(_, count)| **count);
    largest.map(|(key, count)| (*key, *count))
}

/// A bucket with a hole: what comes at no more than the rate of the hole leaves it empty (ITU-T
/// I.371). It holds at most twice the limit, so that it is empty again in a bounded time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bucket {
    level: f64,
}

impl Bucket {
    /// Lets out what leaves in this time at a rate per second, adds something, and returns whether
    /// the level exceeds the limit.
    pub(crate) fn add(&mut self, ms: u64, rate: f64, more: f64, limit: f64) -> bool {
        let left = (self.level - rate * ms as f64 / 1000.0).max(0.0);
        self.level = (left + more).min(2.0 * limit);
        self.level > limit
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.level <= 0.0
    }
}

/// Mixes a number into a hash (the finalizer of `SplitMix64`, Steele et al., OOPSLA 2014).
pub(crate) fn mixed(hash: u64, more: u64) -> u64 {
    let mut mixed = (hash ^ more).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_forgets_the_oldest_and_stays_useful() {
        let mut seen = Seen::default();
        let new = (0..100_000_u64).filter(|one| seen.insert(mixed(7, *one)));
        // At most a half of the bits of each generation are set.
        assert!(new.count() > 50_000);
        assert!((99_900..100_000).all(|one| seen.contains(mixed(7, one))));
        seen.turn();
        seen.turn();
        assert!(!seen.contains(mixed(7, 99_999)));
    }

    #[test]
    fn what_is_frequent_has_a_place() {
        let mut frequent = Frequent::default();
        for one in 0..1_000_u32 {
            frequent.add(if one % 3 == 0 { 445 } else { 1_000 + one });
        }
        let (port, count) = frequent.first().expect("a port");
        assert_eq!(port, 445);
        assert!((223..=334).contains(&count), "{count}");
    }
}
