// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Solves for the longest wait of a packet. It considers which limit of the classes beside it is
//! tighter, which packet may be in transmission when it arrives, and what its own class sends
//! before it. [`super::bounds`] describes the model.
//!
//! # Classes of equal priority
//!
//! Such a class is limited in two ways: by its turns, and by its token bucket like a class of
//! higher priority. Let S be the set of classes that are counted by their bucket. Each choice of
//! S gives a bound, so the smallest one applies. All terms grow at most linearly with the wait
//! t, so the sum of the smaller ones is concave in t. Newton's method from the right finds the
//! minimum, starting with all classes in S.
//!
//! # What is in transmission
//!
//! A packet that was already given to the device goes first, F bytes at most. It is of a class
//! that borrows and is served after this one, if there is any. If there is none, consider the
//! whole time since the gate was last idle. Every packet in it either is in a bucket counted
//! below, or was borrowed by one of these classes. A class that borrows has an empty bucket, so
//! F replaces its bucket. The worst of these cases is the bound. The kit's shaper sends packets
//! in groups on fast links (`aqm/host/gate.h`): those of a group were given to the device, too.
//!
//! # A queue that is not in order
//!
//! Only the conformance of the class limits what leaves such a queue before a packet. Flows that
//! come later may go first. In fq_codel they do because they are new (`fq_codel_dequeue`,
//! net/sched/sch_fq_codel.c). In sfq their place in the ring may come sooner (`sfq_dequeue`,
//! net/sched/sch_sfq.c). In cake both reasons apply (`cake_dequeue`, net/sched/sch_cake.c). All
//! three are work-conserving. A packet therefore leaves at the latest when its class has nothing
//! left: the busy period of a latency-rate server (Le Boudec and Thiran, Network Calculus, 2001,
//! section 1.3). With service R (t - T) and arrivals `b + L + k t`,
//!
//! ```text
//! R (t - T) = b + L + k t - l, l the packet itself
//!         t = (R T + b + L - l) / (R - k)
//! ```
//!
//! The class gets this service only while it is within its guarantee. Its bucket of `b + r T`
//! suffices if packets leave in order. Here, however, the L bytes of a later packet may have
//! been sent before. The class is then in debt, and waits until its guarantee r has paid the
//! debt. Let v be the last time of debt, and u the last time before v at which the bucket was
//! full. Between them the class has sent `b + r T + r (v - u)`. At most `b + L + k (v - u)`
//! arrived, in addition to `k T` that was held back before. Therefore
//!
//! ```text
//! v - u <= (L - l) / (r - k) - T
//!     t <= (L - l) / (r - k) + R T / (R - k)
//! ```
//!
//! plus the time for which it was held back. Almost nothing of the class is left at that point,
//! and it waits for the others once more. The larger of the two is the bound; a class with a
//! sufficiently long latency is never in debt. The debt ends only if k is below r, so k is half
//! of r.
//!
//! Debt does not matter for a class that borrows before all others. The guarantees of the
//! others, and the turns of equals that borrow, give it a second bound, and the smaller of both
//! applies.
//!
//! The cake of a class downstream has its own shaper without a bucket, at the class's ceiling c.
//! While that holds the class back, others may borrow. By then, however, the class has sent c
//! times the time since its busy period began. The remainder at that point is served as if it
//! arrived then. Its own bytes therefore count at the smaller of R and c, together with a packet
//! that left just before the busy period.

use crate::scheduler::bounds::{bucket, earned, equals, higher, in_vain, time};
use crate::scheduler::model::{Member, Scheduler};
use crate::scheduler::parts::Parent;
use weirgate_policy::in_kbit;
use weirgate_units::{Rate, Span};

/// One summand of a wait: bytes on the wire that the gate sends before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// The source of the bytes, and the reason.
    pub(crate) what: String,
    /// The time that they take.
    pub(crate) time: Span,
}

/// What the class itself may send before a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// Nothing.
    Nothing,
    /// The class always has packets: the wait is its latency.
    Always,
    /// Bytes on the wire that arrived at once, before the packet.
    InOrder(u64),
    /// Bytes that arrived at once and bytes that arrive later, in any order.
    AnyOrder(AnyOrder),
}

/// What a class sends if its queue is not in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnyOrder {
    /// The rate to which it keeps.
    pub(crate) kept: Rate,
    /// Bytes on the wire that arrived at once, without the packet itself.
    pub(crate) before: u64,
    /// By how much they exceed the burst of the class.
    pub(crate) excess: u64,
    /// The rate of the queue's own shaper, if it has one.
    pub(crate) shaper: Option<Rate>,
}

/// A wait with its derivation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Its summands.
    pub(crate) steps: Vec<Ahead>,
    /// The rate at which the class is served then, in turn with its equals.
    pub(crate) rate: Rate,
}

