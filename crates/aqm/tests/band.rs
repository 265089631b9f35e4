// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARED in a loop with senders that react: the average stays in the target band
//! from 1 to 100 flows, where RED with fixed parameters leaves it (Floyd,
//! Gummadi and Shenker 2001).
//!
//! The senders are the least that has CUBIC's law (RFC 9438): a window that loses
//! three tenths for a loss, once in a round trip, and then follows the cubic
//! curve, or the additive increase of 0.53 packets in a round trip where that is
//! more. What a real kernel's TCP does, `experiments/aqm-ared.toml` shows.

mod support;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use support::{Chance, MS, S, link, packet, queue};
use weirgate_aqm::{Action, Queue};

const BITS_S: u64 = 20_000_000;
const LEN: u32 = 1514;
/// Time on the wire of a packet.
const SERVE_NS: u64 = LEN as u64 * 8 * S / BITS_S;
const RTT_NS: u64 = 200 * MS;
/// Thresholds: 235 and 705 packets. With what is under way, 800 packets at the
/// target, which is 8 for each of 100 flows.
const MIN: u64 = 235 * LEN as u64;
const MAX: u64 = 705 * LEN as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has been sent.
    Gone,
    /// Its acknowledgement is back.
    Acked(usize),
    /// The sender knows that it was lost.
    Lost(usize, u64),
    Sample,
}

#[derive(Debug, Clone)]
struct Sender {
    window: f64,
    threshold: f64,
    /// The window before the last loss, and when that was.
    before: f64,
    epoch: u64,
    /// What additive increase alone would have made of it since.
    additive: f64,
    under_way: u32,
    next: u64,
    recovered: u64,
}

impl Sender {
    fn acknowledged(&mut self, now: u64) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        self.additive += 0.53 / self.window;
        // W_cubic = C (t - K)^3 + W_max, with C = 0.4 and t a round trip ahead.
        let k = (self.before * 0.3 / 0.4).cbrt();
        let t = (now - self.epoch + RTT_NS) as f64 / S as f64;
        let cubic = 0.4 * (t - k).powi(3) + self.before;
        let goal = cubic.max(self.additive).min(self.window * 1.5);
        if goal > self.window {
            self.window += (goal - self.window) / self.window;
        }
    }
}

struct Loop {
    kit: Queue<usize>,
    chance: Chance,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    senders: Vec<Sender>,
    /// Whose packet is on the wire.
    sending: Option<usize>,
    busy_ns: u64,
    averages: Vec<u64>,
}

