// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The largest number of packets that a run records, and the guest memory for them and the
//! flows.
//!
//! TCP and QUIC fill the line with full packets and one acknowledgement for each. All other
//! traffic has a fixed rate.

use crate::{Experiment, Line, Probe, Traffic, TrafficKind};
use weirgate_units::Span;

/// The largest number of packets that a run may record. The guest needs 1.42 GiB for them.
pub(crate) const MOST_PACKETS: u64 = 4_500_000;

/// Guest memory per packet in bytes. A packet has a record at the line, a record of its payload
/// at the receiver, and a record of its wait. All of them are copied when the result is encoded.
/// Measurements showed 236 bytes (`tests/memory.rs`).
const PACKET_BYTES: u64 = 256;

/// Guest memory per flow in bytes: a socket at both ends with its buffers, and the connection
/// tracking entry of the gateway. This is a safe estimate. Without it, a run with about 4,000
/// connections ran out of memory after 560 s.
const FLOW_BYTES: u64 = 96 << 10;

/// Guest memory for the kernel, its image and the agent, in MiB.
const BASE_MIB: u64 = 272;

/// Guest memory for a capture in MiB: its 32 MiB twice, and the lengths.
const CAPTURE_MIB: u64 = 80;

/// The smallest guest memory in MiB; all small runs have the same.
const LEAST_MIB: u64 = 512;

/// Length of the full packets with which TCP fills a line.
const FULL_BYTES: u128 = 1500;

/// Payload of a full TCP segment with the timestamps option.
const SEGMENT_BYTES: u64 = 1448;

impl Experiment {
    /// Returns the largest number of packets that a run records.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let time = self.duration();
        let own = self.traffic.iter().map(Traffic::packets);
        let asked = self.probes.iter().map(Probe::packets);
        let elastic = if self.traffic.iter().any(Traffic::fills_lines) {
            self.topology.line.elastic_packets(time)
        } else {
            0
        };
        own.chain(asked).fold(elastic, u64::saturating_add)
    }

    /// Returns the guest memory in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u32 {
        let flows: u64 = self.traffic.iter().map(|one| u64::from(one.count)).sum();
        let records = self
            .packets()
            .saturating_mul(PACKET_BYTES)
            .saturating_add(flows.saturating_mul(FLOW_BYTES))
            .div_ceil(1 << 20);
        let capture = if self.sampling.capture {
            CAPTURE_MIB
        } else {
            0
        };
        let needed = (BASE_MIB + capture).saturating_add(records);
        u32::try_from(needed.max(LEAST_MIB)).unwrap_or(u32::MAX)
    }
}

impl Line {
    /// Returns the number of packets with which TCP fills both directions, with
    /// acknowledgements.
    pub(crate) fn elastic_packets(&self, time: Span) -> u64 {
        let rate = |bits: u64| u128::from(bits) * u128::from(time.as_nanos()) / 8_000_000_000;
        let bytes = rate(self.up.rate.as_bits_per_second())
            .saturating_add(rate(self.down.rate.as_bits_per_second()));
        u64::try_from(bytes / FULL_BYTES * 2).unwrap_or(u64::MAX)
    }
}

impl Traffic {
    /// Returns whether it sends as much as the line carries.
    pub(crate) fn fills_lines(&self) -> bool {
        matches!(
            self.kind,
            TrafficKind::Tcp(_) | TrafficKind::Quic(_) | TrafficKind::Requests { .. }
        )
    }

    /// Returns the number of packets it sends, if its rate is fixed.
    pub(crate) fn packets(&self) -> u64 {
        let packets = match &self.kind {
            TrafficKind::Udp {
                interval, packets, ..
            } => each(&self.runs, *interval).min(packets.unwrap_or(u64::MAX)),
            TrafficKind::Syns { interval } => each(&self.runs, *interval),
            TrafficKind::Voice { interval, .. } => each(&self.runs, *interval).saturating_mul(2),
            TrafficKind::ShortFlows {
                mean_gap,
                mean_length,
                ..
            } => {
                let segments = mean_length.as_bytes().div_ceil(SEGMENT_BYTES);
                // Handshake, request and close, then data and acknowledgements.
                let flow = segments.saturating_mul(2).saturating_add(10);
                each(&self.runs, *mean_gap).saturating_mul(flow)
            }
            TrafficKind::Tcp(_) | TrafficKind::Quic(_) | TrafficKind::Requests { .. } => 0,
        };
        packets.saturating_mul(u64::from(self.count))
    }
}

impl Probe {
    /// Returns the number of its requests and replies.
    pub(crate) fn packets(&self) -> u64 {
        each(&self.runs, self.interval).saturating_mul(2)
    }
}

/// Returns how often an event occurs that repeats each `interval`.
fn each(runs: &[(Span, Span)], interval: Span) -> u64 {
    runs.iter()
        .map(|(start, stop)| (*stop - *start).as_nanos() / interval.as_nanos().max(1) + 1)
        .fold(0, u64::saturating_add)
}
