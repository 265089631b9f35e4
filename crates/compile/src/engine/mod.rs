// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines that shape a link. They are the HTB tree behind a gate, cake with its own shaper,
//! the kit's shaper (`kit`), and the engine of rows (`rows`) if the policy requires it.
//!
//! The tree is the default wherever the kernel has HTB. Only it keeps guarantees, ceilings and
//! priorities of classes and bounds waits. cake suits a policy with one class, which has nothing
//! to guarantee. It shares between hosts and flows and counts the same bytes on the wire
//! (overhead, minimum, ATM, PTM). It is used if the policy asks for it, or if the kernel lacks
//! HTB.

pub(crate) mod direction;
pub(crate) mod kit;
pub(crate) mod l4s;
pub(crate) mod rows;

use crate::codes;
use crate::scheduler::number::OUTER;
use crate::scheduler::{Scheduler, acks};
use crate::tree::{hosts, leaf};
use weirgate_document::Problems;
use weirgate_linklayer::Framing;
use weirgate_policy::{
    AckFilter, CakeQueue, Class, Direction, Engine, HostCap, Inbound, Policy, Queue, in_kbit,
};
use weirgate_state::{
    Cake, CakeAckFilter, CakeFraming, CakeWire, Capabilities, Origin, Qdisc, QdiscKind,
};
use weirgate_units::Handle;

/// Returns the engine to use, never [`Engine::Auto`]. `kernel` is `None` if only promises are
/// calculated.
pub(crate) fn chosen(policy: &Policy, kernel: Option<&Capabilities>) -> Engine {
    match policy.link.engine.as_ref().map(|engine| engine.value) {
        Some(Engine::Cake) => Engine::Cake,
        Some(own @ (Engine::Kit | Engine::Rows)) => own,
        Some(Engine::Htb) => Engine::Htb,
        Some(Engine::Auto) | None => {
            let without = kernel.is_some_and(|kernel| !kernel.has_qdisc("htb"));
            let with = kernel.is_some_and(|kernel| kernel.has_qdisc("cake"));
            if without && with && misfit(policy).is_none() {
                Engine::Cake
            } else {
                Engine::Htb
            }
        }
    }
}

/// Returns whether a direction is shaped by the link's engine, and not by another one or not at
/// all.
pub(crate) fn is_of_link(policy: &Policy, direction: Direction) -> bool {
    let apart = direction == Direction::Down && policy.link.engine_down.is_some();
    policy.line_rate(direction).is_some() && !apart
}

/// Returns what cake lacks for a policy, and how to change the policy.
fn misfit(policy: &Policy) -> Option<(String, &'static str)> {
    let shaped = |direction: &Direction| policy.line_rate(*direction).is_some();
    for direction in Direction::BOTH.into_iter().filter(shaped) {
        let classes: Vec<&Class> = policy.classes_of(direction).collect();
        if let [_, second, ..] = classes.as_slice() {
            let (name, stream) = (&second.name.value, direction.stream());
            return Some((
                format!(
                    "its shares are fixed, but `{name}` is a second {stream} class with a share \
                     of its own"
                ),
                "write `engine = \"htb\"`, or keep one class in each direction",
            ));
        }
        for class in classes {
            let name = &class.name.value;
            if class.ceiling.value.of(policy.gate(direction)?) < policy.gate(direction)? {
                return Some((
                    format!("it has no ceiling for `{name}` below the link"),
                    "leave `ceiling` out, or lower the rate of the link",
                ));
            }
            if let Some(queue) = &class.queue
                && !matches!(queue.value, Queue::Cake(_))
            {
                return Some((
                    format!(
                        "it has no queue `{}`, which `{name}` names",
                        queue.value.kind()
                    ),
                    "leave `queue` out, or write `queue = \"cake\"`",
                ));
            }
        }
    }
    if let Some(slack) = &policy.link.timer_slack {
        let at = slack.line;
        return Some((
            format!("its shaper sets the timer slack itself, but line {at} states it"),
            "leave `timer-slack` out, or write `engine = \"htb\"`",
        ));
    }
    if policy.ack.is_some() {
        return Some((
            "it reserves no rate for acknowledgements".to_owned(),
            "leave `[ack]` out; cake serves sparse flows first",
        ));
    }
    only_a_tree_has(policy, |group| {
        format!("it has no share for the group `{group}`")
    })
}

