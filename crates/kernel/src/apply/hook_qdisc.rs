// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the `clsact` or `ingress` qdisc that others made at a device can have the filters
//! that a plan attaches.
//!
//! Programs can do without such a qdisc: they are attached by tcx. The filter that restores
//! marks is no program, so it needs a qdisc whose filters are the device's own.

use crate::error::KernelError;
use crate::programs::tcx::elsewhere;
use crate::tc::decode::Entry;
use crate::tc::filters::TC_H_CLSACT;
use crate::{DeviceIndex, Kernel};
use std::collections::BTreeMap;
use weirgate_plan::{Action, Plan};
use weirgate_state::{ClsactHook, DeviceName};

impl Kernel {
    /// Fails where a plan attaches a filter at a qdisc that cannot have it; nothing has
    /// been changed then.
    pub(super) async fn check_hook_qdiscs(&self, plan: &Plan) -> Result<(), KernelError> {
        let mut wanted: BTreeMap<u32, &DeviceName> = BTreeMap::new();
        let devices = self.devices().await?;
        for step in &plan.steps {
            if let Action::SetHooks {
                device,
                before: Some(before),
                after: Some(after),
            } = &step.action
                && let Some(DeviceIndex(index)) = devices.get(device)
                && after.restore.is_some()
                && after.restore != before.restore
            {
                wanted.insert(*index, device);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let listed = self.qdiscs().await?;
        for entry in listed.iter().filter_map(|payload| Entry::of(payload)) {
            if let Some(device) = wanted.get(&entry.ifindex)
                && entry.parent == TC_H_CLSACT
                && elsewhere(&entry).contains(&ClsactHook::Ingress)
            {
                return Err(KernelError::HookQdisc {
                    device: (*device).clone(),
                    kind: entry.kind,
                    why: "shares its filters with other devices; give the device filters of \
                          its own",
                });
            }
        }
        Ok(())
    }
}
