// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which acknowledgements are dropped upstream, and where (`ack-filter` of the link).
//!
//! # When a filter is used
//!
//! A downstream that is full of TCP causes one upstream acknowledgement for two full packets
//! (RFC 5681 section 4.2). Let A and F be the sizes of an acknowledgement and of a full packet
//! in bytes on the wire. The acknowledgements take this part of the upstream:
//! ```text
//! (down / 2 F) * A / up
//! ```
//!
//! This is half of the normalised bandwidth ratio of RFC 3449 section 2. No more than that can
//! be returned to uploads. From a tenth on ([`WORTH`]), a filter is used unless the policy says
//! otherwise. Below that, the gain is too small to measure, and it has a cost. A sender that
//! gets fewer acknowledgements sends larger bursts (RFC 3449 section 5.2.1), and one that counts
//! them grows more slowly (RFC 3465).
//!
//! # What is dropped
//!
//! In the tree, the filter of cake drops them (`cake_ack_filter`, net/sched/sch_cake.c), among the
//! queued packets of one flow. It drops an acknowledgement without data if a later one acknowledges
//! more, and has no older timestamps and no fewer SACK blocks. It keeps packets with flags other
//! than ACK, a DSACK, or an unknown option (including AccECN). It also keeps those that
//! acknowledge no less than the later one (duplicates, window updates). If ECE or CWR change,
//! the last packet before the change stays. The aggressive mode leaves one queued
//! acknowledgement of a flow where the other mode leaves two. The class of acknowledgements
//! contains all of them, so a cake there suffices.
//!
//! BPF engines have a filter of their own, in all classes (`aqm/host/acks.h`). It keeps more: no
//! acknowledgement with SACK blocks is dropped, and no duplicate.

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

/// The part of the upstream, in thousandths, from which acknowledgements are filtered.
const WORTH: u64 = 100;

/// The number of full packets for each acknowledgement, in tenths.
const DELAYED_TENTHS: u32 = 20;

/// The smallest round-trip time of cake for a queue of acknowledgements. Its AQM drops packets
/// after a twentieth of that time. Acknowledgements do not slow down in response, and each one
/// that the filter has kept carries information.
const ROUND_TRIP: Span = Span::from_millis(1_000);

/// The smallest round-trip time of cake, in full packets.
const ROUND_TRIP_PACKETS: u64 = 80;

/// Returns the queue of a class of acknowledgements behind a gate.
fn queue(policy: &Policy, gate: Rate) -> CakeQueue {
    let packets = bounds::time(u64::from(policy.full_packet()) * ROUND_TRIP_PACKETS, gate);
    let whole = Span::from_micros(packets.as_nanos().div_ceil(1_000));
    CakeQueue {
        rtt: Some(ROUND_TRIP.max(whole)),
        ..CakeQueue::default()
    }
}

/// Returns the part of the upstream gate, in thousandths, that the acknowledgements of a full
/// downstream take; `None` if the downstream's rate is unknown.
fn part(policy: &Policy) -> Option<u64> {
    let down = policy.link.down.as_ref()?.value;
    let gate = policy.gate(Direction::Up)?.as_bits_per_second();
    let size = policy.ack.as_ref().map_or(Ack::SIZE, |ack| ack.size);
    let layer = &policy.link.layer.value;
    // Both rates and both sizes are on the wire.
    let taken = AckReserve::on(layer, size, policy.full_packet(), DELAYED_TENTHS).rate(down)?;
    taken
        .as_bits_per_second()
        .saturating_mul(1_000)
        .checked_div(gate)
}

/// Returns whether the rates justify a filter.
fn worth(policy: &Policy) -> bool {
    part(policy).is_some_and(|part| part >= WORTH)
}

/// Returns which acknowledgements a direction's cakes, or its BPF engine, drop.
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

/// Returns what a BPF engine does with acknowledgements, for the reason of its qdisc.
pub(crate) fn dropped(filter: CakeAckFilter) -> &'static str {
    if filter == CakeAckFilter::No {
        ""
    } else {
        "; acknowledgements that a later one makes superfluous are dropped"
    }
}

/// Returns the classes of a direction, with the queue that filters acknowledgements.
pub(crate) fn classes(policy: &Policy, direction: Direction) -> Vec<SharedClass> {
    let shares = policy.share_out(direction);
    let mut classes = shares.map(|shares| shares.classes).unwrap_or_default();
    queued(policy, direction, &mut classes);
    classes
}

