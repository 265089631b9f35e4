// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The derivation of how long a packet can wait in the engine of rows
//! (`aqm/host/engine/tree.h`).
//!
//! # What the engine does
//!
//! Let C be the rate of the gate and F a full packet. Class j has the guarantee `r_j` and a
//! largest packet `L_j`. It is *owed* while the bytes that it has sent under its guarantee are
//! fewer than `r_j` times the time. Whenever the gate opens, the engine takes one packet of a
//! class that is owed, the most urgent first; equals send a packet each in turn. Only if no
//! class with packets is owed, another class borrows. Borrowed bytes do not count against a
//! guarantee (`engine_charge`). A class that starts to have packets is owed at most `K_j` bytes:
//! its burst and a full packet, or 2 ms of its guarantee (`engine_keep_credit`).
//!
//! # While a class is owed
//!
//! Let a packet of class i wait at t, and let i have been owed since s. Let s also be the last
//! time at which no class of its priority or a higher one was owed and had packets. From then on
//! the gate sends what is in transmission, and then only packets of these classes. Class j was
//! owed nothing at s, or `K_j` when it started to have packets. The last packet of j begins at
//! `t_j`, before which j was owed. It therefore sends at most `K_j + r_j (t_j - s) + L_j`. As in
//! [`super::bounds`], the last packets leave one after the other, and `t_j` is at least `U_j /
//! C` before t. No byte is counted twice, so latencies do not accumulate over priorities.
//!
//! Let D be the sum of `K_j + L_j - r_j U_j / C` over the other classes of its priority and
//! higher ones. Let R be the part of C that their guarantees leave.
//!
//! - A packet that finds no other of its class waits for the classes above, and for one packet
//!   of each equal: `(F + D_above + sum of L_equal) / R_above`.
//! - Leaves serve flows in turn, so a packet leaves at the latest when its class has nothing
//!   left. Let the class keep to the rate k, to a burst b, and to one packet at once. Then this
//!   happens at `(F + D + b + L_i - l) / (R - k)` after it started to have packets, with l the
//!   smallest packet.
//!
//! A class of this kind is always owed. Let u be the time when it started to have packets and
//! was owed `K_i`. By any later time v, it has sent at most `b + L_i - l + k (v - u)`, which is
//! no more than `K_i + r_i (v - u)`.
//!
//! # A ceiling of its own
//!
//! A ceiling c compensates for the time of a full packet or two ticks: G bytes. A class that
//! sends more at once is held back by it. Let u be the time of its first packet, at most T after
//! that packet arrived, and v the last time at which the ceiling holds the class back. It has
//! sent `G + c (v - u)` by then, so at most `E + k T - (c - k)(v - u)` is left, with `E = b +
//! L_i - l - G`. Therefore `v - u` is at most `(E + k T) / (c - k)`. The timer wheel releases it
//! late, by one tick, or by four if c takes eight for a full packet (`engine_wait`). The classes
//! before it are waited for once more. All this assumes that the class never waits longer than
//! its ceiling compensates for. Otherwise the ceiling loses time, and no bound is derived.
//!
//! # Further assumptions
//!
//! The sum of the guarantees is at most C. A class then falls behind by at most `K_i + F + D`
//! bytes, because each byte of C that it does not get is in these sums. The engine compensates
//! for 1 s, the burst and two packets; if that is less, there is no bound. If the times of more
//! than 64 nodes come at once, the engine finds 64 of them before each packet
//! (`ENGINE_DUE_MOST`).
//!
//! The gate opens at most one tick late, and compensates for it. A class with limits of hosts is
//! one node. It has something to send while any host has packets that its own limit does not
//! hold back. Parts of a class have no bound yet: the class may be ahead of its guarantee, and
//! its parts wait for it.

use crate::scheduler::bounds::{earned, in_vain, left_of, time};
use crate::scheduler::model::{Member, Scheduler};
use crate::scheduler::wait::{Ahead, meanwhile};
use weirgate_aqm::{CREDIT_NS, IDLE_CREDIT_NS, TICK_NS, late_ns};
use weirgate_policy::{SharedClass, in_kbit};
use weirgate_units::{Handle, Rate, Span};

/// The largest number of nodes that the engine takes from the wheel before a packet
/// (`ENGINE_DUE_MOST`).
const DUE_MOST: u64 = 64;

/// The reason why parts of a class have no bound.
const OF_PART: &str = "it is a part of a class, for which no bound has been derived in the engine \
    of rows";
