// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong between the parts of a policy: shares that do not add up,
//! names that lead nowhere, classes without a direction.
//!
//! What is wrong within one part is found where it is read.

use crate::class::ACK;
use crate::codes;
use crate::model::{AckRate, Class, Direction, Policy, Rule};
use crate::queue::check_limit;
use crate::reach::covers;
use crate::shares::in_kbit;
use crate::sums::{self, LEAST_GATE};
use weirgate_document::{Problems, nearest};

/// Class numbers stay below 0x1000, sixteen apart.
const MOST_CLASSES: usize = 200;
/// Rules in the kernel, after lists have been multiplied out.
const MOST_RULES: usize = 4096;

pub(crate) fn check(policy: &Policy, problems: &Problems) {
    // Classes are compared with each other; a crowd would take long.
    if let Some(one_too_many) = policy.classes.get(MOST_CLASSES) {
        problems.error(
            codes::TOO_MANY,
            one_too_many.span.clone(),
            format!("there are {} classes", policy.classes.len()),
            format!("write at most {MOST_CLASSES}"),
        );
        return;
    }
    names(policy, problems);
    for direction in Direction::BOTH {
        defaults(policy, direction, problems);
    }
    sums::check(policy, problems);
    ack(policy, problems);
    queues(policy, problems);
    for class in &policy.classes {
        let shaped = |one| policy.line_rate(one).is_some() && class.directions.contains(one);
        if !Direction::BOTH.into_iter().any(shaped) {
            unshaped(policy, "class", &class.span, problems);
        }
    }
    rules(policy, problems);
    // Conditions that could not be read are missing in the model, so that a
    // rule seems to match more than it says.
    if !problems.has_errors() {
        hidden(policy, problems);
        unused(policy, problems);
    }
}

fn unshaped(policy: &Policy, what: &str, span: &weirgate_document::Span, problems: &Problems) {
    let hint = if policy.link.down.is_none() {
        "add `down` to `[link]`, or change `direction`"
    } else {
        "change `inbound` in `[link]`, or `direction` here"
    };
    let message = format!("this {what} is for the downstream, which this policy does not shape");
    problems.error(codes::UNSHAPED, span.clone(), message, hint);
}

fn names(policy: &Policy, problems: &Problems) {
    for (at, class) in policy.classes.iter().enumerate() {
        let name = &class.name;
        let same = |other: &&Class| {
            other.name.value == name.value && other.directions.overlap(class.directions)
        };
        if name.value == ACK && policy.ack.is_some() {
            problems.error(
                codes::ACK_CLASS,
                name.span.clone(),
                "`[ack]` already creates a class named `ack`",
                "choose another name, or leave out `[ack]`",
            );
        } else if let Some(first) = policy.classes[..at]
            .iter()
            .find(same)
            .filter(|_| !name.value.is_empty())
        {
            problems.error(
                codes::DUPLICATE_CLASS,
                name.span.clone(),
                format!(
                    "there is a class `{}` on line {} already",
                    name.value, first.name.line
                ),
                "choose another name, or give the two different directions",
            );
        }
    }
}

fn defaults(policy: &Policy, direction: Direction, problems: &Problems) {
    if policy.line_rate(direction).is_none() || policy.classes.is_empty() {
        return;
    }
    let defaults: Vec<&Class> = policy
        .classes_of(direction)
        .filter(|class| class.default.is_some())
        .collect();
    let stream = direction.stream();
    match defaults.as_slice() {
        [] => problems.error(
            codes::NO_DEFAULT,
            policy.classes[0].span.clone(),
            format!("no {stream} class takes what no rule matches"),
            "write `default = true` in one class of each direction",
        ),
        [_] => {}
        [first, rest @ ..] => {
            for class in rest {
                // A class of both directions would be reported twice.
                let before = class.directions.contains(Direction::Up)
                    && first.directions.contains(Direction::Up);
                if direction == Direction::Down && before {
                    continue;
                }
                problems.error(
                    codes::TWO_DEFAULTS,
                    class.default.clone().unwrap_or_else(|| class.span.clone()),
                    format!("line {} has the {stream} default class already", first.line),
                    "keep one `default = true` for each direction",
                );
            }
        }
    }
}

