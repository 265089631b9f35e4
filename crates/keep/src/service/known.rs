// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices as they were at the last look: which came since, and which have another name.

use crate::error::KeepError;
use crate::site::Site;
use crate::store::history::Entry;
use crate::store::memory::Memory;
use std::collections::BTreeMap;
use weirgate_kernel::DeviceIndex;
use weirgate_plan::{Options, plan_with, present, with_former};
use weirgate_state::{DeviceName, State};

/// What the last look found.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The machine's devices.
    pub(super) devices: BTreeMap<DeviceName, DeviceIndex>,
    /// Those that the confirmed state is for, as far as they have been seen.
    wanted: BTreeMap<DeviceName, Option<DeviceIndex>>,
}

impl Known {
    /// Notes what is there now, and what shall be kept.
    pub(super) fn see(
        &mut self,
        devices: BTreeMap<DeviceName, DeviceIndex>,
        confirmed: Option<&Entry>,
    ) {
        let wanted = confirmed.iter().flat_map(|entry| &entry.desired.devices);
        let wanted = wanted.filter(|(_, device)| !device.owned_ifb);
        self.wanted = wanted
            .map(|(name, _)| (name.clone(), devices.get(name).copied()))
            .collect();
        self.devices = devices;
    }

    /// Whether a device of the confirmed state is there under another number than when it
    /// was seen last: it came, or was made anew. Nothing holds it until it is mended, so
    /// that it does not wait for a swarm of changes to end. Each is told once: what fails
    /// then is tried again at the pace of repairs.
    pub(super) async fn returned(&mut self, site: &Site) -> bool {
        let mut returned = false;
        for (name, seen) in &mut self.wanted {
            // One that is not there is told when it comes.
            let now = site.kernel.device(name).await.ok();
            returned |= now.is_some() && now != *seen;
            *seen = now;
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