/// The reason why a class without a guarantee has no bound.
const NOTHING: &str = "nothing is guaranteed to it";
const BEHIND: &str = "classes served before it may delay it by more than the engine of rows \
    makes up for: 1 s, its burst and two packets";
const CEILING: &str = "classes served before it may delay it by more than its ceiling makes up \
    for: the time of a full packet";

/// The longest waits of a class.
pub(crate) struct Waits {
    /// A packet that finds no other of its class.
    pub(crate) lone: Vec<Ahead>,
    /// A packet of traffic that keeps to `keeps` and to the class's burst.
    pub(crate) within: Vec<Ahead>,
    pub(crate) keeps: Rate,
    /// The rate that the guarantees of the others leave.
    pub(crate) rate: Rate,
}

/// A node directly below the link.
struct Node<'s> {
    class: &'s SharedClass,
    id: Handle,
    largest: u64,
}

impl Node<'_> {
    /// Returns the largest credit of the node when it starts to have packets, in bytes.
    fn kept(&self, full: u64) -> u64 {
        let burst = self.class.burst.as_bytes() + full;
        burst.max(earned(self.class.rate, Span::from_nanos(IDLE_CREDIT_NS)))
    }
}

/// Returns the nodes below the link; a divided class is one node.
fn nodes(scheduler: &Scheduler) -> Vec<Node<'_>> {
    let alone = scheduler.members.iter().filter(|one| one.parent.is_none());
    let alone = alone.map(|one| Node {
        class: &one.class,
        id: one.id,
        largest: u64::from(one.largest),
    });
    let wholes = scheduler.parents.iter().map(|parent| {
        let parts = scheduler.members.iter();
        let parts = parts.filter(|one| one.parent == Some(parent.id));
        Node {
            class: &parent.class,
            id: parent.id,
            largest: u64::from(parts.map(|one| one.largest).max().unwrap_or(0)),
        }
    });
    alone.chain(wholes).collect()
}

/// Returns the longest waits of a class whose smallest packet has this many bytes on the wire.
///
/// # Errors
///
/// Returns the reason why there is no bound.
pub(crate) fn waits(scheduler: &Scheduler, at: usize, smallest: u32) -> Result<Waits, String> {
    let member = &scheduler.members[at];
    let parts = |other: &&Member| other.parent == member.parent && other.id != member.id;
    if member.parent.is_some() && scheduler.members.iter().any(|other| parts(&other)) {
        return Err(OF_PART.to_owned());
    }
    let nodes = nodes(scheduler);
    let own_id = member.parent.unwrap_or(member.id);
    let Some(own) = nodes.iter().find(|node| node.id == own_id) else {
        return Err(OF_PART.to_owned());
    };
    if own.class.rate == Rate::default() {
        return Err(NOTHING.to_owned());
    }
    let case = Case {
        scheduler,
        nodes: &nodes,
        own,
    };
    case.waits(u64::from(smallest))
}

fn total(steps: &[Ahead]) -> Span {
    steps.iter().fold(Span::ZERO, |sum, one| sum + one.time)
}

struct Case<'s> {
    scheduler: &'s Scheduler,
    nodes: &'s [Node<'s>],
    own: &'s Node<'s>,
}

/// The bytes that precede a packet of a class, regardless of its own queue.
struct Before {
    steps: Vec<Ahead>,
    bytes: u64,
    /// The rate at which these bytes leave.
    rate: Rate,
}

impl Before {
    fn time(&self) -> Span {
        total(&self.steps)
    }
}

