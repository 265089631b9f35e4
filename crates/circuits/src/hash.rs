// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hash maps for many lookups. The results do not depend on their order, so no code iterates
//! over a map to produce output.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map without a defined order of iteration.
pub type Known<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// An odd number with as many ones as zeros: that of FxHash, the hash of rustc.
const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;

/// A hasher that adds and multiplies words. It does not resist deliberate collisions, which is
/// acceptable because a provider writes its own lists.
#[derive(Debug, Default, Clone, Copy)]
pub struct Mixed(u64);

impl Mixed {
    fn mix(&mut self, word: u64) {
        self.0 = self.0.wrapping_add(word).wrapping_mul(FACTOR);
    }
}

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
            self.0 = self.0.rotate_left(23);
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.mix(u64::from_le_bytes(last) ^ rest.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        // The low bits of a product depend only on the low bits of its factors; bring high bits
        // down.
        self.0.rotate_left(26)
    }
}
