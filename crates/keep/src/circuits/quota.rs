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
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
    /// The value of the engine's counter when `bytes` was updated. `None` if the circuit had no
    /// quota at the last look: what it sends then does not count.
    counter: Option<u64>,
    /// The bytes in the file. Lists come into force with these.
    #[serde(skip)]
    written: u64,
    /// Whether it has a quota at this look.
    #[serde(skip)]
    is_metered: bool,
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
        let read: Option<Self> = sealed::read(&path, HINT)?;
        let mut used = read.unwrap_or_default();
        used.is_written();
        Ok(used)
    }

    /// Records that the file has these bytes.
    fn is_written(&mut self) {
        for had in self.circuits.values_mut() {
            had.written = had.bytes;
        }
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
    /// The list that `circuits` are of, and the number of the engine that has their rows, which is
    /// never 0.
    list: Option<Stamp>,
    engine: u32,
    circuits: Vec<Metered>,
    /// What was used; `None` until a list with quotas is found, and the file is read.
    used: Option<Used>,
    /// Whether the file was not read at a former look, because no circuit had a quota.
    lapsed: bool,
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
    /// Counts what the circuits of a device have sent since the last look. Returns whether the list
    /// has to come into force again: a quota was used up since, or renewed by a new month, or the
    /// last command did not know that.
    pub(super) fn look(
        &mut self,
        folders: &Folders,
        device: &DeviceName,
        tree: &CircuitTree,
    ) -> Result<bool, CircuitsRefused> {
        let file = ListFile::of(folders, device);
        let meter = self.devices.entry(device.clone()).or_default();
        let engine = tree.number()?;
        meter.follow(&file, engine, || {
            Ok(match file.read(false)? {
                Some(text) => metered(&file.whole(&text.list, &text.changes)?, tree)?,
                None => Vec::new(),
            })
        })?;
        let sent = |one: &Metered| tree.sent_bytes(one.row, &one.id);
        let changed = meter.count(folders, device, (&*folders.boot, engine), sent)?;
        if changed {
            // If anything fails from here on, the next check brings the list into force.
            tree.set_holds(&(0..0))?;
        }
        meter.write(folders, device, changed)?;
        Ok(changed)
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
    /// Reads the circuits and their rows again after a change of the list, or in a new engine, which
    /// may have them in other rows.
    fn follow(
        &mut self,
        file: &ListFile,
        engine: u32,
        read: impl FnOnce() -> Result<Vec<Metered>, CircuitsRefused>,
    ) -> Result<(), CircuitsRefused> {
        if self.engine != engine || !self.list.as_ref().is_some_and(|list| file.is(list)) {
            let list = file.stamp()?;
            self.circuits = read()?;
            (self.list, self.engine) = (list, engine);
        }
        Ok(())
    }

    /// Reads what was used, at the first look, and counts what was sent since the last one. If no
    /// circuit has a quota any more, writes that to the file. Returns whether any circuit is on the
    /// other side of its quota than the file says.
    fn count(
        &mut self,
        folders: &Folders,
        device: &DeviceName,
        engine: (&str, u32),
        sent: impl Fn(&Metered) -> Option<u64>,
    ) -> Result<bool, KeepError> {
        let month = Month::of(clock::unix());
        if self.circuits.is_empty() {
            if let Some(used) = &mut self.used {
                used.count(&[], month, engine, sent);
                used.write(folders, device)?;
            }
            (self.used, self.lapsed) = (None, true);
            return Ok(false);
        }
        let used = match &mut self.used {
            Some(used) => used,
            none => none.insert(Used::read(folders, device)?),
        };
        if std::mem::take(&mut self.lapsed) {
            used.count(&[], month, engine, &sent);
        }
        Ok(used.count(&self.circuits, month, engine, sent))
    }

    /// Writes the file if something `changed`, or if it is time.
    fn write(
        &mut self,
        folders: &Folders,
        device: &DeviceName,
        changed: bool,
    ) -> Result<(), KeepError> {
        let now = clock::unix();
        let is_due = changed || !(self.written..self.written + WRITE).contains(&now);
        if let Some(used) = &mut self.used
            && !self.circuits.is_empty()
            && is_due
        {
            used.write(folders, device)?;
            used.is_written();
            self.written = now;
        }
        Ok(())
    }
}

impl Used {
    /// Counts the bytes since the last look. Counters begin at 0 after a reboot or in a new engine,
    /// unless nothing is known of a former one. Returns whether any circuit is on the other side of
    /// its quota than the file says.
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
        // A circuit may have sent for months before the first look of all.
        let is_other = !self.boot.is_empty() && !counts_on;
        self.month = self.month.max(month.0);
        self.engine = engine;
        boot.clone_into(&mut self.boot);
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
                    new.insert(Had {
                        counter: Some(counter),
                        ..Had::default()
                    })
                }
            };
            had.is_metered = true;
            if is_new {
                // The file says nothing of this month.
                changed |= had.written >= one.quota;
                (had.bytes, had.written) = (0, 0);
            }
            if is_other {
                had.counter = Some(0);
            }
            if let Some(counter) = counter {
                let since = had.counter.unwrap_or(counter);
                let more = counter.checked_sub(since).unwrap_or(counter);
                had.bytes = had.bytes.saturating_add(more);
                had.counter = Some(counter);
            }
            changed |= (had.written >= one.quota) != (had.bytes >= one.quota);
        }
        self.circuits.retain(|_, had| {
            let is_metered = std::mem::take(&mut had.is_metered);
            if !is_metered {
                had.counter = None;
            }
            // Circuits that are absent at the turn of the month are forgotten: if they come back,
            // it is another month.
            is_metered || !is_new
        });
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
mod tests;
