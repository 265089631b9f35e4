// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Implements `l4s` of the link: selects the engine, and the queue of the default class.
//!
//! The kit's shaper gives the class two coupled queues (`dualpi2`, RFC 9332). No other engine
//! can: a BPF qdisc must be a root, and Debian's kernels have no dualpi2. In the tree of HTB
//! classes, `fq_codel` separates flows and marks those of L4S, identified by ECT(1), at a
//! shallow threshold. cake has no such threshold.
//!
//! On a LAN device, only the tree can shape: the kit's shaper would also slow what does not come
//! from the link. Then the directions have different engines (module `direction`).

use crate::codes;
use crate::engine::kit;
use crate::scheduler;
use std::borrow::Cow;
use weirgate_document::{Problems, Value};
use weirgate_policy::{Class, Engine, Fair, FqCodelQueue, KitQueue, Placement, Policy, Queue};
use weirgate_state::Capabilities;

/// The reason why the kit cannot be used on a kernel.
const NO_PROGRAMS: &str = "no qdiscs made of BPF programs";

/// Returns the policy with the engine and the queues that `l4s` needs.
pub(crate) fn settled<'p>(
    policy: Cow<'p, Policy>,
    kernel: &Capabilities,
    problems: &Problems,
) -> Cow<'p, Policy> {
    let Some(l4s) = policy.link.low_latency().cloned() else {
        return policy;
    };
    let mut settled = policy.into_owned();
    let engine = match settled.link.engine.as_ref().map(|engine| engine.value) {
        Some(Engine::Cake) => {
            problems.error(
                codes::L4S,
                l4s.span,
                "cake marks ECT(1) packets only as it marks all others, which is too late for L4S",
                "leave `engine` out, or write `engine = \"kit\"` or `\"htb\"`",
            );
            return Cow::Owned(settled);
        }
        Some(Engine::Rows) => {
            problems.error(
                codes::L4S,
                l4s.span,
                "the engine of rows has no queue for L4S",
                "leave `l4s` out, or limit hosts in a class and write `engine = \"kit\"` or \
                 `\"htb\"`",
            );
            return Cow::Owned(settled);
        }
        Some(stated @ (Engine::Kit | Engine::Htb)) => stated,
        Some(Engine::Auto) | None => {
            let (engine, down) = chosen(&settled, kernel, &l4s, problems);
            settled.link.engine = Some(l4s.clone().map(|_| engine));
            settled.link.engine_down = down;
            engine
        }
    };
    let link = settled.link.fair.as_ref().map(|fair| fair.value);
    marks(&settled, problems);
    let defaults = settled.classes.iter_mut();
    for class in defaults.filter(|class| class.default.is_some()) {
        if class.queue.is_none() && !by_hosts(class, link) {
            class.queue = Some(l4s.clone().map(|_| own_queue(engine)));
        }
        check(class, link, problems);
    }
    Cow::Owned(settled)
}

/// Returns the engines if the policy leaves them open: the kit's, unless something prevents it,
/// which is reported as a note. The second one is the downstream's if that is another.
fn chosen(
    policy: &Policy,
    kernel: &Capabilities,
    l4s: &Value<bool>,
    problems: &Problems,
) -> (Engine, Option<Engine>) {
    let why = if kernel.kit {
        match misfit(policy) {
            None => return (Engine::Kit, None),
            Some(why) if upstream_only(policy, kernel) => {
                problems.note(
                    codes::L4S,
                    l4s.span.clone(),
                    format!(
                        "`l4s` uses the kit's shaper upstream only. Downstream, it uses a tree of \
                         HTB classes with fq_codel, which marks ECT(1) early, because {why}"
                    ),
                    "write `inbound = \"ifb\"` for the kit's shaper in both directions",
                );
                return (Engine::Kit, Some(Engine::Htb));
            }
            Some(why) => why,
        }
    } else {
        let lacking = kernel.lacking_programs("this kernel");
        format!("{lacking} has {NO_PROGRAMS}")
    };
    problems.note(
        codes::L4S,
        l4s.span.clone(),
        format!(
            "`l4s` uses a tree of HTB classes with fq_codel, which marks ECT(1) early: the \
             kit's shaper, which has two queues in a class, is not used, because {why}"
        ),
        "write `engine = \"htb\"` to keep this, or `engine = \"kit\"` to see what to change",
    );
    (Engine::Htb, None)
}

