// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of reordering within TCP connections.

use crate::figures::Figures;
use crate::metric::tcp::{is_of_short_flows, pure_acks};
use crate::run::{Run, Subject};
use crate::window::Window;
use std::collections::BTreeMap;
use weirgate_experiment::{Direction, LinePacket, Quantity, Statistic};

/// The header's SYN flag (RFC 9293 section 3.1).
const SYN: u8 = 0x02;

/// Stores `overtaken` of upstream data, and `gapped` of both directions.
pub(crate) fn figures(run: &Run, subject: &Subject, window: &Window, figures: &mut Figures) {
    let Some(direction) = subject
        .direction
        .filter(|_| !is_of_short_flows(run, subject))
    else {
        return;
    };
    let data = |packet: &&LinePacket| {
        packet.direction == direction && packet.tcp.is_some_and(|segment| segment.payload > 0)
    };
    if !run.packets_of(&subject.members).any(|packet| data(&packet)) {
        return;
    }
    let name = &subject.name;
    // Downstream packets pass the line before the gateway's queues.
    if direction == Direction::Up {
        let count: u64 = subject
            .members
            .iter()
            .map(|&member| overtaken(&run.packets[member], window))
            .sum();
        let count = Some(count as f64);
        figures.put(Quantity::Overtaken, name, Statistic::Only, count);
    }
    let gapped = subject
        .members
        .iter()
        .flat_map(|&member| pure_acks(run, subject, member))
        .filter(|ack| window.contains(ack.at_ns) && ack.segment.sack.is_some())
        .count();
    figures.put(Quantity::Gapped, name, Statistic::Only, Some(gapped as f64));
}

/// Counts the upstream data segments of a connection that reached the line late: they lie below the
/// highest byte so far, and carry bytes that had not arrived before.
fn overtaken(packets: &[&LinePacket], window: &Window) -> u64 {
    let mut passed = Passed::default();
    let mut count = 0;
    for packet in packets {
        let Some(segment) = packet.tcp.filter(|_| packet.direction == Direction::Up) else {
            continue;
        };
        if segment.flags & SYN != 0 {
            passed = Passed::default();
        } else if segment.payload > 0 && passed.late(segment.seq, segment.payload) {
            count += u64::from(window.contains(packet.arrived_ns));
        }
    }
    count
}

/// The bytes of a connection that have passed.
#[derive(Debug, Default)]
struct Passed {
    /// The sequence number after the highest byte so far, extended beyond 32 bits.
    next: Option<u64>,
    /// The holes below it: the first byte of each, and the byte after its last.
    holes: BTreeMap<u64, u64>,
}

impl Passed {
    /// Notes a segment, and returns whether it fills a hole.
    fn late(&mut self, seq: u32, payload: u16) -> bool {
        // The start is far from 0, so that no number is negative.
        let next = self.next.unwrap_or((1 << 32) | u64::from(seq));
        let distance = seq.wrapping_sub(next as u32) as i32;
        let start = next.saturating_add_signed(distance.into());
        let end = start + u64::from(payload);
        if start > next {
            self.holes.insert(next, start);
        }
        self.next = Some(next.max(end));
        let touched: Vec<(u64, u64)> = self
            .holes
            .range(..end)
            .filter(|hole| *hole.1 > start)
            .map(|(from, to)| (*from, *to))
            .collect();
        for (from, to) in &touched {
            self.holes.remove(from);
            if *from < start {
                self.holes.insert(*from, start);
            }
            if end < *to {
                self.holes.insert(end, *to);
            }
        }
        !touched.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Passed;

    /// Returns which of these segments of 100 bytes fill a hole.
    fn late(numbers: &[u32]) -> Vec<u32> {
        let mut passed = Passed::default();
        let first = u32::MAX - 150;
        let mut fills = |number: &u32| passed.late(first.wrapping_add(number * 100), 100);
        numbers.iter().copied().filter(|n| fills(n)).collect()
    }

    #[test]
    fn in_order_nothing_is_late() {
        assert_eq!(late(&[0, 1, 2, 3, 4]), []);
    }

    #[test]
    fn what_is_overtaken_is_late_once() {
        assert_eq!(late(&[0, 3, 4, 1, 2, 5, 1, 2]), [1, 2]);
        assert_eq!(late(&[0, 2, 4, 6, 3, 1, 5]), [3, 1, 5]);
    }

    #[test]
    fn what_passes_twice_is_not_late() {
        assert_eq!(late(&[0, 1, 2, 1, 2, 3]), []);
    }
}
