// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices as the last look found them. The comparison shows which devices appeared since, to give
//! them their qdisc tree at once, and which were renamed.

use crate::circuits::Meters;
use crate::error::KeepError;
use crate::site::Site;
use crate::store::damage::Damage;
use crate::store::history::Entry;
use crate::store::memory::Memory;
use std::collections::BTreeMap;
use weirgate_kernel::{DeviceIndex, RetainedPrograms};
use weirgate_plan::{Options, plan_with, present, with_former};
use weirgate_state::{DeviceName, HookPrograms, Qdisc, State};
use weirgate_units::Inserted as _;

/// What the last look found, and which devices the confirmed state has.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// All devices of the machine.
    pub(super) devices: BTreeMap<DeviceName, DeviceIndex>,
    /// What circuits have used of their quotas.
    pub(super) meters: Meters,
    /// Damaged files that were already reported.
    pub(super) damages: Vec<Damage>,
    /// The number of the confirmed history entry.
    confirmed: Option<u64>,
    /// The devices of the confirmed state.
    wanted: BTreeMap<DeviceName, Wanted>,
}

/// A device of the confirmed state.
#[derive(Debug, Default)]
struct Wanted {
    /// Its index at the last look; `None` if it was missing.
    seen: Option<DeviceIndex>,
    /// Whether the whole state was in force on this device at least once. Then the memory file has
    /// what the device had before weirgate.
    held: bool,
    /// Its qdisc tree.
    root: Option<Qdisc>,
    /// The programs that the state attaches to its hooks.
    hooks: Option<HookPrograms>,
    /// The loaded programs, held open so that they survive while the device is away. Loading them
    /// again takes the verifier seconds on a slow processor.
    programs: Option<RetainedPrograms>,
}

impl Known {
    /// Notes which devices are there now, and which devices the confirmed state has.
    pub(super) fn see(
        &mut self,
        devices: BTreeMap<DeviceName, DeviceIndex>,
        confirmed: Option<&Entry>,
    ) {
        let number = confirmed.map(|entry| entry.number);
        let same = number == self.confirmed;
        let mut former = std::mem::take(&mut self.wanted);
        let desired = confirmed.map(|entry| &entry.desired);
        let all = desired.iter().flat_map(|state| {
            let devices = state.devices.iter();
            let shaped = devices.filter(|(_, device)| !device.owned_ifb);
            let shaped = shaped.map(|(name, device)| (name, device.root.as_ref()));
            // A device may have hook programs without a qdisc tree.
            let hooked = state.hooks.keys();
            let hooked = hooked.filter(|name| !state.devices.contains_key(*name));
            shaped
                .chain(hooked.map(|name| (name, None)))
                .map(move |(name, root)| (name, root, state.hooks.get(name)))
        });
        let mut seen =
            |(name, root, hooks): (&DeviceName, Option<&Qdisc>, Option<&HookPrograms>)| {
                let before = former.remove(name).filter(|_| same).unwrap_or_default();
                let wanted = Wanted {
                    seen: devices.get(name).copied(),
                    root: root.cloned(),
                    hooks: hooks.cloned(),
                    ..before
                };
                (name.clone(), wanted)
            };
        self.wanted = all.map(&mut seen).inserted();
        self.confirmed = number;
        self.devices = devices;
    }

    /// Notes that the confirmed state is in force on all present devices, and holds their programs.
    pub(super) async fn held(&mut self, site: &Site) {
        for wanted in self.wanted.values_mut() {
            let Some(index) = wanted.seen else {
                continue;
            };
            wanted.held = true;
            if wanted.hooks.is_some() {
                // If this process may not hold them, they are loaded again later. If the device has
                // gone meanwhile, those of before are still right.
                match site.kernel.retain_programs(index).await {
                    Ok(programs) if programs.is_empty() => {}
                    held => wanted.programs = held.ok(),
                }
            }
        }
    }

