// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion controllers of quinn-proto, and the sampled state of a sender.

use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use quinn_proto::{Connection, RttEstimator};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weirgate_experiment::{QuicCongestion, TcpSample};

/// A connection, and the bytes of its packets in flight. quinn-proto reports these only to the
/// congestion controller.
#[derive(Debug)]
pub struct Sender {
    /// The connection.
    pub connection: RefCell<Connection>,
    in_flight: Arc<AtomicU64>,
}

impl Sender {
    /// Returns a sender with its connection, and the counter of its [`Counted`] controller.
    pub fn new(connection: Connection, in_flight: Arc<AtomicU64>) -> Self {
        Self {
            connection: RefCell::new(connection),
            in_flight,
        }
    }

    /// Returns a sample like that of a TCP socket. Packets stand for segments, and bytes in
    /// flight include QUIC's headers.
    pub fn sample(&self, flow: u16, at_ns: u64) -> TcpSample {
        let path = self.connection.borrow().stats().path;
        TcpSample {
            flow,
            at_ns,
            cwnd_bytes: path.cwnd,
            outstanding_bytes: self.in_flight.load(Ordering::Relaxed),
            srtt_us: u32::try_from(path.rtt.as_micros()).unwrap_or(u32::MAX),
            retransmits: u32::try_from(path.lost_packets).unwrap_or(u32::MAX),
        }
    }
}

/// Creates congestion controllers that count the bytes in flight.
pub struct Counting {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    in_flight: Arc<AtomicU64>,
}

impl Counting {
    /// Returns a factory of controllers of this kind, which count in `in_flight`.
    pub fn new(kind: QuicCongestion, in_flight: Arc<AtomicU64>) -> Self {
        let inner: Arc<dyn ControllerFactory + Send + Sync> = match kind {
            QuicCongestion::Cubic => Arc::new(CubicConfig::default()),
            QuicCongestion::NewReno => Arc::new(NewRenoConfig::default()),
            QuicCongestion::Bbr => Arc::new(BbrConfig::default()),
        };
        Self { inner, in_flight }
    }
}

impl ControllerFactory for Counting {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Counted {
            inner: Arc::clone(&self.inner).build(now, current_mtu),
            in_flight: Arc::clone(&self.in_flight),
        })
    }
}

/// A congestion controller, and the bytes in flight as reported to it.
struct Counted {
    inner: Box<dyn Controller>,
    in_flight: Arc<AtomicU64>,
}

impl Counted {
    fn change(&self, by: impl FnOnce(u64) -> u64) {
        let before = self.in_flight.load(Ordering::Relaxed);
        self.in_flight.store(by(before), Ordering::Relaxed);
    }
}

impl Controller for Counted {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.change(|before| before.saturating_add(bytes));
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    // Called with the bytes in flight. It removes sent acknowledgements from the count, since
    // they are not acknowledged.
    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.change(|_| in_flight);
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.change(|before| before.saturating_sub(lost_bytes));
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            in_flight: Arc::clone(&self.in_flight),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
