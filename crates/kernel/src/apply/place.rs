// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the place that others made at a device can have what a plan attaches there.
//!
//! An `ingress` qdisc takes filters for what leaves, too, and runs them for what arrives
//! (`ingress_tcf_block`, net/sched/sch_ingress.c). So a program of either direction would
//! replace the other's, and the way back would not find it.

use crate::error::KernelError;
use crate::tc::decode::Entry;
use crate::tc::filters::TC_H_CLSACT;
use crate::{DeviceIndex, Kernel};
use std::collections::BTreeMap;
use weirgate_plan::{Action, Plan};
use weirgate_state::{ClsactHook, DeviceName, HookPrograms, Program, ProgramChange};

/// Attributes of a qdisc whose filters are shared with other devices (rtnetlink.h).
const TCA_INGRESS_BLOCK: u16 = 13;
const TCA_EGRESS_BLOCK: u16 = 14;

impl Kernel {
    /// Fails where a plan attaches programs at a place that cannot have them; nothing has
    /// been changed then.
    pub(super) async fn check_places(&self, plan: &Plan) -> Result<(), KernelError> {
        let mut wanted: BTreeMap<u32, (&DeviceName, bool)> = BTreeMap::new();
        let devices = self.devices().await?;
        for step in &plan.steps {
            if let Action::SetHooks {
                device,
                before: Some(before),
                after: Some(after),
            } = &step.action
                && let Some(DeviceIndex(index)) = devices.get(device)
                && let Some(leaving) = attached(before, after)
            {
                wanted.insert(*index, (device, leaving));
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let listed = self.qdiscs().await?;
        for entry in listed.iter().filter_map(|payload| Entry::of(payload)) {
            let Some((device, leaving)) = wanted.get(&entry.ifindex) else {
                continue;
            };
            if entry.parent != TC_H_CLSACT {
                continue;
            }
            let blocks = [TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK].map(|kind| entry.attrs.u32(kind));
            let why = if *leaving && entry.kind != "clsact" {
                "has no hook for what leaves; put its filters at a `clsact` qdisc instead"
            } else if blocks.into_iter().flatten().any(|block| block != 0) {
                "shares its filters with other devices; give the device filters of its own"
            } else {
                continue;
            };
            return Err(KernelError::Place {
                device: (*device).clone(),
                kind: entry.kind,
                why,
            });
        }
        Ok(())
    }
}

/// Whether something is attached, and if so whether any of it is for what leaves.
fn attached(before: &HookPrograms, after: &HookPrograms) -> Option<bool> {
    let programs: Vec<Program> = Program::ALL
        .into_iter()
        .filter(|program| {
            let change = program.change(Some(before), Some(after));
            matches!(change, ProgramChange::Attach(_))
        })
        .collect();
    let restores = after.restore.is_some() && after.restore != before.restore;
    let mut filters = programs.iter().flat_map(|program| program.row().filters);
    let leaving = filters.any(|filter| filter.hook == ClsactHook::Egress);
    (restores || !programs.is_empty()).then_some(leaving)
}
