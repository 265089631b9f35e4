// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code of the mutators: random numbers, and libFuzzer's dictionaries.

/// The generator of Numerical Recipes; its upper bits are good enough here.
pub struct Random(pub u32);

impl Random {
    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit.max(1)
    }
}

/// Returns the unescaped entries of a dictionary, each a line `"..."`.
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
