// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTB as the kernel runs it, for the two qdiscs of one device: `htb_dequeue`,
//! `htb_dequeue_tree`, `htb_charge_class` and `htb_class_mode` of
//! net/sched/sch_htb.c, in nanoseconds, without hysteresis (its default).
//!
//! Left out: more than two levels of classes, and the kernel's limit on mode
//! changes handled in one go.

use std::collections::VecDeque;
use weirgate_state::{Htb, HtbClass, Qdisc, QdiscKind};

/// A packet in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub class: usize,
    pub bytes: u32,
    pub arrived: u64,
    pub number: u64,
}

/// A packet that has left, and when.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    pub packet: Packet,
    pub at: u64,
}

struct Bucket {
    tokens: i64,
    most: i64,
    bits_per_second: u64,
}

impl Bucket {
    fn new(most: u64, bits_per_second: u64) -> Self {
        Self {
            tokens: most as i64,
            most: most as i64,
            bits_per_second,
        }
    }

    /// `htb_accnt_tokens`.
    fn account(&mut self, elapsed: i64, bytes: u32) {
        let cost = i128::from(bytes) * 8_000_000_000 / i128::from(self.bits_per_second);
        self.tokens = (self.tokens + elapsed).min(self.most) - cost as i64;
    }
}

struct Leaf {
    rate: Bucket,
    ceil: Bucket,
    checked: u64,
    priority: u8,
    quantum: i64,
    /// By level: 0 within the guarantee, 1 borrowing.
    deficit: [i64; 2],
    queue: VecDeque<Packet>,
    limit_bytes: u64,
    limit_packets: usize,
    backlog: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    CanSend,
    MayBorrow,
    CannotSend,
}

impl Leaf {
    fn mode(&self, now: u64) -> Mode {
        let elapsed = (now - self.checked).min(60_000_000_000) as i64;
        if self.ceil.tokens + elapsed < 0 {
            Mode::CannotSend
        } else if self.rate.tokens + elapsed >= 0 {
            Mode::CanSend
        } else {
            Mode::MayBorrow
        }
    }

    fn charge(&mut self, now: u64, level: usize, bytes: u32) {
        let elapsed = (now - self.checked).min(60_000_000_000) as i64;
        if level == 0 {
            self.rate.account(elapsed, bytes);
        } else {
            self.rate.tokens += elapsed;
        }
        self.ceil.account(elapsed, bytes);
        self.checked = now;
    }
}

/// The gate with its scheduler.
pub struct Machine {
    gate: Bucket,
    gate_checked: u64,
    leaves: Vec<Leaf>,
    /// Where the next turn begins, by level and priority.
    turn: [[usize; 8]; 2],
    next_number: u64,
    pub now: u64,
    pub dropped: Vec<u64>,
}

fn htb(qdisc: &Qdisc) -> &Htb {
    match &qdisc.kind {
        QdiscKind::Htb(htb) => htb,
        other => panic!("not HTB: {other:?}"),
    }
}

impl Machine {
    /// The machine of a compiled root qdisc; class 0 is the first leaf.
    pub fn new(root: &Qdisc) -> Self {
        let gate = &htb(root).classes[0];
        let inner = htb(gate.leaf.as_ref().expect("the scheduler"));
        let leaves: Vec<Leaf> = inner
            .classes
            .iter()
            .filter(|class| class.leaf.is_some())
            .map(leaf)
            .collect();
        Self {
            gate: Bucket::new(gate.buffer.as_nanos(), gate.rate.as_bits_per_second()),
            gate_checked: 0,
            dropped: vec![0; leaves.len()],
            leaves,
            turn: [[0; 8]; 2],
            next_number: 0,
            now: 0,
        }
    }

    /// A packet arrives now; its number, or `None` where it is dropped.
    pub fn arrive(&mut self, class: usize, bytes: u32) -> Option<u64> {
        let leaf = &mut self.leaves[class];
        let fits = leaf.backlog + u64::from(bytes) <= leaf.limit_bytes
            && leaf.queue.len() < leaf.limit_packets;
        if !fits {
            self.dropped[class] += 1;
            return None;
        }
        self.next_number += 1;
        leaf.backlog += u64::from(bytes);
        let number = self.next_number;
        leaf.queue.push_back(Packet {
            class,
            bytes,
            arrived: self.now,
            number,
        });
        Some(number)
    }