impl Loop {
    fn new(name: &str, params: &[(&str, u64)]) -> Self {
        let mut all = vec![
            ("min_bytes", MIN),
            ("max_bytes", MAX),
            ("limit_bytes", 2 * MAX),
        ];
        all.extend(params);
        Self {
            kit: queue(name, &link(BITS_S), &all),
            chance: Chance(5),
            events: BinaryHeap::from([Reverse((0, Event::Sample))]),
            senders: Vec::new(),
            sending: None,
            busy_ns: 0,
            averages: Vec::new(),
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, event)));
    }

    fn join(&mut self, flows: usize, now: u64) {
        while self.senders.len() < flows {
            self.senders.push(Sender {
                window: 10.0,
                threshold: f64::INFINITY,
                before: 0.0,
                epoch: 0,
                additive: 0.0,
                under_way: 0,
                next: 0,
                recovered: 0,
            });
            self.fill(self.senders.len() - 1, now);
        }
    }

    /// Sends what the window allows.
    fn fill(&mut self, flow: usize, now: u64) {
        while f64::from(self.senders[flow].under_way) < self.senders[flow].window.floor() {
            let number = self.senders[flow].next;
            self.senders[flow].next += 1;
            self.senders[flow].under_way += 1;
            let sent = weirgate_aqm::Packet {
                flow: flow as u32,
                ..packet(now, LEN)
            };
            let behind = self.kit.bytes() * 8 * S / BITS_S;
            let arrival = self.kit.arrive(&sent, self.chance.word(), flow);
            if arrival.verdict.action == Action::Drop {
                // Known when what stands before it has been acknowledged.
                self.push(now + behind + RTT_NS, Event::Lost(flow, number));
            } else if self.sending.is_none() {
                self.serve(now);
            }
        }
    }

    fn serve(&mut self, now: u64) {
        self.sending = self.kit.depart(now).sent.map(|sent| sent.2);
        if self.sending.is_some() {
            self.busy_ns += SERVE_NS;
            self.push(now + SERVE_NS, Event::Gone);
        }
    }

    fn run(&mut self, until: u64) {
        while let Some(&Reverse((now, event))) = self.events.peek() {
            if now >= until {
                break;
            }
            self.events.pop();
            match event {
                Event::Gone => {
                    if let Some(flow) = self.sending.take() {
                        self.push(now + RTT_NS, Event::Acked(flow));
                    }
                    self.serve(now);
                }
                Event::Acked(flow) => {
                    let sender = &mut self.senders[flow];
                    sender.under_way -= 1;
                    sender.acknowledged(now);
                    self.fill(flow, now);
                }
                Event::Lost(flow, number) => {
                    let sender = &mut self.senders[flow];
                    sender.under_way -= 1;
                    if number >= sender.recovered {
                        sender.before = sender.window;
                        sender.window = (sender.window * 0.7).max(1.0);
                        sender.threshold = sender.window;
                        sender.additive = sender.window;
                        sender.epoch = now;
                        sender.recovered = sender.next;
                    }
                    self.fill(flow, now);
                }
                Event::Sample => {
                    let average = self.kit.var("average").expect("an average") >> 16;
                    self.averages.push(average);
                    self.push(now + 250 * MS, Event::Sample);
                }
            }
        }
    }

    /// Mean average and utilisation over a stretch that settled before.
    fn stretch(&mut self, flows: usize, from: u64, settle: u64, to: u64) -> (f64, f64) {
        self.join(flows, from);
        self.run(from + settle);
        let before = self.averages.len();
        let busy = self.busy_ns;
        self.run(to);
        let own = &self.averages[before..];
        let mean = own.iter().sum::<u64>() as f64 / own.len() as f64;
        let used = (self.busy_ns - busy) as f64 / (to - from - settle) as f64;
        (mean, used)
    }
}

/// Where the average stands between the thresholds, and the utilisation, with
/// 1, 10 and 100 flows.
fn stretches(name: &str, params: &[(&str, u64)]) -> [(f64, f64); 3] {
    let mut all = Loop::new(name, params);
    let mut from = 0;
    [(1, 300), (10, 200), (100, 200)].map(|(flows, lasts)| {
        let to = from + lasts * S;
        let (mean, used) = all.stretch(flows, from, 100 * S, to);
        from = to;
        ((mean - MIN as f64) / (MAX - MIN) as f64, used)
    })
}

/// What `experiments/aqm-ared.toml` sets: see there why.
const SET: [(&str, u64); 5] = [
    ("least_p", 4295),
    ("max_p", (1 << 32) / 1000),
    ("beta", (1 << 32) / 10 * 8),
    ("interval_ns", S),
    ("rule", 1),
];

#[test]
fn ared_holds_its_band_from_one_to_a_hundred_flows() {
    for (place, used) in stretches("ared", &SET) {
        assert!((0.4..=0.6).contains(&place), "average at {place:.3}");
        assert!(used >= 0.98, "{used:.4} used");
    }
}

#[test]
fn fixed_parameters_leave_the_band() {
    let [few, _, many] = stretches("red", &[("max_p", (1 << 32) / 500)]);
    assert!(few.0 < 0.4, "one flow: {few:?}");
    assert!(many.0 > 0.6, "a hundred: {many:?}");
}
