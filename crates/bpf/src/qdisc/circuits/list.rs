// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces one list by the next: stages it beside the list in force, and commits it.

use super::seen::raw;
use super::{CircuitTree, CircuitsChange, CircuitsError, keys};
use crate::error::BpfError;
use crate::layout::{circuits_label, circuits_leaves, circuits_rule, engine_config};
use crate::qdisc::engine::config;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher as _};
use std::ops::Range;
use weirgate_circuits::rows::{self, Held, LabelText, Room, Table};
use weirgate_circuits::{Key, Known, List, Mixed};
use weirgate_units::Rate;
use zerocopy::IntoBytes as _;

/// The number of changes while one is made: it is odd until that is kept, as in a seqlock.
pub(super) fn begun(changes: u32) -> u32 {
    changes | 1
}

fn is_begun(changes: u32) -> bool {
    changes & 1 == 1
}

/// What both tables have: the leaf of each key in either generation.
type Stored = Known<Key, [u32; 2]>;

impl CircuitTree {
    /// Applies a list, all at once or not at all: if this process ends meanwhile, the former list
    /// stays. `link` is the rate of the whole, if there is one. Only packets of removed circuits
    /// are lost. The stored list may be another one until [`Self::settle`].
    pub fn reconcile(
        &mut self,
        list: &List,
        link: Option<Rate>,
    ) -> Result<CircuitsChange, CircuitsError> {
        let mut rule = self.rules.first()?;
        let direction = self.direction()?;
        let room = self.room()?;
        let held = self.all_held(room);
        let (nodes, circuits) = rows::rows(list, direction, room, link, &held)?;
        let mut change = self.stage(room, &nodes, &held, true);
        let table = sum(list, &circuits);
        let is_known = rule.table == table;
        let mut stored = Stored::default();
        rule.next = rule.generation;
        if !is_known {
            // Until all is done both tables may have anything, whatever ends this process.
            rule.table = 0;
            self.rules.set_first(&rule)?;
            stored = self.stored()?;
            let active = (rule.generation & 1) as usize;
            if !is_in_force(&stored, active, list, &circuits) {
                let entries = entries(&stored, active, &rows::table(list, &circuits));
                change.written = entries.len();
                self.write(&entries)?;
                rule.next ^= 1;
                rule.kinds[(rule.next & 1) as usize] = keys::kinds(listed(list));
            }
        }
        // What a process wrote that was ended is there, and nothing of it in force.
        if rule.next != rule.generation || change != CircuitsChange::default() {
            rule.open = begun(rule.open);
            rule.count = 0;
            self.rules.set_first(&rule)?;
            self.programs.commit()?;
        }
        if is_known {
            return Ok(change);
        }
        // What neither list has is left by a process that was ended.
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

    /// What of a list is not in force: nodes that bringing it into force would change, and keys
    /// that are another's or nobody's. Both tables are read, whatever is noted of them.
    pub fn differs(
        &self,
        list: &List,
        link: Option<Rate>,
    ) -> Result<CircuitsChange, CircuitsError> {
        let room = self.room()?;
        let held = self.all_held(room);
        let (nodes, circuits) = rows::rows(list, self.direction()?, room, link, &held)?;
        let mut change = self.stage(room, &nodes, &held, false);
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

    /// What is kept is what is in force.
    pub fn settle(&self) -> Result<(), BpfError> {
        let rule = self.rules.first()?;
        if is_begun(rule.open) {
            let open = rule.open.wrapping_add(1);
            self.rules.set_first(&circuits_rule { open, ..rule })?;
        }
        Ok(())
    }

    /// Notes from when until when, in seconds since 1970, plans give what was brought into
    /// force.
    pub fn set_holds(&self, holds: &Range<u64>) -> Result<(), BpfError> {
        let rule = self.rules.first()?;
        let holds_s = [holds.start, holds.end];
        if rule.holds_s == holds_s {
            return Ok(());
        }
        self.rules.set_first(&circuits_rule { holds_s, ..rule })
    }

    /// The same, as it was noted.
    pub fn holds(&self) -> Result<Range<u64>, BpfError> {
        let [from, until] = self.rules.first()?.holds_s;
        Ok(from..until)
    }

    /// Whether a command was ended before what it brought into force was kept.
    pub fn is_open(&self) -> Result<bool, BpfError> {
        Ok(is_begun(self.changes()?))
    }

    /// A number that differs after each change of the list in force.
    pub fn changes(&self) -> Result<u32, BpfError> {
        Ok(self.rules.first()?.open)
    }

    /// What all rows have been.
    fn all_held(&self, room: Room) -> Vec<Held> {
        // Rows that no circuit ever had are the last.
        let others = (1..*room.circuits().start()).filter_map(|id| self.held(id));
        let circuits = room.circuits().map_while(|id| self.held(id));
        others.chain(circuits).collect()
    }

    /// What a row has been; `None` where it was never used.
    fn held(&self, id: u32) -> Option<Held> {
        let own = raw(&self.labels, id)?;
        let label = Some(LabelText(own.text)).filter(|label| !label.is_empty())?;
        let (live, at_rest) = self.engine.standing(id)?;
        Some(Held {
            id,
            label,
            queue: own.queue,
            live,
            at_rest,
        })
    }

    /// Compares the configuration of every row, and with `write` writes it where the program
    /// finds it. One that nobody ever had, and that nobody gets, has none.
    fn stage(&self, room: Room, nodes: &[rows::Row], held: &[Held], write: bool) -> CircuitsChange {
        let mut change = CircuitsChange::default();
        let mut stays = vec![false; room.nodes() as usize + 1];
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
                // What it has queued is dropped where it stood.
                self.stage_one(one.id as usize, engine_config { live: 0, ..is });
            }
        }
        change
    }

    /// Writes the configuration of a row.
    pub(super) fn stage_one(&self, id: usize, config: engine_config) {
        if let Some(slot) = self.staged.at(id) {
            #[expect(unsafe_code, reason = "the memory is the kernel's too")]
            // SAFETY: the row is in the mapping; the program only reads it.
            unsafe {
                slot.write_volatile(config);
            }
        }
    }

    /// Says whose a row is.
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

    /// What both tables have, of both generations.
    pub(super) fn stored(&self) -> Result<Stored, BpfError> {
        let all = self.addresses.entries()?.into_iter();
        let all = all.filter_map(|(key, value)| Some((keys::whole(&key)?, value.leaf)));
        let prefixes = self.prefixes.entries()?.into_iter();
        let prefixes = prefixes.filter_map(|(key, value)| Some((keys::prefix(&key)?, value.leaf)));
        Ok(all.chain(prefixes).collect())
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

/// All keys of a list.
fn listed(list: &List) -> impl Iterator<Item = &Key> {
    list.circuits.iter().flat_map(|one| &one.keys)
}

/// A number that says what both tables have for a list whose circuits have these words, and
/// nothing else; never 0. To read them takes the kernel longer than all else.
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

/// Whether the table of a list is in force, and nothing else.
fn is_in_force(stored: &Stored, active: usize, list: &List, circuits: &[u32]) -> bool {
    let in_force = stored.values().filter(|leaves| leaves[active] > 0).count();
    let mut own = list.circuits.iter().zip(circuits);
    in_force == listed(list).count()
        && own.all(|(circuit, row)| {
            let mut keys = circuit.keys.iter();
            keys.all(|one| stored.get(one).is_some_and(|own| own[active] == *row))
        })
}

/// The entries that have to be written for another table to follow.
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
