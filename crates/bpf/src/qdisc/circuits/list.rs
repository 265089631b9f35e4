// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces the list in force: stages the next list beside it, and commits all at once.

use super::seen::raw;
use super::{CircuitTree, CircuitsChange, CircuitsError, keys};
use crate::error::BpfError;
use crate::layout::{circuits_label, circuits_leaves, circuits_rule, engine_config};
use crate::qdisc::engine::config;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher as _};
use std::ops::Range;
use weirgate_circuits::rows::{self, LabelText, RowLayout, Table, UsedRow};
use weirgate_circuits::{Key, Known, List, Mixed};
use weirgate_units::Rate;
use zerocopy::IntoBytes as _;

/// Returns the counter of changes during a change: odd, like that of a seqlock, until the list
/// is stored.
pub(super) fn begun(changes: u32) -> u32 {
    changes | 1
}

fn is_begun(changes: u32) -> bool {
    changes & 1 == 1
}

/// The contents of both tables: the leaf of each key in either generation.
type Stored = Known<Key, [u32; 2]>;

impl CircuitTree {
    /// Applies a list atomically: if this process dies, the former list stays in force. `link`
    /// is the rate of the whole device, if it has a limit. Only packets of removed circuits are
    /// lost. The stored list may differ from the list in force until [`Self::settle`].
    pub fn reconcile(
        &mut self,
        list: &List,
        link: Option<Rate>,
    ) -> Result<CircuitsChange, CircuitsError> {
        let mut rule = self.rules.first()?;
        let direction = self.direction()?;
        let layout = self.layout()?;
        let held = self.all_held(layout);
        let (nodes, circuits) = rows::rows(list, direction, layout, link, &held)?;
        let mut change = self.stage(layout, &nodes, &held, true);
        let table = sum(list, &circuits);
        let is_known = rule.table == table;
        let mut stored = Stored::default();
        rule.next = rule.generation;
        if !is_known {
            // If this process dies before the end, the tables may contain anything; note that.
            rule.table = 0;
            self.rules.set_first(&rule)?;
            stored = self.stored()?;
            let active = (rule.generation & 1) as usize;
            for key in stale(&stored, active) {
                self.forget(&key)?;
                stored.remove(&key);
            }
            if !is_in_force(&stored, active, list, &circuits) {
                let entries = entries(&stored, active, &rows::table(list, &circuits));
                fits(&stored, &entries, self.room())?;
                change.written = entries.len();
                // If this process dies, the next one brings the stored list into force, and
                // removes these keys.
                rule.open = begun(rule.open);
                self.rules.set_first(&rule)?;
                self.write(&entries)?;
                rule.next ^= 1;
                rule.kinds[(rule.next & 1) as usize] = keys::kinds(listed(list));
            }
        }
        // An interrupted process may have staged rows that are not in force; commit those too.
        if rule.next != rule.generation || change != CircuitsChange::default() {
            rule.open = begun(rule.open);
            rule.count = 0;
            self.rules.set_first(&rule)?;
            self.programs.commit()?;
        }
        if is_known {
            return Ok(change);
        }
        // Remove keys of neither list, which an interrupted process left.
        if rule.next != rule.generation || stored.len() > listed(list).count() {
            let listed: HashSet<&Key, BuildHasherDefault<Mixed>> = listed(list).collect();
            for key in stored.keys().filter(|key| !listed.contains(key)) {
                self.forget(key)?;
            }
        }
        let rule = self.rules.first()?;
        self.rules.set_first(&circuits_rule { table, ..rule })?;
        Ok(change)
    }

    /// Compares a list with the kernel: counts the nodes that applying it would change, and the
    /// keys that another circuit or none has. It always reads both tables, and does not rely on
    /// their recorded checksum.
    pub fn differs(
        &self,
        list: &List,
        link: Option<Rate>,
    ) -> Result<CircuitsChange, CircuitsError> {
        let layout = self.layout()?;
        let held = self.all_held(layout);
        let (nodes, circuits) = rows::rows(list, self.direction()?, layout, link, &held)?;
        let mut change = self.stage(layout, &nodes, &held, false);
        let (stored, rule) = (self.stored()?, self.rules.first()?);
        let active = (rule.generation & 1) as usize;
        let in_force = stored.values().filter(|leaves| leaves[active] > 0);
        let own = list.circuits.iter().zip(&circuits);
        let own = own.flat_map(|(circuit, row)| circuit.keys.iter().map(move |key| (key, row)));
        let (right, wrong): (Vec<_>, Vec<_>) = own.partition(|(key, row)| {
            let leaves = stored.get(key);
            leaves.is_some_and(|leaves| leaves[active] == **row)
        });
        change.written = wrong.len().max(in_force.count() - right.len());
        Ok(change)
    }

    /// Records that the stored list is the one in force.
    pub fn settle(&self) -> Result<(), BpfError> {
        let rule = self.rules.first()?;
        if is_begun(rule.open) {
            let open = rule.open.wrapping_add(1);
            self.rules.set_first(&circuits_rule { open, ..rule })?;
        }
        Ok(())
    }

