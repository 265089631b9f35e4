// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DualPI2 (`aqm/dualpi2.c`): its probability is that of RFC 9332's pseudo-code with a
//! timer; marks and drops come as often as it says; and in a loop with senders that
//! react, both kinds of sender get about the same rate.
//!
//! The senders have the laws of RFC 5681 (Reno, Not-ECT) and RFC 8257 (DCTCP, here with
//! ECT(1) and additive increase at every unmarked acknowledgement), and nothing else.

use crate::support::{Chance, MS, S, link, packet, queue};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use weirgate_aqm::{Action, Packet, Queue};

const LEN: u32 = 1_500;
const ECT_1: u32 = 1;

/// One as a probability (`DUALPI2_ONE`).
const ONE: f64 = (1_u64 << 56) as f64;

fn base(queue: &Queue<impl Sized>) -> f64 {
    queue.var("probability").expect("a number") as f64 / ONE
}

/// The pseudo-code of RFC 9332, appendix A.1, for the same packets: with a timer, floating point,
/// and the longer delay (sch_dualpi2.c).
#[derive(Default)]
struct Reference {
    waiting: [VecDeque<u64>; 2],
    p: f64,
    previous: f64,
    due: Option<u64>,
}

impl Reference {
    const TARGET: f64 = 0.015;
    const UPDATE: u64 = 16 * MS;
    const ALPHA: f64 = 41.0 / 256.0;
    const BETA: f64 = 819.0 / 256.0;