/// Returns whether the kit's shaper fits upstream, and the tree can shape downstream.
fn upstream_only(policy: &Policy, kernel: &Capabilities) -> bool {
    let mut upstream = policy.clone();
    upstream.link.engine_down = Some(Engine::Htb);
    let has_tree = kernel.has_qdisc("htb") && kernel.has_qdisc("fq_codel");
    has_tree && misfit(&upstream).is_none()
}

/// Returns what prevents the kit's shaper for a policy, downstream only if it shapes there.
fn misfit(policy: &Policy) -> Option<String> {
    if scheduler::holds(policy) {
        return Some(
            "`max-ack-delay` holds acknowledgements back in a queue that only the tree has"
                .to_owned(),
        );
    }
    let placement = policy.link.automatic.map(|chosen| chosen.placement);
    if let (Some(Placement::Inside(why)), None) = (placement, policy.link.engine_down) {
        return Some(format!(
            "`inbound = \"auto\"` shapes on the LAN device, where {why}, and there it would slow \
             what does not come from the link as well"
        ));
    }
    kit::misfit(policy).map(|(why, _)| why)
}

/// Returns whether a class without a stated queue shares between hosts, by cake.
fn by_hosts(class: &Class, link: Option<Fair>) -> bool {
    let own = class.fair.as_ref().map(|fair| fair.value);
    own.or(link).is_some_and(Fair::knows_hosts)
}

/// Returns the queue of a default class that states none.
pub(crate) fn own_queue(engine: Engine) -> Queue {
    if engine == Engine::Kit {
        Queue::Kit(KitQueue {
            discipline: kit::DUAL,
            explicit: Vec::new(),
        })
    } else {
        Queue::FqCodel(FqCodelQueue::default())
    }
}

/// Reports a virtual queue that is not allowed to mark.
fn marks(policy: &Policy, problems: &Problems) {
    let ecn = policy.policing.as_ref().and_then(|own| own.ecn.as_ref());
    if let Some(ecn) = ecn.filter(|ecn| !ecn.value) {
        problems.error(
            codes::L4S,
            ecn.span.clone(),
            "`l4s` needs ECN marks, but `ecn = false` forbids them to the virtual queue",
            "leave `ecn` out, or `l4s`",
        );
    }
}

/// Reports a default class whose queue does not support L4S.
fn check(class: &Class, link: Option<Fair>, problems: &Problems) {
    let name = &class.name.value;
    let knows = |queue: &Queue| match queue {
        Queue::FqCodel(_) => true,
        Queue::Kit(own) => matches!(own.discipline, kit::DUAL | "fq_codel"),
        _ => false,
    };
    match &class.queue {
        Some(queue) if !knows(&queue.value) => problems.error(
            codes::L4S,
            queue.span.clone(),
            format!(
                "`l4s` is for the default class, and `{}`, the queue of `{name}`, treats L4S \
                 senders as all others",
                queue.value.kind()
            ),
            "leave `queue` out, or write `queue = \"fq_codel\"`",
        ),
        None if by_hosts(class, link) => problems.error(
            codes::L4S,
            class
                .fair
                .as_ref()
                .map_or(&class.span, |fair| &fair.span)
                .clone(),
            format!(
                "`l4s` is for the default class, and cake, by which `{name}` is shared between \
                 hosts, treats L4S senders as all others"
            ),
            "write `fair = \"flows\"` in the class, or leave `l4s` out",
        ),
        _ => {}
    }
}

/// Returns whether `l4s` selected the engine, and not the policy.
pub(crate) fn chose_engine(policy: &Policy) -> bool {
    let l4s = policy.link.low_latency();
    let engine = policy.link.engine.as_ref();
    l4s.zip(engine)
        .is_some_and(|(l4s, engine)| l4s.span == engine.span)
}

/// Explains why the tree is used instead of the kit's shaper.
pub(crate) fn why_the_tree(policy: &Policy) -> String {
    misfit(policy).unwrap_or_else(|| format!("there are {NO_PROGRAMS}"))
}
