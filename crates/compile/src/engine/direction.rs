// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy as each direction has it. The directions differ where `l4s` gives the downstream an
//! engine of its own.

use crate::engine::l4s::own_queue;
use std::borrow::Cow;
use weirgate_policy::{Direction, Policy};

/// Returns the policy as a direction has it, if its engine is not that of the link: with that
/// engine, and with the queue that `l4s` chooses there.
pub(crate) fn policy_in(policy: &Policy, direction: Direction) -> Cow<'_, Policy> {
    let (Some(engine), Direction::Down) = (policy.link.engine_down, direction) else {
        return Cow::Borrowed(policy);
    };
    let mut own = policy.clone();
    own.link.engine_down = None;
    if let Some(stated) = &mut own.link.engine {
        stated.value = engine;
    }
    let chosen = policy.link.low_latency().map(|l4s| &l4s.span);
    let queues = own.classes.iter_mut().filter_map(|one| one.queue.as_mut());
    for queue in queues.filter(|queue| Some(&queue.span) == chosen) {
        queue.value = own_queue(engine);
    }
    Cow::Owned(own)
}

/// Returns the policy of each engine: one for all directions, or one for each.
pub(crate) fn policies(policy: &Policy) -> Vec<Cow<'_, Policy>> {
    let mut policies = vec![Cow::Borrowed(policy)];
    if policy.link.engine_down.is_some() {
        policies.push(policy_in(policy, Direction::Down));
    }
    policies
}
