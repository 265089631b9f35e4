// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTB as the kernel runs it, for the two qdiscs of one device: `htb_dequeue`,
//! `htb_dequeue_tree`, `htb_charge_class` and `htb_class_mode` of
//! net/sched/sch_htb.c, in nanoseconds, without hysteresis (its default).
//!
//! Classes are on three levels: leaves, divided classes, and the root, which always permits. Left
//! out are the kernel's limit on mode changes per call, and its ordering of classes by number.

use crate::queue::Queue;
use weirgate_state::{Htb, HtbClass, Qdisc, QdiscKind};

/// A packet in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub class: usize,
    pub bytes: u32,
    pub arrived: u64,
    pub number: u64,
    /// The flow, if flows of a class are distinguished.
    pub flow: u32,
}

/// A packet that has left, and the time.
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

    /// Adds tokens for a time, and subtracts the cost of bytes (`htb_accnt_tokens`).
    fn account(&mut self, elapsed: i64, bytes: u32) {
        let cost = i128::from(bytes) * 8_000_000_000 / i128::from(self.bits_per_second);
        self.tokens = (self.tokens + elapsed).min(self.most) - cost as i64;
    }
}

/// The token buckets of a class.
struct Account {
    rate: Bucket,
    ceil: Bucket,
    checked: u64,
}

struct Leaf {
    account: Account,
    /// The divided class to which it belongs, if any.
    parent: Option<usize>,
    priority: u8,
    quantum: i64,
    /// By level: 0 within the guarantee, 1 borrowing from the divided class, 2 borrowing from the
    /// root.
    deficit: [i64; 3],
    queue: Queue,
    limit_bytes: u64,
    limit_packets: usize,
    backlog: u64,
}

/// A divided class.
struct Parent {
    account: Account,
    /// The next turn of its parts, by priority.
    turn: [usize; 8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    CanSend,
    MayBorrow,
    CannotSend,
}

impl Account {
    fn new(class: &HtbClass) -> Self {
        Self {
            rate: Bucket::new(class.buffer.as_nanos(), class.rate.as_bits_per_second()),
            ceil: Bucket::new(class.cbuffer.as_nanos(), class.ceil.as_bits_per_second()),
            checked: 0,
        }
    }

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

    /// Charges one class (`htb_charge_class`): its rate pays if it lends or sends on its own
    /// tokens, its ceiling always.
    fn charge(&mut self, now: u64, pays: bool, bytes: u32) {
        let elapsed = (now - self.checked).min(60_000_000_000) as i64;
        if pays {
            self.rate.account(elapsed, bytes);
        } else {
            self.rate.tokens += elapsed;
        }
        self.ceil.account(elapsed, bytes);
        self.checked = now;
    }

    /// Returns when a bucket of this account is out of debt.
    fn paid(&self, bucket: &Bucket) -> u64 {
        (self.checked as i64 - bucket.tokens).max(0) as u64
    }
}

/// The gate with its scheduler.
pub struct Machine {
    gate: Bucket,
    gate_checked: u64,
    leaves: Vec<Leaf>,
    parents: Vec<Parent>,
    /// The next turn, by level and priority: of leaves, of divided classes, and of leaves followed
    /// by divided classes below the root.
    turn: [[usize; 8]; 3],
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
    /// Makes the machine of a compiled root qdisc; class 0 is the first leaf.
    pub fn new(root: &Qdisc) -> Self {
        let gate = &htb(root).classes[0];
        let inner = htb(gate.leaf.as_ref().expect("the scheduler"));
        let top = inner.classes[0].id;
        let divided: Vec<&HtbClass> = inner
            .classes
            .iter()
            .filter(|class| class.leaf.is_none() && class.id != top)
            .collect();
        let leaves: Vec<Leaf> = inner
            .classes
            .iter()
            .filter(|class| class.leaf.is_some())
            .map(|class| {
                let parent = divided.iter().position(|parent| parent.id == class.parent);
                leaf(class, parent)
            })
            .collect();
        let parents = divided.into_iter().map(|class| Parent {
            account: Account::new(class),
            turn: [0; 8],
        });
        Self {
            gate: Bucket::new(gate.buffer.as_nanos(), gate.rate.as_bits_per_second()),
            gate_checked: 0,
            dropped: vec![0; leaves.len()],
            leaves,
            parents: parents.collect(),
            turn: [[0; 8]; 3],
            next_number: 0,
            now: 0,
        }
    }

