// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of all devices, qdiscs and classes of a namespace, for observers: no request here
//! needs a privilege.

use crate::error::KernelError;
use crate::link::{IFF_UP, IFINFOMSG};
use crate::netlink::wire::{self, Attrs};
use crate::tc::decode::{self, Entry};
use crate::tc::stats::{self, DeviceCounters};
use crate::{DeviceIndex, Kernel, link, tc};
use libc::{IFLA_IFNAME, IFLA_STATS64, RTM_GETQDISC, RTM_GETTCLASS};
use std::collections::BTreeMap;
use weirgate_state::DeviceName;
use weirgate_units::{Handle, Rate};

/// The traffic of one direction through a device since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes, including the link layer's header.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that the device or its driver dropped.
    pub drops: u64,
    /// Packets with errors.
    pub errors: u64,
}

/// A device with its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOverview {
    /// Its interface index, which no other device has while it exists.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is administratively up.
    pub up: bool,
    /// The received traffic.
    pub received: Traffic,
    /// The sent traffic.
    pub sent: Traffic,
    /// The counters of its qdiscs and of HTB classes.
    pub counters: DeviceCounters,
    /// The rate and ceiling of those classes.
    pub rates: BTreeMap<Handle, (Rate, Rate)>,
    /// The rate of a cake at the device, if it shapes.
    pub cake: Option<Rate>,
}

impl Kernel {
    /// Returns every device with its counters, in the kernel's order. This takes two requests, and
    /// one more for every device with an HTB.
    pub async fn overview(&self) -> Result<Vec<DeviceOverview>, KernelError> {
        let links = self
            .route
            .get(&link::list_counters(), "listing network devices", false)
            .await?;
        let mut devices: Vec<DeviceOverview> =
            links.iter().filter_map(|payload| device(payload)).collect();
        let ask = tc::encode::message(RTM_GETQDISC, 0, 0, 0, 0);
        let qdiscs = self.route.get(&ask, "listing qdiscs", false).await?;
        for entry in qdiscs.iter().filter_map(|payload| Entry::of(payload)) {
            let owner = devices.iter_mut().find(|one| one.index == entry.ifindex);
            if let Some((owner, counters)) = owner.zip(stats::counters(&entry)) {
                owner.cake = owner.cake.or_else(|| decode::cake_rate(&entry));
                owner.counters.qdiscs.push(counters);
            }
        }
        for device in &mut devices {
            let mut qdiscs = device.counters.qdiscs.iter();
            if !qdiscs.any(|qdisc| qdisc.kind == "htb") {
                continue;
            }
            let ask = tc::encode::message(RTM_GETTCLASS, 0, device.index, 0, 0);
            let classes = self.route.get(&ask, "listing classes", false).await?;
            let entries = classes.iter().filter_map(|payload| Entry::of(payload));
            for entry in entries {
                if entry.ifindex != device.index || entry.kind != "htb" {
                    continue;
                }
                device.counters.classes.extend(stats::counters(&entry));
                if let Some(class) = decode::htb_class(&entry) {
                    device.rates.insert(class.id, (class.rate, class.ceil));
                }
            }
        }
        Ok(devices)
    }
}

impl Kernel {
    /// Returns the traffic of a device, received and sent, by one request.
    pub async fn traffic(&self, device: DeviceIndex) -> Result<(Traffic, Traffic), KernelError> {
        let DeviceIndex(index) = device;
        let what = "asking a device for its counters";
        let found = self.route.get(&link::counters(index), what, true).await?;
        let read = found.iter().find_map(|payload| self::device(payload));
        read.filter(|device| device.index == index)
            .map(|device| (device.received, device.sent))
            .ok_or_else(|| KernelError::NoDevice(format!("number {index}")))
    }

    /// Does the same by name; `None` if there is no such device.
    pub async fn traffic_of(
        &self,
        name: &DeviceName,
    ) -> Result<Option<(Traffic, Traffic)>, KernelError> {
        let found = self
            .route
            .get(&link::find(name), name.as_str(), true)
            .await?;
        let read = found.iter().find_map(|payload| device(payload));
        Ok(read.map(|device| (device.received, device.sent)))
    }

    /// Returns the backlog of a device's root qdisc in bytes, or `None` if there is no such device
    /// or it has no root qdisc, as a device that was never up. It requests all
    /// qdiscs at once. Before Linux 6.8, the kernel reports a request for a single qdisc to
    /// everybody who listens for changes (`qdisc_notify`).
    pub async fn backlog(&self, device: DeviceIndex) -> Result<Option<u64>, KernelError> {
        let DeviceIndex(index) = device;
        let ask = tc::encode::message(RTM_GETQDISC, 0, index, 0, 0);
        let found = self.route.get(&ask, "listing qdiscs", false).await?;
        let root = found
            .iter()
            .filter_map(|payload| Entry::of(payload))
            .filter(|entry| entry.ifindex == index)
            .filter_map(|entry| stats::counters(&entry))
            .find(|counters| counters.parent.is_none());
        Ok(root.map(|one| one.backlog_bytes.into()))
    }
}

fn device(payload: &[u8]) -> Option<DeviceOverview> {
    let attrs = Attrs::after(payload, IFINFOMSG);
    let counters = attrs.bytes(IFLA_STATS64).unwrap_or_default();
    // `struct rtnl_link_stats64` (linux/if_link.h).
    let number = |index: usize| wire::u64_at(counters, index * 8).unwrap_or(0);
    let traffic = |first: usize| Traffic {
        packets: number(first),
        bytes: number(first + 2),
        errors: number(first + 4),
        drops: number(first + 6),
    };
    Some(DeviceOverview {
        index: wire::u32_at(payload, 4)?,
        name: attrs.text(IFLA_IFNAME)?,
        up: wire::u32_at(payload, 8)? & IFF_UP != 0,
        received: traffic(0),
        sent: traffic(1),
        counters: DeviceCounters::default(),
        rates: BTreeMap::new(),
        cake: None,
    })
}
