// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts a qdisc tree on a device that has just appeared.

use super::{requests, traffic_control};
use crate::error::KernelError;
use crate::programs::{rows, shaper};
use crate::tc::decode::Entry;
use crate::tc::{TC_H_ROOT, encode};
use crate::{DeviceIndex, Kernel};
use libc::EEXIST;
use weirgate_plan::{QdiscParent, plan};
use weirgate_state::{Device, DeviceName, Origin, Qdisc, State};

impl Kernel {
    /// Puts a tree on a device that has only the kernel's default qdisc, in one call. Returns
    /// whether it did: not if the device has another qdisc, or the tree needs a program to be
    /// loaded.
    ///
    /// It looks at nothing else of the device, and reads nothing back. It is for a device that
    /// already carries packets, and a full comparison follows.
    ///
    /// # Errors
    ///
    /// The kernel's error for the first part that it refuses. The parts before it are removed
    /// again.
    pub async fn put_tree(
        &self,
        name: &DeviceName,
        device: DeviceIndex,
        tree: &Qdisc,
    ) -> Result<bool, KernelError> {
        let DeviceIndex(index) = device;
        let state = |root| State::of_device(name.clone(), of_root(root));
        let Ok(plan) = plan(&state(None), &state(Some(tree.clone()))) else {
            return Ok(false);
        };
        let mut actions = plan.steps.iter().map(|step| &step.action);
        let loads = |action| shaper::of_step(action).is_some() || rows::of_step(action).is_some();
        if actions.any(loads) || self.has_root(index).await? {
            return Ok(false);
        }
        let batch = plan.steps.iter().flat_map(|step| {
            let messages = traffic_control(&step.action, index);
            requests(step, messages)
        });
        let Err(error) = self.route.batch(batch.collect()).await else {
            return Ok(true);
        };
        // If another program put a root qdisc there first, leave it alone.
        let theirs = matches!(&error, KernelError::Refused(refusal) if refusal.errno == EEXIST);
        if let Some(step) = plan.steps.first().filter(|_| !theirs) {
            let delete = encode::delete_qdisc(index, QdiscParent::Root, tree.handle);
            self.route.answers(requests(step, [delete])).await?;
        }
        Err(error)
    }

    /// Returns whether a device has a root qdisc other than the kernel's default, which has no
    /// handle.
    async fn has_root(&self, index: u32) -> Result<bool, KernelError> {
        let listed = self.qdiscs().await?;
        let mut entries = listed.iter().filter_map(|payload| Entry::of(payload));
        Ok(entries.any(|one| one.ifindex == index && one.parent == TC_H_ROOT && one.handle != 0))
    }
}

fn of_root(root: Option<Qdisc>) -> Device {
    Device {
        owned_ifb: false,
        offloads: None,
        root,
        origin: Origin::default(),
    }
}
