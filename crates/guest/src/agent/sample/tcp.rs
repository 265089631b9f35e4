// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of senders: TCP from `TCP_INFO`, QUIC from the connection.

use super::tick::tick;
use crate::agent::session::Session;
use crate::agent::traffic::endpoint::Endpoint;
use crate::agent::traffic::options::tcp_info;
use crate::agent::traffic::quic::congestion::Sender as QuicSender;
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use weirgate_experiment::TcpSample;
use weirgate_units::Span;

/// The open senders of a run, which clones share.
#[derive(Debug, Clone, Default)]
pub struct Senders {
    all: Rc<RefCell<Vec<Sender>>>,
}

#[derive(Debug)]
struct Sender {
    flow: u16,
    state: State,
}

/// The source of a sender's state, while it sends.
#[derive(Debug)]
enum State {
    Tcp {
        endpoint: Weak<Endpoint>,
        /// Bytes that the kernel counts as acknowledged in addition to payload: the SYN of the
        /// connecting end.
        acknowledged_before: u64,
    },
    Quic(Weak<QuicSender>),
}

impl Senders {
    /// Samples a connected socket for a flow until it closes. Must be called before it sends.
    pub fn add(&self, flow: u16, endpoint: &Rc<Endpoint>) {
        // If this fails, sampling the socket reports the error.
        let acknowledged_before =
            tcp_info(endpoint.as_ref()).map_or(0, |info| info.tcpi_bytes_acked);
        let state = State::Tcp {
            endpoint: Rc::downgrade(endpoint),
            acknowledged_before,
        };
        self.all.borrow_mut().push(Sender { flow, state });
    }

    /// Samples a QUIC connection for a flow until it is dropped.
    pub fn add_quic(&self, flow: u16, sender: &Rc<QuicSender>) {
        let state = State::Quic(Rc::downgrade(sender));
        self.all.borrow_mut().push(Sender { flow, state });
    }
}

impl Sender {
    fn is_open(&self) -> bool {
        match &self.state {
            State::Tcp { endpoint, .. } => endpoint.strong_count() > 0,
            State::Quic(sender) => sender.strong_count() > 0,
        }
    }

    /// Returns its current state; `None` if it has closed.
    fn sample(&self, at_ns: u64) -> Result<Option<TcpSample>> {
        Ok(match &self.state {
            State::Tcp {
                endpoint,
                acknowledged_before,
            } => {
                let Some(endpoint) = endpoint.upgrade() else {
                    return Ok(None);
                };
                let info = tcp_info(endpoint.as_ref()).context("read TCP_INFO")?;
                Some(TcpSample {
                    flow: self.flow,
                    at_ns,
                    cwnd_bytes: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
                    outstanding_bytes: outstanding(&info, *acknowledged_before),
                    srtt_us: info.tcpi_rtt,
                    retransmits: info.tcpi_total_retrans,
                })
            }
            State::Quic(sender) => sender
                .upgrade()
                .map(|sender| sender.sample(self.flow, at_ns)),
        })
    }
}

/// Samples all senders each `interval`.
pub async fn sample(session: Session, senders: Senders, interval: Span) -> Result<()> {
    loop {
        tick(&session.clock, interval).await?;
        let mut all = senders.all.borrow_mut();
        all.retain(Sender::is_open);
        for sender in &*all {
            if let Some(sample) = sender.sample(session.clock.now_ns())? {
                session.recorder.tcp(sample);
            }
        }
    }
}

/// Returns the payload that is sent and not acknowledged (SND.NXT - SND.UNA): bytes sent without
/// retransmissions, minus acknowledged bytes. `tcpi_unacked` counts segments of unknown length.
fn outstanding(info: &libc::tcp_info, acknowledged_before: u64) -> u64 {
    let sent = info.tcpi_bytes_sent.saturating_sub(info.tcpi_bytes_retrans);
    let acknowledged = info.tcpi_bytes_acked.saturating_sub(acknowledged_before);
    sent.saturating_sub(acknowledged)
}
