// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What circuits have used of their quotas in this month.
//!
//! The engine counts the bytes of each circuit as long as it is loaded. A file beside the list
//! stores the bytes of the month, and the value of the engine's counter at that time. `weirgate
//! keep` reads the counters. It writes the file every [`WRITE`] seconds, and when a quota is used
//! up. So a power failure loses at most that much time.
//!
//! Months never go back: without a clock that outlives a power failure, a machine starts in an
//! earlier month, and gets the time from the network later. After a clock that was months ahead,
//! the file has to be removed.

use super::error::CircuitsRefused;
use super::file::{ListFile, Stamp};
use crate::clock;
use crate::error::KeepError;
use crate::store::folder::Folders;
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use weirgate_bpf::{BpfError, CircuitTree};
use weirgate_circuits::kept::Kept;
use weirgate_circuits::rows::Label;
use weirgate_circuits::{Circuit, Direction, List, Month, Plan, TermsContext, holds};
use weirgate_state::DeviceName;
use weirgate_units::Inserted as _;

/// The interval at which the file is written, in seconds.
const WRITE: u64 = 300;

/// The suffix of these files.
const ENDS: &str = ".used";

/// What one circuit has used.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Had {
    /// Bytes in this month.
    bytes: u64,
    /// The value of the engine's counter when `bytes` was updated.
    counter: u64,
}

/// What the circuits of a device have used in a month.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// The month ([`Month`]).
    month: u32,
    /// The boot in which the counters were read, and the engine's number in that boot. Counters of
    /// other engines begin at 0.
    boot: String,
    engine: u32,
    circuits: BTreeMap<String, Had>,
}

impl Used {
    /// Returns what is known of a device; nothing if the file is damaged. Lists have to come into
    /// force all the same, and the next look at quotas reports the damage.
    pub(super) fn known(folders: &Folders, device: &DeviceName) -> Self {
        Self::read(folders, device).unwrap_or_default()
    }

    fn read(folders: &Folders, device: &DeviceName) -> Result<Self, KeepError> {
        let path = path(folders, device);
        let read = sealed::read(&path, HINT)?;
        Ok(read.unwrap_or_default())
    }

    /// Returns the bytes of a circuit in the month of the time `at`, in seconds since 1970. A clock
    /// in an earlier month is wrong, so then the last month counts.
    fn bytes(&self, id: &str, at: u64) -> u64 {
        let own = self.circuits.get(id);
        let own = own.filter(|_| self.month >= Month::of(at).0);
        own.map_or(0, |own| own.bytes)
    }

    /// Returns the bytes that a circuit with a quota has used in this month, as far as they were
    /// written; `None` for a circuit without quota.
    pub fn bytes_now(&self, id: &str) -> Option<u64> {
        let at = clock::unix();
        self.circuits.get(id).map(|_| self.bytes(id, at))
    }

    /// Counts the circuits of a list that have a quota in its direction, and those that have used
    /// it up in the month of `at`.
    pub(super) fn used_up(&self, kept: &Kept, at: u64) -> [usize; 2] {
        let quotas = quotas(&kept.list, kept.direction);
        let mut counts = [0; 2];
        for circuit in &kept.list.circuits {
            let plan = circuit.plan.as_deref();
            if let Some(quota) = plan.and_then(|plan| quotas.get(plan)) {
                counts[0] += 1;
                counts[1] += usize::from(self.bytes(&circuit.id, at) >= *quota);
            }
        }
        counts
    }

    fn write(&self, folders: &Folders, device: &DeviceName) -> Result<(), KeepError> {
        sealed::write(&path(folders, device), self)
    }
}

const HINT: &str = "remove the file; circuits begin this month's quotas again";

fn path(folders: &Folders, device: &DeviceName) -> PathBuf {
    ListFile::beside(folders, device, ENDS)
}

/// Gives the circuits of a list the values of their plans at this time. Returns the time span
/// during which these values hold.
pub(super) fn follow(kept: &mut Kept, used: &Used) -> Range<u64> {
    let at = clock::unix();
    kept.list.follow(&TermsContext {
        at,
        direction: kept.direction,
        used: &|id| used.bytes(id, at),
    });
    holds(&kept.list.plans, at)
}

