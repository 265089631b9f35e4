// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the device of the link, and its properties.

use crate::hosts;
use crate::line::{AccessLine, Dial};
use std::collections::BTreeSet;
use std::net::IpAddr;
use thiserror::Error;
use weirgate_linklayer::DeviceKind;
use weirgate_state::{Ability, DeviceName, Interface, Machine, Network, Presence};
use weirgate_units::Inserted as _;

/// Why no link could be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Lack {
    /// There are no devices.
    #[error("this machine has no network device but its loopback")]
    NoDevices,
    /// No route leads outside.
    #[error(
        "there is no default route that shows the link's device; name it: `--device DEVICE`, one \
         of {0}"
    )]
    NoRoute(String),
    /// A device that was named does not exist.
    #[error("there is no device {0}; there are {1}")]
    NoDevice(DeviceName, String),
    /// It is unknown what Linux counts on the link's device.
    #[error("{0} is not a device through which IP packets leave")]
    Strange(DeviceName),
    /// A bridge without a port that is known to lead to the line.
    #[error(
        "{0} is a bridge, and it is not visible which port leads to the line; name this port and \
         the other: `--device PORT --lan PORT`, of {1}"
    )]
    Ports(DeviceName, String),
}

/// The devices that the user named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The link's device.
    pub device: Option<DeviceName>,
    /// The devices of the hosts.
    pub lan: Vec<DeviceName>,
}

/// A link, with the facts about the machine that matter for its policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its device.
    pub device: DeviceName,
    /// The device's kind, which determines the length that Linux counts.
    pub kind: DeviceKind,
    /// The tag or session that is added to packets after the device's queue.
    pub dial: Dial,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// The device below it, which carries its tag or session.
    pub below: Option<DeviceName>,
    /// The next hop of the default route.
    pub gateway: Option<IpAddr>,
    /// Its driver, if it has one.
    pub driver: Option<String>,
    /// Other devices with a default route.
    pub others: Vec<DeviceName>,
    /// The devices that lead to the hosts.
    pub lan: Vec<DeviceName>,
    /// Whether the machine forwards packets.
    pub forwards: bool,
    /// The kind of the first of them.
    pub lan_kind: DeviceKind,
    /// The bridge of which link and LAN are the two ports, if any.
    pub bridge: Option<DeviceName>,
    /// Ports of bridges among the LAN devices.
    pub ports: Vec<DeviceName>,
    /// Devices of a radio.
    pub wireless: BTreeSet<DeviceName>,
    /// Whether packets can arrive merged from the hosts and can be cut: the LAN is virtual.
    pub merging: bool,
    /// Whether addresses are translated; `None` if that is unknown.
    pub translates: Option<bool>,
    /// Tunnels that end at this machine.
    pub tunnels: Vec<DeviceName>,
    /// Root qdiscs of other software on these devices.
    pub shapers: Vec<(DeviceName, String)>,
    /// Offloads that are enabled on these devices, by ethtool's names.
    pub offloads: BTreeSet<String>,
    /// The abilities that the kernel certainly lacks.
    pub lacks: BTreeSet<Ability>,
}

