// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of rows: classes are nodes of a tree below one gate. Limits of hosts are caps,
//! each of which limits the sum of the host's leaves in all classes.
//!
//! ```text
//! link                        ceiling = the gate
//! ├ class                     guarantee, ceiling, priority, quantum as its guarantee
//! ├ class with hosts
//! │  ├ hosts without a limit  each has a leaf of its own with `fair = "hosts"`
//! │  ├ host                   ceiling = its limit in this class
//! │  ├ host                   cap = its limit over all classes
//! cap of a host               ceiling = that limit
//! ```
//!
//! Guarantees and priorities belong to classes, as in the tree of HTB classes, and a host's
//! limit applies in addition. If the limit is reached, the host's more urgent classes use it
//! first. No policy can state a guarantee for a host.
//!
//! How long packets wait is derived in `scheduler::rows`.

use crate::codes;
use crate::scheduler::number::OUTER;
use crate::scheduler::parts::{CappedHost, Parent};
use crate::scheduler::{self, Member, Scheduler, acks};
use crate::tree::leaf;
use std::borrow::Cow;
use std::collections::BTreeMap;
use weirgate_document::Problems;
use weirgate_linklayer::Framing;
use weirgate_policy::{
    Direction, Engine, Fair, FqCodelQueue, HostCap, Inbound, Link, Policy, Queue, SharedClass,
    in_kbit,
};
use weirgate_state::{
    CakeFraming, Capabilities, HostAddress, KitWire, Origin, Qdisc, QdiscKind, Rows, RowsNode,
    RowsRole,
};
use weirgate_units::{Arrange as _, Handle, Inserted as _, Rate, Span};

/// The limits of a leaf in packets, on slow links and on others, and that of a host's leaf; they
/// equal those of the tree (`tree::leaf`).
const SMALL: u32 = 1_024;
const LARGE: u32 = 10_240;
const OF_HOST: u32 = 1_000;

/// Returns the policy with this engine, if the policy leaves the engine open and needs a feature
/// that only this one has.
pub(crate) fn settled<'p>(policy: Cow<'p, Policy>, kernel: &Capabilities) -> Cow<'p, Policy> {
    let stated = policy.link.engine.as_ref().map(|engine| engine.value);
    let open = matches!(stated, None | Some(Engine::Auto));
    let Some(cap) = needed(&policy).filter(|_| open) else {
        return policy;
    };
    if !kernel.kit || misfit(&policy).is_some() {
        return policy;
    }
    let chosen = cap.group.clone().map(|_| Engine::Rows);
    let mut settled = policy.into_owned();
    settled.link.engine = Some(chosen);
    Cow::Owned(settled)
}

/// Returns the first limit that only this engine supports.
pub(crate) fn needed(policy: &Policy) -> Option<&HostCap> {
    policy.caps.iter().find(|cap| cap.is_over_all())
}

/// Returns whether this limit selected the engine, and not the policy.
pub(crate) fn was_chosen(policy: &Policy) -> bool {
    let engine = policy.link.engine.as_ref();
    let cap = needed(policy).zip(engine);
    cap.is_some_and(|(cap, engine)| cap.group.span == engine.span)
}

