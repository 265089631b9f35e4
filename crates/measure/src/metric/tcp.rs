// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of TCP: senders' state, ACK spacing, bursts and loss recovery.

use crate::figures::Figures;
use crate::metric::connection::entry;
use crate::metric::line::side;
use crate::run::{Run, Subject};
use crate::stats::{Sorted, mean};
use crate::window::Window;
use std::collections::BTreeMap;
use weirgate_experiment::{
    Direction, Fate, LinePacket, Quantity, Statistic, TcpSample, TcpSegment, TrafficKind,
};

/// The interval over which a burst is measured.
const BURST_NS: u64 = 100_000_000;

/// The header's ACK flag (RFC 9293 section 3.1).
const ACK: u8 = 0x10;

/// Flags of segments that open or close a connection: SYN, FIN, RST.
const EDGE: u8 = 0x07;

/// Stores all TCP figures of one subject.
pub(crate) fn figures(run: &Run, subject: &Subject, window: &Window, figures: &mut Figures) {
    if !is_of_short_flows(run, subject) {
        state(run, subject, window, figures);
    }
    acks(run, subject, window, figures);
    let burst = burst(run, subject, window);
    figures.put(Quantity::Burst, &subject.name, Statistic::Max, burst);
}

/// Returns whether the subject's connections share a flow number, as those of short flows do.
/// Consecutive samples then belong to different connections.
pub(crate) fn is_of_short_flows(run: &Run, subject: &Subject) -> bool {
    entry(run, subject).is_some_and(|entry| matches!(entry.kind, TrafficKind::ShortFlows { .. }))
}

/// Stores `cwnd`, `outstanding`, `srtt` and `retransmitted` from samples of the senders.
fn state(run: &Run, subject: &Subject, window: &Window, figures: &mut Figures) {
    // A member whose transfer ended is no longer sampled. It is left out of the group's sum after
    // two sampling intervals.
    let stale = run.experiment.sampling.tcp.as_nanos().saturating_mul(2);
    let mut latest: BTreeMap<u16, &TcpSample> = BTreeMap::new();
    let mut retransmitted = None;
    let (mut cwnd, mut outstanding, mut srtt) = (Vec::new(), Vec::new(), Vec::new());
    let own = |sample: &&TcpSample| subject.members.contains(&usize::from(sample.flow));
    for sample in run.recording.tcp.iter().filter(own) {
        let before = latest
            .insert(sample.flow, sample)
            .map_or(0, |before| before.retransmits);
        if !window.contains(sample.at_ns) {
            continue;
        }
        // A new connection counts from 0 again.
        let rise = sample
            .retransmits
            .checked_sub(before)
            .unwrap_or(sample.retransmits);
        *retransmitted.get_or_insert(0) += u64::from(rise);
        let fresh = || {
            latest
                .values()
                .filter(|s| s.at_ns.saturating_add(stale) >= sample.at_ns)
        };
        cwnd.push(sum(fresh().map(|s| s.cwnd_bytes)));
        outstanding.push(sum(fresh().map(|s| s.outstanding_bytes)));
        // The value is 0 before the first acknowledgement.
        srtt.extend((sample.srtt_us > 0).then(|| u64::from(sample.srtt_us) * 1000));
    }
    let name = &subject.name;
    let (cwnd, outstanding) = (Sorted::new(cwnd), Sorted::new(outstanding));
    let exact = |value: Option<u64>| value.map(|value| value as f64);
    figures.put(Quantity::Cwnd, name, Statistic::Max, exact(cwnd.max()));
    figures.put(
        Quantity::Outstanding,
        name,
        Statistic::Mean,
        outstanding.mean(),
    );
    figures.put(
        Quantity::Outstanding,
        name,
        Statistic::Max,
        exact(outstanding.max()),
    );
    let srtt = Sorted::new(srtt);
    let mean = srtt.mean().map(|ns| ns / 1e6);
    figures.put(Quantity::Srtt, name, Statistic::Mean, mean);
    let longest = exact(srtt.max()).map(|ns| ns / 1e6);
    figures.put(Quantity::Srtt, name, Statistic::Max, longest);
    figures.put(
        Quantity::Retransmitted,
        name,
        Statistic::Only,
        exact(retransmitted),
    );
}

/// Adds numbers without overflow, even for a damaged recording.
fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

/// A pure ACK, and the time when it left the line.
pub(crate) struct Ack<'a> {
    pub(crate) at_ns: u64,
    pub(crate) segment: &'a TcpSegment,
}

/// Returns the pure ACKs of one member's data in order of leaving the line.
pub(crate) fn pure_acks<'a>(run: &'a Run, subject: &Subject, member: usize) -> Vec<Ack<'a>> {
    let Some(direction) = subject.direction.map(Direction::reversed) else {
        return Vec::new();
    };
    let mut acks: Vec<Ack> = run.packets[member]
        .iter()
        .filter(|packet| packet.direction == direction)
        .filter_map(|packet| match (packet.fate, &packet.tcp) {
            (Fate::Sent { end_ns, .. }, Some(segment)) => Some(Ack {
                at_ns: end_ns,
                segment,
            }),
            _ => None,
        })
        .filter(|ack| ack.segment.payload == 0 && ack.segment.flags & (ACK | EDGE) == ACK)
        .collect();
    acks.sort_by_key(|ack| ack.at_ns);
    acks
}

