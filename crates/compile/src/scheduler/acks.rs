// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which acknowledgements are dropped upstream, and where (`ack-filter` of the
//! link).
//!
//! # Who asks for it
//!
//! A downstream that is full of TCP has one acknowledgement upstream for two full
//! packets (RFC 5681 section 4.2). With A and F the bytes on the wire of an
//! acknowledgement and of a full packet, they take of the upstream
//!
//! ```text
//! (down / 2 F) * A / up
//! ```
//!
//! which is half of the normalised bandwidth ratio of RFC 3449 section 2. No more
//! than that can be given back to uploads. From a tenth on ([`WORTH`]) a filter is
//! there unless the policy says otherwise. Below, what it gives back is less than
//! what measurements tell apart, and it has a price: a sender that gets fewer
//! acknowledgements sends more at once (RFC 3449 section 5.2.1), and one that counts
//! them grows more slowly (RFC 3465).
//!
//! # What is dropped
//!
//! cake's own filter does it (`cake_ack_filter`, net/sched/sch_cake.c), among the
//! packets of one flow that wait. It drops an acknowledgement without data if a later
//! one acknowledges more, has no older time stamps and no fewer SACK blocks. Flags
//! other than ACK, a DSACK, an option that it does not know (AccECN's among them), and
//! what acknowledges no less than the later one (duplicates, window updates) keep a
//! packet. Where ECE or CWR change, the last packet before the change stays. The
//! aggressive kind leaves one acknowledgement of a flow waiting where the other leaves
//! two. The class of acknowledgements has all of them, so a cake there suffices.

use crate::codes;
use crate::scheduler;
use crate::scheduler::bounds;
use crate::tree::hosts;
use std::borrow::Cow;
use weirgate_document::{Problems, Value};
use weirgate_linklayer::ack::AckReserve;
use weirgate_policy::{
    Ack, AckFilter, CakeQueue, Direction, Engine, Fair, Policy, Queue, SharedClass,
};
use weirgate_state::{CakeAckFilter, Capabilities};
use weirgate_units::{Rate, Span};

/// The part of the upstream from which on acknowledgements are filtered, in
/// thousandths.
const WORTH: u64 = 100;

/// Full packets that an acknowledgement stands for, in tenths.
const DELAYED_TENTHS: u32 = 20;

/// cake's round-trip time for a queue of acknowledgements, at least. Its AQM drops
/// what has waited for a twentieth of it for that long. Acknowledgements do not
/// slow down for it, and of those that the filter has left each says something.
const ROUND_TRIP: Span = Span::from_millis(1_000);

/// The same, in full packets.
const ROUND_TRIP_PACKETS: u64 = 80;

/// The queue of a class of acknowledgements behind a gate.
fn queue(policy: &Policy, gate: Rate) -> CakeQueue {
    let packets = bounds::time(u64::from(policy.full_packet()) * ROUND_TRIP_PACKETS, gate);
    let whole = Span::from_micros(packets.as_nanos().div_ceil(1_000));
    CakeQueue {
        rtt: Some(ROUND_TRIP.max(whole)),
        ..CakeQueue::default()
    }
}

/// What acknowledgements of a full downstream take of the upstream gate, in
/// thousandths; `None` where the downstream's rate is not known.
fn part(policy: &Policy) -> Option<u64> {
    let down = policy.link.down.as_ref()?.value;
    let gate = policy.gate(Direction::Up)?.as_bits_per_second();
    let size = policy.ack.as_ref().map_or(Ack::SIZE, |ack| ack.size);
    let layer = &policy.link.layer.value;
    // Both rates are of the wire, and so are both sizes.
    let taken = AckReserve::on(layer, size, policy.full_packet(), DELAYED_TENTHS).rate(down)?;
    taken
        .as_bits_per_second()
        .saturating_mul(1_000)
        .checked_div(gate)
}

/// Whether the rates alone ask for a filter.
fn worth(policy: &Policy) -> bool {
    part(policy).is_some_and(|part| part >= WORTH)
}

/// Which acknowledgements a direction's cakes drop.
pub(crate) fn filter(policy: &Policy, direction: Direction) -> CakeAckFilter {
    let stated = policy.link.ack_filter.as_ref();
    match stated.map(|filter| filter.value).unwrap_or_default() {
        _ if direction == Direction::Down => CakeAckFilter::No,
        AckFilter::Auto if worth(policy) => CakeAckFilter::Aggressive,
        AckFilter::Auto | AckFilter::Off => CakeAckFilter::No,
        AckFilter::On => CakeAckFilter::Filter,
        AckFilter::Aggressive => CakeAckFilter::Aggressive,
    }
}

