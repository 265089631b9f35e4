// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that involve several parts of a policy: sums of shares, references to names, classes
//! without a direction.
//!
//! Problems within one part are found where it is read.

mod conditioners;
mod fair;
mod hidden;
mod inbound;
mod parts;
pub(crate) mod receive;
mod sums;
mod track;

use crate::check::sums::LEAST_GATE;
use crate::class::Class;
use crate::class::ack::{ACK, AckRate};
use crate::codes;
use crate::condition::facts::Conditions;
use crate::link::engine::Engine;
use crate::link::inbound::Inbound;
use crate::marks;
use crate::model::{Directions, Rule, in_kbit};
use crate::policy::Policy;
use crate::queue::Queue;
use crate::queue::limit::check_limit;
use std::collections::BTreeMap;
use weirgate_document::{Problems, Value, did_you_mean};
use weirgate_units::Direction;

/// The largest number of classes: class IDs stay below 0x1000, sixteen apart.
const MOST_CLASSES: usize = 200;
/// The largest number of rules, with services and times multiplied out.
const MOST_RULES: usize = 4096;
/// The largest number of elements in all lists. A group counts as often as it is used.
const MOST_ELEMENTS: usize = 524_288;

pub(crate) fn check(policy: &Policy, problems: &Problems) {
    // Stop at too many classes: comparing them with each other would take long.
    if let Some(one_too_many) = policy.classes.get(MOST_CLASSES) {
        problems.error(
            codes::TOO_MANY,
            one_too_many.span.clone(),
            format!("there are {} classes", policy.classes.len()),
            format!("write at most {MOST_CLASSES}"),
        );
        return;
    }
    // If there is no class, report only that, and not one problem for each rule.
    if policy.classes.is_empty() {
        inbound::check(policy, LEAST_GATE, problems);
        track::check(policy, problems);
        return;
    }
    names(policy, problems);
    for direction in Direction::BOTH {
        defaults(policy, direction, problems);
    }
    sums::check(policy, problems);
    inbound::check(policy, LEAST_GATE, problems);
    receive::check(policy, problems);
    track::check(policy, problems);
    conditioners::check(policy, problems);
    ack(policy, problems);
    queues(policy, problems);
    fair::check(policy, problems);
    parts::check(policy, problems);
    for class in &policy.classes {
        let shaped = |one| policy.line_rate(one).is_some() && class.directions.contains(one);
        if !Direction::BOTH.into_iter().any(shaped) {
            unshaped(policy, "class", &class.span, problems);
        }
    }
    elsewhere(policy, problems);
    rules(policy, problems);
    // Conditions that could not be read are missing in the model. A rule then seems to match
    // more than it does, so skip these checks.
    if !problems.has_errors() {
        hidden::check(policy, problems);
        unused(policy, problems);
    }
}

fn unshaped(
    policy: &Policy,
    what: &str,
    span: &weirgate_document::SourceSpan,
    problems: &Problems,
) {
    let hint = if policy.link.down.is_none() {
        "add `down` to `[link]`, or change `direction`"
    } else {
        "change `inbound` in `[link]`, or `direction` here"
    };
    let message = format!("this {what} is for the downstream, which this policy does not shape");
    problems.error(codes::UNSHAPED, span.clone(), message, hint);
}