impl Found {
    /// Chooses by the default route, or by the devices that were named.
    ///
    /// # Errors
    /// Fails if no route leads outside, or a named device is unsuitable.
    pub fn of(machine: &Machine, network: &Network, asked: &Asked) -> Result<Self, Lack> {
        if machine.devices.is_empty() {
            return Err(Lack::NoDevices);
        }
        let there = || listed(machine.devices.keys());
        for device in asked.device.iter().chain(&asked.lan) {
            if !machine.devices.contains_key(device) {
                return Err(Lack::NoDevice(device.clone(), there()));
            }
        }
        // A tunnel's packets leave again through the link, where native packets go as well.
        let is_tunnel = |name: &DeviceName| {
            let device = machine.devices.get(name);
            device.is_some_and(Interface::is_tunnel)
        };
        let mut routes = network.defaults.iter();
        let route = routes
            .find(|route| !is_tunnel(&route.device))
            .or(network.defaults.first());
        let route = match &asked.device {
            Some(device) => network
                .defaults
                .iter()
                .find(|route| route.device == *device),
            None => route,
        };
        let named = asked.device.as_ref().or(route.map(|route| &route.device));
        let named = named.ok_or_else(|| Lack::NoRoute(there()))?;
        let port = route.and_then(|route| route.port.as_ref());
        let between = Between::of(machine, named, port, &asked.lan)?;
        let device = between.as_ref().map_or(named, |between| &between.device);
        let interface = machine.devices.get(device);
        let interface = interface.ok_or_else(|| Lack::NoDevice(device.clone(), there()))?;
        let kind = DeviceKind::from_link(interface.link_type, interface.kind.as_deref())
            .ok_or_else(|| Lack::Strange(device.clone()))?;
        let (dial, below) = dial(kind, device, network);
        let kind = match dial {
            Dial::Pppoe | Dial::PppoeVlan => DeviceKind::PppoeInterface,
            _ => kind,
        };
        let lan = match &between {
            Some(between) => vec![between.lan.clone()],
            None if asked.lan.is_empty() => hosts::devices(machine, network, device),
            None => asked.lan.clone(),
        };
        let lan_kind = lan.first().and_then(|lan| machine.devices.get(lan));
        let lan_kind = lan_kind
            .and_then(|lan| DeviceKind::from_link(lan.link_type, lan.kind.as_deref()))
            .unwrap_or(DeviceKind::Ethernet);
        let concerned: Vec<(&DeviceName, &Interface)> = std::iter::once(device)
            .chain(&lan)
            .filter_map(|name| machine.devices.get_key_value(name))
            .collect();
        let others = network.defaults.iter().map(|route| &route.device);
        let others = others.filter(|one| *one != named && !is_tunnel(one));
        let mut others: Vec<DeviceName> = others.cloned().collect();
        others.dedup();
        let is_port = |one: &(&DeviceName, &Interface)| {
            one.1
                .master
                .as_ref()
                .is_some_and(|master| lan.contains(master))
        };
        Ok(Self {
            kind,
            dial,
            mtu: interface.mtu,
            below,
            gateway: route.and_then(|route| route.gateway),
            driver: network.drivers.get(device).cloned(),
            others,
            forwards: hosts::forwards(machine),
            lan_kind,
            bridge: between.as_ref().map(|between| between.bridge.clone()),
            ports: machine
                .devices
                .iter()
                .filter(is_port)
                .map(|(name, _)| name.clone())
                .collect(),
            wireless: network.wireless.clone(),
            merging: is_merging(machine, &lan),
            translates: network.translates,
            tunnels: hosts::tunnels(machine, device),
            shapers: concerned
                .iter()
                .filter_map(|(name, one)| Some(((*name).clone(), one.root.as_ref()?)))
                .map(|(name, (kind, handle))| (name, format!("{kind} {handle}")))
                .collect(),
            offloads: concerned
                .iter()
                .flat_map(|(_, one)| one.features.iter().cloned())
                .inserted(),
            lacks: machine
                .abilities
                .iter()
                .filter(|(_, presence)| **presence == Presence::Absent)
                .map(|(ability, _)| *ability)
                .inserted(),
            device: device.clone(),
            lan,
        })
    }

    /// Returns the kind of line that is likely for the device.
    #[must_use]
    pub fn guess(&self) -> &'static AccessLine {
        AccessLine::guessed(&self.device, self.driver.as_deref())
    }
}

/// Kinds of devices (`IFLA_INFO_KIND`) at which packets arrive merged, because their other end is a
/// network stack or a virtual machine.
const MERGING: [&str; 6] = ["veth", "netkit", "tun", "macvlan", "macvtap", "ipvlan"];