    /// Returns whether a device of the confirmed state has another index than at the last look: it
    /// appeared, or was created again. This device has no queue yet, so the repair must not wait
    /// for a swarm of changes to end. If the state was in force on it before, it gets its tree
    /// here. Each device is reported once: failures are retried at the pace of repairs.
    pub(super) async fn returned(&mut self, site: &Site) -> bool {
        let mut returned = false;
        for (name, wanted) in &mut self.wanted {
            // A missing device is reported when it appears.
            let now = site.kernel.device(name).await.ok();
            if let Some(index) = now
                && now != wanted.seen
            {
                returned = true;
                if wanted.held
                    && let Some(number) = self.confirmed
                {
                    // Ignore errors: the next repair retries and reports them.
                    let _ = put(site, (name, index), wanted, number).await;
                }
            }
            wanted.seen = now;
        }
        returned
    }

    /// Restores on every renamed device what it had before weirgate. Returns the number of steps,
    /// or the first error.
    pub(super) async fn release(
        &self,
        site: &Site,
        now: &BTreeMap<DeviceName, DeviceIndex>,
    ) -> Result<usize, KeepError> {
        let mut released = Ok(0);
        for (old, new) in self.renamed(now) {
            let one = release(site, &old, &new).await;
            released = released.and_then(|steps| Ok(steps + one?));
        }
        released
    }

    /// Returns the old and the new name of every device that was renamed.
    fn renamed(&self, now: &BTreeMap<DeviceName, DeviceIndex>) -> Vec<(DeviceName, DeviceName)> {
        let new_name = |index: &DeviceIndex| now.iter().find(|(_, other)| *other == index);
        self.devices
            .iter()
            .filter(|(name, index)| now.get(*name) != Some(index))
            .filter_map(|(name, index)| Some((name.clone(), new_name(index)?.0.clone())))
            .collect()
    }
}

/// Puts the tree of a confirmed entry and the held programs on a device that has just appeared. It
/// reads none of the files and tables that a full repair reads, which takes a slow processor ten
/// times as long.
async fn put(
    site: &Site,
    (name, index): (&DeviceName, DeviceIndex),
    wanted: &mut Wanted,
    number: u64,
) -> Result<(), KeepError> {
    // Another process that holds the lock, or a change that waits for confirmation, may want
    // another tree.
    let _lock = site.folders.lock()?;
    let head = site.history.head()?;
    if head.confirmed != Some(number) || head.pending.is_some() {
        return Ok(());
    }
    let at_rates = site.root_at_rates(number, name);
    if let Some(root) = at_rates.as_ref().or(wanted.root.as_ref())
        && !site.kernel.put_tree(name, index, root).await?
    {
        return Ok(());
    }
    if let Some((hooks, programs)) = wanted.hooks.as_ref().zip(wanted.programs.as_mut()) {
        site.kernel
            .put_programs(name, index, hooks, programs)
            .await?;
    }
    Ok(())
}

/// Restores on a renamed device what it had before weirgate. Returns the number of steps. Does
/// nothing if it has the root qdisc of another program.
async fn release(site: &Site, old: &DeviceName, new: &DeviceName) -> Result<usize, KeepError> {
    let Some(memory) = Memory::read(&site.folders)? else {
        return Ok(0);
    };
    let under = |state: &State| State {
        devices: state
            .devices
            .get(old)
            .filter(|device| !device.owned_ifb)
            .map(|device| (new.clone(), device.clone()))
            .into_iter()
            .inserted(),
        ..State::default()
    };
    let (applied, former) = (under(&memory.applied), under(&memory.former));
    if applied.devices.is_empty() || memory.applied.devices.contains_key(new) {
        return Ok(0);
    }
    // Tables are compared later, by the repair that follows.
    let scope = weirgate_kernel::Scope::of([&applied, &former]);
    let mut observed = site.kernel.observe(&scope).await?;
    observed.devices.retain(|name, _| name == new);
    let names = observed.devices.keys().cloned().inserted();
    let wanted = present(&with_former(&State::default(), &former), &names);
    let options = Options {
        previous: Some(&applied),
        replace_foreign: false,
    };
    match plan_with(&observed, &wanted, &options) {
        Ok(plan) if !plan.steps.is_empty() => Ok(site.kernel.apply(&plan).await?.steps),
        _ => Ok(0),
    }
}
