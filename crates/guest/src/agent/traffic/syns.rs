// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs that nobody answers, at a constant rate: what a worm or a P2P client
//! with old addresses sends.
//!
//! The far end listens and takes nothing: once the queue of connections that
//! wait to be taken is full, the kernel drops further SYNs without a word
//! (`sk_acceptq_is_full`, include/net/sock.h), as a host that is not there
//! would. The near end gives each attempt up at once, so that none is sent
//! again.

use super::endpoint;
use super::flow::Flow;
use super::options::Transport;
use super::pace::Pace;
use super::tcp::PROTOCOL;
use crate::agent::nodes::{self, name};
use anyhow::{Context, Result};
use rustix::io::Errno;
use std::future::poll_fn;
use std::net::SocketAddr;
use weirgate_units::Span;

/// Attempts made without looking at other tasks.
const BATCH: u64 = 16;

/// Starts a flow's SYNs, one each `interval`.
pub fn start(flow: &Flow, interval: Span) -> Result<()> {
    let (near_node, far_node) = flow.ends();
    let (nodes, entry) = (&flow.session.nodes, &flow.entry);
    let open = |node, port| {
        endpoint::bound(nodes, node, Transport::Tcp, entry.ipv6, entry.dscp, port)
            .with_context(|| format!("open port {port} of {}", name(node)))
    };
    let silent = open(far_node, flow.port)?;
    rustix::net::listen(&silent, 0)
        .with_context(|| format!("listen on port {} of {}", flow.port, name(far_node)))?;
    let peer = SocketAddr::new(nodes::address(far_node, entry.ipv6), flow.port);
    let clock = flow.session.clock.clone();
    let alarm = clock.alarm()?;
    let flow = flow.clone();
    flow.clone().spawn("send SYNs", async move {
        // The one that is answered keeps the far end's queue full.
        let mut answered = None;
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
                    answered.get_or_insert(socket);
                }
                // Lets the line run however much is due.
                tokio::task::yield_now().await;
            }
        }
        drop(silent);
        Ok(())
    });
    Ok(())
}
