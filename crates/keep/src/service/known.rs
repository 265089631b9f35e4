// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices as they were at the last look. Shows which appeared since then and get their tree at
//! once, and which were renamed.

use crate::circuits::Meters;
use crate::error::KeepError;
use crate::site::Site;
use crate::store::damage::Damage;
use crate::store::history::Entry;
use crate::store::memory::Memory;
use std::collections::BTreeMap;
use weirgate_kernel::{DeviceIndex, HeldPrograms};
use weirgate_plan::{Options, plan_with, present, with_former};
use weirgate_state::{DeviceName, HookPrograms, Qdisc, State};
use weirgate_units::Inserted as _;

/// What the last look found.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The machine's devices.
    pub(super) devices: BTreeMap<DeviceName, DeviceIndex>,
    /// What circuits have used of their quotas.
    pub(super) meters: Meters,
    /// Damaged files that were reported.
    pub(super) damages: Vec<Damage>,
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
    /// What is attached at its hooks.
    hooks: Option<HookPrograms>,
    /// The programs there, which are loaded for as long as it takes to come back: to load
    /// them again takes the kernel's verifier seconds on a slow processor.
    programs: Option<HeldPrograms>,
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
        let desired = confirmed.map(|entry| &entry.desired);
        let all = desired.iter().flat_map(|state| {
            let devices = state.devices.iter();
            let shaped = devices.filter(|(_, device)| !device.owned_ifb);
            let shaped = shaped.map(|(name, device)| (name, device.root.as_ref()));
            // One may have programs and no tree.
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

    /// Notes that those which are there have all that the confirmed state says, and holds
    /// their programs.
    pub(super) async fn held(&mut self, site: &Site) {
        for wanted in self.wanted.values_mut() {
            let Some(index) = wanted.seen else {
                continue;
            };
            wanted.held = true;
            if wanted.hooks.is_some() {
                // Where this process may not, they are loaded again.
                wanted.programs = site.kernel.hold_programs(index).await.ok();
            }
        }
    }

    /// Whether a device of the confirmed state is there under another number than when it
    /// was seen last: it came, or was made anew. Nothing holds it until it is mended, so
    /// that it does not wait for a swarm of changes to end, and one that was held before
    /// gets its tree here. Each is reported once: what fails then is tried again at the pace of
    /// repairs.
    pub(super) async fn returned(&mut self, site: &Site) -> bool {
        let mut returned = false;
        for (name, wanted) in &mut self.wanted {
            // One that is not there is reported when it comes.
            let now = site.kernel.device(name).await.ok();
            if let Some(index) = now
                && now != wanted.seen
            {
                returned = true;
                if wanted.held
                    && let Some(number) = self.confirmed
                {
                    // What is refused here the repair that follows meets again, and tells.
                    let _ = put(site, (name, index), wanted, number).await;
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

/// Puts the tree of a confirmed entry on a device that came bare, and the programs that are
/// held, before anything is read of files and tables: that takes a slow processor ten times
/// as long.
async fn put(
    site: &Site,
    (name, index): (&DeviceName, DeviceIndex),
    wanted: &mut Wanted,
    number: u64,
) -> Result<(), KeepError> {
    // Who has the lock, or a change that waits for confirmation, may want something else.
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
            .inserted(),
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
    let names = observed.devices.keys().cloned().inserted();
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
