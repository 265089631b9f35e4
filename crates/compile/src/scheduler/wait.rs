// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The longest wait of a packet, solved: which of the limits on the classes
//! beside it is the narrower, what may be on its way when it comes, and what its
//! own class sends before it. The model is that of [`super::bounds`].
//!
//! # Classes of equal priority
//!
//! Such a class is limited twice: by its turns, and by its bucket as a class of
//! higher priority is. Each choice of those that count by their bucket, the set S,
//! gives a bound, so the least of them holds. All terms grow with the wait t at
//! most linearly, so the sum of the narrower ones is concave in t, and Newton's
//! method from the right finds the least: it begins with all of them in S.
//!
//! # What is on its way
//!
//! A packet that was given to the device goes first, F bytes at most: of a class
//! that borrows and is served after this one, if there is any. Where there is none,
//! the whole time since the gate was last idle counts, and every packet in it is
//! either in a bucket counted below or was borrowed by one of those classes. Who
//! borrows has an empty bucket, so F stands in its bucket's place. The worst of
//! these cases is the bound.
//!
//! # A queue that is not in order
//!
//! Nothing but the class's conformance limits what leaves such a queue before one
//! packet. Flows that come later may go first: in fq_codel because they are new
//! (`fq_codel_dequeue`, net/sched/sch_fq_codel.c), in sfq because their place in the
//! ring comes sooner (`sfq_dequeue`, net/sched/sch_sfq.c), in cake for both reasons
//! (`cake_dequeue`, net/sched/sch_cake.c). All three give a packet whenever they have
//! one. So a packet leaves at the latest when its class has nothing left: the busy
//! period of a latency-rate server (Le Boudec and Thiran, Network Calculus, 2001,
//! section 1.3). With service R (t - T) and arrivals `b + L + k t`,
//!
//! ```text
//! R (t - T) = b + L + k t - l, l the packet itself
//!         t = (R T + b + L - l) / (R - k)
//! ```
//!
//! And the class is served so only while it is within its guarantee. Its bucket is
//! `b + r T`, which is enough in order; but here the L bytes of a packet that came
//! later may have been sent before. Then it is in debt, and waits until its
//! guarantee r has paid. Let v be the last time of debt and u the last before it
//! at which the bucket was full. Between them the class has sent `b + r T + r (v -
//! u)`. No more came than `b + L + k (v - u)`, and `k T` that was held back before.
//! So
//!
//! ```text
//! v - u <= (L - l) / (r - k) - T
//!     t <= (L - l) / (r - k) + R T / (R - k)
//! ```
//!
//! with the time for which it was held back, and as next to nothing of the class is
//! left then and the others are waited for once more. The greater of the two is the
//! bound; a class whose latency is long enough is never in debt. All this ends only
//! where k is below r, so k is half of r.
//!
//! Debt is of no importance to a class that borrows before all others: all that
//! others are guaranteed, and the turns of equals that borrow, give it a second
//! bound, and the less of both holds.
//!
//! The cake of a class downstream has a shaper of its own, without a bucket, at the
//! class's ceiling c. While that holds the class back, others may borrow, but then
//! it has sent c times the time since its busy period began. What it has left at
//! the end of that is served as if it came then: so own bytes count at the lesser
//! of R and c, and a packet that went just before the busy period counts with them.

use crate::scheduler::bounds::{bucket, earned, equals, higher, in_vain, time};
use crate::scheduler::model::{Member, Scheduler};
use crate::scheduler::parts::Parent;
use weirgate_policy::in_kbit;
use weirgate_units::{Rate, Span};

/// One summand of a wait: wire bytes that the gate sends before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Whose and why.
    pub(crate) what: String,
    /// How long they take.
    pub(crate) time: Span,
}

/// What a class itself may send before a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// Nothing.
    Nothing,
    /// It always has packets: the wait is its latency.
    Always,
    /// Wire bytes that came before the packet at once.
    InOrder(u64),
    /// What came at once and what comes later, in any order.
    AnyOrder(AnyOrder),
}

/// What a class sends whose queue is not in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnyOrder {
    /// The rate that it keeps to.
    pub(crate) kept: Rate,
    /// Wire bytes that came at once, less the packet itself.
    pub(crate) before: u64,
    /// How much of them is more than the class's burst.
    pub(crate) excess: u64,
    /// The rate of the queue's own shaper.
    pub(crate) shaper: Option<Rate>,
}

/// A wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Its summands.
    pub(crate) steps: Vec<Ahead>,
    /// The rate at which the class is served meanwhile, in turns with its equals.
    pub(crate) rate: Rate,
}

impl Wait {
    pub(crate) fn total(&self) -> Span {
        let times = self.steps.iter().map(|step| step.time);
        times.fold(Span::ZERO, |sum, time| sum + time)
    }
}

/// What is on its way when the packet comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A packet of a class that counts nowhere else.
    Foreign,
    /// One that this member borrowed.
    Borrowed(usize),
    /// Nothing.
    Nothing,
}

/// The longest wait of a packet of a class.
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

/// The longest wait behind so many wire bytes of a class that nobody borrows before,
/// within its guarantee or not; `None` for another class.
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

/// The latency of the class as a latency-rate server, counting its equals by their
/// turns. Needs the buckets of classes of higher priority and nothing else.
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

/// The rate that traffic of a class keeps to whose queue is not in order, so that
/// its waits have a bound.
pub(crate) fn kept(member: &Member) -> Rate {
    Rate::bits_per_second(member.class.rate.as_bits_per_second() / 16 * 8)
}