    /// Records the period, in Unix seconds, during which the terms of the plans stay the same.
    pub fn set_holds(&self, holds: &Range<u64>) -> Result<(), BpfError> {
        let rule = self.rules.first()?;
        let holds_s = [holds.start, holds.end];
        if rule.holds_s == holds_s {
            return Ok(());
        }
        self.rules.set_first(&circuits_rule { holds_s, ..rule })
    }

    /// Returns the recorded period.
    pub fn holds(&self) -> Result<Range<u64>, BpfError> {
        let [from, until] = self.rules.first()?.holds_s;
        Ok(from..until)
    }

    /// Returns whether a command was interrupted before it stored the list.
    pub fn is_open(&self) -> Result<bool, BpfError> {
        Ok(is_begun(self.changes()?))
    }

    /// Returns a number that differs after each change of the list in force.
    pub fn changes(&self) -> Result<u32, BpfError> {
        Ok(self.rules.first()?.open)
    }

    /// Returns the state of all rows that were ever used.
    fn all_held(&self, layout: RowLayout) -> Vec<UsedRow> {
        // Rows that no circuit ever had are at the end.
        let others = (1..*layout.circuits().start()).filter_map(|id| self.held(id));
        let circuits = layout.circuits().map_while(|id| self.held(id));
        others.chain(circuits).collect()
    }

    /// Returns the state of a row; `None` if it was never used.
    fn held(&self, id: u32) -> Option<UsedRow> {
        let own = raw(&self.labels, id)?;
        let label = Some(LabelText(own.text)).filter(|label| !label.is_empty())?;
        let (live, at_rest) = self.engine.standing(id)?;
        Some(UsedRow {
            id,
            label,
            queue: own.queue,
            live,
            at_rest,
        })
    }

    /// Counts the changes of configuration and, with `write`, stages them for the commit
    /// program. Rows that were never used and are not needed are skipped.
    fn stage(
        &self,
        layout: RowLayout,
        nodes: &[rows::Row],
        held: &[UsedRow],
        write: bool,
    ) -> CircuitsChange {
        let mut change = CircuitsChange::default();
        let mut stays = vec![false; layout.nodes() as usize + 1];
        for row in nodes {
            let Some(is) = self.engine.config(row.id) else {
                continue;
            };
            let config = config(&row.row);
            if is.live == 0 {
                change.added += 1;
                if write {
                    self.put_label(row.id as usize, &row.label, row.queue);
                }
            } else if !keys::is_same(&is, &config) {
                change.changed += 1;
            }
            if write {
                self.stage_one(row.id as usize, config);
            }
            stays[row.id as usize] = true;
        }
        for one in held.iter().filter(|one| !stays[one.id as usize]) {
            let Some(is) = self.engine.config(one.id) else {
                continue;
            };
            change.removed += usize::from(is.live != 0);
            if write {
                // The backlog of a removed leaf is dropped.
                self.stage_one(one.id as usize, engine_config { live: 0, ..is });
            }
        }
        change
    }

    /// Stages the configuration of a row.
    pub(super) fn stage_one(&self, id: usize, config: engine_config) {
        if let Some(slot) = self.staged.at(id) {
            #[expect(unsafe_code, reason = "the memory is the kernel's too")]
            // SAFETY: the row is in the mapping; the program only reads it.
            unsafe {
                slot.write_volatile(config);
            }
        }
    }

    /// Writes the label and the queue of a row.
    pub(super) fn put_label(&self, id: usize, label: &LabelText, queue: u32) {
        let own = circuits_label {
            text: label.0,
            queue,
        };
        if let Some(slot) = self.labels.at(id) {
            #[expect(unsafe_code, reason = "the memory is the kernel's too")]
            // SAFETY: the row is in the mapping; no program reads it.
            unsafe {
                slot.write_volatile(own);
            }
        }
    }

    /// Reads both tables, with both generations.
    pub(super) fn stored(&self) -> Result<Stored, BpfError> {
        let all = self.addresses.entries()?.into_iter();
        let all = all.filter_map(|(key, value)| Some((keys::whole(&key)?, value.leaf)));
        let prefixes = self.prefixes.entries()?.into_iter();
        let prefixes = prefixes.filter_map(|(key, value)| Some((keys::prefix(&key)?, value.leaf)));
        Ok(all.chain(prefixes).collect())
    }

    /// Returns how many keys the tables take: prefixes, and all others.
    fn room(&self) -> [u32; 2] {
        [self.prefixes.capacity(), self.addresses.capacity()]
    }

    pub(super) fn write(&self, entries: &[(Key, [u32; 2])]) -> Result<(), BpfError> {
        let of = |is_prefix: bool| {
            let own = entries
                .iter()
                .filter(move |(key, _)| key.prefix().is_some() == is_prefix);
            own.map(|(key, leaf)| (keys::of(key), circuits_leaves { leaf: *leaf }))
        };
        self.addresses
            .put_all(of(false).map(|(own, leaves)| (own.key, leaves)))?;
        self.prefixes.put_all(of(true))
    }

    pub(super) fn forget(&self, key: &Key) -> Result<(), BpfError> {
        let own = keys::of(key);
        if key.prefix().is_none() {
            return self.addresses.remove(&own.key);
        }
        self.prefixes.remove(&own)
    }
}