    /// Adds a packet that arrives now; returns its number, or `None` if it is dropped.
    pub fn arrive(&mut self, class: usize, bytes: u32) -> Option<u64> {
        self.arrive_of(class, 0, bytes)
    }

    /// Adds a packet of a flow of the class.
    pub fn arrive_of(&mut self, class: usize, flow: u32, bytes: u32) -> Option<u64> {
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
        leaf.queue.push(Packet {
            class,
            bytes,
            arrived: self.now,
            number,
            flow,
        });
        Some(number)
    }

    /// Replaces the queue of a class, which must be empty.
    pub fn replace(&mut self, class: usize, queue: Queue) {
        self.leaves[class].queue = queue;
    }

    /// Makes one packet of a class's queue, which is in order, the last to leave.
    pub fn tag(&mut self, class: usize, number: u64) {
        let queue = &mut self.leaves[class].queue;
        let Queue::Fifo(packets) = std::mem::take(queue) else {
            panic!("a queue in turns has its own order")
        };
        *queue = Queue::Last(packets, number);
    }

    /// Returns whether a class is within its guarantee at a time.
    pub fn green(&self, class: usize, at: u64) -> bool {
        self.leaves[class].account.mode(at) == Mode::CanSend
    }

    /// Returns how long a class's bucket takes to be full, in nanoseconds.
    pub fn missing(&self, class: usize) -> i64 {
        let account = &self.leaves[class].account;
        let elapsed = (self.now - account.checked) as i64;
        (account.rate.most - account.rate.tokens - elapsed).max(0)
    }

    /// Returns the rest of a class's turn among those within their guarantee.
    pub fn deficit(&self, class: usize) -> i64 {
        self.leaves[class].deficit[0]
    }

    pub fn queued(&self, class: usize) -> usize {
        self.leaves[class].queue.len()
    }

    /// Returns how many bytes a class can send now without overdrawing.
    pub fn tokens(&self, class: usize) -> i64 {
        let leaf = &self.leaves[class];
        let account = &leaf.account;
        let elapsed = (self.now - account.checked) as i64;
        let tokens = (account.rate.tokens + elapsed).min(account.rate.most);
        (i128::from(tokens) * i128::from(account.rate.bits_per_second) / 8_000_000_000) as i64
    }

    /// Returns when the gate opens next, now or later.
    pub fn opens(&self) -> u64 {
        let open = self.gate_checked as i64 - self.gate.tokens;
        self.now.max(open.max(0) as u64)
    }

    /// Advances the time to `until`, and sends whenever the gate is open.
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

    /// Returns when the gate opens, or later if ceilings block all classes. A leaf within its
    /// guarantee does not depend on its divided class.
    fn next_chance(&self, opens: u64) -> u64 {
        let ready = |leaf: &Leaf| {
            let own = leaf.account.paid(&leaf.account.ceil);
            let borrows = leaf.parent.map_or(0, |parent| {
                let whole = &self.parents[parent].account;
                whole.paid(&whole.ceil)
            });
            let owed = leaf.account.paid(&leaf.account.rate);
            opens.max(own).max(borrows.min(owed))
        };
        let waiting = self.leaves.iter().filter(|leaf| !leaf.queue.is_empty());
        waiting.map(ready).min().unwrap_or(u64::MAX)
    }

    /// Returns the leaves below a parent that would borrow from it.
    fn feed(&self, parent: Option<usize>, priority: u8) -> Vec<usize> {
        self.ready(Mode::MayBorrow, priority, |leaf| leaf.parent == parent)
    }

    fn ready(&self, mode: Mode, priority: u8, which: impl Fn(&Leaf) -> bool) -> Vec<usize> {
        (0..self.leaves.len())
            .filter(|at| {
                let leaf = &self.leaves[*at];
                leaf.priority == priority
                    && !leaf.queue.is_empty()
                    && which(leaf)
                    && leaf.account.mode(self.now) == mode
            })
            .collect()
    }

