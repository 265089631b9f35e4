// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a packet can wait in the engine of rows (`aqm/host/engine/tree.h`).
//!
//! # What the engine does
//!
//! Let C be the gate and F a full packet. Class j has the guarantee `r_j` and a largest
//! packet `L_j`. It is *owed* while the bytes that it sent as owed are behind `r_j` times
//! the time. Whenever the gate opens, the engine takes one packet of a class that is owed,
//! the most urgent first, equals a packet each in turn. Only if none is owed that has
//! packets, another class borrows. What is borrowed does not count against a guarantee
//! (`engine_charge`). A class that begins to have packets is owed `K_j` bytes at most:
//! its burst and a full packet, or 2 ms of its guarantee (`engine_keep_credit`).
//!
//! # While a class is owed
//!
//! Let a packet of class i wait at t, and let i have been owed from s on. Let s be moreover
//! the last time before at which no class of its priority or a higher one was owed and had
//! packets. From then on the gate sends what is on its way, and packets of such classes
//! alone. One of them, j, was behind by nothing at s, or by `K_j` when it began to have
//! packets. The last packet of j begins at `t_j`, before which it was owed, so that j
//! sends `K_j + r_j (t_j - s) + L_j` at most. As in [`super::bounds`] the last packets
//! leave one after the other, and `t_j` is `U_j / C` before t at least. Nothing is
//! counted twice, so that latencies do not add up over priorities.
//!
//! With D the sum of `K_j + L_j - r_j U_j / C` over the other classes of its priority and
//! higher ones, and R what their guarantees leave of C:
//!
//! - A packet that finds none of its class waits for the classes above, and for one packet
//!   of each equal: `(F + D_above + sum of L_equal) / R_above`.
//! - Leaves serve flows in turn, so that a packet leaves at the latest when its class has
//!   nothing left. If the class keeps to the rate k, to a burst b and a packet at once, that
//!   is at `(F + D + b + L_i - l) / (R - k)` after it began to have packets, l being the
//!   smallest packet.
//!
//! Such a class is always owed. For since u, when it began to have packets and was owed
//! `K_i`, no more than `b + L_i - l + k (v - u)` of it went until v, which is no more than
//! `K_i + r_i (v - u)`.
//!
//! # A ceiling of its own
//!
//! A ceiling c makes up for a full packet's time or two ticks: for G bytes. A class that
//! sends more at once is held back by it. Let u be when it sends its first packet, T after
//! it came at most, and v the last time at which the ceiling holds the class back. It has
//! sent `G + c (v - u)` by then, so that `E + k T - (c - k)(v - u)` is left at most, with
//! `E = b + L_i - l - G`. So `v - u` is `(E + k T) / (c - k)` at most. The wheel says late
//! that it may go on, by a tick, or by four where c takes eight for a full packet
//! (`engine_wait`); the classes before it are waited for once more. All this
//! holds if the class is never kept waiting for longer than its ceiling makes up for. If it
//! may be, what the ceiling lost is lost, and no bound is derived.
//!
//! # What has to hold besides
//!
//! Guarantees are C together at most. A class falls behind by `K_i + F + D` bytes at most
//! then, as each byte of C that it does not get is in these sums. The engine makes up for
//! 1 s, the burst and two packets; where that is less, there is no bound. Of more than 64 nodes whose
//! time comes at once, the engine finds 64 before each packet (`ENGINE_DUE_MOST`).
//!
//! The gate opens a tick late at most, and makes up for it. A class with limits of hosts is
//! one node, and has something to send while any host has that its own limit does not hold
//! back. Parts of a class have no bound yet: the class may be ahead of its guarantee, and
//! its parts wait for it.

use crate::scheduler::bounds::{earned, in_vain, time};
use crate::scheduler::model::{Member, Scheduler};
use crate::scheduler::wait::{Ahead, left_of, meanwhile};
use weirgate_aqm::{CREDIT_NS, IDLE_CREDIT_NS, TICK_NS, late_ns};
use weirgate_policy::{SharedClass, in_kbit};
use weirgate_units::{Handle, Rate, Span};

/// Nodes that the engine takes from the wheel before a packet (`ENGINE_DUE_MOST`).
const DUE_MOST: u64 = 64;

/// Why parts of a class have none.
const OF_PART: &str = "it is a part of a class, for which no bound has been derived in the engine \
    of rows";
/// Why a class has none that is guaranteed nothing.
const NOTHING: &str = "nothing is guaranteed to it";
const BEHIND: &str = "the classes before it may keep it waiting until it is behind by more than \
    the 1 s, its burst and two packets that the engine of rows makes up for";
const CEILING: &str = "the classes before it may keep it waiting for longer than its ceiling makes \
    up for, a full packet's time";

/// The waits of a class.
pub(crate) struct Waits {
    /// A packet that finds none of its class.
    pub(crate) lone: Vec<Ahead>,
    /// One of traffic that keeps to `keeps` and to the class's burst.
    pub(crate) within: Vec<Ahead>,
    pub(crate) keeps: Rate,
    /// What the guarantees of the others leave.
    pub(crate) rate: Rate,
}

/// A node directly below the link.
struct Node<'s> {
    class: &'s SharedClass,
    id: Handle,
    largest: u64,
}

impl Node<'_> {
    /// What it is owed at most when it begins to have packets.
    fn kept(&self, full: u64) -> u64 {
        let burst = self.class.burst.as_bytes() + full;
        burst.max(earned(self.class.rate, Span::from_nanos(IDLE_CREDIT_NS)))
    }
}

/// The nodes below the link: classes, and those that are divided as wholes.
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

/// The longest waits of a class whose smallest packet has so many wire bytes.
///
/// # Errors
///
/// Why there is no bound.
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

/// What goes before a packet of a class, however long its own class is.
struct Before {
    steps: Vec<Ahead>,
    bytes: u64,
    /// The rate at which these bytes go.
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

    /// What is on its way, and classes of a higher priority; and `equals` of its own, by
    /// what they are owed.
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
                "the packet already on its way, {full} B at most, and what others are owed for \
                 that time: at the {pace} that their guarantees leave"
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
                     {unused} B owed in vain, at the same rate",
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
                    "a packet of `{}`, {packet} B, whose turn is first",
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
                "packets of its class that come meanwhile, at {}, and go first",
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
            // `earned` rounds up, and this must not.
            let at_once = earned(class.ceiling, slack).saturating_sub(1);
            let beyond = burst.saturating_sub(at_once);
            let held = time(beyond, class.ceiling);
            let span = meanwhile(alone + held, class.ceiling, keeps)
                + meanwhile(before.time(), before.rate, keeps);
            let steps = vec![
                Ahead {
                    what: "until its first packet goes, which its ceiling does not make up for"
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
                    what: "until the engine finds that it may go on".to_owned(),
                    time: self.late(),
                },
            ];
            if total(&steps) > total(&longest) {
                longest = steps;
            }
        }
        let machine = |mut steps: Vec<Ahead>| {
            steps.push(Ahead {
                what: "until the engine finds that the gate is open".to_owned(),
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

    /// How late the wheel says that a class may go on.
    fn wakes(&self) -> Span {
        let ceiling = self.own.class.ceiling.as_bits_per_second() / 8;
        Span::from_nanos(late_ns(self.full(), ceiling))
    }

    /// How late the engine may find that.
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