    /// Runs the timer until `now`.
    fn until(&mut self, now: u64) {
        let due = self.due.get_or_insert(now + Self::UPDATE);
        while *due <= now {
            let heads = self.waiting.iter().filter_map(VecDeque::front);
            let delay = heads.map(|came| *due - came).max().unwrap_or(0) as f64 / S as f64;
            let delay = delay.min(4.0);
            let change =
                Self::ALPHA * (delay - Self::TARGET) + Self::BETA * (delay - self.previous);
            self.p = (self.p + change).clamp(0.0, 1.0);
            self.previous = delay;
            *due += Self::UPDATE;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Without a timer, the base probability equals that of an implementation with one.
    #[test]
    fn the_probability_is_that_of_a_timer(seed: u64, scale in 12_u32..27) {
        let mut chance = Chance(seed);
        let mut kit: Queue<()> = queue("dualpi2", &link(1_000_000), &[]);
        let mut timer = Reference::default();
        // The kit counts updates from its first packet.
        let mut now = 0;
        kit.arrive(&packet(now, LEN), 0, ());
        timer.until(now);
        timer.waiting[0].push_back(now);
        for _ in 0..2_000 {
            now += chance.below(1 << scale);
            if chance.below(500) == 0 {
                now += 5 * chance.below(4 * S);
            }
            timer.until(now);
            if chance.below(2) == 0 {
                let ecn = chance.word() % 4;
                let came = Packet { ecn, ..packet(now, LEN) };
                kit.arrive(&came, 0, ());
                timer.waiting[(ecn & 1) as usize].push_back(now);
            } else {
                let gone = kit.depart(now);
                for _ in &gone.dropped {
                    // The queue lengths afterwards tell which queue a dropped packet was in.
                    let waiting = kit.waiting();
                    for (side, own) in timer.waiting.iter_mut().enumerate() {
                        let left = waiting.iter().filter(|it| (it.ecn & 1) as usize == side);
                        let sent = gone.sent.iter().filter(|it| (it.1.ecn & 1) as usize == side);
                        let most = left.count() + sent.count();
                        while own.len() > most {
                            own.pop_front();
                        }
                    }
                }
                if let Some((_, packet, ())) = gone.sent {
                    timer.waiting[(packet.ecn & 1) as usize].pop_front();
                }
            }
            // The kit notices an empty queue only at the next call that finds a packet.
            if kit.packets() > 0 {
                prop_assert!((base(&kit) - timer.p).abs() < 1e-6, "{} {}", base(&kit), timer.p);
            }
        }
    }
}

/// The L4S queue goes first, unless the classic head has waited for `shift_ns` longer.
#[test]
fn the_schedulers_choose_by_their_rules() {
    let mut shifted: Queue<u32> = queue("dualpi2", &link(10_000_000), &[("shift_ns", 50 * MS)]);
    let l4s = |at| Packet {
        ecn: ECT_1,
        ..packet(at, LEN)
    };
    shifted.arrive(&packet(0, LEN), 0, 1);
    shifted.arrive(&l4s(50 * MS), 0, 2);
    shifted.arrive(&l4s(50 * MS + 1), 0, 3);
    let next = |queue: &mut Queue<u32>| queue.depart(51 * MS).sent.map(|it| it.2);
    assert_eq!([2, 1, 3].map(Some), [0; 3].map(|_| next(&mut shifted)));
    let params = [("scheduler", 1), ("classic_percent", 20), ("step_ns", S)];
    let mut weighted: Queue<u32> = queue("dualpi2", &link(10_000_000), &params);
    for item in 0..200 {
        let came = if item % 2 == 0 {
            packet(0, LEN)
        } else {
            l4s(0)
        };
        weighted.arrive(&came, 0, item);
    }
    let sent = (0..100).filter_map(|_| weighted.depart(MS).sent);
    let classic = sent.filter(|it| it.2 % 2 == 0).count();
    assert!((19..=21).contains(&classic), "{classic} of 100 packets");
}

/// Without a ramp, L4S packets are marked from the step on, and none below it; with a ramp, in
/// proportion. On a slow link the step is the time of one packet.
#[test]
fn an_l4s_packet_is_marked_by_its_own_delay() {
    let marked = |bits_s, params: &[(&str, u64)], wait: u64| {
        let mut all: Queue<u32> = queue("dualpi2", &link(bits_s), params);
        let count = (0..400).filter(|item| {
            let at = u64::from(*item) * S;
            let came = Packet {
                ecn: ECT_1,
                ..packet(at, LEN)
            };
            all.arrive(&came, 0, *item);
            let sent = all.depart(at + wait).sent.expect("a packet");
            sent.0.action == Action::Mark
        });
        count.count()
    };
    assert_eq!(marked(100_000_000, &[], MS - 1), 0);
    assert_eq!(marked(100_000_000, &[], MS), 400);
    assert_eq!(marked(4_000_000, &[], 6 * MS - 1), 0, "a packet takes 3 ms");
    assert_eq!(marked(4_000_000, &[], 6 * MS), 400);
    let ramp = [("step_ns", 800_000), ("ramp_ns", 400_000)];
    let half = marked(100_000_000, &ramp, MS);
    assert!((160..240).contains(&half), "{half} of 400");
    assert_eq!(marked(100_000_000, &ramp, 1_200_000), 400);
}

/// A sender of either kind: Reno or DCTCP.
#[derive(Debug, Clone)]
struct Sender {
    l4s: bool,
    window: f64,
    slow: bool,
    under_way: u32,
    next: u64,
    /// The number of the last packet sent before the last reduction of the window.
    recovered: u64,
    /// DCTCP's estimated fraction of marks. The next two fields count acknowledgements of this
    /// round trip, and those with a mark.
    alpha: f64,
    acked: u32,
    marked: u32,
    round: u64,
}

impl Sender {
    fn new(l4s: bool) -> Self {
        Self {
            l4s,
            window: 10.0,
            slow: true,
            under_way: 0,
            next: 0,
            recovered: 0,
            alpha: 1.0,
            acked: 0,
            marked: 0,
            round: 0,
        }
    }

    fn acknowledged(&mut self, number: u64, marked: bool) {
        self.under_way -= 1;
        self.acked += 1;
        self.marked += u32::from(marked);
        if number >= self.round {
            let share = f64::from(self.marked) / f64::from(self.acked);
            self.alpha += (share - self.alpha) / 16.0;
            (self.acked, self.marked, self.round) = (0, 0, self.next);
        }
        if marked {
            let factor = if self.l4s {
                1.0 - self.alpha / 2.0
            } else {
                0.5
            };
            self.reduce(number, factor);
        } else if self.slow {
            self.window += 1.0;
        } else {
            self.window += 1.0 / self.window;
        }
    }

    fn lost(&mut self, number: u64) {
        self.under_way -= 1;
        self.reduce(number, 0.5);
    }

    /// Multiplies the window by `factor`, once per round trip.
    fn reduce(&mut self, number: u64, factor: f64) {
        if number >= self.recovered {
            self.window = (self.window * factor).max(2.0);
            self.recovered = self.next;
        }
        self.slow = false;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Gone,
    Acked(usize, u64, bool),
    Lost(usize, u64),
    Fill(usize),
}

/// Results of a run.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes sent, by kind: classic, then L4S.
    bytes: [u64; 2],
    waits: [Vec<u64>; 2],
    busy_ns: u64,
    /// By kind: the marks and drops expected from p' of every packet that left, and those made.
    expected: [f64; 2],
    done: [u64; 2],
    spread: [f64; 2],
}

struct Loop {
    serve_ns: u64,
    rtt_ns: u64,
    kit: Queue<(usize, u64)>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    senders: Vec<Sender>,
    sending: Option<(usize, u64, bool)>,
    seen: Seen,
}

impl Loop {
    fn new(bits_s: u64, rtt_ns: u64, flows: [usize; 2]) -> Self {
        let kinds = [vec![false; flows[0]], vec![true; flows[1]]].concat();
        let mut all = Self {
            serve_ns: u64::from(LEN) * 8 * S / bits_s,
            rtt_ns,
            kit: queue("dualpi2", &link(bits_s), &[]),
            events: BinaryHeap::new(),
            senders: kinds.into_iter().map(Sender::new).collect(),
            sending: None,
            seen: Seen::default(),
        };
        for flow in 0..all.senders.len() {
            // Flows start at different times, so that they do not synchronise.
            all.push(flow as u64 * 7 * MS, Event::Fill(flow));
        }
        all
    }

    fn push(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, event)));
    }

    fn fill(&mut self, flow: usize, now: u64) {
        while f64::from(self.senders[flow].under_way) < self.senders[flow].window.floor() {
            let sender = &mut self.senders[flow];
            let number = sender.next;
            sender.next += 1;
            sender.under_way += 1;
            let sent = Packet {
                ecn: u32::from(sender.l4s),
                ..packet(now, LEN)
            };
            let arrival = self.kit.arrive(&sent, 0, (flow, number));
            if arrival.refused.is_some() {
                self.push(now + self.rtt_ns, Event::Lost(flow, number));
            } else if self.sending.is_none() {
                self.serve(now);
            }
        }
    }

    fn serve(&mut self, now: u64) {
        let gone = self.kit.depart(now);
        let p = base(&self.kit);
        let enough = self.kit.bytes() >= 2 * u64::from(LEN);
        for (_, (flow, number)) in gone.dropped {
            self.push(now + self.rtt_ns, Event::Lost(flow, number));
            self.count(self.senders[flow].l4s, p, true, true);
        }
        self.sending = gone.sent.map(|(verdict, packet, (flow, number))| {
            let marked = verdict.action == Action::Mark;
            let l4s = self.senders[flow].l4s;
            let side = usize::from(l4s);
            self.count(l4s, p, enough, marked && verdict.why() == "early");
            self.seen.bytes[side] += u64::from(packet.len);
            self.seen.waits[side].push(now - packet.arrived_ns);
            (flow, number, marked)
        });
        if self.sending.is_some() {
            self.seen.busy_ns += self.serve_ns;
            self.push(now + self.serve_ns, Event::Gone);
        }
    }

    /// Counts a packet: the mark or drop expected from p', and the one made.
    fn count(&mut self, l4s: bool, p: f64, enough: bool, done: bool) {
        let side = usize::from(l4s);
        let due = match (enough, l4s) {
            (false, _) => 0.0,
            (true, true) => (2.0 * p).min(1.0),
            (true, false) => p * p,
        };
        self.seen.expected[side] += due;
        self.seen.spread[side] += due * (1.0 - due);
        self.seen.done[side] += u64::from(done);
    }

    fn run(&mut self, until: u64) {
        while let Some(&Reverse((now, event))) = self.events.peek() {
            if now >= until {
                break;
            }
            self.events.pop();
            match event {
                Event::Gone => {
                    if let Some((flow, number, marked)) = self.sending.take() {
                        self.push(now + self.rtt_ns, Event::Acked(flow, number, marked));
                    }
                    self.serve(now);
                }
                Event::Acked(flow, number, marked) => {
                    self.senders[flow].acknowledged(number, marked);
                    self.fill(flow, now);
                }
                Event::Lost(flow, number) => {
                    self.senders[flow].lost(number);
                    self.fill(flow, now);
                }
                Event::Fill(flow) => self.fill(flow, now),
            }
        }
    }
}

