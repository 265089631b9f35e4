// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices on which charges are measured, and their connections.
//!
//! ```text
//! veth ========== pppoe-lower > ifb-veth      tun > ifb-tun
//! vlan - vlan-lower ====== inline-lower - inline
//! ```
//!
//! `=` is a pair of veth devices. `>` is the shaping of arriving packets: an ingress chain that
//! redirects them to an IFB. There is no PPP device, because Debian's cloud kernel does not
//! support it.

use anyhow::{Context, Result};
use nlink::netlink::link::{VethLink, VlanLink};
use nlink::tuntap::{Mode, TunTap};
use nlink::{Connection, Route};
use std::fs::{self, File};
use weirgate_linklayer::{DeviceKind, LinkLayer};
use weirgate_state::{
    Chain, Device, DeviceName, Hook, Origin, Pfifo, Qdisc, QdiscKind, Shared, State, Table,
};
use weirgate_units::Handle;

/// A device whose root qdisc's counter is read.
#[derive(Debug)]
pub(super) struct CountedDevice {
    /// The device's name.
    pub(super) device: &'static str,
    /// The kind of device in crate linklayer, which determines what Linux counts there.
    pub(super) kind: DeviceKind,
    /// Whether it is an IFB.
    ifb: bool,
}

/// Every such device. Each gets one packet of each size.
pub(super) const DEVICES: [CountedDevice; 9] = [
    device("veth", DeviceKind::Ethernet),
    device("vlan", DeviceKind::Vlan),
    // On both lower devices the tag is stored outside of the packet data, with either setting of
    // the upper device. One packet of `inline` keeps the tag in the data: that of 1 byte, which
    // no IP stack sends. `vlan_dev_hard_start_xmit` moves the tag only if 2 bytes follow it
    // (seen in kernel 7.3).
    device("vlan-lower", DeviceKind::Ethernet),
    device("inline", DeviceKind::VlanInline),
    device("inline-lower", DeviceKind::Ethernet),
    device("pppoe-lower", DeviceKind::PppoeLower),
    device("tun", DeviceKind::Tun),
    ifb("ifb-veth", DeviceKind::Ethernet),
    ifb("ifb-tun", DeviceKind::Tun),
];

const fn device(device: &'static str, kind: DeviceKind) -> CountedDevice {
    CountedDevice {
        device,
        kind,
        ifb: false,
    }
}

const fn ifb(device: &'static str, kind: DeviceKind) -> CountedDevice {
    CountedDevice {
        device,
        kind,
        ifb: true,
    }
}

/// Devices where packets arrive, and the IFB to which they are redirected.
const ARRIVALS: [(&str, &str); 2] = [("pppoe-lower", "ifb-veth"), ("tun", "ifb-tun")];

/// MTU with room for the largest packet with all headers.
const MTU: u32 = 2_200;

/// Limit of a root qdisc in packets; it never holds more than one.
const LIMIT: u32 = 1_000;

/// Disables IPv6, whose neighbour discovery on every new device would be counted.
const QUIET: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

/// Creates all devices except the IFBs, and returns the TUN device's file.
pub(super) async fn make(route: &Connection<Route>) -> Result<File> {
    fs::write(QUIET, "1").context(QUIET)?;
    // Both ends are counted. Additional devices would cost time in each of the many readings of
    // counters.
    for (near, far) in [("veth", "pppoe-lower"), ("vlan-lower", "inline-lower")] {
        let pair = VethLink::new(near, far).mtu(MTU).peer_mtu(MTU);
        let made = route.add_link(pair).await;
        made.with_context(|| format!("create {near} and {far}"))?;
        switch_on(route, far).await?;
        switch_on(route, near).await?;
    }
    // Different IDs, so that neither receives what the other sends.
    for (device, lower, id, reorder) in [
        ("vlan", "vlan-lower", 7, true),
        ("inline", "inline-lower", 8, false),
    ] {
        // 4 bytes less than the lower device, for the tag.
        let vlan = VlanLink::new(device, lower, id).mtu(MTU - 4);
        let made = route.add_link(vlan.reorder_hdr(reorder)).await;
        made.with_context(|| format!("create the VLAN device {device}"))?;
        switch_on(route, device).await?;
    }
    let tun = TunTap::builder().name("tun").mode(Mode::Tun).create();
    let tun = tun.context("create the TUN device")?.into_file();
    route.set_link_mtu("tun", MTU).await.context("tun")?;
    switch_on(route, "tun").await?;
    Ok(tun)
}

async fn switch_on(route: &Connection<Route>, device: &str) -> Result<()> {
    let index = index(route, device).await?;
    let on = route.set_link_up_by_index(index).await;
    on.with_context(|| format!("switch on {device}"))
}

/// Returns the index of a device.
pub(super) async fn index(route: &Connection<Route>, device: &str) -> Result<u32> {
    let link = route.get_link_by_name(device).await;
    let link = link.with_context(|| format!("look for {device}"))?;
    let link = link.with_context(|| format!("there is no device {device}"))?;
    Ok(link.ifindex())
}

/// Returns the state with a FIFO at the root of every such device, with the layer's size table.
pub(super) fn state(layer: Option<&LinkLayer>) -> State {
    let origin = Origin::new(0, "measures charges");
    let device = |one: &CountedDevice| Device {
        owned_ifb: one.ifb,
        offloads: None,
        root: Some(Qdisc {
            handle: Handle::new(1, 0),
            stab: layer.map(|layer| layer.stab(one.kind)),
            kind: QdiscKind::Pfifo(Pfifo { limit: LIMIT }),
            origin: origin.clone(),
        }),
        origin: origin.clone(),
    };
    let chain = |&(from, to): &(&str, &str)| {
        Some(Chain {
            name: from.to_owned(),
            hook: Hook::Ingress {
                device: DeviceName::new(from)?,
                redirect_to: DeviceName::new(to)?,
            },
            rules: Shared::default(),
        })
    };
    State {
        devices: DEVICES
            .iter()
            .filter_map(|one| Some((DeviceName::new(one.device)?, device(one))))
            .collect(),
        tables: vec![Table {
            netdev: true,
            name: "charges".to_owned(),
            sets: Shared::default(),
            chains: ARRIVALS.iter().filter_map(chain).collect(),
        }],
        ..State::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A name that the kernel refuses would be missing in the state.
    #[test]
    fn every_place_is_in_the_state() {
        let layer = LinkLayer::named("docsis").unwrap();
        let state = state(Some(&layer));
        assert_eq!(state.devices.len(), DEVICES.len());
        assert_eq!(state.tables[0].chains.len(), ARRIVALS.len());
        for one in DEVICES {
            let device = &state.devices[&DeviceName::new(one.device).unwrap()];
            let stab = device.root.as_ref().unwrap().stab.as_ref();
            assert_eq!(stab, Some(&layer.stab(one.kind)), "{}", one.device);
        }
    }

    /// The module's documentation names the kinds that cannot be created here.
    #[test]
    fn every_kind_but_ppp_has_a_place() {
        let here: BTreeSet<DeviceKind> = DEVICES.iter().map(|one| one.kind).collect();
        let absent = DeviceKind::ALL
            .into_iter()
            .filter(|kind| !here.contains(kind));
        assert!(absent.eq([DeviceKind::PppoeInterface, DeviceKind::Ppp]));
    }
}