/// Returns what this engine lacks for a policy, and how to change the policy.
pub(crate) fn misfit(policy: &Policy) -> Option<(String, &'static str)> {
    let shaped = |class: &&weirgate_policy::Class| {
        let mut directions = Direction::BOTH.into_iter();
        directions.any(|one| class.directions.contains(one) && policy.line_rate(one).is_some())
    };
    let classes = || policy.classes.iter().filter(shaped);
    let queues = classes()
        .map(|class| (&class.queue, class.name.value.as_str()))
        .chain(policy.ack.iter().map(|ack| (&ack.queue, "ack")));
    for (queue, name) in queues {
        if let Some(queue) = queue.as_ref().filter(|queue| !fits(&queue.value)) {
            let kind = queue.value.kind();
            return Some((
                format!(
                    "its leaves have eight queues with CoDel, of which only `target` can be set, \
                     but `{name}` sets another `{kind}`"
                ),
                "leave `queue` out, or write `queue = { kind = \"fq_codel\", target = \"...\" }`",
            ));
        }
    }
    let link = policy.link.fair.as_ref();
    let mut fair = classes()
        .filter_map(|class| class.fair.as_ref())
        .chain(link);
    if let Some(fair) = fair.find(|fair| fair.value == Fair::HostsOnly) {
        let at = fair.line;
        return Some((
            format!("each of its hosts has queues for several flows, but line {at} requires one"),
            "write `fair = \"hosts\"`",
        ));
    }
    if let Some(slack) = &policy.link.timer_slack {
        let at = slack.line;
        return Some((
            format!("its gate sets the timer slack itself, but line {at} states it"),
            "leave `timer-slack` out",
        ));
    }
    if scheduler::holds(policy) {
        return Some((
            "it does not hold acknowledgements back, which `[receive]` requires".to_owned(),
            "leave `max-ack-delay` out",
        ));
    }
    let down = policy.line_rate(Direction::Down).is_some();
    (down && policy.link.inbound.value == Inbound::Lan).then(|| {
        (
            "on the LAN device it would also slow packets that do not come from the link"
                .to_owned(),
            "write `inbound = \"ifb\"`, and give `[marks]` bits for `inside` where this router \
             translates addresses",
        )
    })
}

/// Returns whether a leaf supports this queue.
fn fits(queue: &Queue) -> bool {
    let Queue::FqCodel(own) = queue else {
        return false;
    };
    let rest = FqCodelQueue {
        target: None,
        ..own.clone()
    };
    rest == FqCodelQueue::default()
}

/// Reports why this engine cannot be used if the policy or a limit asks for it.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let release = kernel.lacking_programs(release);
    let without = || {
        (!kernel.kit)
            .then(|| format!("{release} has no qdiscs made of BPF programs, which it needs"))
    };
    let stated = policy.link.engine.as_ref();
    if let Some(engine) = stated.filter(|engine| engine.value == Engine::Rows) {
        if let Some((wrong, right)) = misfit(policy) {
            let message = format!("the engine of rows cannot carry this policy: {wrong}");
            problems.error(codes::ENGINE, engine.span.clone(), message, right);
        }
        if let Some(message) = without() {
            let bring = kernel.bring_program_qdiscs();
            let right = format!("{bring}, or write `engine = \"auto\"`");
            problems.error(codes::ENGINE, engine.span.clone(), message, right);
        }
        return;
    }
    let Some(cap) = needed(policy) else {
        return;
    };
    let open = matches!(stated.map(|engine| engine.value), None | Some(Engine::Auto));
    let against = misfit(policy).map(|(wrong, _)| wrong).or_else(without);
    let why = against.filter(|_| open).map_or_else(String::new, |wrong| {
        format!(", which cannot be taken: {wrong}")
    });
    problems.error(
        codes::ENGINE,
        cap.group.span.clone(),
        format!(
            "each host of `{}` is limited over all classes together, which only \
             `engine = \"rows\"` does{why}",
            cap.group.value
        ),
        "name a `class` in which the limit holds, or write `engine = \"rows\"` to see what to \
         change",
    );
}

/// Returns the tree at the root of a direction's device.
pub(crate) fn root(policy: &Policy, scheduler: &Scheduler) -> Qdisc {
    let link = &policy.link;
    let layer = &link.layer.value;
    let mtu = link.mtu.value + link.device_kind.value.counted();
    let interval = leaf::codel_in_turns(scheduler.full_packet, scheduler.gate, None).1;
    let mut nodes: Vec<RowsNode> = Vec::new();
    for parent in &scheduler.parents {
        nodes.push(whole(scheduler, parent));
        let hosts = parent.hosts.iter();
        nodes.extend(hosts.map(|one| host(scheduler, parent, one, mtu)));
    }
    for member in &scheduler.members {
        let own = class(scheduler, member, mtu);
        let Some(id) = member.hosts else {
            nodes.push(own);
            continue;
        };
        let [above, leaf] = by_hosts(scheduler, own, id);
        nodes.extend([above, leaf]);
    }
    nodes.extend(caps(scheduler));
    nodes.arrange_by_key(|node| node.id);
    let address = match scheduler.direction {
        Direction::Up => HostAddress::Source,
        Direction::Down => HostAddress::Destination,
    };
    let reason = format!(
        "engine rows: {} of a line of {}, counted as on the wire ({layer}); one packet at a time{}",
        in_kbit(scheduler.gate),
        in_kbit(scheduler.line),
        acks::dropped(scheduler.ack_filter)
    );
    Qdisc {
        handle: Handle::new(OUTER, 0),
        stab: None,
        kind: QdiscKind::Rows(Rows {
            gate: scheduler.gate,
            wire: wire(link),
            mtu,
            other: scheduler.unseen(),
            interval,
            marks: true,
            acks: scheduler.ack_filter,
            hosts: nodes.iter().any(|node| node.hosts).then_some(address),
            nodes,
        }),
        origin: Origin::new(
            link.engine
                .as_ref()
                .map_or(link.layer.line, |engine| engine.line),
            reason,
        ),
    }
}

