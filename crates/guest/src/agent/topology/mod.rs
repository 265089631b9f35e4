// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds `access-line`: hosts - gateway - line - provider - servers.
//!
//! All links are created here, with fixed hardware addresses and permanent neighbours. ARP,
//! duplicate address detection or router solicitation therefore cannot disturb a measurement. No
//! link merges or splits packets, so every device handles the packets that the line carries.
//! Module `line` emulates the line itself.

mod ends;
pub mod modem;
pub mod netem;
mod settings;

use super::line::tap::Tap;
use super::nodes::{ETH, LAN, LINE, NET, Nodes, WAN, name};
use anyhow::{Context, Result};
use ends::End;
pub use ends::hardware;
use nlink::netlink::link::{BridgeLink, VethLink};
use nlink::{Connection, Route};
use std::io;
use weirgate_experiment::{Node, Topology};

/// MTU of every link.
pub const MTU: u32 = 1_500;

/// The line's two devices.
#[derive(Debug)]
pub struct Taps {
    /// `wan` in the gateway.
    pub wan: Tap,
    /// `line` in the provider.
    pub line: Tap,
}

/// Creates the namespaces, and everything in them except the line's devices.
pub async fn build(topology: &Topology) -> Result<Nodes> {
    let nodes = Nodes::create(topology.hosts, topology.servers)?;
    for node in nodes.all() {
        nodes
            .enter(node, settings::apply)
            .with_context(|| format!("prepare the namespace of {}", name(node)))?;
        ends::switch_on(&connect(&nodes, node)?, "lo")
            .await
            .with_context(|| format!("in {}", name(node)))?;
    }
    let hosts: Vec<Node> = (1..=topology.hosts).map(Node::Host).collect();
    let servers: Vec<Node> = (1..=topology.servers).map(Node::Server).collect();
    for (router, device, leaves) in [
        (Node::Gateway, LAN, &hosts),
        (Node::Provider, NET, &servers),
    ] {
        link(&nodes, router, device, leaves).await?;
        configure(&nodes, End::of_router(router, device, leaves)).await?;
        for &leaf in leaves {
            configure(&nodes, End::of_leaf(leaf)).await?;
        }
    }
    Ok(nodes)
}

/// Creates the line's devices as TAPs.
pub async fn add_taps(nodes: &Nodes) -> Result<Taps> {
    let open = async |node, device: &str| {
        let tap = nodes.enter(node, || Tap::open(device))?;
        let route = connect(nodes, node)?;
        let address = hardware(node, device);
        route.set_link_address(device, address).await?;
        anyhow::Ok(tap)
    };
    let wan = open(Node::Gateway, WAN)
        .await
        .context("create the TAP device wan in gateway")?;
    let line = open(Node::Provider, LINE)
        .await
        .context("create the TAP device line in provider")?;
    configure_line(nodes).await?;
    Ok(Taps { wan, line })
}

/// Configures addresses and routes of the line's devices, of whatever kind.
pub async fn configure_line(nodes: &Nodes) -> Result<()> {
    configure(nodes, End::of_line(Node::Gateway)).await?;
    configure(nodes, End::of_line(Node::Provider)).await
}

/// Opens a netlink socket in a node's namespace.
pub fn connect(nodes: &Nodes, node: Node) -> Result<Connection<Route>> {
    nodes
        .enter(node, || {
            Connection::<Route>::new().map_err(io::Error::other)
        })
        .with_context(|| format!("open a netlink socket in {}", name(node)))
}

async fn configure(nodes: &Nodes, end: End) -> Result<()> {
    let route = connect(nodes, end.node)?;
    end.configure(&route)
        .await
        .with_context(|| format!("configure {} in {}", end.device, name(end.node)))
}

/// Connects leaves to a router: a single one directly, several by a bridge.
async fn link(nodes: &Nodes, router: Node, device: &str, leaves: &[Node]) -> Result<()> {
    let route = connect(nodes, router)?;
    let bridged = leaves.len() > 1;
    if bridged {
        let bridge = BridgeLink::new(device)
            .mtu(MTU)
            .address(hardware(router, device))
            .stp(false);
        let made = route.add_link(bridge).await;
        made.with_context(|| format!("create the bridge {device} in {}", name(router)))?;
    }
    for (index, &leaf) in leaves.iter().enumerate() {
        let port = if bridged {
            format!("{device}{}", index + 1)
        } else {
            device.to_owned()
        };
        let join = async {
            let pair = VethLink::new(&port, ETH)
                .mtu(MTU)
                .address(hardware(router, &port))
                .peer_address(hardware(leaf, ETH))
                .peer_netns_fd(nodes.space(leaf)?);
            route.add_link(pair).await?;
            if bridged {
                route.set_link_master(port.as_str(), device).await?;
                ends::switch_on(&route, &port).await?;
            }
            anyhow::Ok(())
        };
        join.await
            .with_context(|| format!("connect {} with {}", name(leaf), name(router)))?;
    }
    Ok(())
}
