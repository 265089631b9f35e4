// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The derivation of how long a packet can wait, step by step.
//!
//! # The model
//!
//! Every packet of a direction passes one gate of rate C (`tree`). Whenever the gate opens, the
//! scheduler gives it one packet. It is from a class that is within its guarantee ("green"), the
//! one of highest priority, in turns among equals. Only if there is none, it is from a class
//! that borrows. For a packet of class i that is within its guarantee:
//!
//! 1. One packet may already be in transmission through the gate, of any class and at most F
//!    bytes (a full packet). It has been given to the device and cannot be recalled. A class
//!    that borrows can only cause this packet.
//! 2. A class h of higher priority may send the contents of its bucket, what it earns in the
//!    meantime, and one more packet. HTB lets a class send while its tokens are not negative
//!    (`htb_class_mode`, net/sched/sch_htb.c), so its last packet may overdraw the bucket. What
//!    it earns after that packet has begun is of no use to it. With t_h the time at which that
//!    packet begins, the class sends `B_h + r_h t_h + L_h`.
//! 3. A class e of equal priority has its turn first: `Q_e + L_e` bytes, because a turn ends
//!    with the packet that overdraws the quantum Q_e.
//!
//! Nothing is sent before the gate opens again, at most F / C, and buckets hold at most B_h
//! then. Let H be all classes of higher priority. Their last packets leave one after the other,
//! so t_h is at least `U_h / C` before the end, with U_h the last packets from h's own on. Their
//! order is the worst one if the sum of `r_h U_h / C`, which is earned in vain, is smallest: the
//! order of `r_h / L_h` (Smith's rule). Let E be the classes of equal priority. For a packet
//! that finds no other of its own class, the wait T is
//!
//! ```text
//! C (T - F/C) = sum over H of (B_h + r_h (T - F/C - U_h/C) + L_h) + sum over E of (Q_e + L_e)
//!   T = F/C + (sum over H of (B_h + L_h - r_h U_h/C) + sum over E of (Q_e + L_e))
//!             / (C - sum over H of r_h)
//! ```
//!
//! A class that always has packets may in addition begin with a turn that is almost over, which
//! costs each equal one more turn. This gives the latency of class i as a latency-rate server
//! (Stiliadis and Varma, IEEE/ACM ToN 6(5), 1998). Within any time t in which it is within its
//! guarantee, it gets at least `r_i (t - latency)` bytes. Its bucket is therefore `B_i = b_i +
//! r_i * latency`. It keeps the credit for the time while others are served, and traffic that
//! keeps to its rate and burst b_i stays green in any interleaving.
//!
//! Conformance is defined as in HTB: in any time t, at most `b_i + r_i t` bytes and one packet.
//!
//! # Divided classes
//!
//! A group's part of a class is treated like any other class above. If a class lends its
//! guarantee to hosts with limits (`parts`), its leaves have no guarantee. The sums of other
//! classes then include a packet on credit of each of its hosts and, among equals, a turn of
//! each. Its own packets wait for all other classes as for those of higher priority, and for the
//! turns of its other hosts.
//!
//! # From the model to a machine
//!
//! The gate opens on a timer, and packets pass through the kernel's code. [`HOST`] allows for
//! both, given high-resolution timers. It is the only term that does not follow from the policy:
//! the rate of the line does not tell how long a processor takes. It does not include other work
//! of the same processor. A softirq takes up to 64 packets of one device before it serves the
//! next one (`dev_rx_weight`, net/core/hotdata.c), in whichever direction they go. Rates of HTB
//! are exact to the nanosecond. The gate's bucket does not add to waits, only to what the modem
//! may hold ([`line_extra`]).

use crate::scheduler::model::{Member, Scheduler};
use weirgate_units::{Arrange as _, Rate, Size, Span};

/// The time of timers and of the kernel's own work: late interrupts, softirqs, and the path from
/// the receiving device to the qdisc. It assumes that the processor is idle when a packet
/// arrives.
pub const HOST: Span = Span::from_micros(100);

/// Returns the time that this many bytes take on the wire, rounded up; the longest span if the
/// rate is 0.
pub(crate) fn time(bytes: u64, rate: Rate) -> Span {
    rate.time_for(Size::bytes(bytes))
        .unwrap_or(Span::from_nanos(u64::MAX))
}

/// Returns the bytes earned at a rate, rounded up.
pub(crate) fn earned(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(rate.as_bits_per_second()) * u128::from(span.as_nanos());
    u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
}

/// Returns the bytes that each class earns after its last packet has begun, rounded down. `last`
/// has the last packet and the rate of each class. The packets leave one after the other, in the
/// order for which the sum is smallest (Smith's rule).
pub(crate) fn in_vain(last: &[(u64, Rate)], gate: Rate) -> Vec<u64> {
    let mut unused = vec![0; last.len()];
    let order = by_last_packet(last.len(), |at| last[at]);
    waste(order.into_iter(), |at| last[at], gate, &mut unused);
    unused
}