/// Gives one circuit the values of its plan at this time. Reads the file only if its plan has a
/// quota.
pub(super) fn follow_one(
    (folders, device): (&Folders, &DeviceName),
    circuit: &mut Circuit,
    plans: &[Plan],
    direction: Direction,
) {
    let at = clock::unix();
    let file = OnceCell::new();
    let used = |id: &str| {
        let used = file.get_or_init(|| Used::known(folders, device));
        used.bytes(id, at)
    };
    let context = TermsContext {
        at,
        direction,
        used: &used,
    };
    circuit.follow(plans, &context);
}

/// What is remembered between two readings of the circuits' counters.
#[derive(Debug, Default)]
pub struct Meters {
    devices: BTreeMap<DeviceName, Meter>,
}

#[derive(Debug, Default)]
struct Meter {
    /// The list that `circuits` are of.
    list: Option<Stamp>,
    circuits: Vec<Metered>,
    /// What was used; `None` until a list with quotas is found, and the file is read.
    used: Option<Used>,
    /// When `used` was last written, in seconds since 1970.
    written: u64,
}

/// A circuit whose plan has a quota.
#[derive(Debug)]
struct Metered {
    id: String,
    row: u32,
    quota: u64,
}

impl Meters {
    /// Counts what the circuits of a device have sent since the last look. Returns whether a quota
    /// was used up since, or a used-up quota was renewed by a new month.
    pub(super) fn look(
        &mut self,
        folders: &Folders,
        device: &DeviceName,
        tree: &CircuitTree,
    ) -> Result<bool, CircuitsRefused> {
        let file = ListFile::of(folders, device);
        let meter = self.devices.entry(device.clone()).or_default();
        if !meter.list.as_ref().is_some_and(|list| file.is(list)) {
            let list = file.stamp()?;
            meter.circuits = match file.read(false)? {
                Some(text) => metered(&file.whole(&text.list, &text.changes)?, tree)?,
                None => Vec::new(),
            };
            meter.list = list;
        }
        let engine = (&*folders.boot, tree.number()?);
        let sent = |one: &Metered| tree.sent_bytes(one.row, &one.id);
        Ok(meter.look(folders, device, engine, sent)?)
    }

    /// Writes the counts at the end of the service, because nobody reads the counters any more.
    pub(crate) fn end(&self, folders: &Folders) -> Result<(), KeepError> {
        for (device, meter) in &self.devices {
            if let Some(used) = meter.used.as_ref().filter(|_| !meter.circuits.is_empty()) {
                used.write(folders, device)?;
            }
        }
        Ok(())
    }
}

impl Meter {
    /// Reads what was used, at the first look, and counts what was sent since the last one. Writes
    /// the file if it is time. Returns whether any circuit crossed its quota.
    fn look(
        &mut self,
        folders: &Folders,
        device: &DeviceName,
        engine: (&str, u32),
        sent: impl Fn(&Metered) -> Option<u64>,
    ) -> Result<bool, KeepError> {
        if self.circuits.is_empty() {
            return Ok(false);
        }
        let used = match &mut self.used {
            Some(used) => used,
            none => none.insert(Used::read(folders, device)?),
        };
        let now = clock::unix();
        let changed = used.count(&self.circuits, Month::of(now), engine, sent);
        if changed || !(self.written..self.written + WRITE).contains(&now) {
            used.write(folders, device)?;
            self.written = now;
        }
        Ok(changed)
    }
}