    pub fn queued(&self, class: usize) -> usize {
        self.leaves[class].queue.len()
    }

    /// What a class may send now without overdrawing, in bytes.
    pub fn tokens(&self, class: usize) -> i64 {
        let leaf = &self.leaves[class];
        let elapsed = (self.now - leaf.checked) as i64;
        let tokens = (leaf.rate.tokens + elapsed).min(leaf.rate.most);
        (i128::from(tokens) * i128::from(leaf.rate.bits_per_second) / 8_000_000_000) as i64
    }

    /// When the gate opens next; now or later.
    pub fn opens(&self) -> u64 {
        let open = self.gate_checked as i64 - self.gate.tokens;
        self.now.max(open.max(0) as u64)
    }

    /// Lets time pass until `until`, sending whenever the gate is open.
    pub fn run(&mut self, until: u64) -> Vec<Left> {
        let mut left = Vec::new();
        loop {
            let opens = self.opens();
            let wakes = if self.pending() {
                self.next_chance(opens)
            } else {
                u64::MAX
            };
            if wakes > until {
                self.now = self.now.max(until);
                return left;
            }
            self.now = wakes;
            if let Some(packet) = self.dequeue() {
                left.push(Left {
                    packet,
                    at: self.now,
                });
            }
        }
    }

    fn pending(&self) -> bool {
        self.leaves.iter().any(|leaf| !leaf.queue.is_empty())
    }

    /// The gate's opening, or later where ceilings hold everything back.
    fn next_chance(&self, opens: u64) -> u64 {
        let ready = |leaf: &Leaf| {
            let open = leaf.checked as i64 - leaf.ceil.tokens;
            opens.max(open.max(0) as u64)
        };
        let waiting = self.leaves.iter().filter(|leaf| !leaf.queue.is_empty());
        waiting.map(ready).min().unwrap_or(u64::MAX)
    }

    /// `htb_dequeue` of the scheduler, then `htb_charge_class` of both.
    fn dequeue(&mut self) -> Option<Packet> {
        for level in 0..2 {
            let wanted = if level == 0 {
                Mode::CanSend
            } else {
                Mode::MayBorrow
            };
            for priority in 0..8_u8 {
                let ring: Vec<usize> = (0..self.leaves.len())
                    .filter(|at| {
                        let leaf = &self.leaves[*at];
                        leaf.priority == priority
                            && !leaf.queue.is_empty()
                            && leaf.mode(self.now) == wanted
                    })
                    .collect();
                let turn = &mut self.turn[level][usize::from(priority)];
                let Some(first) = ring.first() else {
                    continue;
                };
                let at = *ring.iter().find(|at| *at >= turn).unwrap_or(first);
                *turn = at;
                let leaf = &mut self.leaves[at];
                let packet = leaf.queue.pop_front()?;
                leaf.backlog -= u64::from(packet.bytes);
                leaf.deficit[level] -= i64::from(packet.bytes);
                if leaf.deficit[level] < 0 {
                    leaf.deficit[level] += leaf.quantum;
                    *turn = at + 1;
                }
                leaf.charge(self.now, level, packet.bytes);
                // A class that leaves the ring hands its turn on.
                if leaf.queue.is_empty() || leaf.mode(self.now) != wanted {
                    *turn = at + 1;
                }
                let elapsed = (self.now - self.gate_checked) as i64;
                self.gate.account(elapsed, packet.bytes);
                self.gate_checked = self.now;
                return Some(packet);
            }
        }
        None
    }
}

fn leaf(class: &HtbClass) -> Leaf {
    let queue = class.leaf.as_ref().expect("a queue");
    let (limit_bytes, limit_packets) = match &queue.kind {
        QdiscKind::Bfifo(bfifo) => (bfifo.limit.as_bytes(), usize::MAX),
        QdiscKind::Pfifo(pfifo) => (u64::MAX, pfifo.limit as usize),
        other => panic!("the model has no {other:?}"),
    };
    Leaf {
        rate: Bucket::new(class.buffer.as_nanos(), class.rate.as_bits_per_second()),
        ceil: Bucket::new(class.cbuffer.as_nanos(), class.ceil.as_bits_per_second()),
        checked: 0,
        priority: class.prio,
        quantum: i64::from(class.quantum),
        deficit: [0; 2],
        queue: VecDeque::new(),
        limit_bytes,
        limit_packets,
        backlog: 0,
    }
}
