// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives the numbers of classes from their names.
//!
//! A class keeps its number regardless of other classes in the policy. Adding, removing or
//! moving another class therefore does not affect it, its queue, or the rules that lead to it.
//!
//! The number is the minor number of the class in the scheduler's HTB and the major number of
//! its queue. It is from [`FIRST`] to [`LAST`] (`10` to `7fff` as tc prints them). Smaller
//! numbers belong to the tree's own qdiscs. Larger ones are those that the kernel assigns to
//! qdiscs without a number (`qdisc_alloc_handle`, net/sched/sch_api.c). The number is a hash of
//! the name, equal in both directions and in all releases. If names collide, the alphabetically
//! first one gets the number. The others are hashed again, after all names without a collision,
//! until a number is free. Only a name that collides can thus change its number with the policy.
//! This happens in about one of a thousand policies with six classes.

use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::{Inserted as _, fnv1a_32};

/// The major number of the gate's HTB.
pub(crate) const OUTER: u16 = 1;
/// The major number of the scheduler's HTB.
pub(crate) const INNER: u16 = 2;

/// The smallest number of a class.
pub const FIRST: u16 = 0x10;
/// The largest number of a class.
pub const LAST: u16 = 0x7fff;

/// How many numbers there are, which limits the classes of a direction.
pub(crate) const ROOM: usize = (LAST - FIRST) as usize + 1;

/// Returns the 32-bit FNV-1a hash of the name and of the attempt, reduced to the range.
fn hashed(name: &str, again: u32) -> u16 {
    let salt = again.to_le_bytes();
    let salt: &[u8] = if again == 0 { &[] } else { &salt };
    let hash = fnv1a_32(name.bytes().chain(salt.iter().copied()));
    FIRST + (hash % (ROOM as u32)) as u16
}

/// Returns a number for each name. Names are distinct, and at most [`ROOM`] of them get one.
pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, u16> {
    let sorted: BTreeSet<&str> = names.into_iter().take(ROOM).inserted();
    let mut taken: BTreeSet<u16> = BTreeSet::new();
    let mut numbers = BTreeMap::new();
    let mut late = Vec::new();
    for name in sorted {
        let number = hashed(name, 0);
        if taken.insert(number) {
            numbers.insert(name, number);
        } else {
            late.push(name);
        }
    }
    for name in late {
        // Hashing again may cycle, so the last attempts try all numbers in order.
        let hashes = (1..64).map(|again| hashed(name, again));
        if let Some(free) = hashes.chain(FIRST..=LAST).find(|one| taken.insert(*one)) {
            numbers.insert(name, free);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_number_whoever_else_is_there() {
        let names = ["interactive", "good", "bulk", "default", "bad", "ack"];
        let all = of(names);
        for name in names {
            assert_eq!(of([name])[name], all[name]);
            assert!((FIRST..=LAST).contains(&all[name]));
        }
        // Numbers must not change between releases.
        assert_eq!((all["interactive"], hashed("normal", 0)), (0x4a6b, 0x7162));
    }

    #[test]
    fn names_of_one_hash_get_numbers_of_their_own() {
        let names: Vec<String> = (0..4_000).map(|at| format!("class-{at}")).collect();
        let all = of(names.iter().map(String::as_str));
        let distinct: BTreeSet<u16> = all.values().copied().collect();
        assert_eq!((all.len(), distinct.len()), (4_000, 4_000));
        let first = names.iter().map(|name| hashed(name, 0));
        let unmet: BTreeSet<u16> = first.collect();
        assert!(unmet.len() < 4_000, "no two hashes met");
        // Names without a collision keep their number when others are added or removed.
        let half = of(names.iter().step_by(2).map(String::as_str));
        for (name, number) in half {
            if all[name] == hashed(name, 0) {
                assert_eq!(number, all[name], "{name}");
            }
        }
    }

    #[test]
    fn every_number_can_be_had() {
        let names: Vec<String> = (0..ROOM + 5).map(|at| at.to_string()).collect();
        let all = of(names.iter().map(String::as_str));
        assert_eq!(all.len(), ROOM);
        assert_eq!(all.values().collect::<BTreeSet<_>>().len(), ROOM);
    }
}