/// Returns the data segments of one member in order of arrival at the line.
fn data<'a>(
    run: &'a Run,
    subject: &Subject,
    member: usize,
) -> impl Iterator<Item = &'a LinePacket> {
    let direction = subject.direction;
    run.packets[member]
        .iter()
        .copied()
        .filter(move |packet| Some(packet.direction) == direction)
        .filter(|packet| packet.tcp.is_some_and(|segment| segment.payload > 0))
}

/// Stores `ackspacing`, `ackcompressed` and `sackrelease`.
fn acks(run: &Run, subject: &Subject, window: &Window, figures: &mut Figures) {
    let (mut spacings, mut released) = (Vec::new(), Vec::new());
    let (mut pairs, mut compressed) = (0u64, 0u64);
    for &member in &subject.members {
        let acks = pure_acks(run, subject, member);
        let per_byte = line_time_per_byte(data(run, subject, member));
        for pair in acks
            .windows(2)
            .filter(|pair| window.contains(pair[0].at_ns))
        {
            let spacing = pair[1].at_ns - pair[0].at_ns;
            spacings.push(spacing);
            let advance = pair[1].segment.ack.wrapping_sub(pair[0].segment.ack) as i32;
            if let Some(per_byte) = per_byte.filter(|_| advance > 0) {
                pairs += 1;
                let half = per_byte * f64::from(advance) / 2.0;
                compressed += u64::from((spacing as f64) < half);
            }
        }
        released.extend(releases(run, subject, member, &acks, window));
    }
    let name = &subject.name;
    let spacings = Sorted::new(spacings);
    let ms = |ns: f64| ns / 1e6;
    figures.put(
        Quantity::AckSpacing,
        name,
        Statistic::Mean,
        spacings.mean().map(ms),
    );
    let median = spacings.per_mille(500).map(|ns| ms(ns as f64));
    figures.put(Quantity::AckSpacing, name, Statistic::P50, median);
    let share = (pairs > 0).then(|| compressed as f64 / pairs as f64);
    figures.put(Quantity::AckCompressed, name, Statistic::Only, share);
    figures.put(
        Quantity::SackRelease,
        name,
        Statistic::Mean,
        mean(&released),
    );
}

/// Returns the transmission time per byte of payload, in nanoseconds.
fn line_time_per_byte<'a>(data: impl Iterator<Item = &'a LinePacket>) -> Option<f64> {
    let (mut time, mut bytes) = (0u64, 0u64);
    for packet in data {
        if let (Fate::Sent { start_ns, end_ns }, Some(segment)) = (packet.fate, &packet.tcp) {
            time = sum([time, end_ns.saturating_sub(start_ns)].into_iter());
            bytes += u64::from(segment.payload);
        }
    }
    (bytes > 0).then(|| time as f64 / bytes as f64)
}

/// Counts, for each ACK with a SACK block that reached the sender in the window, the data segments
/// that arrived at the line before the next ACK reached the sender.
///
/// An ACK reaches the sender a fixed delay after it left the line; the path between sender and line
/// has no delay.
fn releases(
    run: &Run,
    subject: &Subject,
    member: usize,
    acks: &[Ack],
    window: &Window,
) -> Vec<f64> {
    let Some(direction) = subject.direction else {
        return Vec::new();
    };
    let delay = side(run.experiment, direction.reversed()).delay.as_nanos();
    let arrivals: Vec<u64> = data(run, subject, member)
        .map(|packet| packet.arrived_ns)
        .collect();
    acks.windows(2)
        .map(|pair| {
            (
                pair[0].segment.sack,
                pair[0].at_ns.saturating_add(delay),
                pair[1].at_ns.saturating_add(delay),
            )
        })
        .filter(|(sack, from, _)| sack.is_some() && window.contains(*from))
        .map(|(_, from, until)| {
            let first = arrivals.partition_point(|&at| at < from);
            let last = arrivals.partition_point(|&at| at < until);
            (last - first) as f64
        })
        .collect()
}

/// Returns the largest wire time of data that arrived at the line within 100 ms, over that time.
/// Returns `None` for fewer than two segments.
fn burst(run: &Run, subject: &Subject, window: &Window) -> Option<f64> {
    let rate = side(run.experiment, subject.direction?)
        .rate
        .as_bits_per_second();
    if rate == 0 {
        return None;
    }
    let mut arrivals: Vec<(u64, u64)> = subject
        .members
        .iter()
        .flat_map(|&member| data(run, subject, member))
        .filter(|packet| window.contains(packet.arrived_ns))
        .map(|packet| (packet.arrived_ns, u64::from(packet.wire_bytes)))
        .collect();
    arrivals.sort_unstable();
    let (mut first, mut bytes, mut most) = (0, 0u64, 0u64);
    for &(at_ns, wire_bytes) in &arrivals {
        bytes += wire_bytes;
        while arrivals[first].0.saturating_add(BURST_NS) <= at_ns {
            bytes -= arrivals[first].1;
            first += 1;
        }
        most = most.max(bytes);
    }
    let capacity = rate as f64 / 8.0 * (BURST_NS as f64 / 1e9);
    (arrivals.len() > 1).then(|| most as f64 / capacity)
}
