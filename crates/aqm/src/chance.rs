// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random words from a seed.

/// Splitmix64 (Steele, Lea and Flood 2014): a reproducible sequence of uniform words from a
/// seed.
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    /// Returns the next word.
    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// Returns a number below `limit`, which is at most 2^32.
    pub fn below(&mut self, limit: u64) -> u64 {
        (u64::from(self.word()) * limit) >> 32
    }
}