/// Reports fields without effect, because they are for a direction that has no queue here, or for
/// the other one.
fn elsewhere(policy: &Policy, problems: &Problems) {
    if let (Some(dscp), None) = (&policy.dscp, policy.line_rate(Direction::Down)) {
        let down = |found: &&Value<Directions>| found.value == Directions::Down;
        for found in [&dscp.distrust, &dscp.wash]
            .into_iter()
            .flatten()
            .filter(down)
        {
            problems.warning(
                codes::UNSHAPED,
                found.span.clone(),
                "code points of the downstream stay, because this policy does not shape it",
                "add `down` to `[link]`, choose another `inbound`, or leave this out",
            );
        }
    }
    for class in &policy.classes {
        if let (Some(delay), false) = (&class.delay, class.directions.contains(Direction::Up)) {
            problems.warning(
                codes::DELAY,
                delay.span.clone(),
                "`delay` limits packets of the upstream, where this class does not exist",
                "leave it out, or write it for a class of the upstream",
            );
        }
    }
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
            format!("no {stream} class takes packets that no rule matches"),
            "write `default = true` in one class of each direction",
        ),
        [_] => {}
        [first, rest @ ..] => {
            for class in rest {
                // Report a class of both directions only once.
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
    // With an inbound side, the missing or invalid rate is already reported.
    let absent = policy.link.down.is_none() && policy.link.inbound.value == Inbound::None;
    if formula && wants_up && absent {
        problems.error(
            codes::ACK_RATE,
            ack.reserve.span.clone(),
            "the rate for ACKs is calculated from the downstream rate, which is missing",
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
                    "{} for ACKs exceeds the whole {} of {}",
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
        kit_engine(policy, queue, problems);
    }
}

fn rules(policy: &Policy, problems: &Problems) {
    let (mut total, mut members) = (0_usize, 0_usize);
    for rule in &policy.rules {
        let before = (total, members);
        total = total.saturating_add(multiplied(rule));
        members = members.saturating_add(elements(rule));
        if before.0 <= MOST_RULES && total > MOST_RULES {
            problems.error(
                codes::TOO_MANY,
                rule.span.clone(),
                format!(
                    "with all services and schedules expanded, there are more than \
                         {MOST_RULES} rules here"
                ),
                "put several rules into one that lists addresses or ports",
            );
        }
        if before.1 <= MOST_ELEMENTS && members > MOST_ELEMENTS {
            problems.error(
                codes::TOO_MANY,
                rule.span.clone(),
                format!(
                    "the lists of the rules up to here have more than {MOST_ELEMENTS} elements"
                ),
                "use prefixes and ranges instead of single addresses and ports",
            );
        }
        target(policy, rule, problems);
    }
    names_of_rules(policy, problems);
    marks::check(policy, problems);
}

/// Names become parts of names in nftables, where `-` is written as `_`.
fn names_of_rules(policy: &Policy, problems: &Problems) {
    let rules = policy.rules.iter().filter_map(|rule| rule.name.as_ref());
    apart(rules, codes::COUNTER_NAME, "rule", problems);
    let sets = policy.rulesets.iter().map(|set| &set.name);
    apart(sets, codes::RULESET, "rule set", problems);
    let groups = policy.groups.iter().map(|group| &group.name);
    apart(groups, codes::GROUP, "group", problems);
}

fn apart<'a>(
    names: impl Iterator<Item = &'a Value<String>>,
    code: &'static str,
    what: &str,
    problems: &Problems,
) {
    let mut seen: BTreeMap<String, &Value<String>> = BTreeMap::new();
    for name in names.filter(|name| !name.value.is_empty()) {
        if let Some(first) = seen.insert(name.value.replace('-', "_"), name) {
            problems.error(
                code,
                name.span.clone(),
                format!(
                    "there is a {what} `{}` on line {} already",
                    first.value, first.line
                ),
                "choose another name; `-` and `_` count as the same",
            );
        }
    }
}

/// Returns how many kernel rules a rule expands to.
fn multiplied(rule: &Rule) -> usize {
    let times = rule
        .during
        .as_ref()
        .map_or(1, weirgate_schedule::Schedule::parts);
    rule.services.len().max(1).saturating_mul(times.max(1))
}

/// Returns how many elements the rule's lists have.
fn elements(rule: &Rule) -> usize {
    let all = rule.asked().chain(&rule.never);
    all.map(Conditions::elements).sum()
}

fn target(policy: &Policy, rule: &Rule, problems: &Problems) {
    let Some(class) = &rule.class else {
        return;
    };
    let name = &class.value;
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
        let hint = did_you_mean(name, known.iter().copied(), || {
            format!("the classes are {}", known.join(", "))
        });
        let message = format!("there is no class `{name}`");
        problems.error(codes::UNKNOWN_CLASS, class.span.clone(), message, hint);
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
                class.span.clone(),
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
            let named = rule
                .class
                .as_ref()
                .is_some_and(|name| name.value == class.name.value);
            named && rule.directions.overlap(class.directions)
        };
        if !policy.rules.iter().any(leads) && !class.name.value.is_empty() {
            problems.warning(
                codes::UNUSED_CLASS,
                class.name.span.clone(),
                format!("no rule assigns packets to `{}`", class.name.value),
                "add a rule, or remove the class; other classes use its share meanwhile",
            );
        }
    }
}

/// Reports a discipline of the kit in a policy with another engine.
fn kit_engine(policy: &Policy, queue: &Value<Queue>, problems: &Problems) {
    let engine = policy.link.engine.as_ref().map(|engine| engine.value);
    let Queue::Kit(own) = &queue.value else {
        return;
    };
    if engine == Some(Engine::Kit) {
        return;
    }
    problems.error(
        codes::QUEUE,
        queue.span.clone(),
        format!(
            "`{}` is a discipline of weirgate's kit, which a class can have only with `engine = \
             \"kit\"`: the kernel accepts a BPF qdisc only as the root of a device",
            own.discipline
        ),
        "write `engine = \"kit\"` in `[link]`, or a queue of the kernel, such as `fq_codel`",
    );
}