/// Returns what both cake and the kit's shaper lack for a policy, and how to change the policy.
/// `share` explains the lack of shares for a group.
pub(crate) fn only_a_tree_has(
    policy: &Policy,
    share: impl FnOnce(&str) -> String,
) -> Option<(String, &'static str)> {
    if let Some(wanted) = policy.shares.first() {
        return Some((
            share(&wanted.group.value),
            "leave `[[share]]` out, or write `engine = \"htb\"`",
        ));
    }
    let limits = |cap: &&HostCap| {
        let mut directions = Direction::BOTH.into_iter();
        directions.any(|one| cap.rate(one).is_some() && is_of_link(policy, one))
    };
    let both = policy.link.engine_down.is_none();
    if let Some(cap) = policy.caps.iter().find(|cap| both || limits(cap)) {
        let group = &cap.group.value;
        return Some((
            format!("it has no limit for each host of `{group}`"),
            "leave `[[cap]]` out, or write `engine = \"htb\"`",
        ));
    }
    let down = is_of_link(policy, Direction::Down);
    (down && policy.link.inbound.value == Inbound::Lan).then(|| {
        (
            "on the LAN device it would also slow packets that do not come from the link"
                .to_owned(),
            "write `inbound = \"ifb\"`",
        )
    })
}

/// Reports why the kit's shaper cannot be used if the policy asks for it.
fn check_kit(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let Some(engine) = &policy.link.engine else {
        return;
    };
    if let Some((wrong, right)) = kit::misfit(policy) {
        let message = format!("the kit's shaper cannot carry this policy: {wrong}");
        problems.error(codes::ENGINE, engine.span.clone(), message, right);
    }
    if !kernel.kit {
        let release = kernel.lacking_programs(release);
        problems.error(
            codes::ENGINE,
            engine.span.clone(),
            format!("{release} has no qdiscs made of BPF programs, which the kit needs"),
            format!(
                "{}, or write `engine = \"auto\"`",
                kernel.bring_program_qdiscs()
            ),
        );
    }
}

/// Reports why the requested engine cannot be used.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    rows::check(policy, kernel, release, problems);
    if chosen(policy, Some(kernel)) == Engine::Rows {
        return;
    }
    if chosen(policy, Some(kernel)) == Engine::Kit {
        check_kit(policy, kernel, release, problems);
        return;
    }
    let cake = chosen(policy, Some(kernel)) == Engine::Cake;
    if let (Some(engine), true) = (&policy.link.engine, cake)
        && engine.value == Engine::Cake
    {
        if let Some((wrong, right)) = misfit(policy) {
            let message = format!("cake cannot carry this policy: {wrong}");
            problems.error(codes::ENGINE, engine.span.clone(), message, right);
        }
        if !kernel.has_qdisc("cake") {
            problems.error(
                codes::ENGINE,
                engine.span.clone(),
                format!("{release} has no cake qdisc, which `engine = \"cake\"` needs"),
                "load or build the module sch_cake, or write `engine = \"auto\"`",
            );
        }
    }
    if !cake && !kernel.has_qdisc("htb") {
        let (span, why) = match &policy.link.engine {
            Some(engine) if engine.value == Engine::Htb => (&engine.span, String::new()),
            _ => {
                let misfit = misfit(policy).filter(|_| kernel.has_qdisc("cake"));
                let also = |(wrong, _)| format!("; cake cannot replace it: {wrong}");
                (&policy.link.span, misfit.map_or_else(String::new, also))
            }
        };
        problems.error(
            codes::NO_QDISC,
            span.clone(),
            format!("{release} has no htb qdisc, which shapes the link{why}"),
            "load or build the module sch_htb",
        );
    }
}

/// Reports an ACK filter that no queue would implement.
pub(crate) fn filter(policy: &Policy, kernel: &Capabilities, problems: &Problems) {
    let asks = |filter: &AckFilter| matches!(filter, AckFilter::On | AckFilter::Aggressive);
    let stated = policy.link.ack_filter.as_ref();
    let Some(filter) = stated.filter(|filter| asks(&filter.value)) else {
        return;
    };
    if !filtered(policy, Some(kernel)) {
        problems.error(
            codes::ACK_FILTER,
            filter.span.clone(),
            "in the tree, only cake filters acknowledgements, but they have none upstream",
            "add `[ack]` without a `queue`, or write `queue = \"cake\"`, `fair = \"hosts\"` or \
             `engine = \"cake\"`",
        );
    } else if !chosen(policy, Some(kernel)).is_program() && !kernel.has_qdisc("cake") {
        problems.error(
            codes::ACK_FILTER,
            filter.span.clone(),
            "in the tree, only cake filters acknowledgements, but this kernel lacks it",
            "load or build the module sch_cake, or write `ack-filter = \"auto\"`",
        );
    }
}

