// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the rows with the largest numbers.

use std::cmp::Reverse;
use weirgate_units::Arrange as _;

/// Keeps the rows with the largest numbers; among equals, the first ones.
pub(super) struct Most {
    count: usize,
    rows: Vec<(Reverse<u64>, u32)>,
    /// The number that a further row must exceed.
    floor: Option<u64>,
}

impl Most {
    /// Keeps `count` rows.
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            rows: Vec::new(),
            floor: None,
        }
    }

    /// Adds a row; rows must come in ascending order.
    pub(super) fn push(&mut self, row: u32, number: u64) {
        if self.floor.is_some_and(|floor| number <= floor) {
            return;
        }
        self.rows.push((Reverse(number), row));
        if self.rows.len() > self.count.saturating_mul(2) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        if self.rows.len() <= self.count {
            return;
        }
        if let Some(last) = self.count.checked_sub(1) {
            self.rows.select_nth_unstable(last);
            self.floor = Some(self.rows[last].0.0);
        } else {
            self.floor = Some(u64::MAX);
        }
        self.rows.truncate(self.count);
    }

    /// Returns the kept rows, the largest number first.
    pub(super) fn rows(mut self) -> Vec<u32> {
        self.trim();
        self.rows.arrange();
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_most_are_kept_in_order() {
        let all = |count: usize| {
            let mut most = Most::new(count);
            for row in 0..10_000_u32 {
                most.push(row, u64::from(row * 7919 % 1_000));
            }
            most.rows()
        };
        let mut expected: Vec<u32> = (0..10_000).collect();
        expected.sort_by_key(|row| (Reverse(row * 7919 % 1_000), *row));
        for count in [0, 1, 7, 50, 5_000, 10_000, 20_000] {
            let wanted = &expected[..count.min(10_000)];
            assert_eq!(all(count), wanted, "{count}");
        }
    }
}