impl Used {
    /// Counts the bytes since the last look. Counters begin at 0 after a reboot or in a new engine.
    /// Returns whether any circuit crossed its quota.
    fn count(
        &mut self,
        circuits: &[Metered],
        month: Month,
        (boot, engine): (&str, u32),
        sent: impl Fn(&Metered) -> Option<u64>,
    ) -> bool {
        // A clock that is wrong until the network is up must not begin a former month again.
        let is_new = self.month < month.0;
        let counts_on = self.boot == boot && self.engine == engine;
        self.month = self.month.max(month.0);
        self.engine = engine;
        boot.clone_into(&mut self.boot);
        if is_new {
            // Circuits that are absent now are forgotten: if they come back, it is another month.
            let present: BTreeSet<&str> = circuits.iter().map(|one| &*one.id).inserted();
            self.circuits.retain(|id, _| present.contains(&**id));
        }
        let mut changed = false;
        for one in circuits {
            let counter = sent(one);
            let had = match self.circuits.entry(one.id.clone()) {
                Entry::Occupied(had) => had.into_mut(),
                Entry::Vacant(new) => {
                    let Some(counter) = counter else {
                        continue;
                    };
                    // The circuit may have had no quota so far, in an engine that has counted it
                    // for months.
                    new.insert(Had { bytes: 0, counter })
                }
            };
            let was_used_up = had.bytes >= one.quota;
            if is_new {
                had.bytes = 0;
            }
            if !counts_on {
                had.counter = 0;
            }
            if let Some(counter) = counter {
                let more = counter.checked_sub(had.counter).unwrap_or(counter);
                had.bytes = had.bytes.saturating_add(more);
                had.counter = counter;
            }
            changed |= was_used_up != (had.bytes >= one.quota);
        }
        changed
    }
}

/// Returns the circuits whose plans have a quota in the direction of a list, with their rows.
fn metered(kept: &Kept, tree: &CircuitTree) -> Result<Vec<Metered>, BpfError> {
    let quotas = quotas(&kept.list, kept.direction);
    if quotas.is_empty() {
        return Ok(Vec::new());
    }
    let quota = |plan: &Option<String>| quotas.get(plan.as_deref()?).copied();
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for circuit in &kept.list.circuits {
        own.extend(quota(&circuit.plan).map(|quota| (&*circuit.id, quota)));
    }
    let rows = tree.nodes()?.filter_map(|node| match node.label {
        Label::Circuit(id) => Some(Metered {
            quota: *own.get(&*id)?,
            row: node.id,
            id,
        }),
        _ => None,
    });
    Ok(rows.collect())
}

