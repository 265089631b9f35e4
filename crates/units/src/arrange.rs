// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sorting, and collecting into maps, with little machine code.
//!
//! The compiler instantiates the standard library's sort for every type and comparison, with 4 kB
//! each. `collect` into a map sorts first, so that it costs as much. The router's program used both
//! in a hundred places (`docs/decisions/0034-small-program.md`).

use std::cmp::Ordering;

/// Sorts as the methods of slices do: stably, in O(n log n). Only indices are sorted, by a function
/// that all types share; then each element is moved to its place.
pub trait Arrange<T> {
    /// Sorts as [`slice::sort`] does.
    fn arrange(&mut self)
    where
        T: Ord;

    /// Sorts as [`slice::sort_by`] does.
    fn arrange_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts as [`slice::sort_by_key`] does.
    fn arrange_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> Arrange<T> for [T] {
    fn arrange(&mut self)
    where
        T: Ord,
    {
        self.arrange_by(T::cmp);
    }

    fn arrange_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut ranks = ranks(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        for place in 0..ranks.len() {
            while ranks[place] != place {
                let rank = ranks[place];
                self.swap(place, rank);
                ranks.swap(place, rank);
            }
        }
    }

    fn arrange_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.arrange_by(|a, b| key(a).cmp(&key(b)));
    }
}

/// Returns the rank of each of `count` elements.
#[inline(never)]
fn ranks(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    let mut ranks = vec![0; count];
    for (rank, element) in order.into_iter().enumerate() {
        ranks[element] = rank;
    }
    ranks
}

/// Collects by inserting one element after the other.
pub trait Inserted: Iterator {
    /// Collects as `collect` does, for collections that can be extended. Of several values with one
    /// key, the last one remains.
    fn inserted<C: Default + Extend<Self::Item>>(self) -> C;
}

impl<I: Iterator> Inserted for I {
    fn inserted<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}
