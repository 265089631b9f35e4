// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a packet can wait: the derivation, step by step.
//!
//! # The model
//!
//! Every packet of a direction passes one gate of rate C (`tree`). Whenever
//! the gate opens, the scheduler hands it one packet: of a class that is
//! within its guarantee ("green"), the one of highest priority, in turns among
//! equals; only if there is none, of a class that borrows. So for a packet of
//! class i that is within its guarantee:
//!
//! 1. one packet may be on its way through the gate already, of any class and
//!    at most F bytes (a full packet). It has been given to the device, and
//!    nothing calls it back. All that borrowing classes can do is be that one.
//! 2. a class h of higher priority may send what its bucket holds, what it
//!    earns meanwhile, and one packet more: HTB lets a class send while its
//!    tokens are not negative (`htb_class_mode`, net/sched/sch_htb.c), so that
//!    its last packet may overdraw. What it earns after that packet has begun
//!    is of no use to it any more: with t_h the time at which it begins,
//!    `B_h + r_h t_h + L_h`.
//! 3. a class e of equal priority has its turn first: `Q_e + L_e` bytes, as a
//!    turn ends with the packet that overdraws the quantum Q_e.
//!
//! Nothing is sent before the gate opens again, F / C at most, and buckets hold
//! no more than B_h then. Of what follows, the last packets of the classes in H,
//! all those of higher priority, leave one after the other, so that t_h is at
//! least `U_h / C` before the end, U_h being the last packets from h's own on.
//! Their order is the worst one when what is earned in vain, the sum of
//! `r_h U_h / C`, is least, which is in the order of `r_h / L_h` (Smith's rule).
//! With E the classes of equal priority, the wait T of a packet that finds none
//! of its own class before it is
//!
//! ```text
//! C (T - F/C) = sum over H of (B_h + r_h (T - F/C - U_h/C) + L_h) + sum over E of (Q_e + L_e)
//!   T = F/C + (sum over H of (B_h + L_h - r_h U_h/C) + sum over E of (Q_e + L_e))
//!             / (C - sum over H of r_h)
//! ```
//!
//! A class that always has packets may in addition begin with a turn that is
//! as good as over, which costs each equal one turn more. That gives the
//! latency of class i as a latency-rate server (Stiliadis and Varma, IEEE/ACM
//! ToN 6(5), 1998): within any time t that it is owed service it gets at least
//! `r_i (t - latency)` bytes. Its bucket is therefore `B_i = b_i + r_i *
//! latency`: whatever it is owed while others are served is kept, and traffic
//! that keeps to its rate and burst b_i stays green in any interleaving.
//!
//! The conformance meant is HTB's own: in any time t, at most `b_i + r_i t`
//! bytes and one packet.
//!
//! # Divided classes
//!
//! A group's part of a class is a class like any other above. Where a class
//! lends its guarantee to hosts with limits (`parts`), its leaves are owed
//! nothing, and others' sums count a packet on credit of each of its hosts and,
//! among equals, a turn of each. Its own packets wait for all other classes as
//! for those of higher priority, and for its other hosts' turns.
//!
//! # From the model to a machine
//!
//! The gate opens on a timer, and packets pass the kernel's code; together
//! that is allowed for with [`HOST`], given high-resolution timers. [`HOST`] is the
//! one term that does not follow from the policy: no rate of the line says how long
//! a processor takes. It does not cover other work of the same processor. A softirq
//! takes up to 64 packets of one device before it serves the next (`dev_rx_weight`,
//! net/core/hotdata.c), in whichever direction they go. Rates of
//! HTB are exact to the nanosecond; its bucket at the gate adds nothing to
//! waiting, only to what the modem may hold ([`line_extra`]).

use crate::scheduler::model::{Member, Scheduler};
use crate::scheduler::wait;
use weirgate_units::{Arrange as _, Rate, Size, Span};

/// Timers and the kernel's own work: late interrupts, softirq, the path from
/// the device that receives to the qdisc. It is for a processor that has nothing
/// else to do when a packet comes.
pub const HOST: Span = Span::from_micros(100);

/// The time that so many wire bytes take, rounded up; the longest span where
/// the rate is 0.
pub(crate) fn time(bytes: u64, rate: Rate) -> Span {
    rate.time_for(Size::bytes(bytes))
        .unwrap_or(Span::from_nanos(u64::MAX))
}