fn ack(policy: &Policy, problems: &Problems) {
    let Some(ack) = &policy.ack else {
        return;
    };
    let formula = ack.reserve.value == AckRate::Formula;
    let wants_up = ack.directions.contains(Direction::Up);
    if formula && wants_up && policy.link.down.is_none() {
        problems.error(
            codes::ACK_RATE,
            ack.reserve.span.clone(),
            "the formula for ACKs needs the downstream rate",
            "add `down` to `[link]`, or state the reservation: `reserve = \"95kbit\"`",
        );
    }
    let shaped = |one| policy.line_rate(one).is_some() && ack.directions.contains(one);
    if !Direction::BOTH.into_iter().any(shaped) {
        unshaped(policy, "reservation", &ack.span, problems);
    }
    for direction in Direction::BOTH.into_iter().filter(|one| shaped(*one)) {
        let (Some(rate), Some(gate)) = (policy.ack_rate(direction), policy.gate(direction)) else {
            continue;
        };
        if rate > gate && gate >= LEAST_GATE {
            problems.error(
                codes::ACK_RATE,
                ack.reserve.span.clone(),
                format!(
                    "{} for ACKs is more than the whole {} of {}",
                    in_kbit(rate),
                    direction.stream(),
                    in_kbit(gate)
                ),
                "state a lower reservation, or give `direction`",
            );
            return;
        }
    }
}

fn queues(policy: &Policy, problems: &Problems) {
    let packet = policy.full_packet();
    let stated = policy
        .classes
        .iter()
        .filter_map(|class| class.queue.as_ref());
    for queue in stated.chain(policy.ack.iter().filter_map(|ack| ack.queue.as_ref())) {
        check_limit(queue, packet, problems);
    }
}

fn rules(policy: &Policy, problems: &Problems) {
    let mut total = 0_usize;
    for rule in &policy.rules {
        let before = total;
        total = total.saturating_add(multiplied(rule));
        if before <= MOST_RULES && total > MOST_RULES {
            problems.error(
                codes::TOO_MANY,
                rule.span.clone(),
                format!(
                    "with all lists multiplied out there are more than {MOST_RULES} rules here"
                ),
                "use prefixes and ranges instead of single addresses and ports",
            );
        }
        target(policy, rule, problems);
    }
}

fn hidden(policy: &Policy, problems: &Problems) {
    for (at, rule) in policy.rules.iter().enumerate() {
        if let Some(earlier) = policy.rules[..at]
            .iter()
            .find(|earlier| covers(earlier, rule))
        {
            problems.warning(
                codes::NEVER_REACHED,
                rule.span.clone(),
                format!(
                    "the rule on line {} already takes every packet of this one",
                    earlier.line
                ),
                "the first rule that matches decides; put this one before it, or remove it",
            );
        }
    }
}

/// How many rules the lists of one make.
fn multiplied(rule: &Rule) -> usize {
    let lists = [
        rule.protocols.len(),
        rule.local_ports.len(),
        rule.remote_ports.len(),
        rule.ports.len() * 2,
        rule.local_addresses.len(),
        rule.remote_addresses.len(),
        rule.dscp.len(),
        rule.lengths.len(),
    ];
    lists.into_iter().fold(1, |product: usize, length| {
        product.saturating_mul(length.max(1))
    })
}

fn target(policy: &Policy, rule: &Rule, problems: &Problems) {
    let name = &rule.class.value;
    if name.is_empty() {
        return;
    }
    let is_ack = name == ACK && policy.ack.is_some();
    let named: Vec<&Class> = policy
        .classes
        .iter()
        .filter(|class| class.name.value == *name)
        .collect();
    if named.is_empty() && !is_ack {
        let known = policy.classes.iter().map(|class| class.name.value.as_str());
        let known: Vec<&str> = known.filter(|known| !known.is_empty()).collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the classes are {}", known.join(", ")),
        };
        let message = format!("there is no class `{name}`");
        problems.error(codes::UNKNOWN_CLASS, rule.class.span.clone(), message, hint);
        return;
    }
    let shaped = |one: &Direction| policy.line_rate(*one).is_some();
    let wanted: Vec<Direction> = Direction::BOTH
        .into_iter()
        .filter(|one| rule.directions.contains(*one))
        .collect();
    if !wanted.iter().any(shaped) {
        unshaped(policy, "rule", &rule.span, problems);
    }
    for direction in wanted.iter().filter(|one| shaped(one)) {
        let ack_there = policy
            .ack
            .as_ref()
            .is_some_and(|ack| ack.directions.contains(*direction));
        let there = named
            .iter()
            .any(|class| class.directions.contains(*direction));
        let served = there || (is_ack && ack_there);
        if !served {
            problems.error(
                codes::UNSHAPED,
                rule.class.span.clone(),
                format!("there is no {} class `{name}`", direction.stream()),
                "give the rule the `direction` of its class",
            );
        }
    }
}

fn unused(policy: &Policy, problems: &Problems) {
    for class in policy
        .classes
        .iter()
        .filter(|class| class.default.is_none())
    {
        let leads = |rule: &Rule| {
            rule.class.value == class.name.value && rule.directions.overlap(class.directions)
        };
        if !policy.rules.iter().any(leads) && !class.name.value.is_empty() {
            problems.warning(
                codes::UNUSED_CLASS,
                class.name.span.clone(),
                format!("no rule leads to `{}`", class.name.value),
                "its share is lent to the others; add a rule or remove the class",
            );
        }
    }
}
