// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether marks have room for the control groups that rules name.

use crate::codes;
use crate::condition::control_group::{ControlGroup, ControlGroups};
use crate::condition::facts::Facts;
use crate::condition::mark;
use crate::model::Rule;
use crate::policy::Policy;
use weirgate_document::{Problems, Span, Value};

impl Policy {
    /// The control groups that rules ask for, each once, in the order in which
    /// they are named.
    #[must_use]
    pub fn control_groups(&self) -> Vec<&Value<ControlGroup>> {
        let mut found: Vec<&Value<ControlGroup>> = Vec::new();
        for ControlGroups(list) in self.rules.iter().flat_map(Rule::find) {
            for one in list {
                if !found.iter().any(|known| known.value == one.value) {
                    found.push(one);
                }
            }
        }
        found
    }
}

/// The bits must have room for all groups, and be nobody else's.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    let groups = policy.control_groups();
    let Some(place) = policy.rules.iter().find_map(span) else {
        return;
    };
    let bits = policy.control_group_mask;
    let room = (bits >> bits.trailing_zeros()) as usize;
    if groups.len() > room {
        problems.error(
            codes::CONTROL_GROUP,
            place.clone(),
            format!(
                "rules name {} control groups, and the bits {bits:#010x} have room for {room}",
                groups.len()
            ),
            "give `[marks]` a `cgroup` of more bits, at most 8, or name a group above several",
        );
    }
    let own = [
        ("stored decisions", policy.mark_mask),
        ("payload signatures", policy.payload_mask()),
    ];
    for (whose, others) in own {
        if bits & others != 0 {
            problems.error(
                codes::MARK,
                place.clone(),
                format!(
                    "control groups would be numbered in {bits:#010x} of the mark, and {others:#010x} \
                     are the bits of {whose}"
                ),
                "give `[marks]` other bits for `cgroup`",
            );
        }
    }
    for rule in &policy.rules {
        if mark::looked_at(rule, bits).is_some() {
            problems.error(
                codes::MARK,
                rule.span.clone(),
                format!("{bits:#010x} of the mark stores which control group sent a packet"),
                "look at other bits, or give `[marks]` other bits for `cgroup`",
            );
        }
    }
}

/// Where a rule asks for a control group: the condition, or the rule where a
/// service does, whose own place is in another text.
fn span(rule: &Rule) -> Option<&Span> {
    rule.find::<ControlGroups>().next()?;
    let own = rule.when.find::<ControlGroups>().and_then(Facts::span);
    Some(own.unwrap_or(&rule.span))
}