/// Bytes earned at a rate, rounded up.
pub(crate) fn earned(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(rate.as_bits_per_second()) * u128::from(span.as_nanos());
    u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
}

/// What classes earn after their last packets have begun, in whole bytes rounded down:
/// of each its last packet and its rate. They leave one after the other, in the order in
/// which that sum is least (Smith's rule).
pub(crate) fn in_vain(last: &[(u64, Rate)], gate: Rate) -> Vec<u64> {
    let gate = u128::from(gate.as_bits_per_second());
    let rate = |at: usize| u128::from(last[at].1.as_bits_per_second());
    let packet = |at: usize| u128::from(last[at].0);
    // From the end: the class whose packet is short for its rate comes last.
    let mut order: Vec<usize> = (0..last.len()).collect();
    order.arrange_by(|a, b| (packet(*a) * rate(*b)).cmp(&(packet(*b) * rate(*a))));
    let mut unused = vec![0; last.len()];
    let mut packets = 0;
    for at in order {
        packets += packet(at);
        unused[at] = u64::try_from(rate(at) * packets / gate.max(1)).unwrap_or(0);
    }
    unused
}

pub(crate) fn higher<'s>(
    scheduler: &'s Scheduler,
    own: &Member,
) -> impl Iterator<Item = &'s Member> {
    let priority = own.class.priority;
    // What is lent comes after all that is owed, of whatever priority.
    let last = own.capped > 0;
    scheduler
        .members
        .iter()
        .filter(move |other| other.class.priority < priority || (last && other.id != own.id))
}

pub(crate) fn equals(scheduler: &Scheduler, at: usize) -> impl Iterator<Item = (usize, &Member)> {
    let own = &scheduler.members[at];
    let members = scheduler.members.iter().enumerate();
    members.filter(move |(index, other)| {
        *index != at && other.class.priority == own.class.priority && own.capped == 0
    })
}

/// What a class may send at once, in wire bytes, besides one packet that
/// overdraws.
pub(crate) fn bucket(member: &Member) -> u64 {
    earned(member.own_rate(), member.buffer)
}

/// What a full queue loses to a packet that its class sent on credit, at its
/// guaranteed rate, beyond its latency.
///
/// A class in debt is not within its guarantee; those that are go first, of
/// whatever priority. Let t be the last time of debt: until then the class
/// got `r t - L` at least, L its own largest packet, and all others may have
/// spared their buckets. So L / r in general.
///
/// A class that is the only one of lowest priority, and may use the whole
/// gate, borrows when no other is within its guarantee. Either nobody borrows
/// before it, and those above send no more than their buckets, what they earn
/// and a packet each, debt or no debt: nothing is lost. Or one of them
/// borrows, at t last, and its own bucket is then empty, which the wait from t
/// on is shorter by.
pub(crate) fn credit(scheduler: &Scheduler, at: usize) -> Span {
    let own = &scheduler.members[at];
    let debt = time(u64::from(own.largest), own.class.rate);
    let others = scheduler.members.iter().enumerate();
    let above = others.filter(|(index, _)| *index != at).all(|(_, other)| {
        // One that is held at its ceiling keeps what its bucket holds.
        let free = other.class.ceiling >= scheduler.gate;
        free && other.class.priority < own.class.priority
    });
    // What divided classes lend is borrowed before what this one borrows.
    let lending = !scheduler.parents.is_empty();
    if !above || lending || own.class.ceiling < scheduler.gate {
        return debt;
    }
    let Some(emptied) = higher(scheduler, own).map(bucket).min() else {
        return Span::ZERO;
    };
    // `bucket` rounds up; what is taken off must not.
    let spared = wait::left(scheduler.gate, higher(scheduler, own))
        .time_for(Size::bytes(emptied.saturating_sub(1)))
        .unwrap_or(Span::ZERO);
    debt.saturating_sub(spared)
}

/// How far the gate may run ahead of the line: what its bucket lets out at
/// once, and the modem has to hold besides the packet that it sends.
#[must_use]
pub fn line_extra(scheduler: &Scheduler) -> Span {
    scheduler.gate_buffer
}
