// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The namespace of the modem, between gateway and provider, for a line that the kernel
//! emulates.

use super::{MTU, configure_line, ends, hardware, settings};
use crate::agent::clock::Clock;
use crate::agent::line::{Log, kernel::Emulation};
use crate::agent::nodes::{LINE, Nodes, WAN};
use anyhow::{Context, Result};
use nlink::netlink::Ethtool;
use nlink::netlink::link::VethLink;
use nlink::{Connection, Route};
use std::io;
use weirgate_bpf::LineEmulator;
use weirgate_experiment::{Line, Node};
use weirgate_kernel::Kernel;
use weirgate_state::DeviceName;

/// The modem's devices to the gateway and to the provider.
pub const ENDS: [&str; 2] = ["g", "p"];

/// The feature of a device that computes checksums. If it is off, the kernel computes them
/// before the device gets the packet, so that they are correct on the line.
const CHECKSUMS: &str = "tx-checksum-ip-generic";

/// Creates the namespace, and its devices joined to `wan` and `line`, which are off.
pub async fn make(nodes: &mut Nodes) -> Result<Connection<Route>> {
    nodes.make_modem()?;
    let route = nodes
        .enter_modem(|| {
            settings::apply()?;
            Connection::<Route>::new().map_err(io::Error::other)
        })
        .context("prepare the namespace of the modem")?;
    let others = [(Node::Gateway, WAN), (Node::Provider, LINE)];
    for (port, (node, device)) in ENDS.into_iter().zip(others) {
        let pair = VethLink::new(port, device)
            .mtu(MTU)
            .peer_address(hardware(node, device))
            .peer_netns_fd(nodes.space(node)?);
        let made = route.add_link(pair).await;
        made.with_context(|| format!("connect the modem with {device}"))?;
    }
    Ok(route)
}

/// Builds a line of the lab's own program between `wan` and `line`, for a run with this seed.
pub async fn build(
    nodes: &mut Nodes,
    line: &Line,
    seed: u64,
    log: Log,
    clock: Clock,
) -> Result<Emulation> {
    let route = make(nodes).await?;
    for (node, device) in [(Node::Gateway, WAN), (Node::Provider, LINE)] {
        let changed = async {
            let ethtool = Connection::<Ethtool>::new_in_async(nodes.space(node)?).await?;
            ethtool
                .set_features_by_name(device, |change| change.disable(CHECKSUMS))
                .await?;
            anyhow::Ok(())
        };
        changed
            .await
            .with_context(|| format!("have checksums computed before {device}"))?;
    }
    let kernel = Kernel::open_in(nodes.modem()?)?;
    let device = async |port| {
        let name = DeviceName::new(port).context("the device's name")?;
        anyhow::Ok((kernel.device(&name).await?, name))
    };
    let devices = [device(ENDS[0]).await?, device(ENDS[1]).await?];
    let numbers = devices.each_ref().map(|(index, _)| index.number());
    let emulation = Emulation::load(nodes, numbers, line, seed, log, clock)?;
    for (index, name) in devices {
        kernel.put_root(&name, index, LineEmulator::KIND).await?;
        ends::switch_on(&route, name.as_str()).await?;
    }
    configure_line(nodes).await?;
    Ok(emulation)
}