/// A rate less what members are guaranteed.
pub(crate) fn left<'s>(rate: Rate, others: impl Iterator<Item = &'s Member>) -> Rate {
    left_of(rate, others.map(Member::own_rate))
}

/// A rate less these.
pub(crate) fn left_of(rate: Rate, taken: impl Iterator<Item = Rate>) -> Rate {
    let taken: u64 = taken.map(Rate::as_bits_per_second).sum();
    Rate::bits_per_second(rate.as_bits_per_second().saturating_sub(taken))
}

/// What other classes lend to their hosts with limits, before a class that does
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

/// A packet of a class, and how the wait began.
struct Case<'s> {
    scheduler: &'s Scheduler,
    at: usize,
    own: Own,
    before: Before,
    /// The class may be in debt all the time: whatever others are guaranteed goes
    /// first, and it borrows before those of lower priority.
    debt: bool,
}

impl Case<'_> {
    fn member(&self) -> &Member {
        &self.scheduler.members[self.at]
    }

    /// The least of the bounds that sets of equals give which count by their bucket.
    fn least(&self) -> Wait {
        let mut limited: Vec<usize> = equals(self.scheduler, self.at).map(|(at, _)| at).collect();
        let mut best = self.with(&limited);
        // Each step takes one of them out for good.
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

    /// The bound of a class that nobody borrows before: of no importance is then
    /// whether it is in debt.
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

    /// What an equal's bucket lets it send in a wait.
    fn by_bucket(&self, other: usize, wait: Span) -> u64 {
        let member = &self.scheduler.members[other];
        let all = self.bucket(other) + member.on_credit();
        all.saturating_add(earned(member.own_rate(), wait))
    }

    /// What its turns let it send.
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
            // What it earns until the gate opens again.
            return earned(member.own_rate(), self.on_its_way());
        }
        bucket(member)
    }

    fn on_its_way(&self) -> Span {
        let full = u64::from(self.scheduler.full_packet);
        match self.before {
            Before::Nothing => Span::ZERO,
            Before::Foreign | Before::Borrowed(_) => time(full, self.scheduler.gate),
        }
    }

    /// The bound where these equals count by their bucket, the others by turns.
    fn with(&self, limited: &[usize]) -> Wait {
        let (scheduler, own) = (self.scheduler, self.member());
        let first = self.overdrafts(limited);
        let rates = first.iter().map(|(other, _)| &scheduler.members[*other]);
        let rate = left_of(left(scheduler.gate, rates), lent(scheduler, own));
        let whose = if limited.is_empty() {
            "higher"
        } else {
            "other"
        };
        let pace = if rate < scheduler.gate {
            format!(", at the {} that {whose} guarantees leave", in_kbit(rate))
        } else {
            String::new()
        };
        let mut steps = Vec::new();
        if self.before != Before::Nothing {
            let full = scheduler.full_packet;
            let what = format!("the packet already on its way, {full} B at most");
            let time = self.on_its_way();
            steps.push(Ahead { what, time });
        }
        for (other, unused) in first {
            let member = &scheduler.members[other];
            let (bucket, packet) = (self.bucket(other), member.on_credit());
            let what = format!(
                "`{}` first: a bucket of {bucket} B and a packet of {packet} B on credit, less \
                 {unused} B earned in vain{pace}",
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
                "the turn of `{}`: {turn} B and a packet of {packet} B{pace}",
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
                what: "a turn more of each class of equal priority".to_owned(),
                time: time(turns, rate),
            });
        }
        steps.extend(self.own_before(&steps, rate_in_turns));
        Wait {
            steps,
            rate: rate_in_turns,
        }
    }

    /// What the class itself sends before, when it is served at a rate after these
    /// steps.
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
                        "{} B of its own class sent on credit before it, at the guaranteed {}",
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
                        "packets of its class that come meanwhile, at {}, and go first",
                        in_kbit(class.kept)
                    ),
                    time: meanwhile(before, rate, class.kept)
                        + meanwhile(burst.time, pace, class.kept),
                };
                vec![burst, come]
            }
        }
    }

    /// What goes before a class that lends its guarantee to hosts with limits,
    /// besides all that other classes are owed: what divided classes lend alike,
    /// and the turns of its other hosts.
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
                    "`{}` lends to its parts: a bucket of {bucket} B and a packet of {packet} B \
                     on credit",
                    parent.class.name
                ),
                time: time(bucket + packet, rate),
            }
        };
        let mut list: Vec<Ahead> = others.map(lending).collect();
        // Whose packets are counted by what the whole class sends has no turns.
        if matches!(self.own, Own::Nothing | Own::Always) {
            let turns = u64::from(own.capped) * u64::from(own.quantum + own.largest);
            let what = format!("{} other hosts' turns: {turns} B", own.capped);
            let time = time(turns, rate);
            list.push(Ahead { what, time });
        }
        list
    }

    /// The classes that count by their bucket, in the order of priority, each with
    /// what it earns after its last packet has begun, in whole bytes rounded down.
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

/// What comes at the rate that is kept while a class is served so long, and what
/// comes while that is served, and so on: `span * kept / (rate - kept)`.
pub(crate) fn meanwhile(span: Span, rate: Rate, kept: Rate) -> Span {
    let (rate, kept) = (rate.as_bits_per_second(), kept.as_bits_per_second());
    let nanos = u128::from(span.as_nanos()) * u128::from(kept);
    let nanos = match rate.checked_sub(kept) {
        None | Some(0) => u128::MAX,
        Some(spare) => nanos.div_ceil(u128::from(spare)),
    };
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