/// Returns the quotas of all plans that have one, in bytes.
fn quotas(list: &List, direction: Direction) -> BTreeMap<&str, u64> {
    let has = |plan: &&Plan| plan.has_quota(direction);
    let plans = list.plans.iter().filter(has);
    plans
        .map(|plan| (&*plan.name, plan.quota.most.of(direction).as_bytes()))
        .inserted()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a circuit with a quota of 1,000 bytes.
    fn metered(id: &str) -> Metered {
        Metered {
            id: id.to_owned(),
            row: 7,
            quota: 1_000,
        }
    }

    /// The list has no quotas at first, so the file is read at a later look.
    #[test]
    fn what_was_stored_counts_where_quotas_come_later() {
        let folder = tempfile::tempdir().unwrap();
        let folders = Folders {
            run: folder.path().to_owned(),
            state: folder.path().to_owned(),
            boot: "a".to_owned(),
        };
        crate::store::folder::folder(&folder.path().join("circuits")).unwrap();
        let device = DeviceName::new("access0").unwrap();
        let look = |meter: &mut Meter, sent| {
            let changed = meter.look(&folders, &device, ("a", 1), |_| Some(sent));
            changed.unwrap();
            Used::known(&folders, &device).bytes("1", clock::unix())
        };
        let mut before = Meter {
            circuits: vec![metered("1")],
            ..Meter::default()
        };
        assert_eq!(look(&mut before, 900), 900);
        let mut meter = Meter::default();
        assert_eq!(look(&mut meter, 0), 900);
        meter.circuits = vec![metered("1")];
        assert_eq!(look(&mut meter, 950), 950);
        // A damaged file is not replaced.
        let path = path(&folders, &device);
        std::fs::write(&path, "no").unwrap();
        let mut meter = before;
        meter.used = None;
        for _ in 0..2 {
            let sent = meter.look(&folders, &device, ("a", 1), |_| Some(0));
            assert!(sent.is_err_and(|error| error.is_loss()));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "no");
    }

    #[test]
    fn counters_that_begin_again_are_added_up() {
        let (circuits, mut used) = ([metered("1")], Used::default());
        let november = Month(682);
        let mut count = |month, of, sent| {
            let changed = used.count(&circuits, month, of, |_| sent);
            (changed, used.bytes("1", month.end() - 1))
        };
        assert_eq!(count(november, ("a", 1), Some(400)), (false, 400));
        assert_eq!(count(november, ("a", 1), Some(900)), (false, 900));
        // A row that now belongs to another circuit counts nothing.
        assert_eq!(count(november, ("a", 1), None), (false, 900));
        // The circuit was removed and added again, so its counter began again.
        assert_eq!(count(november, ("a", 1), Some(50)), (false, 950));
        // Another engine of this boot, whose counter is beyond the former one.
        assert_eq!(count(november, ("a", 2), Some(60)), (true, 1_010));
        assert_eq!(count(november, ("a", 2), Some(70)), (false, 1_020));
        assert_eq!(count(november, ("b", 2), Some(80)), (false, 1_100));
        // At the first look of a month, everything since the last look counts for it.
        let december = Month(november.0 + 1);
        assert_eq!(count(december, ("b", 2), Some(90)), (true, 10));
        assert_eq!(used.bytes("1", december.end()), 0);
    }

    /// After a reboot, the clock is in an earlier month until the network sets it.
    #[test]
    fn a_clock_that_is_behind_erases_no_usage() {
        let (one, november) = ([metered("1")], Month(682));
        let mut used = Used::default();
        assert!(used.count(&one, november, ("a", 1), |_| Some(1_200)));
        let (wrong, right) = (Month(600), november);
        assert_eq!(used.bytes("1", wrong.end() - 1), 1_200);
        assert!(!used.count(&one, wrong, ("b", 1), |_| Some(30)));
        assert_eq!(used.bytes("1", wrong.end() - 1), 1_230);
        assert!(!used.count(&one, right, ("b", 1), |_| Some(50)));
        assert_eq!(used.bytes("1", right.end() - 1), 1_250);
        let december = Month(683);
        assert!(used.count(&one, december, ("b", 1), |_| Some(60)));
        assert_eq!(used.bytes("1", december.end() - 1), 10);
    }

    #[test]
    fn a_circuit_that_was_absent_at_the_turn_of_the_month_begins_it_with_nothing() {
        let all = [metered("1"), metered("2")];
        let (november, december) = (Month(682), Month(683));
        let mut used = Used::default();
        let engine = ("a", 1);
        assert!(used.count(&all, november, engine, |_| Some(2_000)));
        // In November both stay, even if one is absent for a while.
        used.count(&all[..1], november, engine, |_| Some(2_000));
        assert_eq!(used.bytes("2", november.end() - 1), 2_000);
        assert!(used.count(&all[..1], december, engine, |_| Some(2_005)));
        assert_eq!(used.circuits.len(), 1);
        // It is added again, with a counter that begins again.
        assert!(!used.count(&all, december, engine, |_| Some(5)));
        assert!(!used.count(&all, december, engine, |_| Some(12)));
        assert_eq!(used.bytes("2", december.end() - 1), 7);
    }

    /// Its plan gets a quota when the engine has counted it for long.
    #[test]
    fn what_was_sent_without_a_quota_does_not_count() {
        let (all, november) = ([metered("1"), metered("2")], Month(682));
        let mut used = Used::default();
        let look = |used: &mut Used, circuits: &[Metered], second| {
            let sent = |one: &Metered| Some(if one.id == "2" { second } else { 10 });
            let changed = used.count(circuits, november, ("a", 1), sent);
            (changed, used.bytes("2", november.end() - 1))
        };
        assert_eq!(look(&mut used, &all[..1], 0), (false, 0));
        assert_eq!(look(&mut used, &all, 5_000_000), (false, 0));
        assert_eq!(look(&mut used, &all, 5_000_007), (false, 7));
        // A new engine has counted nothing before.
        let mut used = Used::default();
        used.count(&all[..1], november, ("a", 1), |_| Some(10));
        used.count(&all, november, ("a", 2), |_| Some(20));
        assert_eq!(used.bytes("2", november.end() - 1), 20);
    }

    /// The counter of a circuit cannot be read at the first look of a month.
    #[test]
    fn a_counter_is_not_counted_twice() {
        let (one, november) = ([metered("1")], Month(682));
        let mut used = Used::default();
        used.count(&one, november, ("a", 1), |_| Some(2_000));
        let december = Month(683);
        assert!(used.count(&one, december, ("a", 1), |_| None));
        assert!(!used.count(&one, december, ("a", 1), |_| Some(2_010)));
        assert_eq!(used.bytes("1", december.end() - 1), 10);
    }
}
