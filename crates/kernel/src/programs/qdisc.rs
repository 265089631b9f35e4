// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root qdiscs that are BPF programs: they take no options, so a request only has the name of the
//! kind (net/sched/bpf_qdisc.c).

use crate::netlink::channel::Request;
use crate::tc::TC_H_ROOT;
use crate::tc::decode::Entry;
use crate::tc::encode::message;
use crate::{DeviceIndex, Kernel, KernelError};
use libc::RTM_DELQDISC;
use nlink::netlink::MessageBuilder;
use weirgate_state::{DeviceName, Origin};

impl DeviceIndex {
    /// Returns the interface index.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl Kernel {
    /// Returns the kind of a device's root qdisc; `None` for the kernel's default, which has no
    /// handle.
    pub async fn root_kind(&self, device: DeviceIndex) -> Result<Option<String>, KernelError> {
        let qdiscs = self.qdiscs().await?;
        let entries = qdiscs.iter().filter_map(|payload| Entry::of(payload));
        let root = |entry: &Entry<'_>| {
            entry.ifindex == device.0 && entry.parent == TC_H_ROOT && entry.handle != 0
        };
        Ok(entries
            .into_iter()
            .find(|entry| root(entry))
            .map(|entry| entry.kind))
    }

    /// Replaces a device's root qdisc by one of this kind. The backlog of the former one is lost.
    pub async fn put_root(
        &self,
        name: &DeviceName,
        device: DeviceIndex,
        kind: &str,
    ) -> Result<(), KernelError> {
        self.put_kind(name, device, (0, TC_H_ROOT), kind).await
    }

    /// Removes a device's root qdisc; the kernel's default takes its place.
    pub async fn drop_root(
        &self,
        name: &DeviceName,
        device: DeviceIndex,
    ) -> Result<(), KernelError> {
        let message = message(RTM_DELQDISC, 0, device.0, 0, TC_H_ROOT);
        self.one(message, format!("{name}: remove the root qdisc"))
            .await
    }

    pub(super) async fn one(
        &self,
        message: MessageBuilder,
        object: String,
    ) -> Result<(), KernelError> {
        let request = Request {
            message,
            object,
            origin: Origin::default(),
            frame: false,
        };
        self.route.batch(vec![request]).await
    }
}