/// Returns whether a BPF engine shapes, which filters acknowledgements in all classes.
fn in_program(policy: &Policy) -> bool {
    let stated = policy.link.engine.as_ref().map(|engine| engine.value);
    stated.is_some_and(Engine::is_program)
}

/// Returns whether something can filter upstream acknowledgements: a BPF engine, the cake of
/// their own class or, without one, that of any class.
pub(crate) fn have_filter(policy: &Policy) -> bool {
    if in_program(policy) {
        return true;
    }
    let classes = classes(policy, Direction::Up);
    match classes.iter().find(|class| class.ack) {
        Some(own) => hosts::has_cake(own),
        None => classes.iter().any(hosts::has_cake),
    }
}

/// Returns whether the class of acknowledgements may have cake as its default queue.
fn may_have_cake(policy: &Policy) -> bool {
    !in_program(policy) && !scheduler::holds(policy)
}

/// Gives the class of acknowledgements a queue that filters them, if it states none. A class
/// that delays them (`[receive]`) has a queue for that, and BPF engines filter themselves.
pub(crate) fn queued(policy: &Policy, direction: Direction, classes: &mut [SharedClass]) {
    if filter(policy, direction) == CakeAckFilter::No || !may_have_cake(policy) {
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
        // Share between flows, like its default queue.
        class.fair = class.fair.or(Some(Fair::Flows));
    }
}

/// Returns the policy for this kernel: without a filter if the policy does not require one and
/// the kernel has no cake.
pub(crate) fn settled<'p>(
    policy: Cow<'p, Policy>,
    kernel: &Capabilities,
    problems: &Problems,
) -> Cow<'p, Policy> {
    let stated = policy.link.ack_filter.as_ref();
    let open = stated.is_none_or(|filter| filter.value == AckFilter::Auto);
    if !open || !worth(&policy) || !may_have_cake(&policy) || kernel.has_qdisc("cake") {
        return policy;
    }
    let span = policy
        .ack
        .as_ref()
        .map_or(&policy.link.span, |ack| &ack.span);
    // Acknowledgements whose queue is stated would not be in a cake anyway.
    if policy.ack.as_ref().is_some_and(|ack| ack.queue.is_none()) {
        problems.warning(
            codes::ACK_FILTER,
            span.clone(),
            "this kernel has no cake, which filters acknowledgements: downloads leave less \
             bandwidth for uploads",
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

/// Returns a note on the upstream rate of acknowledgements and their treatment.
pub(crate) fn note(policy: &Policy, filtered: bool) -> Option<String> {
    let part = part(policy).filter(|part| *part >= WORTH)?;
    let stated = policy.link.ack_filter.as_ref().map(|filter| filter.value);
    let percent = part.div_ceil(10);
    let taken = format!(
        "While the downstream is full, acknowledgements take {percent} % of this rate, one for two \
         full packets"
    );
    let what = match (stated.unwrap_or_default(), filtered) {
        (AckFilter::Auto, true) => {
            "those that wait when a later one replaces them are dropped (`ack-filter`)"
        }
        (_, true) => {
            "those that wait when a later one replaces them are dropped, as `ack-filter` says"
        }
        (AckFilter::Off, false) => "none is dropped, as `ack-filter` says",
        (_, false) if scheduler::holds(policy) => {
            "they are held back, as `max-ack-delay` says, and none is dropped"
        }
        (_, false) => &format!("none is dropped, because {}", obstacle(policy)),
    };
    Some(format!("{taken}: {what}."))
}

/// Returns why nothing filters acknowledgements.
fn obstacle(policy: &Policy) -> &'static str {
    if policy.ack.is_none() {
        "no class has cake; `[ack]` makes one that does"
    } else {
        "their queue is not cake"
    }
}

/// Returns a sentence if the rates ask for a filter, and the default finds none.
pub(crate) fn unfiltered(policy: &Policy, filtered: bool) -> Option<String> {
    let stated = policy.link.ack_filter.as_ref().map(|filter| filter.value);
    let auto = stated.unwrap_or_default() == AckFilter::Auto;
    if !auto || filtered || scheduler::holds(policy) || !worth(policy) {
        return None;
    }
    let why = obstacle(policy);
    Some(format!(
        "`ack-filter` drops no acknowledgement, because {why}."
    ))
}
