// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effect of `l4s` of the link on a direction.

use crate::engine::{direction, kit, l4s};
use crate::report::bound::ms;
use crate::scheduler::Scheduler;
use crate::tree::{hosts, leaf};
use weirgate_policy::{Direction, Engine, Policy, Queue};
use weirgate_units::Span;

/// Describes the engine and the reason, if `l4s` selected it.
pub(super) fn engine(policy: &Policy) -> Option<String> {
    let chosen = policy
        .link
        .engine
        .as_ref()
        .filter(|_| l4s::chose_engine(policy))?;
    Some(
        if chosen.value == Engine::Kit && policy.link.engine_down.is_some() {
            format!(
                "Shaped by the kit's shaper, a BPF qdisc (`engine = \"kit\"`), upstream, because `l4s` \
             gives a class two queues, which only the kit has. ECN marks are put on the next packet \
             of a connection. Downstream, shaped by a tree of HTB classes (`engine = \"htb\"`), with \
             fq_codel that marks ECT(1) early, because {}. Both keep guarantees, ceilings and \
             priorities. A kernel without BPF qdiscs has the tree in both directions.",
                l4s::why_the_tree(&direction::policy_in(policy, Direction::Down))
            )
        } else if chosen.value == Engine::Kit {
            "Shaped by the kit's shaper, a BPF qdisc (`engine = \"kit\"`), because `l4s` gives a class \
         two queues, which only the kit has. It keeps guarantees, ceilings and priorities as the \
         tree does. ECN marks are put on the next packet of a connection. A kernel without BPF \
         qdiscs has a tree of HTB classes with fq_codel that marks ECT(1) early."
            .to_owned()
        } else {
            format!(
                "Shaped by a tree of HTB classes (`engine = \"htb\"`), with fq_codel that marks ECT(1) \
             early for `l4s`. The kit's shaper, which has two queues in a class, does not fit: {}.",
                l4s::why_the_tree(policy)
            )
        },
    )
}

/// Describes the effect of `l4s` on a direction.
pub(super) fn note(policy: &Policy, scheduler: &Scheduler) -> Option<String> {
    policy.link.low_latency()?;
    let member = scheduler.default_class()?;
    let name = &member.class.name;
    let kept = "NQB (45) and the bits of ECN are never cleared";
    let threshold = |own: Option<Span>| {
        let usual = leaf::shallow(scheduler.full_packet, scheduler.gate);
        ms(own.unwrap_or(usual))
    };
    let apart = |threshold: String| {
        format!(
            "l4s: class {name} keeps flows apart (fq_codel) and marks those with ECT(1) from {threshold} \
             in their queue on; {kept}."
        )
    };
    match hosts::queue(member.class.queue.as_ref(), member.class.fair) {
        Queue::Kit(own) if own.discipline == kit::DUAL => {
            let stated = own.value("step_ns").map(Span::from_nanos);
            let step = ms(stated.unwrap_or_else(|| kit::step(scheduler, member)));
            let shared = scheduler.direction == Direction::Up
                && policy.line_rate(Direction::Down).is_some()
                && policy.ack.is_none();
            let acks = if shared {
                " Acknowledgements of downloads wait with the rest, and downloads are slower while \
                 uploads run; `[ack]` gives them a class of their own."
            } else {
                ""
            };
            Some(format!(
                "l4s: class {name} has two queues (dualpi2). ECT(1) and NQB go to the one that is served \
                 first, where ECT(1) is marked from {step} on; the other holds the rest to about \
                 15 ms. They are coupled, so that senders of both kinds share the class if they respond \
                 to marks and drops.{acks} The class keeps its guarantee; {kept}."
            ))
        }
        Queue::Kit(own) => Some(apart(threshold(
            own.value("ce_threshold_ns").map(Span::from_nanos),
        ))),
        Queue::FqCodel(own) => Some(apart(threshold(own.ce_threshold))),
        _ => None,
    }
}
