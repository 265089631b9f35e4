// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler of one direction, before it is converted to qdiscs: the classes with their
//! numbers, largest packets, quanta and token buckets.
//!
//! `tree` converts it for the kernel, and `bounds` derives from it how long a packet may wait;
//! both use the same values.

pub(crate) mod acks;
pub mod bounds;
mod case;
pub(crate) mod model;
pub(crate) mod number;
pub(crate) mod parts;
pub(crate) mod rows;
mod starts;
pub(crate) mod wait;

pub use crate::scheduler::model::{Member, Scheduler};

use crate::codes;
use crate::scheduler::parts::{Leaf, Numbers};
use weirgate_document::Problems;
use weirgate_linklayer::LinkLayer;
use weirgate_policy::{
    Class, Condition, Conditions, Direction, Engine, Inbound, LONGEST_PURE_ACK, Policy, Rule,
    SharedClass,
};
use weirgate_state::DeviceName;
use weirgate_units::{Arrange as _, Rate, Span};

/// The largest ratio of quanta within one priority. Beyond it, a turn of a class would be so
/// long that the other class needs a priority of its own.
const MOST_UNEQUAL: u64 = 1000;

/// On a slow link, a full packet takes at least this long.
const SLOW: Span = Span::from_millis(2);
/// The gate's bucket on slow links, which allows for a late timer. A byte at 512 kbit/s takes as
/// long (`burst 1`, measured; design.md).
const LATE_SLOW: Span = Span::from_micros(16);
/// The gate's bucket on other links. It allows for interrupts and idle states of real machines,
/// at the cost of at most 0.1 ms of queue in the modem.
const LATE_FAST: Span = Span::from_micros(100);

/// The same of the gate of the kit's shaper (`AQM_GATE_SLACK_NS`, aqm/host/gate.h). Above a rate
/// it sends packets in groups of this time.
const LATE_KIT: Span = Span::from_micros(50);
const KIT_GROUPS_FROM: Rate = Rate::kbit(100_000);
const KIT_GROUP: Span = Span::from_micros(100);

/// Returns the scheduler of a direction; `None` if the policy does not shape it.
pub(crate) fn of(policy: &Policy, direction: Direction, problems: &Problems) -> Option<Scheduler> {
    let shares = policy.share_out(direction)?;
    let mut classes = shares.classes;
    acks::queued(policy, direction, &mut classes);
    // The sort is stable: classes of equal priority stay in the order of the policy.
    classes.arrange_by_key(|class| class.priority);
    let top = classes.first().map(|class| class.name.clone());
    let leaves = parts::leaves(policy, direction, shares.gate, &classes);
    let numbers = Numbers::of(policy, direction, &leaves);
    let parents = parts::parents(policy, direction, &classes, &numbers);
    let member = |leaf: &Leaf| Member {
        id: numbers.id(&leaf.class.name),
        parent: parents
            .iter()
            .find(|parent| parent.class.name == leaf.whole)
            .map(|parent| parent.id),
        group: leaf.group.clone(),
        hosts: leaf.hosts.as_ref().map(|name| numbers.id(name)),
        capped: leaf.capped,
        largest: if top.as_ref() == Some(&leaf.whole) {
            // Control packets of any size go to this class.
            shares.full_packet
        } else {
            largest(policy, &leaf.whole, &leaf.class, direction).min(shares.full_packet)
        },
        quantum: quantum(&leaves, leaf, shares.full_packet, problems),
        latency: Span::ZERO,
        buffer: Span::ZERO,
        class: leaf.class.clone(),
    };
    let members: Vec<Member> = leaves.iter().map(member).collect();
    let full_time = bounds::time(u64::from(shares.full_packet), shares.gate);
    let chosen = if full_time >= SLOW {
        LATE_SLOW
    } else {
        LATE_FAST
    };
    let stated = policy.link.timer_slack.as_ref();
    let late = stated.map_or(chosen, |slack| slack.value);
    let engine = policy.link.engine.as_ref().map(|engine| engine.value);
    let (late, group) = match engine {
        Some(Engine::Kit) if shares.gate > KIT_GROUPS_FROM => (LATE_KIT + KIT_GROUP, KIT_GROUP),
        Some(Engine::Kit) => (LATE_KIT, Span::ZERO),
        _ => (late, Span::ZERO),
    };
    let mut scheduler = Scheduler {
        direction,
        inside: direction == Direction::Down && policy.link.inbound.value == Inbound::Lan,
        line: shares.line,
        gate: shares.gate,
        ack_filter: acks::filter(policy, direction),
        holds: direction == Direction::Up && holds(policy),
        l4s: policy.link.low_latency().is_some(),
        gate_buffer: late.max(bounds::time(1, shares.gate)),
        group,
        full_packet: shares.full_packet,
        order: bounds::order(&members),
        members,
        parents,
    };
    // The bound of a class needs the buckets of those before it, which are known when its turn
    // comes. Classes that lend their guarantee wait for all others, so they are last.
    let lent = |at: &usize| scheduler.members[*at].capped > 0;
    let (last, mut order): (Vec<usize>, Vec<usize>) = (0..scheduler.members.len()).partition(lent);
    order.extend(last);
    for at in order {
        let latency = wait::latency(&scheduler, at);
        let member = &mut scheduler.members[at];
        let burst = bounds::time(member.class.burst.as_bytes(), member.class.rate);
        member.latency = latency;
        member.buffer = whole_ticks(burst + latency);
        // The token bucket of a whole class is as long in time as that of its parts.
        let own = scheduler.members[at].parent;
        let buffer = scheduler.members[at].buffer;
        for parent in &mut scheduler.parents {
            if Some(parent.id) == own {
                parent.buffer = parent.buffer.max(buffer);
            }
        }
    }
    Some(scheduler)
}

