// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the surroundings of shaping on this machine. It changes nothing, and loads no modules.
//!
//! What needs a missing privilege is omitted and named in [`Machine::unread`].

use super::{files, settings};
use crate::error::{KernelError, Refusal};
use crate::link::{IFF_UP, IFINFOMSG, MARK};
use crate::netlink::channel::Request;
use crate::netlink::wire::{self, Attrs};
use crate::nft::{self, NFGENMSG};
use crate::tc::decode::Entry;
use crate::tc::filters::{self, TC_H_CLSACT};
use crate::tc::{self, TC_H_ROOT};
use crate::{Kernel, link};
use libc::{
    EPERM, IFLA_CARRIER, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER,
    IFLA_MTU, IFLA_NUM_TX_QUEUES, IFLA_XDP, RTM_GETQDISC,
};
use nlink::netlink::nftables::{
    NFT_MSG_GETFLOWTABLE, NFTA_DEVICE_NAME, NFTA_FLOWTABLE_FLAGS, NFTA_FLOWTABLE_HOOK,
    NFTA_FLOWTABLE_HOOK_DEVS, NFTA_FLOWTABLE_NAME, NFTA_FLOWTABLE_TABLE,
};
use rustix::thread::{CapabilitySet, capabilities};
use std::collections::BTreeMap;
use weirgate_state::{DeviceName, Flowtable, Interface, Machine, Origin, Privileges};
use weirgate_units::Inserted as _;

/// Attributes within `IFLA_XDP` (linux/if_link.h).
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// `enum nft_flowtable_flags` (linux/netfilter/nf_tables.h).
const NF_FLOWTABLE_HW_OFFLOAD: u32 = 1;

/// The features that [`Interface::features`] includes if they are on.
const FEATURES: [&str; 7] = [
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "rx-gro",
    "rx-gro-hw",
    "rx-lro",
    "hw-tc-offload",
];

impl Kernel {
    /// Reads this kernel's features, its devices and what else is at work. Files are read in the
    /// calling thread's namespaces, which must be the ones in which this was opened.
    pub async fn machine(&self) -> Result<Machine, KernelError> {
        let mut machine = files::machine();
        machine.privileges = self.privileges().await?;
        self.interfaces(&mut machine).await?;
        self.features(&mut machine).await;
        match self.flowtables().await {
            Ok(tables) => machine.flowtables = Some(tables),
            Err(error) => machine.unread.push(format!("flow tables: {error}")),
        }
        settings::read(&mut machine);
        Ok(machine)
    }

    async fn privileges(&self) -> Result<Privileges, KernelError> {
        let own = capabilities(None).map(|sets| sets.effective);
        let has = |wanted| own.is_ok_and(|sets| sets.contains(wanted));
        Ok(Privileges {
            user: rustix::process::geteuid().as_raw(),
            net_admin: self.denial().await?.is_none(),
            bpf: has(CapabilitySet::BPF) || has(CapabilitySet::SYS_ADMIN),
            modules: has(CapabilitySet::SYS_MODULE),
            first_namespace: crate::in_initial_namespace(),
        })
    }

    /// Fails if this process may not change this network namespace.
    pub async fn permitted(&self) -> Result<(), KernelError> {
        self.denial()
            .await?
            .map_or(Ok(()), |refusal| Err(KernelError::Refused(refusal)))
    }

    /// Returns the refusal of a request that changes nothing. Removing no device always fails, but
    /// with EPERM only if this process may not change the namespace. Its capabilities alone do not
    /// show that, because they apply to its own user namespace.
    async fn denial(&self) -> Result<Option<Refusal>, KernelError> {
        let request = Request {
            message: link::delete(0),
            object: "asking for permission".to_owned(),
            origin: Origin::default(),
            frame: false,
        };
        let refused = self.route.answers(vec![request]).await?;
        Ok(refused.into_iter().find(|refusal| refusal.errno == EPERM))
    }