/// The results of a link with a number of flows of each kind, after they have settled.
#[derive(Debug)]
struct Figures {
    used: f64,
    /// Rate of an L4S flow over that of a classic one.
    ratio: f64,
    classic_mean_ms: f64,
    l4s_mean_ms: f64,
    l4s_p99_ms: f64,
    /// By kind: how many standard deviations the marks or drops differ from those expected from p'.
    off: [f64; 2],
}

fn figures(mbit: u64, rtt_ms: u64, flows: usize, settle_s: u64, measured_s: u64) -> Figures {
    let mut all = Loop::new(mbit * 1_000_000, rtt_ms * MS, [flows; 2]);
    all.run(settle_s * S);
    all.seen = Seen::default();
    all.run((settle_s + measured_s) * S);
    let mut seen = all.seen;
    seen.waits
        .iter_mut()
        .for_each(|waits| waits.sort_unstable());
    let mean = |waits: &[u64]| waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 1e6;
    let off = |side: usize| {
        (seen.done[side] as f64 - seen.expected[side]) / seen.spread[side].sqrt().max(1.0)
    };
    Figures {
        used: seen.busy_ns as f64 / (measured_s * S) as f64,
        ratio: seen.bytes[1] as f64 / seen.bytes[0] as f64,
        classic_mean_ms: mean(&seen.waits[0]),
        l4s_mean_ms: mean(&seen.waits[1]),
        l4s_p99_ms: seen.waits[1][seen.waits[1].len() * 99 / 100] as f64 / 1e6,
        off: [off(0), off(1)],
    }
}

