// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The active times of flows, and the direction of their data.

use weirgate_experiment::{Amount, Delivered, Direction, Node, Traffic, TrafficKind};

/// Disjoint intervals in order, in nanoseconds; each excludes its end.
pub(crate) type Stretches = Vec<(u64, u64)>;

/// Returns the direction of a sender's data on the line; `None` where it does not cross the line.
pub(crate) fn data_direction(from: Node, to: Node) -> Option<Direction> {
    let near = |node| matches!(node, Node::Host(_) | Node::Gateway);
    match (near(from), near(to)) {
        (true, false) => Some(Direction::Up),
        (false, true) => Some(Direction::Down),
        _ => None,
    }
}

/// Returns when one member of a traffic entry was active. `delivered` has this member's records in
/// order of time.
pub(crate) fn of_member(traffic: &Traffic, instance: u16, delivered: &[&Delivered]) -> Stretches {
    let shift = traffic
        .stagger
        .as_nanos()
        .saturating_mul(u64::from(instance));
    let runs: Stretches = traffic
        .runs
        .iter()
        .map(|(start, end)| (start.as_nanos().saturating_add(shift), end.as_nanos()))
        .filter(|(start, end)| start < end)
        .collect();
    let next_start = |index: usize| {
        runs.get(index + 1)
            .map_or(u64::MAX, |run: &(u64, u64)| run.0)
    };
    runs.iter()
        .enumerate()
        .map(|(index, &(start, end))| {
            let own = |record: &&&Delivered| (start..next_start(index)).contains(&record.at_ns);
            let done = match &traffic.kind {
                TrafficKind::Tcp(tcp) => tcp.amount.and_then(|Amount::Bytes(amount)| {
                    let received: u64 = delivered
                        .iter()
                        .filter(own)
                        .map(|r| u64::from(r.bytes))
                        .sum();
                    let last = delivered
                        .iter()
                        .rev()
                        .find(own)
                        .map(|record| record.at_ns + 1);
                    last.filter(|_| received >= amount.as_bytes())
                }),
                TrafficKind::Udp {
                    interval,
                    packets: Some(packets),
                    ..
                } => Some(start.saturating_add(interval.as_nanos().saturating_mul(*packets))),
                _ => None,
            };
            (start, done.map_or(end, |done| done.min(end)))
        })
        .filter(|(start, end)| start < end)
        .collect()
}

/// Returns the union of intervals, disjoint and in order.
pub(crate) fn union(mut stretches: Stretches) -> Stretches {
    stretches.sort_unstable();
    let mut merged: Stretches = Vec::new();
    for (start, end) in stretches {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Returns the parts of intervals that lie between two times.
pub(crate) fn clipped(stretches: &[(u64, u64)], start_ns: u64, end_ns: u64) -> Stretches {
    stretches
        .iter()
        .map(|&(start, end)| (start.max(start_ns), end.min(end_ns)))
        .filter(|(start, end)| start < end)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use weirgate_units::Size;

    #[test]
    fn a_transfer_of_a_fixed_amount_ends_when_it_was_received() {
        let mut traffic = sample::tcp("up", Node::Host(1), Node::Server(1), &[(10, 60), (80, 90)]);
        if let TrafficKind::Tcp(tcp) = &mut traffic.kind {
            tcp.amount = Some(Amount::Bytes(Size::bytes(3_000)));
        }
        let records = [(11, 1_000), (12, 2_000), (81, 500)].map(|(second, bytes)| Delivered {
            flow: 0,
            at_ns: second * 1_000_000_000,
            bytes,
            datagram: None,
            transit_ns: None,
        });
        let records: Vec<&Delivered> = records.iter().collect();
        let s = 1_000_000_000;
        assert_eq!(
            of_member(&traffic, 0, &records),
            [(10 * s, 12 * s + 1), (80 * s, 90 * s)]
        );
    }

    #[test]
    fn unions_merge_what_touches() {
        assert_eq!(
            union(vec![(5, 8), (0, 2), (2, 3), (7, 9)]),
            [(0, 3), (5, 9)]
        );
        assert_eq!(clipped(&[(0, 3), (5, 9)], 2, 6), [(2, 3), (5, 6)]);
        assert_eq!(clipped(&[(0, 3)], 3, 6), []);
    }
}
