// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round-trip probes.
//!
//! The time of sending is read just before the send call, and the time of the reply is the
//! kernel's receive timestamp. Delays in the event loop therefore do not count. A reply that has
//! not arrived when the run ends is lost; every probe is recorded as lost until its reply
//! arrives.

mod asker;
mod echo;
mod udp;

use super::session::Session;
use super::traffic::ports::Ports;
use anyhow::Result;
use weirgate_experiment::{Probe, ProbeKind};

/// Starts the experiment's probe with this number.
pub fn start(session: &Session, ports: &Ports, number: u16, probe: &Probe) -> Result<()> {
    let flow = session
        .recorder
        .flow(&probe.name, 0, probe.class.as_deref());
    match probe.kind {
        ProbeKind::Icmp => echo::start(session, number, flow, probe),
        ProbeKind::Udp { port } => udp::start(session, ports, port, number, flow, probe),
    }
}
