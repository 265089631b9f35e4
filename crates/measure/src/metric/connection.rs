// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of short connections and of requests, for an entry as a whole and for its flows by size.

use crate::activity;
use crate::figures::Figures;
use crate::predict::wire::wire_bytes;
use crate::run::{Run, Subject};
use crate::stats::Sorted;
use crate::window::{SECOND, Window};
use weirgate_experiment::{
    Connection, Direction, Line, LineSide, Quantity, Statistic, Traffic, TrafficKind,
};

/// Ratios are sorted as whole thousandths.
const PARTS: f64 = 1000.0;

/// Returns the payload of a full segment: 1500 bytes less the headers and the timestamps (12 bytes)
/// that Linux sends in each.
const fn segment_bytes(ipv6: bool) -> u64 {
    1500 - header_bytes(ipv6)
}

/// Returns the length of IP and TCP headers with timestamps.
const fn header_bytes(ipv6: bool) -> u64 {
    if ipv6 { 40 + 32 } else { 20 + 32 }
}

/// Stores the figures of the connections that one subject started in the window.
pub(crate) fn figures(run: &Run, subject: &Subject, window: &Window, figures: &mut Figures) {
    let own: Vec<&Connection> = run
        .recording
        .connections
        .iter()
        .filter(|connection| subject.members.contains(&usize::from(connection.flow)))
        .filter(|connection| window.contains(connection.start_ns))
        .collect();
    put(run, subject, &subject.name, &own, figures);
    let entry = entry(run, subject);
    for part in entry
        .filter(|_| subject.whole)
        .map(Traffic::parts)
        .unwrap_or_default()
    {
        let has = |connection: &&&Connection| part.has(connection.bytes);
        let of_part: Vec<&Connection> = own.iter().filter(has).copied().collect();
        put(run, subject, &part.name, &of_part, figures);
    }
}

/// Returns the experiment's entry to which a subject belongs.
pub(crate) fn entry<'r>(run: &'r Run, subject: &Subject) -> Option<&'r Traffic> {
    let flow = run.recording.flows.get(*subject.members.first()?)?;
    let mut traffic = run.experiment.traffic.iter();
    traffic.find(|entry| entry.name == flow.name)
}

fn put(run: &Run, subject: &Subject, name: &str, own: &[&Connection], figures: &mut Figures) {
    let mut times = |quantity, end: fn(&Connection) -> Option<u64>| {
        let times = own
            .iter()
            .filter_map(|c| Some(end(c)?.saturating_sub(c.start_ns)))
            .collect();
        let times = Sorted::new(times);
        let seconds = |ns: f64| ns / SECOND as f64;
        figures.put(quantity, name, Statistic::Mean, times.mean().map(seconds));
        let p95 = times.per_mille(950).map(|ns| seconds(ns as f64));
        figures.put(quantity, name, Statistic::P95, p95);
    };
    times(Quantity::Connect, |connection| connection.connected_ns);
    times(Quantity::Response, |connection| connection.finished_ns);
    let Some(entry) = entry(run, subject) else {
        return;
    };
    if !matches!(entry.kind, TrafficKind::ShortFlows { .. }) {
        return;
    }
    let started = own.len() as f64;
    figures.put(Quantity::Started, name, Statistic::Only, Some(started));
    let open = own.iter().filter(|one| one.finished_ns.is_none()).count();
    figures.put(
        Quantity::Unfinished,
        name,
        Statistic::Only,
        Some(open as f64),
    );
    if subject.name == name {
        let late = own
            .iter()
            .map(|one| one.start_ns.saturating_sub(one.due_ns))
            .max();
        let late = late.map(|ns| ns as f64 / 1e6);
        figures.put(Quantity::Late, name, Statistic::Max, late);
    }
    let line = &run.experiment.topology.line;
    let slowdowns = own.iter().filter_map(|one| {
        let response_ns = one.finished_ns?.saturating_sub(one.start_ns);
        let idle_ns = idle_ns(line, entry, one.bytes)?;
        Some((response_ns as f64 / idle_ns * PARTS).round() as u64)
    });
    let slowdowns = Sorted::new(slowdowns.collect());
    let mean = slowdowns.mean().map(|parts| parts / PARTS);
    figures.put(Quantity::Slowdown, name, Statistic::Mean, mean);
    let p95 = slowdowns.per_mille(950).map(|parts| parts as f64 / PARTS);
    figures.put(Quantity::Slowdown, name, Statistic::P95, p95);
}

/// Returns the nanoseconds from the SYN to the last byte on an idle line, for a sender that waits
/// only for the handshake. It is the time of the SYN and its answer with 20 bytes of options, of
/// the data in full packets, and of the delays.
fn idle_ns(line: &Line, entry: &Traffic, bytes: u64) -> Option<f64> {
    let data = activity::data_direction(entry.from, entry.to)?;
    let (forth, back) = match data {
        Direction::Up => (&line.up, &line.down),
        Direction::Down => (&line.down, &line.up),
    };
    let sent = |side: &LineSide, ip_bytes: u64| {
        wire_bytes(line, ip_bytes) as f64 * 8e9 / side.rate.as_bits_per_second() as f64
    };
    let delays = |side: &LineSide| side.delay.as_nanos() as f64;
    let header = header_bytes(entry.ipv6);
    let open = sent(forth, header + 8) + sent(back, header + 8) + delays(forth) + delays(back);
    let segment = segment_bytes(entry.ipv6);
    let full = sent(forth, header + segment) * (bytes / segment) as f64;
    let rest = bytes % segment;
    let rest = if rest > 0 {
        sent(forth, header + rest)
    } else {
        0.0
    };
    // If the receiver connects, its SYN goes first and the answer follows, which takes the same
    // time.
    Some(open + full + rest + delays(forth)).filter(|ns| *ns > 0.0)
}
