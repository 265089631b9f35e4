// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One case of a wait: how it begins, and which equals are counted by their bucket. A trial sums
//! numbers alone; the text of a derivation is made once, for the case that is the bound.

use crate::scheduler::bounds::{bucket, earned, equals, left, left_of, precedes, time, wasted};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// A packet of a class that is not counted otherwise.
    Foreign,
    /// A packet that this member borrowed.
    Borrowed(usize),
    /// Nothing.
    Nothing,
}

/// A case to calculate: a packet of a class, and how the wait begins.
#[derive(Clone, Copy)]
pub(super) struct Case<'s> {
    pub(super) scheduler: &'s Scheduler,
    pub(super) at: usize,
    pub(super) own: Own,
    pub(super) before: Before,
    /// Whether the class may be in debt all the time. The guarantees of all others then go
    /// first, and it borrows before classes of lower priority.
    pub(super) debt: bool,
}

/// What a case counts if some equals are counted by their bucket, and the others by turns.
pub(super) struct Counted {
    /// The members that are counted by their bucket, in order of priority. Each has the bytes
    /// that it earns after its last packet has begun, rounded down.
    pub(super) first: Vec<(usize, u64)>,
    by_turns: Vec<usize>,
    /// The bytes of their turns.
    turns: u64,
    /// The rate at which all of this is sent.
    rate: Rate,
    /// The rate at which the class is served then, in turn with its equals.
    in_turns: Rate,
    /// The nanoseconds of everything but `first` and what the class itself sends.
    rest: u128,
}

/// What the class itself sends before its packet.
enum Sent {
    Burst(u64),
    Debt(u64, Rate),
    Later(Rate),
}