/// The classes of a direction, with the queue of acknowledgements that filters them.
pub(crate) fn classes(policy: &Policy, direction: Direction) -> Vec<SharedClass> {
    let shares = policy.share_out(direction);
    let mut classes = shares.map(|shares| shares.classes).unwrap_or_default();
    queued(policy, direction, &mut classes);
    classes
}

/// Whether upstream acknowledgements are in a cake: that of their own class, or
/// where they have none, that of any.
pub(crate) fn have_cake(policy: &Policy) -> bool {
    let classes = classes(policy, Direction::Up);
    match classes.iter().find(|class| class.ack) {
        Some(own) => hosts::has_cake(own),
        None => classes.iter().any(hosts::has_cake),
    }
}

/// Gives the class of acknowledgements a queue that filters them, where it names
/// none. One that holds them back (`[receive]`) has its own, and engines made of BPF
/// programs have no cake.
pub(crate) fn queued(policy: &Policy, direction: Direction, classes: &mut [SharedClass]) {
    let stated = policy.link.engine.as_ref().map(|engine| engine.value);
    let none = filter(policy, direction) == CakeAckFilter::No;
    if none || stated.is_some_and(Engine::is_program) || scheduler::holds(policy) {
        return;
    }
    let Some(gate) = policy.gate(direction) else {
        return;
    };
    let unsaid = |class: &&mut SharedClass| class.ack && class.queue.is_none();
    for class in classes.iter_mut().filter(unsaid) {
        class.queue = Some(Value {
            value: Queue::Cake(queue(policy, gate)),
            span: class.span.clone(),
            line: class.line,
        });
        // As the queue that it has otherwise.
        class.fair = class.fair.or(Some(Fair::Flows));
    }
}

/// The policy for this kernel: without a filter where the policy leaves that
/// open and the kernel has no cake.
pub(crate) fn settled<'p>(
    policy: Cow<'p, Policy>,
    kernel: &Capabilities,
    problems: &Problems,
) -> Cow<'p, Policy> {
    let stated = policy.link.ack_filter.as_ref();
    let open = stated.is_none_or(|filter| filter.value == AckFilter::Auto);
    if !open || !worth(&policy) || kernel.has_qdisc("cake") {
        return policy;
    }
    let span = policy
        .ack
        .as_ref()
        .map_or(&policy.link.span, |ack| &ack.span);
    // Acknowledgements with a queue of their own choice would not be in a cake anyway.
    if policy.ack.as_ref().is_some_and(|ack| ack.queue.is_none()) {
        problems.warning(
            codes::ACK_FILTER,
            span.clone(),
            "this kernel has no cake, which filters acknowledgements: downloads leave less for \
             uploads",
            "load or build the module sch_cake, or write `ack-filter = \"off\"` in `[link]`",
        );
    }
    let mut settled = policy.clone().into_owned();
    settled.link.ack_filter = Some(Value {
        value: AckFilter::Off,
        span: policy.link.span.clone(),
        line: policy.link.up.line,
    });
    Cow::Owned(settled)
}

/// What acknowledgements take, and what becomes of them; for a report.
pub(crate) fn note(policy: &Policy, filtered: bool) -> Option<String> {
    let part = part(policy).filter(|part| *part >= WORTH)?;
    let stated = policy.link.ack_filter.as_ref().map(|filter| filter.value);
    let percent = part.div_ceil(10);
    let taken = format!(
        "Acknowledgements of a full downstream, one for two full packets, take {percent} % of this"
    );
    let what = match (stated.unwrap_or_default(), filtered) {
        (AckFilter::Auto, true) => {
            "waiting ones that a later one makes superfluous are dropped (`ack-filter`)"
        }
        (_, true) => "superfluous ones that wait are dropped, as `ack-filter` says",
        (AckFilter::Off, false) => "none is dropped, as `ack-filter` says",
        (_, false) if scheduler::holds(policy) => {
            "they are held back, as `max-ack-delay` says, and none is dropped"
        }
        (_, false) if policy.ack.is_none() => {
            "none is dropped, because no class has cake; `[ack]` makes one that does"
        }
        (_, false) => "none is dropped, because their queue is not cake",
    };
    Some(format!("{taken}: {what}."))
}
