// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs without an answer, at a constant rate, as sent by a worm or a P2P client with stale
//! addresses.
//!
//! The far end listens, with a filter that drops every packet before TCP sees it (`tcp_filter`,
//! net/ipv4/tcp_ipv4.c), as if the host did not exist. The near end closes each socket at once, so
//! that no SYN is retransmitted.

use super::endpoint;
use super::flow::Flow;
use super::options::{self, Transport};
use super::pace::Pace;
use super::tcp::PROTOCOL;
use crate::agent::nodes::{self, name};
use anyhow::{Context, Result};
use rustix::io::Errno;
use std::future::poll_fn;
use std::net::SocketAddr;
use weirgate_units::Span;

/// The number of attempts before other tasks run.
const BATCH: u64 = 16;

/// Starts a flow's SYNs, one per `interval`.
pub fn start(flow: &Flow, interval: Span) -> Result<()> {
    let (near_node, far_node) = flow.ends();
    let (nodes, entry) = (&flow.session.nodes, &flow.entry);
    let open = |node, port| {
        endpoint::bound(nodes, node, Transport::Tcp, entry.ipv6, entry.dscp, port)
            .with_context(|| format!("open port {port} of {}", name(node)))
    };
    let silent = open(far_node, flow.port)?;
    options::drop_arrivals(&silent).context("attach the filter that drops SYNs")?;
    rustix::net::listen(&silent, 0)
        .with_context(|| format!("listen on port {} of {}", flow.port, name(far_node)))?;
    let peer = SocketAddr::new(nodes::address(far_node, entry.ipv6), flow.port);
    let clock = flow.session.clock.clone();
    let alarm = clock.alarm()?;
    let flow = flow.clone();
    flow.clone().spawn("send SYNs", async move {
        for run in flow.runs() {
            let mut pace = Pace::new(run, interval.as_nanos(), None);
            while let Some(due_ns) = pace.next_ns() {
                while clock.now_ns() < due_ns {
                    alarm.set(Some(due_ns))?;
                    poll_fn(|cx| alarm.poll_ring(cx)).await?;
                }
                for _ in 0..pace.take(clock.now_ns(), BATCH) {
                    let near_port = flow.shared.ports.near();
                    let (nodes, entry) = (&flow.session.nodes, &flow.entry);
                    let transport = Transport::Tcp;
                    let (ipv6, dscp) = (entry.ipv6, entry.dscp);
                    let socket =
                        endpoint::bound(nodes, near_node, transport, ipv6, dscp, near_port)
                            .with_context(|| format!("open port {near_port}"))?;
                    flow.label(PROTOCOL, near_port);
                    match rustix::net::connect(&socket, &peer) {
                        Ok(()) | Err(Errno::INPROGRESS) => {}
                        Err(error) => {
                            return Err(error).with_context(|| format!("connect to {peer}"));
                        }
                    }
                }
                // Let the line run, however many packets are due.
                tokio::task::yield_now().await;
            }
        }
        drop(silent);
        Ok(())
    });
    Ok(())
}
