// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that `[inbound]` fits the link.

use crate::codes;
use crate::link::inbound::Inbound;
use crate::model::in_kbit;
use crate::policy::Policy;
use weirgate_document::{Problems, Value};
use weirgate_units::{Direction, Rate, Size};

/// Reports fields of `[inbound]` that its kind does not use, and a rate that is too low.
pub(crate) fn check(policy: &Policy, least: Rate, problems: &Problems) {
    let kind = policy.link.inbound.value;
    if policy.policed_rate().is_some_and(|rate| rate < least) {
        problems.error(
            codes::MARGIN,
            policy.link.margin_down.span.clone(),
            format!(
                "`margin-down` leaves less than {} of the {}",
                in_kbit(least),
                Direction::Down.stream()
            ),
            "leave at least 8kbit; a usual margin is `3%`",
        );
    }
    let queued = policy.line_rate(Direction::Down).is_some();
    for cap in policy.caps.iter().filter(|_| !queued) {
        if cap.down.is_some() {
            problems.error(
                codes::INBOUND,
                cap.group.span.clone(),
                "a downstream limit for each host needs a queue, but arriving packets are not \
                 queued",
                "leave `down` out here, or write `inbound = \"ifb\"` or `\"lan\"`",
            );
        }
    }
    let Some(policing) = &policy.policing else {
        return;
    };
    if !kind.polices() {
        problems.error(
            codes::INBOUND,
            policing.span.clone(),
            "`[inbound]` configures `inbound = \"filter\"` and `\"police\"`, but the link has \
             neither",
            "write `inbound = \"filter\"` or `\"police\"` in `[link]`, or leave the table out",
        );
        return;
    }
    let span = |value: &Option<Value<Size>>| value.as_ref().map(|value| value.span.clone());
    let of_filter = [
        ("ecn", policing.ecn.as_ref().map(|value| value.span.clone())),
        ("spare", span(&policing.spare)),
        (
            "flows",
            policing.flows.as_ref().map(|value| value.span.clone()),
        ),
        (
            "leak",
            policing.leak.as_ref().map(|value| value.span.clone()),
        ),
        ("min", span(&policing.min)),
        ("max", span(&policing.max)),
    ];
    let of_police = [("burst", span(&policing.burst))];
    let (others, other): (&[_], _) = match kind {
        Inbound::Police => (&of_filter, "filter"),
        _ => (&of_police, "police"),
    };
    for (key, span) in others {
        if let Some(span) = span {
            problems.error(
                codes::INBOUND,
                span.clone(),
                format!("`{key}` belongs to `inbound = \"{other}\"`"),
                "leave it out, or choose the other",
            );
        }
    }
}
