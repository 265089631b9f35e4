// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The canonical form in which sets are compared.

use crate::classify::{Content, Set};
use weirgate_units::{Arrange as _, Handle};

impl Set {
    /// Returns the set with its elements sorted, and adjacent ones merged.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut set = self.clone();
        match &mut set.content {
            Content::Fixed(elements) => *elements = merged(elements),
            Content::Classes(elements) => *elements = joined(elements),
            Content::Refreshed(_) | Content::Meter { .. } => {}
        }
        set
    }

    /// Returns whether it is in canonical form.
    pub(crate) fn is_canonical(&self) -> bool {
        match &self.content {
            Content::Fixed(ranges) => ranges.is_sorted_by(|a, b| a.1.saturating_add(1) < b.0),
            Content::Classes(ranges) => {
                ranges.is_sorted_by(|a, b| a <= b && (a.2 != b.2 || b.0 != a.1.saturating_add(1)))
            }
            Content::Refreshed(_) | Content::Meter { .. } => true,
        }
    }
}

/// Sorts ranges with classes, and merges adjacent ones of the same class.
fn joined(ranges: &[(u128, u128, Handle)]) -> Vec<(u128, u128, Handle)> {
    let mut sorted = ranges.to_vec();
    sorted.arrange();
    let mut out: Vec<(u128, u128, Handle)> = Vec::new();
    for (from, to, class) in sorted {
        match out.last_mut() {
            Some(last) if last.2 == class && from == last.1.saturating_add(1) => last.1 = to,
            _ => out.push((from, to, class)),
        }
    }
    out
}

/// Sorts ranges, and merges those that overlap or are adjacent.
fn merged(ranges: &[(u128, u128)]) -> Vec<(u128, u128)> {
    let mut sorted: Vec<(u128, u128)> = ranges.to_vec();
    sorted.arrange();
    let mut out: Vec<(u128, u128)> = Vec::new();
    for (from, to) in sorted {
        match out.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_touch_become_one() {
        assert_eq!(
            merged(&[(5, 6), (1, 2), (3, 3), (9, 9), (8, u128::MAX)]),
            [(1, 3), (5, 6), (8, u128::MAX)]
        );
    }
}
