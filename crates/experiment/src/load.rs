// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The most packets that a run records, and the guest memory that they and the flows take.
//!
//! TCP and QUIC take what a line carries, in full packets and an acknowledgement for
//! each; all else sends at a rate of its own.

use crate::{Experiment, Line, Probe, Traffic, TrafficKind};
use weirgate_units::Span;

/// Packets that a run may record: with them the guest has 1.42 GiB.
pub(crate) const MOST_PACKETS: u64 = 4_500_000;

/// Bytes of the guest's memory for each packet. A packet has a record at the line,
/// one of its payload at the receiver and one of its wait, and all of them once
/// more as the result is encoded. 236 were measured (`tests/memory.rs`).
const PACKET_BYTES: u64 = 256;

/// Bytes for each flow: a socket at both ends with what waits in it, and what
/// the gateway tracks of it. A guess on the safe side: without it, a run of some
/// 4,000 connections was at its end of memory after 560 s.
const FLOW_BYTES: u64 = 96 << 10;

/// MiB for the kernel, its image and the agent.
const BASE_MIB: u64 = 272;

/// MiB for a capture: its 32 MiB twice, and the lengths.
const CAPTURE_MIB: u64 = 80;

/// MiB that a guest has in any case; runs that need no more all have the same.
const LEAST_MIB: u64 = 512;

/// Full packets with which TCP fills a line.
const FULL_BYTES: u128 = 1500;

/// Payload of a full TCP segment with time stamps.
const SEGMENT_BYTES: u64 = 1448;

impl Experiment {
    /// Packets that a run records at most.
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

    /// MiB of memory that the guest needs.
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
    /// Packets with which TCP fills both directions, acknowledgements included.
    pub(crate) fn elastic_packets(&self, time: Span) -> u64 {
        let rate = |bits: u64| u128::from(bits) * u128::from(time.as_nanos()) / 8_000_000_000;
        let bytes = rate(self.up.rate.as_bits_per_second())
            .saturating_add(rate(self.down.rate.as_bits_per_second()));
        u64::try_from(bytes / FULL_BYTES * 2).unwrap_or(u64::MAX)
    }
}

impl Traffic {
    /// Whether it sends as much as the line takes.
    pub(crate) fn fills_lines(&self) -> bool {
        matches!(
            self.kind,
            TrafficKind::Tcp(_) | TrafficKind::Quic(_) | TrafficKind::Requests { .. }
        )
    }

    /// Packets that it sends at a rate of its own.
    pub(crate) fn packets(&self) -> u64 {
        let packets = match &self.kind {
            TrafficKind::Udp {
                interval, packets, ..
            } => each(&self.runs, *interval).min(packets.unwrap_or(u64::MAX)),
            // A SYN, and an answer to the first.
            TrafficKind::Syns { interval } => each(&self.runs, *interval).saturating_add(1),
            TrafficKind::Voice { interval, .. } => each(&self.runs, *interval).saturating_mul(2),
            TrafficKind::ShortFlows {
                mean_gap,
                mean_length,
                ..
            } => {
                let segments = mean_length.as_bytes().div_ceil(SEGMENT_BYTES);
                // Opening, asking and closing; then data and acknowledgements.
                let flow = segments.saturating_mul(2).saturating_add(10);
                each(&self.runs, *mean_gap).saturating_mul(flow)
            }
            TrafficKind::Tcp(_) | TrafficKind::Quic(_) | TrafficKind::Requests { .. } => 0,
        };
        packets.saturating_mul(u64::from(self.count))
    }
}

impl Probe {
    /// Its questions and answers.
    pub(crate) fn packets(&self) -> u64 {
        each(&self.runs, self.interval).saturating_mul(2)
    }
}

/// How often something happens that happens each `interval`.
fn each(runs: &[(Span, Span)], interval: Span) -> u64 {
    runs.iter()
        .map(|(start, stop)| (*stop - *start).as_nanos() / interval.as_nanos().max(1) + 1)
        .fold(0, u64::saturating_add)
}
