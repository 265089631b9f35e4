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

pub(crate) use crate::scheduler::case::{Ahead, AnyOrder, Own, Wait, meanwhile};

use crate::scheduler::case::{Before, Case};
use crate::scheduler::model::{Member, Scheduler};
use crate::scheduler::starts;
use weirgate_units::{Rate, Span};

/// Returns the longest wait of a packet of a class, with its derivation if `derived`. Otherwise it
/// is one step.
pub(crate) fn longest(scheduler: &Scheduler, at: usize, own: Own, derived: bool) -> Wait {
    let case = Case {
        scheduler,
        at,
        own,
        before: Before::Foreign,
        debt: false,
    };
    let before = if begins_with_any(scheduler, at, own) {
        Before::Foreign
    } else {
        worst(case)
    };
    let case = Case { before, ..case };
    let (total, limited) = case.least();
    let in_debt = Case { debt: true, ..case };
    let anyway = anyway(in_debt).filter(|others| in_debt.total(others) < total);
    let (case, limited) = match anyway {
        Some(others) => (in_debt, others),
        None => (case, limited),
    };
    if derived {
        case.with(&limited)
    } else {
        case.alone(&limited)
    }
}

/// Returns the start of the wait with the largest bound, and the last one of these.
fn worst(case: Case<'_>) -> Before {
    let nothing = Case {
        before: Before::Nothing,
        ..case
    };
    let in_debt = Case { debt: true, ..case };
    let others = anyway(in_debt);
    let (mut idle, _) = nothing.least();
    let mut borrowed = starts::least_of_each(case, || ());
    if let Some(others) = others {
        idle = idle.min(
            Case {
                debt: true,
                ..nothing
            }
            .total(&others),
        );
        let anyway = starts::of_each(in_debt, &others);
        for (least, anyway) in borrowed.iter_mut().zip(anyway) {
            *least = anyway.min(*least);
        }
    }
    let borrowed = borrowed.into_iter().enumerate();
    let borrowed = borrowed.filter(|(other, _)| *other != case.at);
    let borrowed = borrowed.map(|(other, least)| (Before::Borrowed(other), least));
    let first = (Before::Nothing, idle);
    let all = std::iter::once(first).chain(borrowed);
    let worst = all.max_by_key(|(_, total)| *total);
    worst.map_or(Before::Nothing, |(before, _)| before)
}

/// Returns the others of a class that has a second bound, whether or not it is in debt.
fn anyway(in_debt: Case<'_>) -> Option<Vec<bool>> {
    let any = matches!(in_debt.own, Own::AnyOrder(_));
    any.then(|| in_debt.others()).flatten()
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
    case.others().map(|others| case.with(&others))
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
    case.total(&vec![false; scheduler.members.len()])
}

/// Returns the rate to which traffic of a class must keep so that waits have a bound, if its
/// queue is not in order.
pub(crate) fn kept(member: &Member) -> Rate {
    Rate::bits_per_second(member.class.rate.as_bits_per_second() / 16 * 8)
}

/// Returns whether a packet of a class that is not counted otherwise may be in transmission.
fn begins_with_any(scheduler: &Scheduler, at: usize, own: Own) -> bool {
    if matches!(own, Own::Nothing | Own::Always) {
        return true;
    }
    let member = &scheduler.members[at];
    let mut others = scheduler.members.iter().enumerate();
    let after = |(at_other, other): (usize, &Member)| {
        at_other != at && (other.capped > 0 || other.class.priority > member.class.priority)
    };
    member.capped > 0 || others.any(after)
}