impl Wait {
    pub(crate) fn total(&self) -> Span {
        let times = self.steps.iter().map(|step| step.time);
        times.fold(Span::ZERO, |sum, time| sum + time)
    }
}

/// What is in transmission when the packet arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A packet of a class that is not counted otherwise.
    Foreign,
    /// A packet that this member borrowed.
    Borrowed(usize),
    /// Nothing.
    Nothing,
}

/// Returns the longest wait of a packet of a class.
pub(crate) fn longest(scheduler: &Scheduler, at: usize, own: Own) -> Wait {
    let starts = starts(scheduler, at, own);
    let waits = starts.into_iter().map(|before| {
        let case = |debt| Case {
            scheduler,
            at,
            own,
            before,
            debt,
        };
        let guaranteed = case(false).least();
        let anyway = match own {
            Own::AnyOrder(_) => case(true).borrowing(),
            _ => None,
        };
        match anyway {
            Some(anyway) if anyway.total() < guaranteed.total() => anyway,
            _ => guaranteed,
        }
    });
    let worst = waits.max_by_key(Wait::total);
    worst.unwrap_or_else(|| Wait {
        steps: Vec::new(),
        rate: scheduler.gate,
    })
}

/// Returns the longest wait behind this many bytes of a class before which no class borrows. It
/// applies whether or not the class is within its guarantee. Returns `None` for other classes.
pub(crate) fn borrowing(scheduler: &Scheduler, at: usize, bytes: u64) -> Option<Wait> {
    let case = Case {
        scheduler,
        at,
        own: Own::InOrder(bytes),
        before: Before::Foreign,
        debt: true,
    };
    case.borrowing()
}

/// Returns the latency of the class as a latency-rate server, counting its equals by their
/// turns. It needs only the buckets of classes of higher priority.
pub(crate) fn latency(scheduler: &Scheduler, at: usize) -> Span {
    let case = Case {
        scheduler,
        at,
        own: Own::Always,
        before: Before::Foreign,
        debt: false,
    };
    case.with(&[]).total()
}

/// Returns the rate to which traffic of a class must keep so that waits have a bound, if its
/// queue is not in order.
pub(crate) fn kept(member: &Member) -> Rate {
    Rate::bits_per_second(member.class.rate.as_bits_per_second() / 16 * 8)
}

/// Subtracts the guarantees of members from a rate.
pub(crate) fn left<'s>(rate: Rate, others: impl Iterator<Item = &'s Member>) -> Rate {
    left_of(rate, others.map(Member::own_rate))
}

/// Subtracts rates from a rate.
pub(crate) fn left_of(rate: Rate, taken: impl Iterator<Item = Rate>) -> Rate {
    let taken: u64 = taken.map(Rate::as_bits_per_second).sum();
    Rate::bits_per_second(rate.as_bits_per_second().saturating_sub(taken))
}

/// Returns what other classes lend to their hosts with limits, which precedes a class that does
/// so itself.
fn lent(scheduler: &Scheduler, own: &Member) -> impl Iterator<Item = Rate> {
    let lend = |parent: &&Parent| own.capped > 0 && !parent.hosts.is_empty();
    let others = scheduler.parents.iter().filter(lend);
    let id = own.parent;
    let others = others.filter(move |parent| Some(parent.id) != id);
    others.map(|parent| parent.class.rate)
}

fn starts(scheduler: &Scheduler, at: usize, own: Own) -> Vec<Before> {
    if matches!(own, Own::Nothing | Own::Always) {
        return vec![Before::Foreign];
    }
    let member = &scheduler.members[at];
    let others = scheduler.members.iter().enumerate();
    let others = others.filter(|(other, _)| *other != at);
    let after = |(_, other): (usize, &Member)| {
        other.capped > 0 || other.class.priority > member.class.priority
    };
    if member.capped > 0 || others.clone().any(after) {
        return vec![Before::Foreign];
    }
    let borrowed = others.map(|(other, _)| Before::Borrowed(other));
    [Before::Nothing].into_iter().chain(borrowed).collect()
}

/// A case to calculate: a packet of a class, and how the wait begins.
struct Case<'s> {
    scheduler: &'s Scheduler,
    at: usize,
    own: Own,
    before: Before,
    /// Whether the class may be in debt all the time. The guarantees of all others then go
    /// first, and it borrows before classes of lower priority.
    debt: bool,
}

