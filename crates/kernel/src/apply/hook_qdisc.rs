// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that a `clsact` or `ingress` qdisc of another program can take the filters that a plan
//! attaches.
//!
//! Programs do not need that qdisc: they can be attached by tcx. The filter that restores marks is
//! not a program, so it needs a qdisc whose filters are not shared with other devices.

use crate::error::KernelError;
use crate::programs::tcx::elsewhere;
use crate::tc::decode::Entry;
use crate::tc::filters::TC_H_CLSACT;
use crate::{DeviceIndex, Kernel};
use std::collections::BTreeMap;
use weirgate_plan::{Action, Plan};
use weirgate_state::{ClsactHook, DeviceName};

impl Kernel {
    /// Fails if a plan attaches a filter at a qdisc that cannot take it. Nothing has been changed
    /// then.
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
