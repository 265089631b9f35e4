// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link with a discipline's queue, and senders of two kinds. The first follow only Reno's law:
//! the window halves at a loss, at most once in a round trip, and otherwise grows by one packet in
//! each. The others send at a constant rate, without reaction.

#![allow(dead_code, reason = "each test file uses a part")]

use crate::support::{Chance, S, link, packet, queue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weirgate_aqm::{Action, Packet, Queue};

/// Bytes of each packet.
pub const LEN: u32 = 1500;

/// A sender of packets.
#[derive(Debug, Clone, Copy)]
pub enum Sender {
    /// Follows Reno's law.
    Responsive,
    /// Sends this many packets a second.
    Constant(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has left the link.
    Gone,
    /// The acknowledgement of a packet of this sender has arrived.
    Acked(usize),
    /// The sender has detected the loss of this packet.
    Lost(usize, u64),
    /// A constant sender sends its next packet.
    Next(usize),
}

#[derive(Debug, Clone)]
struct State {
    sender: Sender,
    window: f64,
    threshold: f64,
    under_way: u32,
    next: u64,
    recovered: u64,
    delivered: u64,
}

/// The link.
pub struct Bottleneck {
    /// The queue of the link.
    pub kit: Queue<usize>,
    bits_s: u64,
    rtt_ns: u64,
    chance: Chance,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    senders: Vec<State>,
    sending: Option<usize>,
    busy_ns: u64,
    waited_ns: u64,
    left: u64,
}

/// Results of a stretch of time.
#[derive(Debug)]
pub struct Shares {
    /// The share of the link that each sender had.
    pub of: Vec<f64>,
    /// The fraction of the time that the link was busy.
    pub used: f64,
    /// The mean queueing delay in ms.
    pub wait_ms: f64,
}

impl Bottleneck {
    /// Creates a link of `bits_s` bits a second, with these senders.
    pub fn new(
        name: &str,
        (bits_s, rtt_ns): (u64, u64),
        senders: &[Sender],
        params: &[(&str, u64)],
    ) -> Self {
        let state = |sender: &Sender| State {
            sender: *sender,
            window: 4.0,
            threshold: f64::INFINITY,
            under_way: 0,
            next: 0,
            recovered: 0,
            delivered: 0,
        };
        let mut line = Self {
            kit: queue(name, &link(bits_s), params),
            bits_s,
            rtt_ns,
            chance: Chance(1),
            events: BinaryHeap::new(),
            senders: senders.iter().map(state).collect(),
            sending: None,
            busy_ns: 0,
            waited_ns: 0,
            left: 0,
        };
        // Senders do not start at the same time.
        for flow in 0..senders.len() {
            line.push(flow as u64 * rtt_ns / 7, Event::Next(flow));
        }
        line
    }

    fn push(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, event)));
    }

    fn serve_ns(&self) -> u64 {
        u64::from(LEN) * 8 * S / self.bits_s
    }

    fn arrive(&mut self, flow: usize, now: u64) {
        let number = self.senders[flow].next;
        self.senders[flow].next += 1;
        let sent = Packet {
            flow: (flow as u32 + 1).wrapping_mul(0x9e37_79b1),
            ..packet(now, LEN)
        };
        let behind = self.kit.packets() * self.serve_ns();
        let arrival = self.kit.arrive(&sent, self.chance.word(), flow);
        if arrival.verdict.action == Action::Drop {
            // The sender detects the loss when the packets ahead have been acknowledged.
            self.push(now + behind + self.rtt_ns, Event::Lost(flow, number));
        } else if self.sending.is_none() {
            self.serve(now);
        }
    }

    fn serve(&mut self, now: u64) {
        let departure = self.kit.depart(now);
        for (_, flow) in departure.dropped {
            // The number of the packet is not known here: any packet in flight informs the sender.
            let number = self.senders[flow].next - 1;
            self.push(now + self.rtt_ns, Event::Lost(flow, number));
        }
        self.sending = departure.sent.map(|(_, packet, flow)| {
            self.waited_ns += now - packet.arrived_ns;
            self.left += 1;
            flow
        });
        if self.sending.is_some() {
            self.busy_ns += self.serve_ns();
            self.push(now + self.serve_ns(), Event::Gone);
        }
    }

    /// Sends as many packets as the window allows.
    fn fill(&mut self, flow: usize, now: u64) {
        while f64::from(self.senders[flow].under_way) < self.senders[flow].window.floor() {
            self.senders[flow].under_way += 1;
            self.arrive(flow, now);
        }
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Gone => {
                if let Some(flow) = self.sending.take() {
                    self.senders[flow].delivered += 1;
                    if matches!(self.senders[flow].sender, Sender::Responsive) {
                        self.push(now + self.rtt_ns, Event::Acked(flow));
                    }
                }
                self.serve(now);
            }
            Event::Acked(flow) => {
                let sender = &mut self.senders[flow];
                sender.under_way -= 1;
                sender.window += if sender.window < sender.threshold {
                    1.0
                } else {
                    1.0 / sender.window
                };
                self.fill(flow, now);
            }
            Event::Lost(flow, number) => {
                let sender = &mut self.senders[flow];
                if matches!(sender.sender, Sender::Constant(_)) {
                    return;
                }
                sender.under_way -= 1;
                if number >= sender.recovered {
                    sender.window = (sender.window / 2.0).max(1.0);
                    sender.threshold = sender.window;
                    sender.recovered = sender.next;
                }
                self.fill(flow, now);
            }
            Event::Next(flow) => match self.senders[flow].sender {
                Sender::Responsive => self.fill(flow, now),
                Sender::Constant(rate) => {
                    self.arrive(flow, now);
                    self.push(now + S / rate, Event::Next(flow));
                }
            },
        }
    }

    /// Runs until a time.
    pub fn run(&mut self, until: u64) {
        while let Some(&Reverse((now, event))) = self.events.peek() {
            if now >= until {
                break;
            }
            self.events.pop();
            self.happen(now, event);
        }
    }

    /// Returns the results of the time between two instants.
    pub fn shares(&mut self, from: u64, until: u64) -> Shares {
        self.run(from);
        let before: Vec<u64> = self.senders.iter().map(|one| one.delivered).collect();
        (self.busy_ns, self.waited_ns, self.left) = (0, 0, 0);
        self.run(until);
        let whole = (until - from) as f64 / self.serve_ns() as f64;
        let part = |(now, before): (&State, u64)| (now.delivered - before) as f64 / whole;
        Shares {
            of: self.senders.iter().zip(before).map(part).collect(),
            used: self.busy_ns as f64 / (until - from) as f64,
            wait_ms: self.waited_ns as f64 / self.left.max(1) as f64 / 1e6,
        }
    }
}
