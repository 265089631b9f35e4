// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic for a queue and the link behind it. An episode is the life of one instance.
//!
//! Arrivals and the times at which the link is free do not depend on decisions, so that both sides
//! see the same events.

use super::event::{ARRIVE, BEGIN, DEPART, Event};
use weirgate_experiment::Random;

/// The events of an episode, after the one that begins it.
pub const EVENTS: usize = 10_000;

/// A jiffy of Debian's kernels; and half a second, the delay of the first timer of the kernel's
/// pie.
const JIFFY_NS: u64 = 4_000_000;
const FIRST_TIMER_NS: u64 = 500_000_000;

/// The kernel's pie counts in units of 64 ns.
const TICK_NS: u64 = 64;

/// The kind of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A link with a random rate, loaded below or above it, with pauses.
    Random,
    /// Simultaneous bursts, long pauses, many departures at once, and times around the wrap of the
    /// 32-bit clock.
    Adversarial,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Random, Self::Adversarial];

    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Adversarial => "adversarial",
        }
    }
}

/// Returns the events of one episode. `update_ns` is the interval of the discipline's timer, or 0.
/// The first packet arrives one interval before the timer first expires, because the kit counts
/// from there.
pub fn episode(kind: Kind, seed: u64, number: u64, update_ns: u64) -> Vec<Event> {
    let mut random = Random::of_flow(seed.wrapping_add(number), kind.name(), 0);
    // Time begins anywhere on a clock of 2^32 units of 1024 ns; often shortly before its wrap.
    let wrap = 1_u64 << 42;
    let begin = match kind {
        Kind::Random => random.bits() % wrap,
        Kind::Adversarial => wrap - random.bits() % 20_000_000_000,
    } / JIFFY_NS
        * JIFFY_NS;
    let mut episode = Episode {
        random,
        now_ns: begin,
        ids: 0,
        flows: 1,
        ecn: 0,
        events: Vec::with_capacity(EVENTS + 1),
    };
    episode.events.push(Event {
        now_ns: begin,
        kind: BEGIN,
        ..Event::default()
    });
    episode.now_ns += FIRST_TIMER_NS.saturating_sub(update_ns);
    // The kit counts its updates from the first packet. A departure from an empty queue before does
    // not concern the discipline.
    episode.arrive(episode.now_ns);
    episode.depart(episode.now_ns);
    episode.flows = 1 << (episode.random.bits() % 7);
    episode.ecn = episode.random.bits() % 3;
    match kind {
        Kind::Random => episode.at_random(),
        Kind::Adversarial => episode.against(),
    }
    episode.events.truncate(EVENTS + 1);
    episode.events
}

struct Episode {
    random: Random,
    now_ns: u64,
    ids: u32,
    flows: u64,
    /// 0: no packet supports ECN; 1: any code point; 2: all packets support ECN.
    ecn: u64,
    events: Vec<Event>,
}

impl Episode {
    fn below(&mut self, end: u64) -> u64 {
        self.random.bits() % end.max(1)
    }

    fn full(&self) -> bool {
        self.events.len() > EVENTS
    }

    fn arrive(&mut self, now_ns: u64) {
        let len = match self.below(4) {
            0 => 64,
            1 => 64 + self.below(1451),
            _ => 1514,
        };
        let flow = self.below(self.flows);
        let ecn = match self.ecn {
            0 => 0,
            1 => self.below(4),
            _ => 1 + self.below(3),
        };
        self.ids += 1;
        let word = self.random.bits();
        self.events.push(Event {
            now_ns: now_ns / TICK_NS * TICK_NS,
            kind: ARRIVE,
            len: u32::try_from(len).unwrap_or(1514),
            // Spread over all queues, as by a hash.
            flow: u32::try_from(flow)
                .unwrap_or_default()
                .wrapping_mul(0x9e37_79b1),
            ecn: u32::try_from(ecn).unwrap_or_default(),
            random: u32::try_from(word >> 32).unwrap_or_default(),
            id: self.ids,
        });
    }

    fn depart(&mut self, now_ns: u64) {
        let word = self.random.bits();
        self.events.push(Event {
            now_ns: now_ns / TICK_NS * TICK_NS,
            kind: DEPART,
            random: u32::try_from(word >> 32).unwrap_or_default(),
            ..Event::default()
        });
    }

    /// Adds arrivals and departures with exponential gaps, whose means change.
    fn at_random(&mut self) {
        // 1 to 1000 Mbit/s, for a packet of 1514 bytes.
        let service_ns = 12_112.0 * 10_f64.powf(3.0 * self.random.unit());
        let (mut coming, mut leaving) = (self.now_ns, self.now_ns);
        while !self.full() {
            let load = 0.4 + 1.6 * self.random.unit();
            for _ in 0..=self.below(800) {
                if coming <= leaving {
                    self.arrive(coming);
                    coming += self.random.exponential(service_ns / load) as u64;
                } else {
                    self.depart(leaving);
                    leaving += service_ns as u64;
                }
            }
            if self.below(8) == 0 {
                coming += self.below(300_000_000);
            }
        }
    }

    fn against(&mut self) {
        while !self.full() {
            match self.below(8) {
                0 | 1 => {
                    for _ in 0..=self.below(1200) {
                        self.arrive(self.now_ns);
                    }
                }
                2 => {
                    for _ in 0..=self.below(400) {
                        self.depart(self.now_ns);
                    }
                }
                3 => self.now_ns += self.below(4_000_000_000),
                4 => self.now_ns += self.below(20_000_000),
                5 => {
                    // A queue of about one packet.
                    for _ in 0..self.below(400) {
                        self.arrive(self.now_ns);
                        self.now_ns += self.below(12_000_000);
                        self.depart(self.now_ns);
                    }
                }
                _ => {
                    // A queue that grows slowly while it is drained.
                    for _ in 0..self.below(600) {
                        self.arrive(self.now_ns);
                        self.now_ns += self.below(3_000_000);
                        if self.below(10) != 0 {
                            self.depart(self.now_ns);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_is_made_of_its_seed_and_time_goes_on() {
        for kind in Kind::ALL {
            let events = episode(kind, 1, 7, 16_000_000);
            assert_eq!(events, episode(kind, 1, 7, 16_000_000));
            assert_ne!(events, episode(kind, 1, 8, 16_000_000));
            assert_eq!(events.len(), EVENTS + 1);
            assert!(
                events
                    .windows(2)
                    .all(|pair| pair[0].now_ns <= pair[1].now_ns)
            );
            let first = events[1].now_ns - events[0].now_ns;
            assert_eq!(first, FIRST_TIMER_NS - 16_000_000);
        }
    }
}