/// Returns the ratio of rates that the laws of both senders predict (RFC 9332, section 2.1).
/// Windows are 1.22 / p' and, with marks of 2 p', 2 / (2 p'). Only the round trip of the classic
/// sender includes the queue.
fn lawful_ratio(rtt_ms: u64, found: &Figures) -> f64 {
    let rtt = rtt_ms as f64;
    (rtt + found.classic_mean_ms) / (rtt + found.l4s_mean_ms) / 1.22
}

/// Returns the bound of the L4S queue's delay in ms: a millisecond, or three full packets.
fn bound_ms(mbit: u64) -> f64 {
    (3.0 * f64::from(LEN) * 8.0 / 1e3 / mbit as f64).max(1.0)
}

/// Asserts that marks and drops match p' within four standard deviations.
fn assert_lawful(found: &Figures, what: &str) {
    assert!(
        found.off.iter().all(|off| off.abs() < 4.0),
        "{what}: {found:.3?}"
    );
}

#[test]
fn both_kinds_of_sender_share_a_line() {
    let found = figures(40, 20, 4, 40, 60);
    assert_lawful(&found, "40 Mbit/s");
    assert!(found.used > 0.99, "{found:.3?}");
    assert!(
        (found.classic_mean_ms / 15.0 - 1.0).abs() < 0.05,
        "{found:.3?}"
    );
    assert!(found.l4s_p99_ms <= bound_ms(40), "{found:.3?}");
    let off = found.ratio / lawful_ratio(20, &found);
    assert!((off - 1.0).abs() < 0.25, "{off}: {found:.3?}");
}

/// Tests that only `make test-all` runs.
mod long {
    use super::*;

    /// Prints and checks the figures of `docs/measurements/dualpi2.md`.
    #[test]
    fn figures_of_every_line() {
        for mbit in [4, 12, 40, 120, 500] {
            for rtt_ms in [10, 20, 40] {
                for flows in [1, 4, 16] {
                    let found = figures(mbit, rtt_ms, flows, 40, 60);
                    let what = format!("{mbit} Mbit/s, {rtt_ms} ms, {flows} of each");
                    println!(
                        "{what}: {found:.3?}, lawful ratio {:.2}",
                        lawful_ratio(rtt_ms, &found)
                    );
                    assert_lawful(&found, &what);
                    assert!(found.used > 0.97, "{what}: {found:.3?}");
                    if mbit >= 12 && flows <= 4 {
                        assert!(found.l4s_p99_ms <= bound_ms(mbit), "{what}: {found:.3?}");
                    }
                }
            }
        }
    }
}