impl Case<'_> {
    fn member(&self) -> &Member {
        &self.scheduler.members[self.at]
    }

    /// Returns which members are its equals.
    pub(super) fn equals(&self) -> Vec<bool> {
        let mut marked = vec![false; self.scheduler.members.len()];
        for (other, _) in equals(self.scheduler, self.at) {
            marked[other] = true;
        }
        marked
    }

    /// Returns the smallest bound over the sets of equals that are counted by their bucket, and
    /// that set.
    pub(super) fn least(&self) -> (Span, Vec<bool>) {
        let mut best = self.equals();
        let mut total = self.total(&best);
        loop {
            let mut next = best.clone();
            for (other, limited) in next.iter_mut().enumerate() {
                *limited = *limited && self.by_bucket(other, total) < self.by_turns(other, total);
            }
            let sum = self.total(&next);
            // Each iteration but the last one removes at least one of them.
            if sum >= total {
                return (total, best);
            }
            (total, best) = (sum, next);
        }
    }

    /// Returns all others if the class is one before which no class borrows, for which debt does
    /// not matter.
    pub(super) fn others(&self) -> Option<Vec<bool>> {
        let (members, own) = (&self.scheduler.members, self.member());
        let first = !members.iter().any(|other| precedes(own, other));
        let lends = !self.scheduler.parents.is_empty();
        let free = own.class.ceiling >= self.scheduler.gate;
        (first && free && !lends).then(|| (0..members.len()).map(|at| at != self.at).collect())
    }

    /// Returns the bytes that an equal's bucket allows during a wait.
    pub(super) fn by_bucket(&self, other: usize, wait: Span) -> u64 {
        let member = &self.scheduler.members[other];
        let all = self.bucket(other) + member.on_credit();
        all.saturating_add(earned(member.own_rate(), wait))
    }

    /// Returns the bytes that its turns allow.
    pub(super) fn by_turns(&self, other: usize, wait: Span) -> u64 {
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

    /// Returns the bytes by which rounding changes the difference of the two.
    pub(super) fn rounded(&self, other: usize) -> u64 {
        let turn = self.scheduler.members[other].turn();
        turn / u64::from(self.member().quantum.max(1)) + 4
    }

    pub(super) fn bucket(&self, other: usize) -> u64 {
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

    /// Returns the time of a member that is counted by its bucket.
    pub(super) fn first_time(&self, (other, unused): (usize, u64), counted: &Counted) -> Span {
        let packet = self.scheduler.members[other].on_credit();
        let bytes = (self.bucket(other) + packet).saturating_sub(unused);
        time(bytes, counted.rate)
    }

    /// Returns the bound if these equals are counted by their bucket, and the others by turns.
    pub(super) fn total(&self, limited: &[bool]) -> Span {
        let counted = self.counted(limited);
        let times = counted.first.iter();
        let first = times.map(|one| u128::from(self.first_time(*one, &counted).as_nanos()));
        self.sum(&counted, first.sum())
    }

    /// Returns the bound if those that are counted by their bucket take `first` nanoseconds.
    pub(super) fn sum(&self, counted: &Counted, first: u128) -> Span {
        let nanos = u64::try_from(counted.rest + first).unwrap_or(u64::MAX);
        let before = Span::from_nanos(nanos);
        let own = self.own_before(before, counted.in_turns);
        own.iter()
            .flatten()
            .fold(before, |sum, (_, time)| sum + *time)
    }

    pub(super) fn counted(&self, limited: &[bool]) -> Counted {
        let (scheduler, own) = (self.scheduler, self.member());
        let members = &scheduler.members;
        let counts = |at: &usize| limited[*at] || precedes(own, &members[*at]);
        let mut unused = vec![0; members.len()];
        let last = scheduler.order.iter().copied().filter(counts);
        wasted(last, members, scheduler.gate, &mut unused);
        let all = (0..members.len()).filter(counts);
        let first: Vec<(usize, u64)> = all.map(|at| (at, unused[at])).collect();
        let rates = first.iter().map(|(other, _)| &members[*other]);
        let rate = left_of(left(scheduler.gate, rates), lent(scheduler, own));
        let equals = equals(scheduler, self.at).map(|(other, _)| other);
        let by_turns: Vec<usize> = equals
            .filter(|other| self.debt || !limited[*other])
            .collect();
        let turns: u64 = by_turns.iter().map(|other| members[*other].turn()).sum();
        let bits = u128::from(rate.as_bits_per_second()) * u128::from(own.quantum);
        let bits = bits / u128::from(u64::from(own.quantum) + turns).max(1);
        let mut counted = Counted {
            first,
            by_turns,
            turns,
            rate,
            in_turns: Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX)),
            rest: 0,
        };
        let lending = if own.capped > 0 {
            self.lending(rate)
        } else {
            Vec::new()
        };
        let turns = counted.by_turns.iter();
        let rest = turns
            .map(|other| self.turn_time(*other, &counted))
            .chain(self.more_turns(&counted))
            .chain(lending.iter().map(|step| step.time))
            .chain([self.on_its_way()]);
        counted.rest = rest.map(|time| u128::from(time.as_nanos())).sum();
        counted
    }

    fn turn_time(&self, other: usize, counted: &Counted) -> Span {
        let other = &self.scheduler.members[other];
        time(other.turn() + other.on_credit(), counted.rate)
    }

    fn more_turns(&self, counted: &Counted) -> Option<Span> {
        let more = counted.turns > 0 && self.own != Own::Nothing;
        more.then(|| time(counted.turns, counted.rate))
    }

    /// Returns the bound as one step without a text.
    pub(super) fn alone(&self, limited: &[bool]) -> Wait {
        let (what, time) = (String::new(), self.total(limited));
        Wait {
            steps: vec![Ahead { what, time }],
            rate: self.counted(limited).in_turns,
        }
    }

    /// Returns the derivation of the bound if these equals are counted by their bucket.
    pub(super) fn with(&self, limited: &[bool]) -> Wait {
        let (scheduler, own) = (self.scheduler, self.member());
        let counted = self.counted(limited);
        let rate = counted.rate;
        let whose = if limited.contains(&true) {
            "other guarantees"
        } else {
            "guarantees of higher priority"
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
        for (other, unused) in counted.first.iter().copied() {
            let member = &scheduler.members[other];
            let (bucket, packet) = (self.bucket(other), member.on_credit());
            let what = format!(
                "`{}` first: its bucket of {bucket} B and a packet of {packet} B beyond it, less \
                 {unused} B of tokens that come too late{pace}",
                member.class.name
            );
            let time = self.first_time((other, unused), &counted);
            steps.push(Ahead { what, time });
        }
        if own.capped > 0 {
            steps.extend(self.lending(rate));
        }
        for at in counted.by_turns.iter().copied() {
            let other = &scheduler.members[at];
            let (turn, packet) = (other.turn(), other.on_credit());
            let what = format!(
                "the turn of `{}`: {turn} B and a packet of {packet} B beyond it{pace}",
                other.class.name
            );
            let time = self.turn_time(at, &counted);
            steps.push(Ahead { what, time });
        }
        steps.extend(self.more_turns(&counted).map(|time| Ahead {
            what: "one more turn of each class of equal priority".to_owned(),
            time,
        }));
        let before = steps.iter().fold(Span::ZERO, |sum, step| sum + step.time);
        let sent = self.own_before(before, counted.in_turns);
        steps.extend(sent.iter().flatten().map(|(sent, time)| Ahead {
            what: sent.described(),
            time: *time,
        }));
        Wait {
            steps,
            rate: counted.in_turns,
        }
    }

    /// Returns what the class itself sends before the packet, when it is served at a rate after
    /// `before`.
    fn own_before(&self, before: Span, rate: Rate) -> [Option<(Sent, Span)>; 2] {
        let own = |bytes: u64, rate: Rate| (Sent::Burst(bytes), time(bytes, rate));
        match self.own {
            Own::Nothing | Own::Always | Own::InOrder(0) => [None, None],
            Own::InOrder(bytes) => [Some(own(bytes, rate)), None],
            Own::AnyOrder(class) => {
                let slower = class.shaper.map_or(rate, |shaper| shaper.min(rate));
                let green = own(class.before, slower);
                let guarantee = self.member().class.rate;
                let debt = (
                    Sent::Debt(class.excess, guarantee),
                    time(class.excess, guarantee),
                );
                let whole = |time: Span, rate| time + meanwhile(time, rate, class.kept);
                let in_debt = whole(debt.1, guarantee);
                let never = self.debt || in_debt <= self.member().latency;
                let (burst, pace) = if never || whole(green.1, slower) >= in_debt {
                    (green, slower)
                } else {
                    (debt, guarantee)
                };
                let later =
                    meanwhile(before, rate, class.kept) + meanwhile(burst.1, pace, class.kept);
                [Some(burst), Some((Sent::Later(class.kept), later))]
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
}

impl Sent {
    fn described(&self) -> String {
        match self {
            Self::Burst(bytes) => format!("its own class's burst of {bytes} B before it"),
            Self::Debt(bytes, guarantee) => format!(
                "{bytes} B that its class has sent beyond its tokens, at the guaranteed {}",
                in_kbit(*guarantee)
            ),
            Self::Later(kept) => format!(
                "packets of its class that arrive in this time, at {}, and are sent first",
                in_kbit(*kept)
            ),
        }
    }
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
