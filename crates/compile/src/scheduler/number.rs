// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers of classes, made of their names.
//!
//! A class keeps its number whatever is written before or after it, so that
//! adding, removing or moving another class leaves it, its queue and the rules
//! that lead to it as they are.
//!
//! The number is the minor number of the class in the scheduler's HTB and the
//! major number of its queue, [`FIRST`] to [`LAST`] (`10` to `7fff` as tc prints
//! them). Below are the numbers of the tree's own qdiscs. Above are those that the
//! kernel gives to qdiscs without one (`qdisc_alloc_handle`, net/sched/sch_api.c).
//! It is a hash of the name, the same in both directions
//! and for ever. Of names with one hash the first in the alphabet has it; the
//! others are hashed again, after all that had no such trouble, until a number
//! is free. So only a name that meets another's hash can change its number with
//! the policy: one of six classes in a thousand policies or so.

use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::Inserted as _;
use weirgate_units::fnv1a_32;

/// The major number of the gate's HTB.
pub(crate) const OUTER: u16 = 1;
/// The major number of the scheduler's HTB.
pub(crate) const INNER: u16 = 2;

/// The least number of a class.
pub const FIRST: u16 = 0x10;
/// The greatest number of a class.
pub const LAST: u16 = 0x7fff;

/// How many numbers there are, and thus classes in a direction.
pub(crate) const ROOM: usize = (LAST - FIRST) as usize + 1;

/// 32-bit FNV-1a of the name and of how often it has been hashed, folded into
/// the range.
fn hashed(name: &str, again: u32) -> u16 {
    let salt = again.to_le_bytes();
    let salt: &[u8] = if again == 0 { &[] } else { &salt };
    let hash = fnv1a_32(name.bytes().chain(salt.iter().copied()));
    FIRST + (hash % (ROOM as u32)) as u16
}

/// A number for each name; names are distinct, and at most [`ROOM`] get one.
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
        // A hash may go in circles, so that the last tries go one by one.
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
        // Numbers in force must not change with a release.
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
        // Those that have their own hash keep it when others come and go.
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
