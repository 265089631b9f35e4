// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARED in a loop with senders that react: given nothing but the queue's length
//! (rate and MTU are the link's), the average stays in the target band from 1 to
//! 100 flows, where RED with fixed parameters leaves it (Floyd, Gummadi and
//! Shenker 2001).
//!
//! The senders have CUBIC's law (RFC 9438) and nothing else. The window shrinks by
//! three tenths at a loss, once in a round trip. Then it follows the cubic curve,
//! or the additive increase of 0.53 packets in a round trip where that is more.
//! `experiments/aqm/ared.toml` shows what a real kernel's TCP does.

use crate::support::{Chance, MS, S, link, packet, queue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weirgate_aqm::{Action, Queue};

const LEN: u32 = 1514;

/// A bottleneck link and its queue. Queued packets and packets in flight are 800 or more when the
/// average is at ARED's target, the middle between a twelfth and a quarter of the limit. That is 8
/// packets for each of 100 flows.
#[derive(Debug, Clone, Copy)]
struct Bottleneck {
    bits_s: u64,
    rtt_ns: u64,
    limit_bytes: u64,
    /// Seconds to settle after flows have joined; ten times as many flows need twenty steps of
    /// adaptation.
    settles_s: u64,
}

/// The link of `experiments/aqm/ared.toml`: 470 packets queued, 330 in flight.
const EXPERIMENT: Bottleneck = Bottleneck {
    bits_s: 20_000_000,
    rtt_ns: 200 * MS,
    limit_bytes: 2_820 * LEN as u64,
    settles_s: 50,
};

/// 770 packets queued, 40 in flight: queueing makes up nearly all of the round-trip time.
const LONG: Bottleneck = Bottleneck {
    bits_s: 10_000_000,
    rtt_ns: 50 * MS,
    limit_bytes: 7_000_000,
    settles_s: 110,
};

/// 880 packets queued, 410 in flight.
const FAST: Bottleneck = Bottleneck {
    bits_s: 100_000_000,
    rtt_ns: 50 * MS,
    limit_bytes: 8_000_000,
    settles_s: 50,
};

impl Bottleneck {
    /// Time on the wire of a packet.
    fn serve_ns(self) -> u64 {
        u64::from(LEN) * 8 * S / self.bits_s
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has left the link.
    Gone,
    /// The acknowledgement of a packet of this flow has arrived.
    Acked(usize),
    /// The sender has detected the loss of this packet.
    Lost(usize, u64),
    Sample,
}

#[derive(Debug, Clone)]
struct Sender {
    window: f64,
    threshold: f64,
    /// The congestion window before the last loss, and the time of that loss.
    before: f64,
    epoch: u64,
    /// The window that additive increase alone would have reached since that loss.
    additive: f64,
    under_way: u32,
    next: u64,
    recovered: u64,
}

impl Sender {
    fn acknowledged(&mut self, now: u64, rtt_ns: u64) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        self.additive += 0.53 / self.window;
        // W_cubic = C (t - K)^3 + W_max, with C = 0.4 and t one round trip ahead.
        let k = (self.before * 0.3 / 0.4).cbrt();
        let t = (now - self.epoch + rtt_ns) as f64 / S as f64;
        let cubic = 0.4 * (t - k).powi(3) + self.before;
        let goal = cubic.max(self.additive).min(self.window * 1.5);
        if goal > self.window {
            self.window += (goal - self.window) / self.window;
        }
    }
}

struct Loop {
    line: Bottleneck,
    kit: Queue<usize>,
    chance: Chance,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    senders: Vec<Sender>,
    /// The flow whose packet is being transmitted.
    sending: Option<usize>,
    busy_ns: u64,
    averages: Vec<u64>,
}

impl Loop {
    /// Creates a loop; `params` are parameters besides the limit.
    fn new(name: &str, line: Bottleneck, seed: u64, params: &[(&str, u64)]) -> Self {
        let mut all = vec![("limit_bytes", line.limit_bytes)];
        all.extend(params);
        Self {
            line,
            kit: queue(name, &link(line.bits_s), &all),
            chance: Chance(seed),
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

    /// Sends as many packets as the window allows.
    fn fill(&mut self, flow: usize, now: u64) {
        while f64::from(self.senders[flow].under_way) < self.senders[flow].window.floor() {
            let number = self.senders[flow].next;
            self.senders[flow].next += 1;
            self.senders[flow].under_way += 1;
            let sent = weirgate_aqm::Packet {
                flow: flow as u32,
                ..packet(now, LEN)
            };
            let behind = self.kit.bytes() * 8 * S / self.line.bits_s;
            let arrival = self.kit.arrive(&sent, self.chance.word(), flow);
            if arrival.verdict.action == Action::Drop {
                // The sender detects the loss when the packets ahead have been acknowledged.
                self.push(now + behind + self.line.rtt_ns, Event::Lost(flow, number));
            } else if self.sending.is_none() {
                self.serve(now);
            }
        }
    }

    fn serve(&mut self, now: u64) {
        self.sending = self.kit.depart(now).sent.map(|sent| sent.2);
        if self.sending.is_some() {
            self.busy_ns += self.line.serve_ns();
            self.push(now + self.line.serve_ns(), Event::Gone);
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
                        self.push(now + self.line.rtt_ns, Event::Acked(flow));
                    }
                    self.serve(now);
                }
                Event::Acked(flow) => {
                    let sender = &mut self.senders[flow];
                    sender.under_way -= 1;
                    sender.acknowledged(now, self.line.rtt_ns);
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

    /// Returns the mean average queue and the utilisation from `from` + `settle` until `to`.
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

/// Returns where the average stands between the thresholds, and the utilisation, with 1, 10, 30 and
/// 100 flows.
fn stretches(name: &str, line: Bottleneck, seed: u64, params: &[(&str, u64)]) -> [(f64, f64); 4] {
    let mut all = Loop::new(name, line, seed, params);
    let number = |name| all.kit.var(name).expect("a number") as f64;
    let (min, max) = (number("min_bytes"), number("max_bytes"));
    let mut from = 0;
    [(1, 200), (10, 100), (30, 100), (100, 100)].map(|(flows, measured)| {
        let to = from + (line.settles_s + measured) * S;
        let (mean, used) = all.stretch(flows, from, line.settles_s * S, to);
        from = to;
        ((mean - min) / (max - min), used)
    })
}

#[test]
fn ared_holds_its_band_by_the_queue_length_alone() {
    for (line, seed) in [(EXPERIMENT, 5), (LONG, 77), (FAST, 1234)] {
        holds_its_band(line, seed);
    }
}

fn holds_its_band(line: Bottleneck, seed: u64) {
    let found = stretches("ared", line, seed, &[]);
    let (held, used) = (
        |it: &(f64, f64)| (0.4..=0.6).contains(&it.0),
        |it: &(f64, f64)| it.1 >= 0.98,
    );
    assert!(found.iter().all(held), "{found:.3?}: {line:?}, {seed}");
    assert!(found.iter().all(used), "{found:.3?}: {line:?}, {seed}");
}

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    #[test]
    fn ared_holds_its_band_with_any_seed() {
        for line in [EXPERIMENT, LONG, FAST] {
            for seed in [5, 77, 1234] {
                holds_its_band(line, seed);
            }
        }
    }
}

/// ARED keeps the average in the target band with the paper's band as a parameter, too.
#[test]
fn so_it_does_by_the_papers_band() {
    for (place, used) in stretches("ared", EXPERIMENT, 5, &[("rule", 1)]) {
        assert!((0.4..=0.6).contains(&place), "average at {place:.3}");
        assert!(used >= 0.98, "{used:.4} used");
    }
}

/// RED with fixed parameters that suit ten flows leaves the band.
#[test]
fn fixed_parameters_leave_the_band() {
    let [few, .., many] = stretches("red", EXPERIMENT, 5, &[("max_p", (1 << 32) / 500)]);
    assert!(few.0 < 0.4, "one flow: {few:?}");
    assert!(many.0 > 0.6, "a hundred: {many:?}");
}
