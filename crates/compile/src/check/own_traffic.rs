// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for the router itself, if the downstream is shaped on the LAN device: they never
//! leave through that device, so they are not shaped.

use crate::codes;
use std::ops::Range;
use weirgate_document::Problems;
use weirgate_policy::{Condition, Conditions, Direction, Inbound, Known, Policy, Rule, Sender};

/// Returns whether packets for the router itself are not shaped.
fn passes(policy: &Policy) -> bool {
    let link = &policy.link;
    let shaped = policy.line_rate(Direction::Down).is_some();
    shaped && link.inbound.value == Inbound::Lan && !link.bridge
}

/// Returns a note for the report of a direction.
pub(crate) fn note(policy: &Policy, direction: Direction) -> Option<String> {
    (direction == Direction::Down && passes(policy)).then(|| {
        "Packets for this router itself, or from a tunnel that ends here, are not shaped."
            .to_owned()
    })
}

/// Warns about rules for the router's own packets that also apply to replies, which are not
/// shaped.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    if !passes(policy) {
        return;
    }
    let mut rules = policy.rules.iter().filter(|rule| rule.keep.is_some());
    if let Some(span) = rules.find_map(speaks_of_own) {
        problems.warning(
            codes::OWN_TRAFFIC,
            span,
            "replies to this router's own packets never leave through the LAN device, where the \
             downstream is shaped: classes and rate do not apply to them",
            "write `inbound = \"ifb\"`, which shapes them on arrival, or leave `keep` out",
        );
    }
}

/// Returns where a rule refers to packets that the router itself sends.
fn speaks_of_own(rule: &Rule) -> Option<Range<usize>> {
    let own = |one: &Condition<'_>| match one {
        Condition::Sender(sender) => sender.0.value == Sender::Router,
        other => matches!(other.known(), Known::Sender(_)),
    };
    let mut asked = rule.asked().flat_map(Conditions::iter);
    asked.find(own)?.span().cloned()
}