/// Returns all members from the end of that order.
pub(crate) fn order(members: &[Member]) -> Vec<usize> {
    by_last_packet(members.len(), |at| last(&members[at]))
}

/// Sets the bytes that these members, sorted by [`order`], earn after their last packets.
pub(crate) fn wasted(
    order: impl Iterator<Item = usize>,
    members: &[Member],
    gate: Rate,
    unused: &mut [u64],
) {
    waste(order, |at| last(&members[at]), gate, unused);
}

fn last(member: &Member) -> (u64, Rate) {
    (member.on_credit(), member.own_rate())
}

/// Sorts from the end: a class whose packet is short for its rate comes last.
fn by_last_packet(count: usize, last: impl Fn(usize) -> (u64, Rate)) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let product = |packet: usize, rate: usize| {
        u128::from(last(packet).0) * u128::from(last(rate).1.as_bits_per_second())
    };
    order.arrange_by(|a, b| product(*a, *b).cmp(&product(*b, *a)));
    order
}

fn waste(
    order: impl Iterator<Item = usize>,
    last: impl Fn(usize) -> (u64, Rate),
    gate: Rate,
    unused: &mut [u64],
) {
    let gate = u128::from(gate.as_bits_per_second());
    let mut packets = 0;
    for at in order {
        let (packet, rate) = last(at);
        packets += u128::from(packet);
        let bytes = u128::from(rate.as_bits_per_second()) * packets / gate.max(1);
        unused[at] = u64::try_from(bytes).unwrap_or(0);
    }
}

/// Returns whether another class is served before a class. Borrowed packets follow all guaranteed
/// ones, regardless of priority.
pub(crate) fn precedes(own: &Member, other: &Member) -> bool {
    other.class.priority < own.class.priority || (own.capped > 0 && other.id != own.id)
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

pub(crate) fn higher<'s>(
    scheduler: &'s Scheduler,
    own: &Member,
) -> impl Iterator<Item = &'s Member> {
    let members = scheduler.members.iter();
    members.filter(move |other| precedes(own, other))
}

pub(crate) fn equals(scheduler: &Scheduler, at: usize) -> impl Iterator<Item = (usize, &Member)> {
    let own = &scheduler.members[at];
    let members = scheduler.members.iter().enumerate();
    members.filter(move |(index, other)| {
        *index != at && other.class.priority == own.class.priority && own.capped == 0
    })
}

/// Returns how many bytes on the wire a class may send at once, besides one packet that
/// overdraws its bucket.
pub(crate) fn bucket(member: &Member) -> u64 {
    earned(member.own_rate(), member.buffer)
}

/// Returns the time that a full queue can lose, beyond its latency, to a packet that its class
/// sent on credit, at its guaranteed rate.
///
/// A class in debt is not within its guarantee; classes that are go first, regardless of
/// priority. Let t be the last time of debt. Until then the class got at least `r t - L`, with L
/// its own largest packet, and all others may have saved their buckets. In general the loss is
/// therefore L / r.
///
/// Consider a class that is the only one of lowest priority and may use the whole gate. It
/// borrows when no other is within its guarantee. If no class borrows before it, those above
/// send at most their buckets, what they earn, and a packet each, with or without debt: nothing
/// is lost. Otherwise one of them borrows last at t. Its own bucket is then empty, which
/// shortens the wait from t on.
pub(crate) fn credit(scheduler: &Scheduler, at: usize) -> Span {
    let own = &scheduler.members[at];
    let debt = time(u64::from(own.largest), own.class.rate);
    let others = scheduler.members.iter().enumerate();
    let above = others.filter(|(index, _)| *index != at).all(|(_, other)| {
        // A class that is held back by its ceiling keeps the contents of its bucket.
        let free = other.class.ceiling >= scheduler.gate;
        free && other.class.priority < own.class.priority
    });
    // Borrowing by the parts of divided classes precedes that of this class.
    let lending = !scheduler.parents.is_empty();
    if !above || lending || own.class.ceiling < scheduler.gate {
        return debt;
    }
    let Some(emptied) = higher(scheduler, own).map(bucket).min() else {
        return Span::ZERO;
    };
    // `bucket` rounds up, but a subtracted term must not.
    let spared = left(scheduler.gate, higher(scheduler, own))
        .time_for(Size::bytes(emptied.saturating_sub(1)))
        .unwrap_or(Span::ZERO);
    debt.saturating_sub(spared)
}

/// Returns how far the gate may run ahead of the line: its bucket lets this much out at once,
/// which the modem has to hold besides the packet in transmission.
#[must_use]
pub fn line_extra(scheduler: &Scheduler) -> Span {
    scheduler.gate_buffer
}
