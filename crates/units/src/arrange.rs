// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sorting, and maps from what iterators give, by little code.
//!
//! The standard library's sort is compiled again for every type and comparison, and is 4 kB
//! each time. `collect` into a map sorts first, so that it costs as much. The router's
//! program did both in a hundred places (`docs/decisions/0034-small-program.md`).

use std::cmp::Ordering;

/// Sorts as the methods of slices do: stably, in O(n log n). Only numbers are sorted, by a
/// function that all types share; then each element goes to its place.
pub trait Arrange<T> {
    /// As [`slice::sort`].
    fn arrange(&mut self)
    where
        T: Ord;

    /// As [`slice::sort_by`].
    fn arrange_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`].
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

/// The place of each of so many elements when they are in order.
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

/// Collects by insertion, one after the other.
pub trait Inserted: Iterator {
    /// As `collect`, of collections that can be extended: the last of several values of one
    /// key stays.
    fn inserted<C: Default + Extend<Self::Item>>(self) -> C;
}

impl<I: Iterator> Inserted for I {
    fn inserted<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}