/// Returns whether acknowledgements are filtered upstream, at the root or in a class. `kernel`
/// is `None` if only promises are calculated.
pub(crate) fn filtered(policy: &Policy, kernel: Option<&Capabilities>) -> bool {
    let wanted = acks::filter(policy, Direction::Up) != CakeAckFilter::No;
    wanted && (chosen(policy, kernel) == Engine::Cake || acks::have_filter(policy))
}

/// Returns whether a class of the direction has cake as its queue.
fn queues_by_cake(policy: &Policy, direction: Direction) -> bool {
    acks::classes(policy, direction).iter().any(hosts::has_cake)
}

/// Describes the engine and the reason in one line. `chosen` is that text if the policy leaves
/// the engine open.
pub(crate) fn reason(policy: &Policy, chosen: Option<String>) -> String {
    let asked = policy.link.engine.as_ref().map(|engine| engine.value);
    let mut text = chosen.unwrap_or_else(|| shaper(policy, asked));
    let within = |direction| queues_by_cake(policy, direction);
    if asked != Some(Engine::Cake) && Direction::BOTH.into_iter().any(within) {
        text += " Where a class has cake, cake is only the queue of that class.";
    }
    text
}

fn shaper(policy: &Policy, asked: Option<Engine>) -> String {
    match asked {
        Some(Engine::Cake) => "Shaped by cake (`engine = \"cake\"`), because the link asks for it. It \
             shares between hosts and flows. It keeps no guarantees and has one class for all \
             packets."
            .to_owned(),
        Some(Engine::Kit) => "Shaped by the kit's shaper, a BPF qdisc (`engine = \"kit\"`), \
             because the link asks for it. It keeps guarantees, ceilings and priorities as the tree \
             does. ECN marks are put on the next packet of a connection."
            .to_owned(),
        Some(Engine::Rows) => {
            let why = if rows::was_chosen(policy) {
                "because hosts have limits over all of their classes, which no other engine has"
            } else {
                "because the link asks for it"
            };
            format!(
                "Shaped by the engine of rows, a BPF qdisc (`engine = \"rows\"`), {why}. It keeps \
                 guarantees, ceilings and priorities of classes, and limits of hosts beside them. \
                 ECN marks are put on the next packet of a connection."
            )
        }
        Some(Engine::Htb) => {
            "Shaped by a tree of HTB classes (`engine = \"htb\"`), because the link asks for it."
                .to_owned()
        }
        Some(Engine::Auto) | None => match misfit(policy) {
            Some((why, _)) => format!(
                "Shaped by a tree of HTB classes (`engine = \"htb\"`), because it keeps guarantees \
                 and bounds waiting times. cake cannot shape this policy: {why}."
            ),
            None => "Shaped by a tree of HTB classes (`engine = \"htb\"`), because it bounds \
                     waiting times. cake also fits the policy, and is used on a kernel without HTB."
                .to_owned(),
        },
    }
}

/// Returns cake at the root of a direction's device.
pub(crate) fn cake(policy: &Policy, scheduler: &Scheduler) -> Qdisc {
    let link = &policy.link;
    let class = scheduler.members.first().map(|member| &member.class);
    let stated = class.and_then(|class| class.queue.as_ref());
    let queue = match stated.map(|queue| &queue.value) {
        Some(Queue::Cake(queue)) => queue.clone(),
        _ => CakeQueue::default(),
    };
    let layer = &link.layer.value;
    let why = match &link.engine {
        Some(engine) if engine.value == Engine::Cake => "asked for",
        _ => "this kernel has no htb, and one class needs none",
    };
    Qdisc {
        handle: Handle::new(OUTER, 0),
        stab: None,
        kind: QdiscKind::Cake(Cake {
            bandwidth: Some(scheduler.gate),
            flow_mode: hosts::mode(class.and_then(|class| class.fair), scheduler.direction),
            ingress: scheduler.direction == Direction::Down,
            wire: Some(CakeWire {
                overhead: layer.overhead(),
                mpu: layer.mpu(),
                framing: match layer.framing() {
                    Framing::None => CakeFraming::None,
                    Framing::Atm => CakeFraming::Atm,
                    Framing::Ptm => CakeFraming::Ptm,
                },
            }),
            ..leaf::cake(&queue, scheduler, None, scheduler.gate)
        }),
        origin: Origin::new(
            link.engine
                .as_ref()
                .map_or(link.layer.line, |engine| engine.line),
            format!(
                "engine cake, {why}: {} of a line of {}, counted as on the wire ({layer})",
                in_kbit(scheduler.gate),
                in_kbit(scheduler.line)
            ),
        ),
    }
}