    /// Returns the divided classes in a mode whose parts would borrow from them.
    fn lending(&self, mode: Mode, priority: u8) -> Vec<usize> {
        (0..self.parents.len())
            .filter(|at| {
                self.parents[*at].account.mode(self.now) == mode
                    && !self.feed(Some(*at), priority).is_empty()
            })
            .collect()
    }

    /// Returns the leaf whose turn it is on a level (`htb_lookup_leaf`). At the end of a divided
    /// class's parts, the turn passes on above it.
    fn lookup(&mut self, level: usize, priority: u8) -> Option<usize> {
        let row = usize::from(priority);
        let leaves = self.leaves.len();
        let ring: Vec<usize> = match level {
            0 => self.ready(Mode::CanSend, priority, |_| true),
            1 => {
                let lending = self.lending(Mode::CanSend, priority);
                lending.into_iter().map(|at| leaves + at).collect()
            }
            _ => {
                let behind = self.lending(Mode::MayBorrow, priority);
                let mut ring = self.feed(None, priority);
                ring.extend(behind.into_iter().map(|at| leaves + at));
                ring
            }
        };
        let first = *ring.first()?;
        // One round, and once more for a turn that was at its end.
        for _ in 0..=ring.len() {
            let turn = self.turn[level][row];
            let at = ring.iter().copied().find(|at| *at >= turn).unwrap_or(first);
            self.turn[level][row] = at;
            let Some(parent) = at.checked_sub(leaves) else {
                return Some(at);
            };
            let parts = self.feed(Some(parent), priority);
            let next = self.parents[parent].turn[row];
            if let Some(part) = parts.into_iter().find(|part| *part >= next) {
                return Some(part);
            }
            self.parents[parent].turn[row] = 0;
            self.turn[level][row] = at + 1;
        }
        // Every turn was at its end and begins again now.
        self.lookup(level, priority)
    }

    /// Runs `htb_dequeue` of the scheduler, then `htb_charge_class` of both.
    fn dequeue(&mut self) -> Option<Packet> {
        for level in 0..3 {
            for priority in 0..8_u8 {
                let Some(at) = self.lookup(level, priority) else {
                    continue;
                };
                let wanted = if level == 0 {
                    Mode::CanSend
                } else {
                    Mode::MayBorrow
                };
                let leaf = &mut self.leaves[at];
                let packet = leaf.queue.pop(self.now)?;
                leaf.backlog -= u64::from(packet.bytes);
                leaf.deficit[level] -= i64::from(packet.bytes);
                let mut done = false;
                if leaf.deficit[level] < 0 {
                    leaf.deficit[level] += leaf.quantum;
                    done = true;
                }
                leaf.account.charge(self.now, level == 0, packet.bytes);
                // A class that leaves the ring passes its turn on.
                done |= leaf.queue.is_empty() || leaf.account.mode(self.now) != wanted;
                let parent = leaf.parent;
                if let Some(parent) = parent {
                    let whole = &mut self.parents[parent].account;
                    whole.charge(self.now, level <= 1, packet.bytes);
                }
                if done {
                    let row = usize::from(priority);
                    match parent {
                        Some(parent) if level > 0 => self.parents[parent].turn[row] = at + 1,
                        _ => self.turn[level][row] = at + 1,
                    }
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

fn leaf(class: &HtbClass, parent: Option<usize>) -> Leaf {
    let queue = class.leaf.as_ref().expect("a queue");
    let (limit_bytes, limit_packets) = match &queue.kind {
        QdiscKind::Bfifo(bfifo) => (bfifo.limit.as_bytes(), usize::MAX),
        QdiscKind::Pfifo(pfifo) => (u64::MAX, pfifo.limit as usize),
        // For packets of one size, its order does not matter to other classes.
        QdiscKind::FqCodel(queue) => (u64::MAX, queue.limit as usize),
        QdiscKind::Sfq(queue) => (u64::MAX, queue.limit as usize),
        QdiscKind::Cake(_) => (u64::MAX, usize::MAX),
        other => panic!("the model has no {other:?}"),
    };
    Leaf {
        account: Account::new(class),
        parent,
        priority: class.prio,
        quantum: i64::from(class.quantum),
        deficit: [0; 3],
        queue: Queue::default(),
        limit_bytes,
        limit_packets,
        backlog: 0,
    }
}
