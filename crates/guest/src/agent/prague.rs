// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP Prague for a run whose traffic selects it. It is loaded together with a program at the
//! device of each host and server, so that its packets leave as ECT(1).

use super::nodes::{ETH, Nodes, name};
use super::recorder::Recorder;
use anyhow::{Context, Result};
use std::fs;
use std::io;
use weirgate_bpf::Prague;
use weirgate_experiment::{Experiment, Node, TcpSettings, TrafficKind};
use weirgate_kernel::Kernel;
use weirgate_state::DeviceName;

/// The setting of a namespace's ECN for TCP.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_ecn";

/// Gives accurate ECN feedback (RFC 9768) to peers that request it, RFC 3168 feedback to peers
/// that request that, and requests neither itself. The kernel's default, 2, is the same without
/// accurate feedback (Documentation/networking/ip-sysctl.rst).
const ACCURATE_TO_WHO_ASKS: &str = "5";

/// Returns whether a connection selects it.
pub fn is_asked_for(settings: &TcpSettings) -> bool {
    settings.congestion.as_deref() == Some(Prague::NAME)
}

/// Returns whether any traffic of an experiment selects it.
pub fn is_wanted(experiment: &Experiment) -> bool {
    experiment.traffic.iter().any(|entry| match &entry.kind {
        TrafficKind::Tcp(tcp)
        | TrafficKind::Requests { tcp, .. }
        | TrafficKind::ShortFlows { tcp, .. } => is_asked_for(tcp),
        _ => false,
    })
}

/// Loads it for all nodes. It is unloaded when the result is dropped.
pub async fn put(nodes: &Nodes, recorder: &Recorder) -> Result<Prague> {
    let mut prague = Prague::load()?;
    let device = DeviceName::new(ETH).context("the device's name")?;
    let leaves = nodes
        .all()
        .filter(|node| matches!(node, Node::Host(_) | Node::Server(_)));
    for node in leaves {
        let number = Kernel::open_in(nodes.space(node)?)?.device(&device).await?;
        let put = nodes.enter(node, || {
            fs::write(SETTING, ACCURATE_TO_WHO_ASKS)?;
            prague.attach(number.number()).map_err(io::Error::other)
        });
        put.with_context(|| format!("at {}", name(node)))?;
    }
    recorder.transcript(
        format!("every host and server: {} at {ETH}", Prague::NAME),
        format!("tcp_ecn={ACCURATE_TO_WHO_ASKS}"),
        0,
    );
    Ok(prague)
}