/// Returns a node with the properties that all nodes have in common.
fn node(id: Handle, role: RowsRole, line: u32, reason: String) -> RowsNode {
    RowsNode {
        id,
        role,
        parent: None,
        guarantee: Rate::default(),
        burst: 0,
        ceiling: None,
        cap: None,
        prio: 0,
        quantum: 0,
        target: Span::ZERO,
        limit: 0,
        hosts: false,
        origin: Origin::new(line, reason),
    }
}

/// Returns the nodes of a class that is shared between hosts. The upper node has the rates of
/// the class. Below it is the leaf beside which each host gets its own, in turns of a full
/// packet.
fn by_hosts(scheduler: &Scheduler, class: RowsNode, id: Handle) -> [RowsNode; 2] {
    let above = RowsNode {
        id,
        role: RowsRole::Inner,
        target: Span::ZERO,
        limit: 0,
        ..class.clone()
    };
    let leaf = RowsNode {
        parent: Some(id),
        guarantee: Rate::default(),
        burst: 0,
        ceiling: None,
        quantum: scheduler.full_packet,
        hosts: true,
        ..class
    };
    [above, leaf]
}

/// Returns a class that has children.
fn whole(scheduler: &Scheduler, parent: &Parent) -> RowsNode {
    let class = &parent.class;
    let reason = parent.reason();
    RowsNode {
        guarantee: class.rate,
        burst: burst(class),
        ceiling: (class.ceiling < scheduler.gate).then_some(class.ceiling),
        prio: class.priority,
        quantum: quantum(scheduler, class.rate, class.priority),
        ..node(parent.id, RowsRole::Inner, class.line, reason)
    }
}

/// Returns a class, the rest of a divided class, or the part of a group.
fn class(scheduler: &Scheduler, member: &Member, mtu: u32) -> RowsNode {
    let class = &member.class;
    let ceiling = (class.ceiling < scheduler.gate).then_some(class.ceiling);
    let most = ceiling.map_or_else(String::new, |most| format!(", {} at most", in_kbit(most)));
    let (guarantee, owed) = if member.capped > 0 {
        let owed = "hosts without a limit, in turn with the others".to_owned();
        (Rate::default(), owed)
    } else {
        (
            class.rate,
            format!("{} guaranteed{most}", in_kbit(class.rate)),
        )
    };
    let quantum = match member.parent {
        None => quantum(scheduler, class.rate, class.priority),
        Some(_) => member.quantum,
    };
    let beside = member.capped > 0 && class.fair.is_some_and(Fair::knows_hosts);
    let quantum = if beside {
        scheduler.full_packet
    } else {
        quantum
    };
    let stated = match leaf::stated(member) {
        Queue::FqCodel(own) => own.target,
        _ => None,
    };
    let (target, _) = leaf::codel_in_turns(scheduler.full_packet, scheduler.gate, stated);
    let reason = format!("class {}: {owed}, priority {}", class.name, class.priority);
    let large = scheduler.gate >= crate::tree::hosts::SMALL_LINK;
    RowsNode {
        parent: member.parent,
        guarantee,
        burst: if member.capped > 0 { 0 } else { burst(class) },
        ceiling,
        prio: class.priority,
        quantum,
        target,
        limit: if large { LARGE } else { SMALL } * mtu,
        hosts: beside,
        ..node(member.id, RowsRole::Leaf, class.line, reason)
    }
}

