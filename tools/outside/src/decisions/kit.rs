// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's side.

use super::event::{ARRIVE, BEGIN, CE, Event, Outcome};
use weirgate_aqm::{Action, Link, Packet, Queue, Settings};

/// Returns the kit's decisions.
pub fn decide(settings: &Settings, link: &Link, events: &[Event]) -> Vec<Outcome> {
    let mut side = Side::new(settings, link);
    events
        .iter()
        .map(|event| match event.kind {
            BEGIN => {
                side = Side::new(settings, link);
                // Use a different seed for each episode: with the same one, a random difference
                // would occur in all of them.
                side.queue.seed(event.now_ns);
                Outcome::default()
            }
            ARRIVE => side.arrive(event),
            _ => side.depart(event.now_ns),
        })
        .collect()
}

/// An instance whose packets are numbers.
struct Side {
    queue: Queue<u32>,
    /// The code point of each packet, by number.
    codes: Vec<u32>,
}

impl Side {
    fn new(settings: &Settings, link: &Link) -> Self {
        Self {
            queue: Queue::new(settings, link),
            // Numbers begin with 1.
            codes: vec![0],
        }
    }

    fn arrive(&mut self, event: &Event) -> Outcome {
        let packet = Packet {
            arrived_ns: event.now_ns,
            len: event.len,
            wire: event.len,
            flow: event.flow,
            ecn: event.ecn,
        };
        let arrival = self.queue.arrive(&packet, event.random, event.id);
        let marked = arrival.verdict.action == Action::Mark;
        self.codes.push(if marked { CE } else { event.ecn });
        let mut outcome = Outcome::default();
        for id in arrival.refused.iter().chain(&arrival.evicted) {
            outcome.drop(*id);
        }
        if outcome.dropped == 0 {
            outcome.marked = u32::from(marked && event.ecn != CE);
        }
        outcome
    }

    fn depart(&mut self, now_ns: u64) -> Outcome {
        let departure = self.queue.depart(now_ns);
        let mut outcome = Outcome::default();
        for (_, id) in &departure.dropped {
            outcome.drop(*id);
        }
        if let Some((verdict, _, id)) = departure.sent {
            outcome.id = id;
            outcome.marked = match verdict.action {
                Action::Mark => CE,
                _ => self.codes.get(id as usize).copied().unwrap_or_default(),
            };
        }
        outcome
    }
}
