// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a discipline on recorded traffic: events in, verdicts out.

use crate::ffi::Packet;
use crate::queue::{Queue, Verdict};

/// Something that happened to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A packet came, at its `arrived_ns`, with the random word of its arrival.
    Arrival(Packet, u32),
    /// The device asked for a packet, in nanoseconds.
    Departure(u64),
}

/// What happened to which packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Which arrival it was, counted from 0 since the queue was made.
    pub packet: usize,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// On arrival.
    Arrived(Verdict),
    /// Removed for another.
    Evicted,
    /// On departure.
    Departed(Verdict),
}

/// Runs events through a queue. Packet numbers continue from former events.
pub fn replay(queue: &mut Queue<usize>, events: impl IntoIterator<Item = Event>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut arrivals = queue.count("arrived_packets").unwrap_or(0) as usize;
    for event in events {
        match event {
            Event::Arrival(packet, random) => {
                let arrival = queue.arrive(&packet, random, arrivals);
                outcomes.push(Outcome {
                    packet: arrivals,
                    what: What::Arrived(arrival.verdict),
                });
                outcomes.extend(arrival.evicted.into_iter().map(|packet| Outcome {
                    packet,
                    what: What::Evicted,
                }));
                arrivals += 1;
            }
            Event::Departure(now_ns) => {
                let departure = queue.depart(now_ns);
                outcomes.extend(
                    departure
                        .dropped
                        .into_iter()
                        .map(|(verdict, packet)| Outcome {
                            packet,
                            what: What::Departed(verdict),
                        }),
                );
                outcomes.extend(departure.sent.map(|(verdict, _, packet)| Outcome {
                    packet,
                    what: What::Departed(verdict),
                }));
            }
        }
    }
    outcomes
}
