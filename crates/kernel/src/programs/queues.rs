// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmit queues of a device: a qdisc for each of them, below mq.

use crate::observe::files;
use crate::tc::TC_H_ROOT;
use crate::tc::decode::Entry;
use crate::tc::encode::message;
use crate::{DeviceIndex, Kernel, KernelError};
use libc::{RTM_NEWQDISC, TCA_KIND};
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_REPLACE};
use std::collections::BTreeMap;
use weirgate_state::DeviceName;
use weirgate_units::Inserted as _;

/// The qdisc that has a class for each queue.
pub const MQ: &str = "mq";

/// The handle for mq.
const HANDLE: u32 = 1 << 16;

/// Returns the queue of a class of mq; classes are numbered from 1.
fn queue_of(class: u32) -> Option<u32> {
    (class & 0xffff).checked_sub(1)
}

/// The transmit queues of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendingQueues {
    /// Their number.
    pub count: u32,
    /// Whether the kernel chooses the queue by the sending processor, or by the receive queue of
    /// the packet (XPS, Documentation/networking/scaling.rst).
    pub by_processor: bool,
}

impl Kernel {
    /// Returns the transmit queues of a device; one if sysfs does not show the device. It shows the
    /// devices of the namespace in which it was mounted.
    pub fn sending_queues(&self, name: &DeviceName, device: DeviceIndex) -> SendingQueues {
        files::sending_queues(name, device.0)
    }

    /// Returns whether a device lacks the transmit queue of this number, counted from 0; `false` if
    /// sysfs does not show the device.
    pub fn lacks_queue(&self, name: &DeviceName, device: DeviceIndex, queue: u32) -> bool {
        files::lacks_queue(name, device.0, queue)
    }

    /// Returns mq's handle and the kind of the qdisc of each queue, if mq is the device's root.
    /// Queues are numbered from 0.
    pub async fn queue_kinds(
        &self,
        device: DeviceIndex,
    ) -> Result<Option<(u32, BTreeMap<u32, String>)>, KernelError> {
        let qdiscs = self.qdiscs().await?;
        let entries: Vec<Entry<'_>> = qdiscs
            .iter()
            .filter_map(|payload| Entry::of(payload))
            .filter(|entry| entry.ifindex == device.0)
            .collect();
        let mq = entries
            .iter()
            .find(|one| one.parent == TC_H_ROOT && one.handle != 0 && one.kind == MQ);
        let Some(handle) = mq.map(|mq| mq.handle) else {
            return Ok(None);
        };
        let below = entries
            .into_iter()
            .filter(|one| one.parent != TC_H_ROOT && one.parent >> 16 == handle >> 16)
            .filter_map(|one| Some((queue_of(one.parent)?, one.kind)));
        Ok(Some((handle, below.inserted())))
    }

    /// Replaces a device's root qdisc by mq. Returns the handle.
    pub async fn put_mq(&self, name: &DeviceName, device: DeviceIndex) -> Result<u32, KernelError> {
        self.put_kind(name, device, (HANDLE, TC_H_ROOT), MQ).await?;
        Ok(HANDLE)
    }

    /// Replaces the qdisc of a queue below mq by one of this kind. The backlog of the former one is
    /// lost.
    pub async fn put_queue(
        &self,
        name: &DeviceName,
        device: DeviceIndex,
        (mq, queue): (u32, u32),
        kind: &str,
    ) -> Result<(), KernelError> {
        self.put_kind(name, device, (0, mq | (queue + 1)), kind)
            .await
    }

    pub(super) async fn put_kind(
        &self,
        name: &DeviceName,
        device: DeviceIndex,
        (handle, parent): (u32, u32),
        kind: &str,
    ) -> Result<(), KernelError> {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        let mut message = message(RTM_NEWQDISC, flags, device.0, handle, parent);
        message.append_attr_str(TCA_KIND, kind);
        let place = match parent {
            TC_H_ROOT => "at the root".to_owned(),
            class => format!("at queue {}", queue_of(class).unwrap_or(0)),
        };
        self.one(message, format!("{name}: put qdisc {kind} {place}"))
            .await
    }
}