fn burst(class: &SharedClass) -> u32 {
    u32::try_from(class.burst.as_bytes()).unwrap_or(u32::MAX)
}

/// Returns the leaf of a host with a limit, in one class.
fn host(scheduler: &Scheduler, parent: &Parent, host: &CappedHost, mtu: u32) -> RowsNode {
    let ceiling = (host.ceil < parent.class.ceiling).then_some(host.ceil);
    let over_all = host.over_all.as_ref();
    let least = over_all.map_or(host.ceil, |limit| limit.rate.min(host.ceil));
    let (target, _) = leaf::codel_in_turns(scheduler.full_packet, least.min(scheduler.gate), None);
    let most = match (ceiling, over_all) {
        (Some(own), None) => format!("{} at most", in_kbit(own)),
        (None, Some(limit)) => format!("{} at most in all classes", in_kbit(limit.rate)),
        (Some(own), Some(limit)) => format!(
            "{} at most, and {} in all classes",
            in_kbit(own),
            in_kbit(limit.rate)
        ),
        (None, None) => "as the class".to_owned(),
    };
    let reason = format!("{} in class {}: {most}", host.address, parent.class.name);
    RowsNode {
        parent: Some(parent.id),
        ceiling,
        cap: over_all.map(|limit| limit.id),
        prio: parent.class.priority,
        quantum: scheduler.full_packet,
        target,
        limit: OF_HOST * mtu,
        ..node(host.id, RowsRole::Leaf, host.line, reason)
    }
}

/// Returns the limits of hosts over all classes, each once.
fn caps(scheduler: &Scheduler) -> impl Iterator<Item = RowsNode> {
    let hosts = scheduler.parents.iter().flat_map(|parent| &parent.hosts);
    let limits = hosts.filter_map(|host| Some((host.over_all.as_ref()?, host.address)));
    let limits: BTreeMap<Handle, _> = limits.map(|limit| (limit.0.id, limit)).inserted();
    limits.into_values().map(|(limit, address)| {
        let reason = format!(
            "{address}: {} at most in all classes together",
            in_kbit(limit.rate)
        );
        RowsNode {
            ceiling: Some(limit.rate),
            ..node(limit.id, RowsRole::Cap, limit.line, reason)
        }
    })
}

/// Describes the queue of a class for a report.
pub(crate) fn described(member: &Member) -> String {
    let queues = "eight queues with CoDel";
    if member.class.fair.is_some_and(Fair::knows_hosts) {
        return format!("{queues} for each host");
    }
    if member.capped > 0 {
        return format!(
            "{queues} for each of {} hosts with a limit, and as many for the others",
            member.capped
        );
    }
    queues.to_owned()
}

/// Returns the quantum of a node directly below the link. Quanta are proportional to guarantees,
/// and the smallest one is a full packet, as [`scheduler::of`] sets them among leaves.
fn quantum(scheduler: &Scheduler, rate: Rate, priority: u8) -> u32 {
    let alone = scheduler.members.iter().filter(|one| one.parent.is_none());
    let alone = alone.map(|one| &one.class);
    let wholes = scheduler.parents.iter().map(|parent| &parent.class);
    let equals = alone
        .chain(wholes)
        .filter(|class| class.priority == priority);
    let least = equals
        .map(|class| class.rate.as_bits_per_second())
        .min()
        .unwrap_or(1)
        .max(1);
    let bytes = u128::from(scheduler.full_packet) * u128::from(rate.as_bits_per_second());
    u32::try_from((bytes + u128::from(least) / 2) / u128::from(least)).unwrap_or(u32::MAX)
}

/// Returns the settings of a BPF engine for packets of a link, relative to the bytes that its
/// device counts.
pub(super) fn wire(link: &Link) -> KitWire {
    let layer = &link.layer.value;
    KitWire {
        overhead: layer.overhead_on(link.device_kind.value),
        mpu: layer.mpu(),
        framing: match layer.framing() {
            Framing::None => CakeFraming::None,
            Framing::Atm => CakeFraming::Atm,
            Framing::Ptm => CakeFraming::Ptm,
        },
    }
}