impl Case<'_> {
    fn full(&self) -> u64 {
        u64::from(self.scheduler.full_packet)
    }

    /// Returns what is in transmission, and the credit of classes of higher priority; with
    /// `equals`, also that of classes of equal priority.
    fn before(&self, equals: bool) -> Before {
        let own = self.own.class.priority;
        let counts = |node: &&Node| {
            let priority = node.class.priority;
            node.id != self.own.id && (priority < own || (equals && priority == own))
        };
        let first: Vec<&Node> = self.nodes.iter().filter(counts).collect();
        let rate = left_of(
            self.scheduler.gate,
            first.iter().map(|node| node.class.rate),
        );
        let last: Vec<(u64, Rate)> = first
            .iter()
            .map(|node| (node.largest, node.class.rate))
            .collect();
        let unused = in_vain(&last, self.scheduler.gate);
        let pace = in_kbit(rate);
        let full = self.full();
        let mut bytes = full;
        let mut steps = vec![Ahead {
            what: format!(
                "the packet already in transmission, {full} B at most, and what others are owed \
                 for that time, at the {pace} that their guarantees leave"
            ),
            time: time(full, rate),
        }];
        for (node, unused) in first.iter().zip(unused) {
            let (kept, packet) = (node.kept(full), node.largest);
            let own = (kept + packet).saturating_sub(unused);
            bytes += own;
            steps.push(Ahead {
                what: format!(
                    "`{}` first: {kept} B that it is owed and a packet of {packet} B, less \
                     {unused} B that come too late, at the same rate",
                    node.class.name
                ),
                time: time(own, rate),
            });
        }
        Before { steps, bytes, rate }
    }

    fn lone(&self) -> Vec<Ahead> {
        let Before {
            mut steps, rate, ..
        } = self.before(false);
        let equal =
            |node: &&Node| node.id != self.own.id && node.class.priority == self.own.class.priority;
        for node in self.nodes.iter().filter(equal) {
            let packet = node.largest;
            steps.push(Ahead {
                what: format!(
                    "a packet of `{}`, {packet} B, whose turn comes first",
                    node.class.name
                ),
                time: time(packet, rate),
            });
        }
        steps
    }

    fn waits(&self, smallest: u64) -> Result<Waits, String> {
        let (class, full) = (self.own.class, self.full());
        let keeps = Rate::bits_per_second(class.rate.as_bits_per_second() / 16 * 8);
        let before = self.before(true);
        let lone = self.lone();
        let tick = Span::from_nanos(TICK_NS);
        let kept = self.own.kept(full);
        let behind = time(before.bytes + kept, class.rate);
        let packets = class.burst.as_bytes() + 2 * full;
        let made_up = Span::from_nanos(CREDIT_NS) + time(packets, class.rate);
        if behind > made_up || before.rate <= keeps {
            return Err(BEHIND.to_owned());
        }
        let burst = class.burst.as_bytes() + self.own.largest.saturating_sub(smallest);
        let green = Ahead {
            what: format!("its own class's burst of {burst} B before it"),
            time: time(burst, before.rate),
        };
        let come = |span: Span| Ahead {
            what: format!(
                "packets of its class that arrive in this time, at {}, and are sent first",
                in_kbit(keeps)
            ),
            time: span,
        };
        let span = before.time() + green.time;
        let mut longest = vec![green, come(meanwhile(span, before.rate, keeps))];
        if class.ceiling < self.scheduler.gate {
            let slack = time(full, class.ceiling).max(Span::from_nanos(2 * TICK_NS));
            let alone = self.wakes() + total(&lone);
            if alone > slack {
                return Err(CEILING.to_owned());
            }
            // `earned` rounds up, but this term must not.
            let at_once = earned(class.ceiling, slack).saturating_sub(1);
            let beyond = burst.saturating_sub(at_once);
            let held = time(beyond, class.ceiling);
            let span = meanwhile(alone + held, class.ceiling, keeps)
                + meanwhile(before.time(), before.rate, keeps);
            let steps = vec![
                Ahead {
                    what: "until its first packet is sent, which its ceiling does not make up for"
                        .to_owned(),
                    time: alone,
                },
                Ahead {
                    what: format!(
                        "{beyond} B of its own class's burst, at its ceiling of {}",
                        in_kbit(class.ceiling)
                    ),
                    time: held,
                },
                come(span),
                Ahead {
                    what: "until the engine notices that its ceiling allows more".to_owned(),
                    time: self.late(),
                },
            ];
            if total(&steps) > total(&longest) {
                longest = steps;
            }
        }
        let machine = |mut steps: Vec<Ahead>| {
            steps.push(Ahead {
                what: "until the engine notices that the gate is open".to_owned(),
                time: tick,
            });
            steps
        };
        Ok(Waits {
            lone: machine(lone),
            within: machine(before.steps.into_iter().chain(longest).collect()),
            keeps,
            rate: before.rate,
        })
    }

    /// Returns how late the timer wheel may release a class.
    fn wakes(&self) -> Span {
        let ceiling = self.own.class.ceiling.as_bits_per_second() / 8;
        Span::from_nanos(late_ns(self.full(), ceiling))
    }

    /// Returns how late the engine may notice that.
    fn late(&self) -> Span {
        let hosts: usize = self
            .scheduler
            .parents
            .iter()
            .map(|one| one.hosts.len())
            .sum();
        let others = (self.scheduler.members.len() + self.nodes.len() + hosts) as u64;
        self.wakes() + time(others / DUE_MOST * self.full(), self.scheduler.gate)
    }
}