    async fn interfaces(&self, machine: &mut Machine) -> Result<(), KernelError> {
        let what = "listing network devices";
        let found = self.route.get(&link::list(), what, false).await?;
        let mut names = BTreeMap::new();
        let mut masters = Vec::new();
        for payload in &found {
            if let Some((name, device, master)) = interface(payload) {
                names.insert(device.index, name.clone());
                masters.extend(master.map(|master| (name.clone(), master)));
                machine.devices.insert(name, device);
            }
        }
        for (name, master) in masters {
            if let Some(device) = machine.devices.get_mut(&name) {
                device.master = names.get(&master).cloned();
            }
        }
        let ask = tc::encode::message(RTM_GETQDISC, 0, 0, 0, 0);
        let listed = self.route.get(&ask, "listing qdiscs", false).await?;
        for entry in listed.iter().filter_map(|payload| Entry::of(payload)) {
            let known = names.get(&entry.ifindex);
            let Some(device) = known.and_then(|name| machine.devices.get_mut(name)) else {
                continue;
            };
            if entry.parent == TC_H_ROOT && entry.handle >> 16 != 0 {
                let handle = format!("{:x}:", entry.handle >> 16);
                device.root = Some((entry.kind, handle));
            } else if entry.parent == TC_H_CLSACT {
                let (own, others) = self.clsact_filters(entry.ifindex).await?;
                device.filters = others;
                // A qdisc that only has weirgate's filters is weirgate's.
                device.clsact = (own == 0 || others > 0).then_some(entry.kind);
            }
        }
        for (name, device) in &mut machine.devices {
            files::device(name, device);
        }
        Ok(())
    }

    /// Returns the number of weirgate's filters and of other filters that a device has there.
    async fn clsact_filters(&self, index: u32) -> Result<(usize, usize), KernelError> {
        let mut count = (0, 0);
        for payload in &self.hook_filters(index).await? {
            match Entry::of(payload).filter(filters::is_filter) {
                Some(entry) if filters::is_own(payload, &entry) => count.0 += 1,
                Some(_) => count.1 += 1,
                None => {}
            }
        }
        Ok(count)
    }

    /// Reads features, rings and speeds from ethtool's family; a device may have none of them.
    async fn features(&self, machine: &mut Machine) {
        let ethtool = match self.ethtool().await {
            Ok(ethtool) => ethtool,
            Err(error) => {
                machine.unread.push(format!("offloads and rings: {error}"));
                return;
            }
        };
        for (name, device) in &mut machine.devices {
            if let Ok(features) = ethtool.get_features_by_name(name.as_str()).await {
                let on = FEATURES.iter().filter(|name| features.is_active(name));
                device.features = on.map(|name| (*name).to_owned()).inserted();
                let held = |name: &&String| !features.is_changeable(name);
                device.fixed = device.features.iter().filter(held).cloned().inserted();
            }
            let rings = ethtool.get_rings_by_name(name.as_str()).await;
            device.tx_ring = rings.ok().and_then(|rings| rings.tx);
            let modes = ethtool.get_link_modes_by_name(name.as_str()).await;
            device.speed_mbit = known_speed(modes.ok().and_then(|modes| modes.speed));
        }
    }

    /// Returns the link speed of a device in Mbit/s, if its driver knows it.
    ///
    /// # Errors
    /// If the kernel has no ethtool family.
    pub async fn speed_mbit(&self, name: &DeviceName) -> Result<Option<u32>, KernelError> {
        let ethtool = self.ethtool().await?;
        let modes = ethtool.get_link_modes_by_name(name.as_str()).await;
        Ok(known_speed(modes.ok().and_then(|modes| modes.speed)))
    }

    async fn flowtables(&self) -> Result<Vec<Flowtable>, KernelError> {
        let ask = nft::message(NFT_MSG_GETFLOWTABLE, 0, 0);
        let found = self.nft.get(&ask, "listing flow tables", false).await?;
        Ok(found
            .iter()
            .filter_map(|payload| flowtable(payload))
            .collect())
    }
}

/// Filters out an unknown speed, which drivers report as 0 or as the greatest number.
fn known_speed(reported: Option<u32>) -> Option<u32> {
    reported.filter(|speed| *speed != 0 && *speed != u32::MAX)
}