impl Case<'_> {
    fn member(&self) -> &Member {
        &self.scheduler.members[self.at]
    }

    /// Returns the smallest bound over the sets of equals that are counted by their bucket.
    fn least(&self) -> Wait {
        let mut limited: Vec<usize> = equals(self.scheduler, self.at).map(|(at, _)| at).collect();
        let mut best = self.with(&limited);
        // Each iteration removes at least one of them.
        for _ in 0..limited.len() {
            let total = best.total();
            limited.retain(|other| self.by_bucket(*other, total) < self.by_turns(*other, total));
            let next = self.with(&limited);
            if next.total() >= total {
                break;
            }
            best = next;
        }
        best
    }

    /// Returns the bound of a class before which no class borrows, for which debt does not
    /// matter.
    fn borrowing(&self) -> Option<Wait> {
        let first = higher(self.scheduler, self.member()).next().is_none();
        let lends = !self.scheduler.parents.is_empty();
        let free = self.member().class.ceiling >= self.scheduler.gate;
        (first && free && !lends).then(|| {
            let all = 0..self.scheduler.members.len();
            let others: Vec<usize> = all.filter(|other| *other != self.at).collect();
            self.with(&others)
        })
    }

    /// Returns the bytes that an equal's bucket allows during a wait.
    fn by_bucket(&self, other: usize, wait: Span) -> u64 {
        let member = &self.scheduler.members[other];
        let all = self.bucket(other) + member.on_credit();
        all.saturating_add(earned(member.own_rate(), wait))
    }

    /// Returns the bytes that its turns allow.
    fn by_turns(&self, other: usize, wait: Span) -> u64 {
        let member = &self.scheduler.members[other];
        let own = match self.own {
            Own::Nothing => return member.turn() + member.on_credit(),
            Own::Always => 0,
            Own::InOrder(bytes) => bytes,
            Own::AnyOrder(own) => own.before.saturating_add(earned(own.kept, wait)),
        };
        let own = u128::from(own) * u128::from(member.turn());
        let own = own / u128::from(self.member().quantum.max(1));
        let own = u64::try_from(own).unwrap_or(u64::MAX);
        own.saturating_add(2 * member.turn() + member.on_credit())
    }

    fn bucket(&self, other: usize) -> u64 {
        let member = &self.scheduler.members[other];
        if self.before == Before::Borrowed(other) {
            // It only has what it earns until the gate opens again.
            return earned(member.own_rate(), self.on_its_way());
        }
        bucket(member)
    }

    fn on_its_way(&self) -> Span {
        let full = u64::from(self.scheduler.full_packet);
        match self.before {
            Before::Nothing => Span::ZERO,
            Before::Foreign | Before::Borrowed(_) => {
                time(full, self.scheduler.gate) + self.scheduler.group
            }
        }
    }

    /// Returns the bound if these equals are counted by their bucket, and the others by turns.
    fn with(&self, limited: &[usize]) -> Wait {
        let (scheduler, own) = (self.scheduler, self.member());
        let first = self.overdrafts(limited);
        let rates = first.iter().map(|(other, _)| &scheduler.members[*other]);
        let rate = left_of(left(scheduler.gate, rates), lent(scheduler, own));
        let whose = if limited.is_empty() {
            "guarantees of higher priority"
        } else {
            "other guarantees"
        };
        let pace = if rate < scheduler.gate {
            format!(", at the {} that {whose} leave", in_kbit(rate))
        } else {
            String::new()
        };
        let mut steps = Vec::new();
        if self.before != Before::Nothing {
            let full = scheduler.full_packet;
            let group = scheduler.group;
            let before = if group > Span::ZERO {
                format!("packets that left in a group of {group}, and ")
            } else {
                String::new()
            };
            let what = format!("{before}the packet already in transmission, {full} B at most");
            let time = self.on_its_way();
            steps.push(Ahead { what, time });
        }
        for (other, unused) in first {
            let member = &scheduler.members[other];
            let (bucket, packet) = (self.bucket(other), member.on_credit());
            let what = format!(
                "`{}` first: its bucket of {bucket} B and a packet of {packet} B beyond it, less \
                 {unused} B of tokens that come too late{pace}",
                member.class.name
            );
            let bytes = (bucket + packet).saturating_sub(unused);
            let time = time(bytes, rate);
            steps.push(Ahead { what, time });
        }
        if own.capped > 0 {
            steps.extend(self.lending(rate));
        }
        let by_turns: Vec<&Member> = equals(scheduler, self.at)
            .filter(|(other, _)| self.debt || !limited.contains(other))
            .map(|(_, other)| other)
            .collect();
        for other in &by_turns {
            let (turn, packet) = (other.turn(), other.on_credit());
            let what = format!(
                "the turn of `{}`: {turn} B and a packet of {packet} B beyond it{pace}",
                other.class.name
            );
            let time = time(turn + packet, rate);
            steps.push(Ahead { what, time });
        }
        let turns: u64 = by_turns.iter().map(|other| other.turn()).sum();
        let bits = u128::from(rate.as_bits_per_second()) * u128::from(own.quantum);
        let bits = bits / u128::from(u64::from(own.quantum) + turns).max(1);
        let rate_in_turns = Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX));
        if turns > 0 && self.own != Own::Nothing {
            steps.push(Ahead {
                what: "one more turn of each class of equal priority".to_owned(),
                time: time(turns, rate),
            });
        }
        steps.extend(self.own_before(&steps, rate_in_turns));
        Wait {
            steps,
            rate: rate_in_turns,
        }
    }

    /// Returns what the class itself sends before the packet, when it is served at a rate after
    /// these steps.
    fn own_before(&self, steps: &[Ahead], rate: Rate) -> Vec<Ahead> {
        let own = |bytes: u64, rate: Rate| Ahead {
            what: format!("its own class's burst of {bytes} B before it"),
            time: time(bytes, rate),
        };
        match self.own {
            Own::Nothing | Own::Always | Own::InOrder(0) => Vec::new(),
            Own::InOrder(bytes) => vec![own(bytes, rate)],
            Own::AnyOrder(class) => {
                let slower = class.shaper.map_or(rate, |shaper| shaper.min(rate));
                let before = steps.iter().fold(Span::ZERO, |sum, step| sum + step.time);
                let green = own(class.before, slower);
                let guarantee = self.member().class.rate;
                let debt = Ahead {
                    what: format!(
                        "{} B that its class has sent beyond its tokens, at the guaranteed {}",
                        class.excess,
                        in_kbit(guarantee)
                    ),
                    time: time(class.excess, guarantee),
                };
                let whole = |step: &Ahead, rate| step.time + meanwhile(step.time, rate, class.kept);
                let in_debt = whole(&debt, guarantee);
                let never = self.debt || in_debt <= self.member().latency;
                let (burst, pace) = if never || whole(&green, slower) >= in_debt {
                    (green, slower)
                } else {
                    (debt, guarantee)
                };
                let come = Ahead {
                    what: format!(
                        "packets of its class that arrive in this time, at {}, and are sent first",
                        in_kbit(class.kept)
                    ),
                    time: meanwhile(before, rate, class.kept)
                        + meanwhile(burst.time, pace, class.kept),
                };
                vec![burst, come]
            }
        }
    }

    /// Returns what precedes a class that lends its guarantee to hosts with limits, besides the
    /// guarantees of other classes. This is what divided classes lend in the same way, and the
    /// turns of its other hosts.
    fn lending(&self, rate: Rate) -> Vec<Ahead> {
        let own = self.member();
        let parents = self.scheduler.parents.iter();
        let others = parents.filter(|parent| Some(parent.id) != own.parent);
        let lending = |parent: &Parent| {
            let bucket = earned(parent.class.rate, parent.buffer);
            let packet = if parent.hosts.is_empty() {
                0
            } else {
                u64::from(self.scheduler.full_packet)
            };
            Ahead {
                what: format!(
                    "`{}` lends to its parts: its bucket of {bucket} B and a packet of {packet} B \
                     beyond it",
                    parent.class.name
                ),
                time: time(bucket + packet, rate),
            }
        };
        let mut list: Vec<Ahead> = others.map(lending).collect();
        // If the bytes of the whole class are counted, turns of its hosts do not count
        // separately.
        if matches!(self.own, Own::Nothing | Own::Always) {
            let turns = u64::from(own.capped) * u64::from(own.quantum + own.largest);
            let what = format!("{} other hosts' turns: {turns} B", own.capped);
            let time = time(turns, rate);
            list.push(Ahead { what, time });
        }
        list
    }

    /// Returns the classes that are counted by their bucket, in order of priority. Each has the
    /// bytes that it earns after its last packet has begun, rounded down.
    fn overdrafts(&self, limited: &[usize]) -> Vec<(usize, u64)> {
        let members = &self.scheduler.members;
        let above: Vec<_> = higher(self.scheduler, self.member())
            .map(|other| other.id)
            .collect();
        let counts = |at: &usize| above.contains(&members[*at].id) || limited.contains(at);
        let all: Vec<usize> = (0..members.len()).filter(counts).collect();
        let last = |at: &usize| (members[*at].on_credit(), members[*at].own_rate());
        let last: Vec<(u64, Rate)> = all.iter().map(last).collect();
        let unused = in_vain(&last, self.scheduler.gate);
        all.into_iter().zip(unused).collect()
    }
}

/// Returns the time for bytes that arrive at the kept rate while a class is served for `span`,
/// for bytes that arrive during that, and so on: `span * kept / (rate - kept)`.
pub(crate) fn meanwhile(span: Span, rate: Rate, kept: Rate) -> Span {
    let (rate, kept) = (rate.as_bits_per_second(), kept.as_bits_per_second());
    let nanos = u128::from(span.as_nanos()) * u128::from(kept);
    let nanos = match rate.checked_sub(kept) {
        None | Some(0) => u128::MAX,
        Some(spare) => nanos.div_ceil(u128::from(spare)),
    };
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
