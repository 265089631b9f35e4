// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that an experiment sends, probes and samples.
//!
//! [`start`] opens all sockets, so that errors are detected before time begins. It starts tasks
//! in the event loop, which follow the experiment's times and end with the run. Line and
//! topology are in other modules.
//!
//! Start reading at [`flow`]: a flow is one of the `count` senders of a traffic entry. The
//! modules [`tcp`], [`datagrams`] and [`quic`] are the basis of the others.

mod bulk;
mod datagrams;
pub mod endpoint;
pub mod flow;
mod meter;
pub mod options;
pub mod pace;
pub mod ports;
pub mod quic;
mod requests;
mod short;
mod syns;
mod tcp;
#[cfg(test)]
mod tests;

use crate::agent::nodes::{Nodes, name};
use crate::agent::sample::Senders;
use crate::agent::session::Session;
use crate::agent::{probe, sample};
use anyhow::{Context, Result};
pub use datagrams::payload_of;
use flow::{Flow, Shared};
use std::rc::Rc;
use weirgate_experiment::{Traffic, TrafficKind};

/// Kernel settings of every node that its sockets need.
const SETTINGS: [(&str, &str); 2] = [
    // Entries with different code points may share a listening port.
    ("/proc/sys/net/ipv4/tcp_reflect_tos", "1"),
    // Permit echo sockets for every group.
    ("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"),
];

/// Starts everything that the session's experiment names and its arm does not leave out. Must be
/// called inside the run's `LocalSet`.
pub fn start(session: &Session) -> Result<()> {
    prepare(&session.nodes)?;
    let experiment = &session.experiment;
    let shared = Rc::new(Shared {
        ports: ports::Ports::new(experiment),
        listeners: tcp::Listeners::default(),
        senders: Senders::default(),
    });
    let kept = |name: &str| !session.arm.without.iter().any(|without| without == name);
    for entry in experiment.traffic.iter().filter(|entry| kept(&entry.name)) {
        for instance in 0..entry.count {
            let member = Rc::new(entry.member(instance));
            start_flow(session, &shared, &member, instance)
                .with_context(|| format!("traffic `{}`", entry.name))?;
        }
    }
    for (number, entry) in experiment.probes.iter().enumerate() {
        if kept(&entry.name) {
            probe::start(session, &shared.ports, number as u16, entry)
                .with_context(|| format!("probe `{}`", entry.name))?;
        }
    }
    sample::start(session, &shared.senders)
}

/// Writes the kernel settings of every node.
fn prepare(nodes: &Nodes) -> Result<()> {
    for node in nodes.all() {
        for (file, value) in SETTINGS {
            nodes
                .enter(node, || std::fs::write(file, value))
                .with_context(|| format!("write `{value}` to {file} in {}", name(node)))?;
        }
    }
    Ok(())
}

fn start_flow(
    session: &Session,
    shared: &Rc<Shared>,
    entry: &Rc<Traffic>,
    instance: u16,
) -> Result<()> {
    let recorder = &session.recorder;
    let flow = Flow {
        session: session.clone(),
        shared: Rc::clone(shared),
        entry: Rc::clone(entry),
        instance,
        index: recorder.flow(&entry.name, instance, entry.class.as_deref()),
        port: entry.port.unwrap_or_else(|| shared.ports.far()),
    };
    match &entry.kind {
        TrafficKind::Tcp(tcp) => {
            shared.listeners.open(&flow, tcp)?;
            flow.spawn("send", bulk::run(flow.clone(), tcp.clone()));
        }
        TrafficKind::Quic(quic) => {
            flow.spawn("send", quic::run(flow.clone(), quic.clone()));
        }
        TrafficKind::Requests {
            request,
            response,
            think,
            tcp,
        } => {
            shared.listeners.open(&flow, tcp)?;
            let exchange = requests::Exchange::new(*request, *response, *think, tcp.clone());
            flow.spawn("ask", requests::run(flow.clone(), exchange));
        }
        TrafficKind::ShortFlows {
            mean_gap,
            mean_length,
            shape,
            drain,
            sizes: _,
            tcp,
        } => {
            shared.listeners.open(&flow, tcp)?;
            let distribution = short::Distribution {
                mean_gap: *mean_gap,
                mean_length: *mean_length,
                shape: *shape,
                drain: *drain,
            };
            let run = short::run(flow.clone(), distribution, tcp.clone());
            flow.spawn("start short flows", run);
        }
        TrafficKind::Udp {
            interval,
            packet,
            packets,
        } => datagrams::start(
            &flow,
            datagrams::Stream {
                interval: *interval,
                packet: *packet,
                packets: *packets,
            },
        )?,
        TrafficKind::Syns { interval } => syns::start(&flow, *interval)?,
        TrafficKind::Voice { interval, packet } => datagrams::start_voice(
            &flow,
            datagrams::Stream {
                interval: *interval,
                packet: *packet,
                packets: None,
            },
        )?,
    }
    Ok(())
}
