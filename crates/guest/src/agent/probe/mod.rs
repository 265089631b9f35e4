// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round-trip probes.
//!
//! A probe's time of sending is taken just before its send call, its answer's
//! time is the kernel's note of its arrival, so that what the event loop does
//! in between does not count. An answer that has not come when the run ends is
//! lost: the recorder says so from the start.

mod asker;
mod echo;
mod udp;

use super::session::Session;
use super::traffic::ports::Ports;
use anyhow::Result;
use weirgate_experiment::{Probe, ProbeKind};

/// Starts the probe that is number `number` of the experiment.
pub fn start(session: &Session, ports: &Ports, number: u16, probe: &Probe) -> Result<()> {
    let flow = session
        .recorder
        .flow(&probe.name, 0, probe.class.as_deref());
    match probe.kind {
        ProbeKind::Icmp => echo::start(session, number, flow, probe),
        ProbeKind::Udp { port } => udp::start(session, ports, port, number, flow, probe),
    }
}