/// Rounds a token bucket to HTB's ticks of 64 ns (`PSCHED_SHIFT`, net/pkt_sched.h). HTB has 32
/// bits of them, and forgets credit older than a minute (`mbuffer`).
fn whole_ticks(span: Span) -> Span {
    let longest = 60_000_000_000;
    Span::from_nanos(span.as_nanos().min(longest).div_ceil(64) * 64)
}

/// Returns whether acknowledgements are delayed.
pub(crate) fn holds(policy: &Policy) -> bool {
    let receive = policy.receive.as_ref();
    receive.is_some_and(|receive| receive.chooses() && receive.max_ack_delay.is_some())
}

/// Returns whether the class of acknowledgements uses the queue that it states, or the default.
/// If it delays them, its queue upstream is another one.
pub(crate) fn queues_acks(policy: &Policy) -> bool {
    !holds(policy) || policy.ack_rate(Direction::Down).is_some()
}

/// Returns the device where connections of a direction are kept in order (`inbound::order`);
/// `None` if they are not.
pub(crate) fn ordered_on(policy: &Policy, direction: Direction) -> Option<&DeviceName> {
    policy.link.moves_in_order()?;
    policy.line_rate(direction)?;
    match direction {
        Direction::Up => Some(&policy.link.device.value),
        Direction::Down if policy.link.inbound.value == Inbound::Lan => {
            policy.link.lan.first().map(|lan| &lan.value)
        }
        Direction::Down => None,
    }
}

/// Returns the quantum of a leaf. Quanta are proportional to guarantees, and the smallest one is
/// a full packet, so that equals share the excess like the guarantees.
fn quantum(leaves: &[Leaf], leaf: &Leaf, full_packet: u32, problems: &Problems) -> u32 {
    let class = &leaf.class;
    if leaf.capped > 0 {
        return full_packet;
    }
    let equals = leaves
        .iter()
        .filter(|other| other.class.priority == class.priority && other.capped == 0);
    let least = equals
        .map(|other| other.class.rate.as_bits_per_second())
        .min()
        .unwrap_or(1)
        .max(1);
    let rate = class.rate.as_bits_per_second();
    if rate / least > MOST_UNEQUAL {
        problems.error(
            codes::RATIO,
            class.span.clone(),
            format!(
                "the guarantee of `{}` is more than {MOST_UNEQUAL} times that of another class \
                 of priority {}",
                class.name, class.priority
            ),
            "give the small class a higher priority (a lower number) than the large one",
        );
        return full_packet;
    }
    let bytes = u128::from(full_packet) * u128::from(rate);
    u32::try_from((bytes + u128::from(least) / 2) / u128::from(least)).unwrap_or(u32::MAX)
}

/// Returns the largest packet of a class in bytes on the wire, if every rule that leads there
/// limits the length.
fn largest(policy: &Policy, whole: &str, class: &SharedClass, direction: Direction) -> u32 {
    let layer = &policy.link.layer.value;
    let full = layer.wire_bytes(policy.link.mtu.value);
    let default = |other: &Class| other.default.is_some() && other.name.value == whole;
    if policy.classes_of(direction).any(default) {
        return full;
    }
    let leads = |rule: &&Rule| {
        let named = rule.class.as_ref().is_some_and(|name| name.value == whole);
        named && (rule.directions.contains(direction) || rule.keep.is_some())
    };
    // A connection that is kept in order keeps its class for packets of any length.
    let ordered = ordered_on(policy, direction).is_some();
    let of = |rule: &Rule| {
        if ordered {
            full
        } else {
            longest(rule, layer, full)
        }
    };
    let rules = policy.rules.iter().filter(leads).map(of);
    let implicit = class.ack.then(|| layer.wire_bytes(LONGEST_PURE_ACK.into()));
    rules.chain(implicit).max().unwrap_or(full)
}

fn longest(rule: &Rule, layer: &LinkLayer, full: u32) -> u32 {
    // A kept decision applies to packets of any length.
    if rule.keep.is_some() {
        return full;
    }
    let of = |when: &Conditions| {
        let longest = when.iter().filter_map(Condition::longest).min();
        longest.map_or(full, |ip| layer.wire_bytes(ip.into()))
    };
    let services = rule.services.iter().map(|service| of(&service.when)).max();
    of(&rule.when).min(services.unwrap_or(full))
}
