// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices as they were at the last look: which came since and get their tree at once, and
//! which have another name.

use crate::error::KeepError;
use crate::site::Site;
use crate::store::history::Entry;
use crate::store::memory::Memory;
use std::collections::BTreeMap;
use weirgate_kernel::DeviceIndex;
use weirgate_plan::{Options, plan_with, present, with_former};
use weirgate_state::{Device, DeviceName, Qdisc, State};
use weirgate_units::Inserted as _;

/// What the last look found.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The machine's devices.
    pub(super) devices: BTreeMap<DeviceName, DeviceIndex>,
    /// The number of the confirmed entry.
    confirmed: Option<u64>,
    /// Those that its state is for.
    wanted: BTreeMap<DeviceName, Wanted>,
}

/// A device of the confirmed state.
#[derive(Debug, Default)]
struct Wanted {
    /// As it has been seen.
    seen: Option<DeviceIndex>,
    /// Whether it has had all that the state says: what was there before is remembered.
    held: bool,
    /// Its tree.
    root: Option<Qdisc>,
}

impl Known {
    /// Notes what is there now, and what shall be kept.
    pub(super) fn see(
        &mut self,
        devices: BTreeMap<DeviceName, DeviceIndex>,
        confirmed: Option<&Entry>,
    ) {
        let number = confirmed.map(|entry| entry.number);
        let same = number == self.confirmed;
        let mut former = std::mem::take(&mut self.wanted);
        let wanted = confirmed.iter().flat_map(|entry| &entry.desired.devices);
        let wanted = wanted.filter(|(_, device)| !device.owned_ifb);
        let mut seen = |(name, device): (&DeviceName, &Device)| {
            let held = same && former.remove(name).is_some_and(|one| one.held);
            let wanted = Wanted {
                seen: devices.get(name).copied(),
                held,
                root: device.root.clone(),
            };
            (name.clone(), wanted)
        };
        self.wanted = wanted.map(&mut seen).inserted();
        self.confirmed = number;
        self.devices = devices;
    }

    /// Notes that those which are there have all that the confirmed state says.
    pub(super) fn held(&mut self) {
        for wanted in self.wanted.values_mut() {
            wanted.held |= wanted.seen.is_some();
        }
    }

    /// Whether a device of the confirmed state is there under another number than when it
    /// was seen last: it came, or was made anew. Nothing holds it until it is mended, so
    /// that it does not wait for a swarm of changes to end, and one that was held before
    /// gets its tree here. Each is told once: what fails then is tried again at the pace of
    /// repairs.
    pub(super) async fn returned(&mut self, site: &Site) -> bool {
        let mut returned = false;
        for (name, wanted) in &mut self.wanted {
            // One that is not there is told when it comes.
            let now = site.kernel.device(name).await.ok();
            if let Some(index) = now
                && now != wanted.seen
            {
                returned = true;
                if wanted.held
                    && let Some((root, number)) = wanted.root.as_ref().zip(self.confirmed)
                {
                    // What is refused here the repair that follows meets again, and tells.
                    let _ = put_tree(site, (name, index), root, number).await;
                }
            }
            wanted.seen = now;
        }
        returned
    }

    /// Devices that have another name than before, old and new.
    pub(super) fn renamed(
        &self,
        now: &BTreeMap<DeviceName, DeviceIndex>,
    ) -> Vec<(DeviceName, DeviceName)> {
        let new_name = |index: &DeviceIndex| now.iter().find(|(_, other)| *other == index);
        self.devices
            .iter()
            .filter(|(name, index)| now.get(*name) != Some(index))
            .filter_map(|(name, index)| Some((name.clone(), new_name(index)?.0.clone())))
            .collect()
    }
}

/// Puts the tree of a confirmed entry on a device that came bare, before anything is read
/// of files and tables: that takes a slow processor ten times as long.
async fn put_tree(
    site: &Site,
    (name, index): (&DeviceName, DeviceIndex),
    root: &Qdisc,
    number: u64,
) -> Result<bool, KeepError> {
    // Who has the lock, or a change that waits for confirmation, may want something else.
    let _lock = site.folders.lock()?;
    let head = site.history.head()?;
    if head.confirmed != Some(number) || head.pending.is_some() {
        return Ok(false);
    }
    let at_rates = site.root_at_rates(number, name);
    let root = at_rates.as_ref().unwrap_or(root);
    Ok(site.kernel.put_tree(name, index, root).await?)
}

/// Gives a device that was renamed back what it had before weirgate.
pub(super) async fn release(
    site: &Site,
    memory: &Memory,
    old: &DeviceName,
    new: &DeviceName,
) -> Result<usize, KeepError> {
    let under = |state: &State| State {
        devices: state
            .devices
            .get(old)
            .filter(|device| !device.owned_ifb)
            .map(|device| (new.clone(), device.clone()))
            .into_iter()
            .collect(),
        ..State::default()
    };
    let (applied, former) = (under(&memory.applied), under(&memory.former));
    if applied.devices.is_empty() || memory.applied.devices.contains_key(new) {
        return Ok(0);
    }
    // Tables are left to the comparison that follows.
    let scope = weirgate_kernel::Scope::of([&applied, &former]);
    let mut observed = site.kernel.observe(&scope).await?;
    observed.devices.retain(|name, _| name == new);
    let names = observed.devices.keys().cloned().collect();
    let wanted = present(&with_former(&State::default(), &former), &names);
    let options = Options {
        previous: Some(&applied),
        replace_foreign: false,
    };
    let plan = plan_with(&observed, &wanted, &options).map_err(KeepError::NoPlan)?;
    if plan.steps.is_empty() {
        return Ok(0);
    }
    Ok(site.kernel.apply(&plan).await?.steps)
}
