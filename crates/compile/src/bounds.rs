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
//!    the last packet may overdraw. In a time t: `B_h + r_h t + L_h`.
//! 3. a class e of equal priority has its turn first: `Q_e + L_e` bytes, as a
//!    turn ends with the packet that overdraws the quantum Q_e.
//!
//! Hence the wait T of a packet that finds its class without others before it,
//! with H the classes of higher and E those of equal priority:
//!
//! ```text
//! C T = F + sum over H of (B_h + r_h T + L_h) + sum over E of (Q_e + L_e)
//!   T = (F + sum over H of (B_h + L_h) + sum over E of (Q_e + L_e)) / (C - sum over H of r_h)
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
//! # From the model to a machine
//!
//! The gate opens on a timer, and packets pass the kernel's code; together
//! that is allowed for with [`HOST`], given high-resolution timers. Rates of
//! HTB are exact to the nanosecond; its bucket at the gate adds nothing to
//! waiting, only to what the modem may hold ([`line_extra`]).

use crate::scheduler::{Member, Scheduler};
use weirgate_units::{Rate, Size, Span};

/// Timers and the kernel's own work: late interrupts, softirq, the path from
/// the device that receives to the qdisc.
pub const HOST: Span = Span::from_micros(100);

/// The time that so many wire bytes take, rounded up; the longest span where
/// the rate is 0.
pub(crate) fn time(bytes: u64, rate: Rate) -> Span {
    rate.time_for(Size::bytes(bytes))
        .unwrap_or(Span::from_nanos(u64::MAX))
}

/// Bytes earned at a rate, rounded up.
fn earned(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(rate.as_bits_per_second()) * u128::from(span.as_nanos());
    u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
}

/// One summand of a wait, in wire bytes that the gate sends before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Whose and why.
    pub(crate) what: String,
    /// How many.
    pub(crate) bytes: u64,
}

/// Everything that the gate may send before a packet of the class that finds
/// none of its own class's, and the rate at which that is worked off.
pub(crate) fn ahead(scheduler: &Scheduler, at: usize) -> (Vec<Ahead>, Rate) {
    let own = &scheduler.members[at];
    let full = u64::from(scheduler.full_packet);
    let mut list = vec![Ahead {
        what: format!("the packet already on its way, {full} B at most"),
        bytes: full,
    }];
    for other in higher(scheduler, own) {
        let (bucket, packet) = (bucket(other), u64::from(other.largest));
        list.push(Ahead {
            what: format!(
                "`{}` first: its bucket of {bucket} B and a packet of {packet} B",
                other.class.name
            ),
            bytes: bucket + packet,
        });
    }
    for (_, other) in equals(scheduler, at) {
        let (turn, packet) = (u64::from(other.quantum), u64::from(other.largest));
        list.push(Ahead {
            what: format!(
                "the turn of `{}`: {turn} B and a packet of {packet} B",
                other.class.name
            ),
            bytes: turn + packet,
        });
    }
    (list, left_by_higher(scheduler, own))
}

/// The gate's rate less what classes of higher priority are guaranteed.
fn left_by_higher(scheduler: &Scheduler, own: &Member) -> Rate {
    let taken: u64 = higher(scheduler, own)
        .map(|other| other.class.rate.as_bits_per_second())
        .sum();
    Rate::bits_per_second(scheduler.gate.as_bits_per_second().saturating_sub(taken))
}

fn higher<'s>(scheduler: &'s Scheduler, own: &Member) -> impl Iterator<Item = &'s Member> {
    let priority = own.class.priority;
    scheduler
        .members
        .iter()
        .filter(move |other| other.class.priority < priority)
}

fn equals(scheduler: &Scheduler, at: usize) -> impl Iterator<Item = (usize, &Member)> {
    let priority = scheduler.members[at].class.priority;
    let members = scheduler.members.iter().enumerate();
    members.filter(move |(index, other)| *index != at && other.class.priority == priority)
}

/// What a class may send at once, in wire bytes, besides one packet that
/// overdraws.
pub(crate) fn bucket(member: &Member) -> u64 {
    earned(member.class.rate, member.buffer)
}

/// The latency of the class as a latency-rate server. Needs the buckets of
/// classes of higher priority and nothing else.
pub(crate) fn latency(scheduler: &Scheduler, at: usize) -> Span {
    let (list, rate) = ahead(scheduler, at);
    let bytes: u64 = list.iter().map(|ahead| ahead.bytes).sum();
    let turns: u64 = equals(scheduler, at)
        .map(|(_, other)| u64::from(other.quantum))
        .sum();
    time(bytes + turns, rate)
}

/// The rate at which a class that is within its guarantee is served in turns
/// with its equals.
pub(crate) fn turn_rate(scheduler: &Scheduler, at: usize) -> Rate {
    let own = &scheduler.members[at];
    let others: u64 = equals(scheduler, at)
        .map(|(_, other)| u64::from(other.quantum))
        .sum();
    let rate = u128::from(left_by_higher(scheduler, own).as_bits_per_second());
    let part = u128::from(own.quantum);
    let bits = rate * part / (part + u128::from(others)).max(1);
    Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
}

/// How far the gate may run ahead of the line: what its bucket lets out at
/// once, and the modem has to hold besides the packet that it sends.
#[must_use]
pub fn line_extra(scheduler: &Scheduler) -> Span {
    scheduler.gate_buffer
}
