// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of classes without a `queue`: the first of three that this kernel supports.

use crate::codes;
use crate::engine;
use crate::scheduler;
use std::borrow::Cow;
use weirgate_document::{Problems, Value};
use weirgate_policy::{CakeQueue, Engine, Fair, Policy, Queue, SfqQueue};
use weirgate_state::Capabilities;

/// Returns the policy with an explicit queue where it states none, if the kernel lacks
/// `fq_codel`. The replacement is cake or else sfq; all share between flows. If there is none
/// either, the policy is unchanged and is later rejected for lack of `fq_codel`.
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
    // Other engines have their own queues.
    let in_tree = engine::chosen(policy, Some(kernel)) == Engine::Htb;
    if !in_tree || kernel.has_qdisc("fq_codel") || !kernel.has_qdisc(kind) {
        return Cow::Borrowed(policy);
    }
    let mut settled = policy.clone();
    let link = policy.link.fair.as_ref().map(|fair| fair.value);
    // A class that is shared between hosts needs cake, and is rejected without it.
    let usual = |fair: Option<Fair>| !fair.or(link).is_some_and(Fair::knows_hosts);
    let mut first = None;
    let classes = settled.classes.iter_mut().map(|class| {
        let fair = class.fair.as_ref().map(|fair| fair.value);
        (&mut class.queue, fair, class.span.clone(), class.line)
    });
    let acks = settled.ack.iter_mut();
    let acks = acks.filter(|_| scheduler::queues_acks(policy));
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