/// Returns the keys that an interrupted process wrote for a list that never came into force. They
/// would take room, and come into force with the next list.
fn stale(stored: &Stored, active: usize) -> Vec<Key> {
    let unused = stored.iter().filter(|(_, leaves)| leaves[active] == 0);
    unused.map(|(key, _)| *key).collect()
}

/// Checks that the tables take these entries besides the stored ones. If the kernel refused one,
/// those before it would stay, and the tables would be full for lists that would fit.
fn fits(
    stored: &Stored,
    entries: &[(Key, [u32; 2])],
    [prefixes, others]: [u32; 2],
) -> Result<(), CircuitsError> {
    let new = entries.iter().map(|(key, _)| key);
    let new = new.filter(|key| !stored.contains_key(*key));
    let all = stored.keys().chain(new);
    for (is_prefix, what, room) in [
        (true, "prefixes", prefixes),
        (false, "addresses and other keys", others),
    ] {
        let own = |key: &&Key| key.prefix().is_some() == is_prefix;
        let keys = all.clone().filter(own).count();
        if keys > room as usize {
            return Err(CircuitsError::Keys { what, keys, room });
        }
    }
    Ok(())
}

/// Iterates over all keys of a list.
fn listed(list: &List) -> impl Iterator<Item = &Key> {
    list.circuits.iter().flat_map(|one| &one.keys)
}

/// Returns a checksum of the tables for a list whose circuits have these words; it is never 0.
/// Comparing it avoids reading the tables, which takes longer than everything else.
fn sum(list: &List, circuits: &[u32]) -> u64 {
    let mut table = Vec::new();
    for (circuit, word) in list.circuits.iter().zip(circuits) {
        for key in &circuit.keys {
            table.extend_from_slice(keys::of(key).as_bytes());
            table.extend_from_slice(&word.to_ne_bytes());
        }
    }
    let mut sum = DefaultHasher::new();
    sum.write(&table);
    sum.finish().max(1)
}

/// Returns whether the table in force contains exactly the keys of a list.
fn is_in_force(stored: &Stored, active: usize, list: &List, circuits: &[u32]) -> bool {
    let in_force = stored.values().filter(|leaves| leaves[active] > 0).count();
    let mut own = list.circuits.iter().zip(circuits);
    in_force == listed(list).count()
        && own.all(|(circuit, row)| {
            let mut keys = circuit.keys.iter();
            keys.all(|one| stored.get(one).is_some_and(|own| own[active] == *row))
        })
}

/// Returns the entries to write so that both the old and the new table can be looked up.
fn entries(stored: &Stored, active: usize, new: &Table) -> Vec<(Key, [u32; 2])> {
    let leaf = |(key, leaves): (&Key, &[u32; 2])| (*key, leaves[active]);
    let mut old: Table = stored
        .iter()
        .map(leaf)
        .filter(|(_, leaf)| *leaf > 0)
        .collect();
    old.sort_unstable();
    let placed = |(key, [old, new]): (Key, [u32; 2])| {
        (key, if active == 0 { [old, new] } else { [new, old] })
    };
    rows::both(&old, new)
        .into_iter()
        .map(placed)
        .filter(|(key, leaves)| stored.get(key) != Some(leaves))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_circuits::KeyKind;

    fn key(text: &str) -> Key {
        let found = KeyKind::Address.read_all(text);
        found.expect("an address")[0]
    }

    /// Keys that are stored already take no more room, and prefixes have a table of their own.
    #[test]
    fn a_list_fits_if_both_lists_do() {
        let one = |text| (key(text), [1, 1]);
        let stored: Stored = ["10.0.0.1", "10.1.0.0/16"].map(one).into_iter().collect();
        let entries = ["10.0.0.1", "10.0.0.2", "10.1.0.0/16"].map(one);
        assert!(fits(&stored, &entries, [1, 2]).is_ok());
        let full = fits(&stored, &entries, [1, 1]);
        let found = full.expect_err("two addresses").to_string();
        assert!(found.contains("2 addresses"), "{found}");
        let full = fits(&stored, &[one("10.2.0.0/16")], [1, 2]);
        let found = full.expect_err("two prefixes").to_string();
        assert!(found.contains("2 prefixes"), "{found}");
    }

    /// An interrupted process wrote them into the other generation.
    #[test]
    fn keys_that_never_came_into_force_are_removed() {
        let [left, own, new] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(key);
        for active in [0, 1] {
            let leaves = |is: u32, next: u32| if active == 0 { [is, next] } else { [next, is] };
            let both = [(left, leaves(0, 9)), (own, leaves(7, 9))];
            let mut stored: Stored = both.into_iter().collect();
            let stale = stale(&stored, active);
            assert_eq!(stale, [left]);
            for key in &stale {
                stored.remove(key);
            }
            let entries = entries(&stored, active, &vec![(own, 7), (new, 8)]);
            assert_eq!(entries, [(own, [7, 7]), (new, leaves(0, 8))]);
            assert!(fits(&stored, &entries, [0, 2]).is_ok());
        }
    }
}
