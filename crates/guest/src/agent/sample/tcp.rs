// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TCP state of senders, from `TCP_INFO`.

use super::tick::tick;
use crate::agent::session::Session;
use crate::agent::traffic::endpoint::Endpoint;
use crate::agent::traffic::options::tcp_info;
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use weirgate_experiment::TcpSample;
use weirgate_units::Span;

/// The open senders of a run; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Senders {
    all: Rc<RefCell<Vec<Sender>>>,
}

#[derive(Debug)]
struct Sender {
    flow: u16,
    endpoint: Weak<Endpoint>,
    /// What the kernel counts as acknowledged besides payload: the SYN, at the
    /// end that connected.
    acknowledged_before: u64,
}

impl Senders {
    /// Has a connected socket that sends for a flow sampled until it closes.
    /// Must be called before it sends.
    pub fn add(&self, flow: u16, endpoint: &Rc<Endpoint>) {
        // A socket that says nothing now says so when it is sampled.
        let acknowledged_before =
            tcp_info(endpoint.as_ref()).map_or(0, |info| info.tcpi_bytes_acked);
        self.all.borrow_mut().push(Sender {
            flow,
            endpoint: Rc::downgrade(endpoint),
            acknowledged_before,
        });
    }
}

/// Samples all senders each `interval`.
pub async fn sample(session: Session, senders: Senders, interval: Span) -> Result<()> {
    loop {
        tick(&session.clock, interval).await?;
        let mut all = senders.all.borrow_mut();
        all.retain(|sender| sender.endpoint.strong_count() > 0);
        for sender in &*all {
            let Some(endpoint) = sender.endpoint.upgrade() else {
                continue;
            };
            let info = tcp_info(endpoint.as_ref()).context("read TCP_INFO")?;
            session.recorder.tcp(TcpSample {
                flow: sender.flow,
                at_ns: session.clock.now_ns(),
                cwnd_bytes: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
                outstanding_bytes: outstanding(&info, sender.acknowledged_before),
                srtt_us: info.tcpi_rtt,
                retransmits: info.tcpi_total_retrans,
            });
        }
    }
}

/// Payload sent and not acknowledged (SND.NXT - SND.UNA): what was sent first
/// time, less what was acknowledged. `tcpi_unacked` counts segments of unknown
/// length.
fn outstanding(info: &libc::tcp_info, acknowledged_before: u64) -> u64 {
    let sent = info.tcpi_bytes_sent.saturating_sub(info.tcpi_bytes_retrans);
    let acknowledged = info.tcpi_bytes_acked.saturating_sub(acknowledged_before);
    sent.saturating_sub(acknowledged)
}