/// Reads one device and the index of its master; `None` if the message is not one.
pub(crate) fn interface(payload: &[u8]) -> Option<(DeviceName, Interface, Option<u32>)> {
    let attrs = Attrs::after(payload, IFINFOMSG);
    let name = DeviceName::new(attrs.text(IFLA_IFNAME)?)?;
    let kind = attrs.nest(IFLA_LINKINFO).text(IFLA_INFO_KIND);
    let flags = wire::u32_at(payload, 8)?;
    let xdp = attrs.nest(IFLA_XDP);
    let attached = xdp.bytes(IFLA_XDP_ATTACHED).and_then(|mode| mode.first());
    let device = Interface {
        index: wire::u32_at(payload, 4)?,
        link_type: wire::u16_at(payload, 2)?,
        owned_ifb: kind.as_deref() == Some("ifb")
            && attrs.text(IFLA_IFALIAS).as_deref() == Some(MARK),
        kind,
        up: flags & IFF_UP != 0,
        carrier: attrs.bytes(IFLA_CARRIER).is_none_or(|on| on != [0]),
        mtu: attrs.u32(IFLA_MTU).unwrap_or(0),
        tx_queues: attrs.u32(IFLA_NUM_TX_QUEUES).unwrap_or(1),
        xdp: attached
            .filter(|mode| **mode != 0)
            .map(|_| xdp.u32(IFLA_XDP_PROG_ID).unwrap_or(0)),
        ..Interface::default()
    };
    Some((name, device, attrs.u32(IFLA_MASTER)))
}

/// Reads one flow table; `None` if the message is not one.
pub(crate) fn flowtable(payload: &[u8]) -> Option<Flowtable> {
    let attrs = Attrs::after(payload, NFGENMSG);
    let family = match wire::u8_at(payload, 0)? {
        1 => "inet".to_owned(),
        2 => "ip".to_owned(),
        5 => "netdev".to_owned(),
        7 => "bridge".to_owned(),
        10 => "ip6".to_owned(),
        other => other.to_string(),
    };
    // Every device is an attribute of the same type, so these are not read into a map.
    let hook = attrs.nest(NFTA_FLOWTABLE_HOOK);
    let devices = hook.bytes(NFTA_FLOWTABLE_HOOK_DEVS).unwrap_or_default();
    let devices = nlink::netlink::AttrIter::new(devices)
        .filter(|(kind, _)| *kind == NFTA_DEVICE_NAME)
        .map(|(_, name)| {
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..end]).into_owned()
        });
    Some(Flowtable {
        family,
        table: attrs.text(NFTA_FLOWTABLE_TABLE)?,
        name: attrs.text(NFTA_FLOWTABLE_NAME)?,
        devices: devices.collect(),
        hardware: attrs
            .u32_be(NFTA_FLOWTABLE_FLAGS)
            .is_some_and(|flags| flags & NF_FLOWTABLE_HW_OFFLOAD != 0),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a netlink attribute with this content.
    pub(crate) fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
        let length = (content.len() + 4) as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_flow_table_is_read_with_all_its_devices() {
        let devices = [
            attribute(NFTA_DEVICE_NAME, b"lan\0"),
            attribute(NFTA_DEVICE_NAME, b"wan\0"),
        ];
        let hook = attribute(NFTA_FLOWTABLE_HOOK_DEVS, &devices.concat());
        let mut payload = vec![1, 0, 0, 0];
        payload.extend(attribute(NFTA_FLOWTABLE_TABLE, b"fw4\0"));
        payload.extend(attribute(NFTA_FLOWTABLE_NAME, b"ft\0"));
        payload.extend(attribute(NFTA_FLOWTABLE_HOOK, &hook));
        payload.extend(attribute(NFTA_FLOWTABLE_FLAGS, &1_u32.to_be_bytes()));
        let found = flowtable(&payload).unwrap();
        assert_eq!(
            (found.family.as_str(), found.table.as_str()),
            ("inet", "fw4")
        );
        assert_eq!(found.devices, ["lan", "wan"]);
        assert!(found.hardware);
        for end in 0..payload.len() {
            let _ = flowtable(&payload[..end]);
        }
    }

    #[test]
    fn a_device_with_a_program_is_read_and_damage_is_harmless() {
        let mut payload = vec![0, 0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        payload.extend(attribute(IFLA_IFNAME, b"wan\0"));
        payload.extend(attribute(IFLA_MTU, &1_500_u32.to_ne_bytes()));
        let xdp = [
            attribute(IFLA_XDP_ATTACHED, &[1]),
            attribute(IFLA_XDP_PROG_ID, &9_u32.to_ne_bytes()),
        ];
        payload.extend(attribute(IFLA_XDP, &xdp.concat()));
        payload.extend(attribute(IFLA_CARRIER, &[0]));
        let (name, device, master) = interface(&payload).unwrap();
        assert_eq!((name.as_str(), device.index, device.mtu), ("wan", 7, 1_500));
        assert_eq!(
            (device.xdp, device.up, device.carrier),
            (Some(9), true, false)
        );
        assert_eq!(master, None);
        for end in 0..payload.len() {
            let _ = interface(&payload[..end]);
        }
    }
}
