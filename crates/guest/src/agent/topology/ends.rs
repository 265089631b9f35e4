// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ends of the topology's links: addresses, neighbours and routes as plain values, and their
//! configuration in the kernel.

use crate::agent::nodes::{ETH, LAN, LINE, NET, WAN, address};
use anyhow::{Context, Result};
use nlink::netlink::neigh::Neighbor;
use nlink::netlink::route::{Ipv4Route, Ipv6Route};
use nlink::{Connection, Route};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_experiment::Node;

/// The transmit queue length of devices, which is Ethernet's default. It is the number of
/// packets that a TAP holds until the line reads them, and the default limit of a FIFO on it.
const QUEUE_LENGTH: u32 = 1_000;

const HOSTS_V4: Net = Net(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 16);
const HOSTS_V6: Net = Net(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 0)), 64);
const LINE_V4: Net = Net(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0)), 30);
const LINE_V6: Net = Net(
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0)),
    64,
);
const SERVERS_V4: Net = Net(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 0)), 24);
const SERVERS_V6: Net = Net(
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0)),
    64,
);
const ANY_V4: Net = Net(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const ANY_V6: Net = Net(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// A network and its prefix length.
#[derive(Debug, Clone, Copy)]
struct Net(IpAddr, u8);

impl Net {
    /// Returns the first address, which is the router's.
    fn first(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(net) => Ipv4Addr::from_bits(net.to_bits() + 1).into(),
            IpAddr::V6(net) => Ipv6Addr::from_bits(net.to_bits() + 1).into(),
        }
    }
}

/// One end of a link.
#[derive(Debug)]
pub struct End {
    /// Its node.
    pub node: Node,
    /// Its device.
    pub device: &'static str,
    /// Its addresses with prefix lengths.
    addresses: Vec<(IpAddr, u8)>,
    /// Addresses and hardware addresses of the other nodes on the link.
    neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Networks and the next hop for each.
    routes: Vec<(Net, IpAddr)>,
}

impl End {
    /// Returns a router's end towards its leaves.
    pub fn of_router(node: Node, device: &'static str, leaves: &[Node]) -> Self {
        let nets = nets_of(node);
        Self {
            node,
            device,
            addresses: nets.map(|net| (net.first(), net.1)).into(),
            neighbours: leaves.iter().flat_map(|&leaf| seen(leaf, ETH)).collect(),
            routes: Vec::new(),
        }
    }

    /// Returns the end of a host or server.
    pub fn of_leaf(node: Node) -> Self {
        let (router, device) = match node {
            Node::Host(_) | Node::Gateway => (Node::Gateway, LAN),
            Node::Server(_) | Node::Provider => (Node::Provider, NET),
        };
        let nets = nets_of(node);
        let gateways = nets.map(Net::first);
        let router_hardware = hardware(router, device);
        Self {
            node,
            device: ETH,
            addresses: [false, true]
                .map(|ipv6| address(node, ipv6))
                .into_iter()
                .zip(nets.map(|net| net.1))
                .collect(),
            neighbours: gateways.map(|gateway| (gateway, router_hardware)).into(),
            routes: [ANY_V4, ANY_V6].into_iter().zip(gateways).collect(),
        }
    }

    /// Returns the gateway's or provider's end of the line.
    pub fn of_line(node: Node) -> Self {
        let (device, other, far, nets) = match node {
            Node::Host(_) | Node::Gateway => (WAN, Node::Provider, LINE, [ANY_V4, ANY_V6]),
            Node::Server(_) | Node::Provider => (LINE, Node::Gateway, WAN, nets_of(Node::Gateway)),
        };
        let others = [false, true].map(|ipv6| address(other, ipv6));
        Self {
            node,
            device,
            addresses: [false, true]
                .map(|ipv6| address(node, ipv6))
                .into_iter()
                .zip([LINE_V4.1, LINE_V6.1])
                .collect(),
            neighbours: seen(other, far).into(),
            routes: nets.into_iter().zip(others).collect(),
        }
    }

    /// Configures the end in the kernel, and switches the device on.
    pub async fn configure(&self, route: &Connection<Route>) -> Result<()> {
        let device = self.device;
        switch_on(route, device).await?;
        for &(address, prefix) in &self.addresses {
            let added = route.add_address_by_name(device, address, prefix).await;
            added.with_context(|| format!("add the address {address}"))?;
        }
        for &(address, hardware) in &self.neighbours {
            let neighbour = Neighbor::new(device, address).lladdr(hardware).permanent();
            let added = route.add_neighbor(neighbour).await;
            added.with_context(|| format!("add the neighbour {address}"))?;
        }
        for &(Net(net, prefix), via) in &self.routes {
            let added = match (net, via) {
                (IpAddr::V4(net), IpAddr::V4(via)) => {
                    let new = Ipv4Route::from_addr(net, prefix).gateway(via).dev(device);
                    route.add_route(new).await
                }
                (IpAddr::V6(net), IpAddr::V6(via)) => {
                    let new = Ipv6Route::from_addr(net, prefix).gateway(via).dev(device);
                    route.add_route(new).await
                }
                _ => continue,
            };
            added.with_context(|| format!("add the route to {net}/{prefix}"))?;
        }
        Ok(())
    }
}

/// Switches a device on, after disabling segmentation offload, so that its packets are those
/// that the line carries.
pub async fn switch_on(route: &Connection<Route>, device: &str) -> Result<()> {
    let switch = async {
        let link = route.get_link_by_name(device).await?;
        let index = link.context("there is no such device")?.ifindex();
        // Senders and forwarders then pass single segments to the device (net/core/dev.c,
        // gso_features_check).
        route.set_link_gso_max_segs_by_index(index, 1).await?;
        route.set_link_txqlen_by_index(index, QUEUE_LENGTH).await?;
        route.set_link_up_by_index(index).await?;
        anyhow::Ok(())
    };
    switch.await.with_context(|| format!("switch on {device}"))
}

/// Returns the networks of hosts or of servers.
fn nets_of(node: Node) -> [Net; 2] {
    match node {
        Node::Host(_) | Node::Gateway => [HOSTS_V4, HOSTS_V6],
        Node::Server(_) | Node::Provider => [SERVERS_V4, SERVERS_V6],
    }
}

/// Returns a node's addresses with its hardware address, as neighbours need them.
fn seen(node: Node, device: &str) -> [(IpAddr, [u8; 6]); 2] {
    let hardware = hardware(node, device);
    [false, true].map(|ipv6| (address(node, ipv6), hardware))
}

/// Returns the hardware address of a device: locally administered and readable.
pub fn hardware(node: Node, device: &str) -> [u8; 6] {
    let (role, number) = match node {
        Node::Host(number) => (1, number),
        Node::Gateway => (2, 0),
        Node::Provider => (3, 0),
        Node::Server(number) => (4, number),
    };
    let kind = match device {
        ETH => 0,
        WAN | LINE => 1,
        LAN | NET => 2,
        // A port of a bridge: `lan7`.
        _ => 3,
    };
    let port = device.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = if kind == 3 {
        port.parse().unwrap_or(number)
    } else {
        number
    };
    let [high, low] = number.to_be_bytes();
    [2, 0, role, kind, high, low]
}

#[cfg(test)]
mod tests {
    use super::{ETH, End, LAN, LINE, NET, Node, WAN, hardware};
    use std::collections::BTreeSet;

    #[test]
    fn no_two_devices_have_one_hardware_address() {
        let mut all = vec![
            hardware(Node::Gateway, LAN),
            hardware(Node::Gateway, WAN),
            hardware(Node::Provider, LINE),
            hardware(Node::Provider, NET),
        ];
        for number in 1..=300 {
            all.push(hardware(Node::Host(number), ETH));
            all.push(hardware(Node::Server(number), ETH));
            all.push(hardware(Node::Gateway, &format!("lan{number}")));
            all.push(hardware(Node::Provider, &format!("net{number}")));
        }
        let different: BTreeSet<[u8; 6]> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn both_ends_of_a_link_know_each_other() {
        let leaves = [Node::Host(1), Node::Host(2)];
        let router = End::of_router(Node::Gateway, LAN, &leaves);
        for leaf in leaves.map(End::of_leaf) {
            for (address, prefix) in &leaf.addresses {
                assert!(router.addresses.iter().any(|(_, other)| other == prefix));
                let known = (*address, hardware(leaf.node, ETH));
                assert!(router.neighbours.contains(&known), "{address}");
            }
            for (address, own) in &leaf.neighbours {
                assert_eq!(*own, hardware(Node::Gateway, LAN));
                assert!(router.addresses.iter().any(|(other, _)| other == address));
            }
        }
        let (near, far) = (End::of_line(Node::Gateway), End::of_line(Node::Provider));
        for (one, other) in [(&near, &far), (&far, &near)] {
            for (_, via) in &one.routes {
                assert!(other.addresses.iter().any(|(address, _)| address == via));
            }
        }
    }
}
