// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line as emulated by the kernel's netem, to compare with the lab's own line.
//!
//! A namespace between gateway and provider bridges the two devices through an inner veth pair.
//! The qdiscs at the ends of this pair have the rates and buffers, those on the outer devices
//! the delays. A single netem could have both, but it starts the delay before the transmission
//! (net/sched/sch_netem.c, netem_enqueue), so that packets in the queue would not be delayed.
//! Settings that netem cannot express are refused. Packets on this line are not recorded.

use super::{MTU, configure_line, ends, modem};
use crate::agent::nodes::Nodes;
use anyhow::{Context, Result, bail, ensure};
use nlink::netlink::link::{BridgeLink, VethLink};
use nlink::netlink::tc::NetemConfig;
use nlink::util::{Packets, Rate};
use weirgate_experiment::{Buffer, DropEnd, Framing, Line, LineSide};

/// Linux counts the Ethernet header in the length of a packet that leaves a device.
const ETHERNET: i32 = 14;
/// The smallest IP packet in bytes.
const SMALLEST: u32 = 20;
/// The largest number of packets in the delay.
const TRAVELLING: u32 = 100_000;

/// Builds the line between `wan` and `line`.
pub async fn build(nodes: &mut Nodes, line: &Line) -> Result<()> {
    let up = rate(line, &line.up).context("netem cannot be the line upstream")?;
    let down = rate(line, &line.down).context("netem cannot be the line downstream")?;
    let route = modem::make(nodes).await?;
    let [near, far] = modem::ENDS;
    let make = async {
        for bridge in ["near", "far"] {
            let plain = BridgeLink::new(bridge).mtu(MTU).stp(false);
            route.add_link(plain).await?;
            ends::switch_on(&route, bridge).await?;
        }
        route.add_link(VethLink::new("up", "down").mtu(MTU)).await?;
        for (port, bridge, netem) in [
            ("up", "near", up),
            ("down", "far", down),
            (far, "far", delay(&line.up)),
            (near, "near", delay(&line.down)),
        ] {
            route.set_link_master(port, bridge).await?;
            ends::switch_on(&route, port).await?;
            route.add_qdisc(port, netem).await?;
        }
        anyhow::Ok(())
    };
    make.await.context("build a line of netem")?;
    configure_line(nodes).await
}

/// Returns the rate, framing and buffer of one direction.
fn rate(line: &Line, side: &LineSide) -> Result<NetemConfig> {
    let Buffer::Packets(limit) = side.buffer else {
        bail!("its limit is in packets, and the experiment's buffer is in bytes");
    };
    ensure!(
        side.drop == DropEnd::Tail,
        "it drops what arrives, and the experiment drops from the front"
    );
    ensure!(
        line.mpu <= SMALLEST.saturating_add_signed(line.overhead),
        "it has no smallest packet, and the experiment's mpu is {}",
        line.mpu
    );
    let (cell, header) = match line.framing {
        Framing::None => (0, 0),
        Framing::Atm => (48, 5),
        Framing::Ptm => bail!("its cells are padded, and PTM is not"),
    };
    let rate = Rate::bits_per_sec(side.rate.as_bits_per_second());
    // netem counts the packet in transmission too.
    let limit = Packets::new(limit.saturating_add(1));
    Ok(NetemConfig::new()
        .rate(rate)
        .rate_overhead(line.overhead - ETHERNET, cell, header)
        .limit(limit))
}

fn delay(side: &LineSide) -> NetemConfig {
    NetemConfig::new()
        .delay(side.delay.into())
        .limit(Packets::new(TRAVELLING))
}
