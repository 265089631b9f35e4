// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the devices that lead to the hosts.

use std::net::IpAddr;
use weirgate_linklayer::DeviceKind;
use weirgate_state::{DeviceName, Interface, Machine, Network};

/// Prefixes of the names of bridges with containers or virtual machines, not with the hosts of a
/// site.
const CONTAINERS: [&str; 9] = [
    "docker", "virbr", "cni", "flannel", "incusbr", "lxcbr", "lxdbr", "podman", "vmnet",
];
/// The length of a network's id in the name of its bridge in Docker: `br-` and hexadecimal digits.
const DOCKER_ID: usize = 12;
/// Kinds of devices (`IFLA_INFO_KIND`) that never lead to hosts.
const NO_HOSTS: [&str; 4] = ["ifb", "dummy", "nlmon", "bond_slave"];

/// Returns the devices of hosts. They are up, Ethernet-like, have an inside address, and are
/// neither the link nor a part of it. A machine that does not forward has none.
pub(crate) fn devices(machine: &Machine, network: &Network, link: &DeviceName) -> Vec<DeviceName> {
    if !forwards(machine) {
        return Vec::new();
    }
    let of_link = |name: &DeviceName| {
        let mut below = network.below.iter();
        let below = below.any(|(upper, lower)| {
            lower == name && (upper == link || network.sessions.contains(upper))
        });
        let leads_outside = network.defaults.iter().any(|route| route.device == *name);
        name == link || below || leads_outside || network.sessions.contains(name)
    };
    let serves = |(name, device): &(&DeviceName, &Interface)| {
        let kind = device.kind.as_deref().unwrap_or_default();
        let ethernet = DeviceKind::from_link(device.link_type, device.kind.as_deref());
        let ethernet = matches!(ethernet, Some(DeviceKind::Ethernet | DeviceKind::Vlan));
        let addresses = network.addresses.get(*name);
        ethernet
            && device.up
            && device.master.is_none()
            && !NO_HOSTS.contains(&kind)
            && !has_containers(name.as_str())
            && !of_link(name)
            && addresses.is_some_and(|all| all.iter().any(is_inside))
    };
    let serving = machine.devices.iter().filter(serves);
    serving.map(|(name, _)| name.clone()).collect()
}

/// Returns whether the machine forwards packets.
pub(crate) fn forwards(machine: &Machine) -> bool {
    [machine.forwarding_v4, machine.forwarding_v6].contains(&Some(true))
}

/// Returns whether a name is of a bridge with containers or virtual machines.
fn has_containers(name: &str) -> bool {
    let of_docker = name
        .strip_prefix("br-")
        .is_some_and(|id| id.len() == DOCKER_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    of_docker || CONTAINERS.iter().any(|begin| name.starts_with(begin))
}

/// Returns whether an address is of a site (RFC 1918, RFC 4193), or of a provider's own
/// translation, which some sites get (RFC 6598).
fn is_inside(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            address.is_private() || (first == 100 && (64..128).contains(&second))
        }
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// Returns the devices of bare IP that are up, except the link: tunnels that end here.
pub(crate) fn tunnels(machine: &Machine, link: &DeviceName) -> Vec<DeviceName> {
    let all = machine.devices.iter().filter(|(name, device)| {
        let kind = DeviceKind::from_link(device.link_type, device.kind.as_deref());
        *name != link && device.up && kind == Some(DeviceKind::Tun)
    });
    all.map(|(name, _)| name.clone()).collect()
}
