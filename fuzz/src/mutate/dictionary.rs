// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the mutators share: chance, and libFuzzer's dictionaries.

/// Numerical Recipes' generator; its upper bits are good enough here.
pub struct Random(pub u32);

impl Random {
    /// A number below `limit`; 0 where there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit.max(1)
    }
}

/// The entries of a dictionary, a line `"..."` each, unescaped.
pub fn entries(dictionary: &str) -> impl Iterator<Item = String> {
    dictionary.lines().filter_map(|line| {
        let inner = line.strip_prefix('"')?.strip_suffix('"')?;
        Some(
            inner
                .replace("\\x0a", "\n")
                .replace("\\\"", "\"")
                .replace("\\\\", "\\"),
        )
    })
}