/// Returns whether one of the LAN devices or their ports is of such a kind, and the kernel has what
/// cuts packets.
fn is_merging(machine: &Machine, lan: &[DeviceName]) -> bool {
    let mut devices = machine.devices.iter().filter(|(name, one)| {
        let master = one.master.as_ref();
        lan.contains(name) || master.is_some_and(|master| lan.contains(master))
    });
    let absent = |ability| machine.abilities.get(&ability) == Some(&Presence::Absent);
    let merging = |kind: &str| MERGING.contains(&kind);
    devices.any(|(_, one)| one.kind.as_deref().is_some_and(merging))
        && ![Ability::Ifb, Ability::NftForward].into_iter().any(absent)
}

pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a DeviceName>) -> String {
    let names: Vec<&str> = names
        .into_iter()
        .map(DeviceName::as_str)
        .filter(|name| *name != "lo")
        .collect();
    names.join(", ")
}

/// Returns the tag or session that is added after a device's queue, and the device that adds it.
fn dial(kind: DeviceKind, device: &DeviceName, network: &Network) -> (Dial, Option<DeviceName>) {
    let below = network.below.get(device).cloned();
    match kind {
        DeviceKind::Vlan | DeviceKind::VlanInline => (Dial::Vlan, below),
        DeviceKind::Ppp | DeviceKind::PppoeInterface => {
            // It is not visible which of several sessions is the device's, so assume the larger
            // overhead.
            let is_tagged = network
                .sessions
                .iter()
                .any(|one| network.below.contains_key(one));
            let carrier = network.sessions.first();
            let carrier = carrier.filter(|_| network.sessions.len() == 1).cloned();
            match (network.sessions.is_empty(), is_tagged) {
                (true, _) => (Dial::Ppp, None),
                (false, true) => (Dial::PppoeVlan, carrier),
                (false, false) => (Dial::Pppoe, carrier),
            }
        }
        _ => (Dial::Plain, None),
    }
}

/// A machine that is a bridge between the line and the hosts.
struct Between {
    bridge: DeviceName,
    /// The port towards the line.
    device: DeviceName,
    /// The port towards the hosts.
    lan: DeviceName,
}

impl Between {
    /// Returns the bridge that a device is, or is a port of, if the port towards the line can be
    /// determined. Returns `None` if the device has no bridge.
    fn of(
        machine: &Machine,
        named: &DeviceName,
        port: Option<&DeviceName>,
        lan: &[DeviceName],
    ) -> Result<Option<Self>, Lack> {
        let Some(device) = machine.devices.get(named) else {
            return Ok(None);
        };
        let is_bridge = |name: &DeviceName| {
            let device = machine.devices.get(name);
            device.is_some_and(|device| device.kind.as_deref() == Some("bridge"))
        };
        let bridge = match &device.master {
            Some(master) if is_bridge(master) => master,
            _ if is_bridge(named) => named,
            _ => return Ok(None),
        };
        let ports = machine.devices.iter();
        let ports: Vec<&DeviceName> = ports
            .filter(|(_, one)| one.master.as_ref() == Some(bridge))
            .map(|(name, _)| name)
            .collect();
        // A bridge with at most one port is only another name for that device.
        if ports.len() < 2 {
            return Ok(None);
        }
        let unclear = || Lack::Ports(bridge.clone(), listed(ports.iter().copied()));
        let towards = if bridge == named { port } else { Some(named) };
        let towards = towards.ok_or_else(unclear)?;
        let mut others = ports.iter().filter(|port| **port != towards);
        let other = match (lan, others.next(), others.next()) {
            ([lan], ..) if ports.contains(&lan) => lan,
            ([], Some(other), None) => other,
            _ => return Err(unclear()),
        };
        Ok(Some(Self {
            bridge: bridge.clone(),
            device: towards.clone(),
            lan: other.clone(),
        }))
    }
}
