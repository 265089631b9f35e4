// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delay objective of a class, by the QoS classes of ITU-T Y.1541.

use crate::codes;
use crate::report::{Bound, ms};
use crate::scheduler::Member;
use weirgate_document::{Problems, Value};
use weirgate_units::Span;

/// An objective of ITU-T Y.1541, compared with the bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectiveReport {
    /// The Y.1541 class, 0 to 5.
    pub class: u8,
    /// The mean one-way delay (IPTD), if specified.
    pub delay: Option<Span>,
    /// The delay variation: the 99.9th percentile minus the minimum (IPDV), if specified.
    pub variation: Option<Span>,
    /// The worst-case delay of this hop: the wait within the guarantee, and the time of the
    /// largest packet on the line.
    pub here: Span,
    /// Whether this hop alone cannot violate the objective.
    pub met: bool,
}

/// IPTD and IPDV of classes 0 to 5 in milliseconds (ITU-T Y.1541 table 1).
const OBJECTIVES: [(Option<u64>, Option<u64>); 6] = [
    (Some(100), Some(50)),
    (Some(400), Some(50)),
    (Some(100), None),
    (Some(400), None),
    (Some(1000), None),
    (None, None),
];

/// Compares a class with its objective, and reports if the objective may be missed or cannot be
/// judged.
pub(super) fn judged(
    member: &Member,
    objective: &Value<u8>,
    within: Option<&Bound>,
    own_time: Span,
    problems: &Problems,
) -> Option<ObjectiveReport> {
    let Some(within) = within else {
        problems.warning(
            codes::OBJECTIVE_MISSED,
            objective.span.clone(),
            format!(
                "the wait of `{}` has no bound, so that its objective cannot be checked",
                member.class.name
            ),
            "`check --all` explains why",
        );
        return None;
    };
    let (delay, variation) = OBJECTIVES
        .get(usize::from(objective.value))
        .copied()
        .unwrap_or_default();
    let (delay, variation) = (
        delay.map(Span::from_millis),
        variation.map(Span::from_millis),
    );
    let here = within.wait + own_time;
    let name = &member.class.name;
    let mut met = true;
    if let Some(delay) = delay.filter(|delay| here > *delay) {
        met = false;
        problems.warning(
            codes::OBJECTIVE_MISSED,
            objective.span.clone(),
            format!(
                "a packet of `{name}` may take {} here, more than the {} of Y.1541 class {}",
                ms(here),
                ms(delay),
                objective.value
            ),
            "raise its priority, guarantee less above it, give it a `bfifo` or `pfifo` queue, set \
             a lower objective, or set `delay`, which makes TCP segments smaller",
        );
    }
    if let Some(variation) = variation.filter(|variation| within.wait > *variation) {
        met = false;
        problems.warning(
            codes::OBJECTIVE_MISSED,
            objective.span.clone(),
            format!(
                "the wait of `{name}` may vary by {} here, more than the {} of Y.1541 class {}",
                ms(within.wait),
                ms(variation),
                objective.value
            ),
            "a full packet of another class may always come first: set `delay`, which makes \
             TCP segments smaller, or use a lower MTU",
        );
    }
    Some(ObjectiveReport {
        class: objective.value,
        delay,
        variation,
        here,
        met,
    })
}
