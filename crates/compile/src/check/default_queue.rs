// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of classes without a `queue`: the first of three that this kernel has.

use crate::codes;
use std::borrow::Cow;
use weirgate_document::{Problems, Value};
use weirgate_policy::{CakeQueue, Engine, Fair, Policy, Queue, SfqQueue};
use weirgate_state::Capabilities;

/// The policy with the queue written where it names none, if the usual one is
/// not there: `fq_codel`, else cake, else sfq, all of which share between flows.
/// Where none is, the policy stays as it is and is refused for want of the first.
pub(crate) fn settled<'p>(
    policy: &'p Policy,
    kernel: &Capabilities,
    problems: &Problems,
) -> Cow<'p, Policy> {
    let (kind, queue) = if kernel.has_qdisc("cake") {
        ("cake", Queue::Cake(CakeQueue::default()))
    } else {
        ("sfq", Queue::Sfq(SfqQueue::default()))
    };
    let engine = policy.link.engine.as_ref().map(|engine| engine.value);
    // Its queues are its own.
    if engine == Some(Engine::Rows) || kernel.has_qdisc("fq_codel") || !kernel.has_qdisc(kind) {
        return Cow::Borrowed(policy);
    }
    let mut settled = policy.clone();
    let link = policy.link.fair.as_ref().map(|fair| fair.value);
    // What is shared between hosts has cake, and is refused without it.
    let usual = |fair: Option<Fair>| !fair.or(link).is_some_and(Fair::knows_hosts);
    let mut first = None;
    let classes = settled.classes.iter_mut().map(|class| {
        let fair = class.fair.as_ref().map(|fair| fair.value);
        (&mut class.queue, fair, class.span.clone(), class.line)
    });
    let acks = settled.ack.iter_mut();
    let acks = acks.map(|ack| (&mut ack.queue, None, ack.span.clone(), ack.line));
    for (stated, fair, span, line) in classes.chain(acks) {
        if stated.is_none() && usual(fair) {
            first.get_or_insert_with(|| span.clone());
            *stated = Some(Value {
                value: queue.clone(),
                span,
                line,
            });
        }
    }
    if let Some(span) = first {
        problems.warning(
            codes::OTHER_QUEUE,
            span,
            format!("this kernel has no fq_codel: classes without a `queue` get {kind}"),
            "load or build the module sch_fq_codel, or name a `queue`",
        );
    }
    Cow::Owned(settled)
}
