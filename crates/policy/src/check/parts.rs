// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks `[[share]]` and `[[cap]]` against the classes.

use crate::class::Class;
use crate::class::ack::ACK;
use crate::class::part::{HostCap, MOST_CAPPED};
use crate::codes;
use crate::model::in_kbit;
use crate::policy::Policy;
use weirgate_document::{Problems, Value, did_you_mean};
use weirgate_units::{Direction, Share};

/// The largest number of classes and groups in them in one direction.
const MOST_PARTS: usize = 400;
/// The smallest share that must be left for hosts of no group.
const LEAST_REST: Share = Share::percent(1);

/// Checks parts against classes.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    for share in &policy.shares {
        for class in &share.classes {
            known(policy, class, problems);
        }
    }
    for cap in &policy.caps {
        if let Some(class) = &cap.class {
            known(policy, class, problems);
            directions(policy, cap, class, problems);
        }
        divided(policy, cap, problems);
    }
    for class in &policy.classes {
        sums(policy, class, problems);
    }
    ceilings(policy, problems);
    for direction in Direction::BOTH {
        crowds(policy, direction, problems);
    }
}

/// Reports a limit for a direction that its class does not have.
fn directions(policy: &Policy, cap: &HostCap, name: &Value<String>, problems: &Problems) {
    let class = policy
        .classes
        .iter()
        .find(|one| one.name.value == name.value);
    for direction in Direction::BOTH {
        let lacks = class.is_some_and(|class| !class.directions.contains(direction));
        if lacks && cap.rate(direction).is_some() {
            problems.error(
                codes::UNSHAPED,
                name.span.clone(),
                format!("there is no {} class `{}`", direction.stream(), name.value),
                format!("leave `{direction}` out, or give the class this direction"),
            );
        }
    }
}

/// Reports groups whose ceiling is below their guarantee in a class.
fn ceilings(policy: &Policy, problems: &Problems) {
    let divisions = Direction::BOTH.map(|one| policy.share_out(one));
    for group in &policy.shares {
        let Some(ceiling) = &group.ceiling else {
            continue;
        };
        let guarantees = divisions.iter().flatten().flat_map(|division| {
            let classes = division.classes.iter();
            let own = classes.filter(move |class| group.divides(&class.name));
            own.map(move |class| (division, class, group.share.value.of(class.rate)))
        });
        let mut above = guarantees
            .filter(|(division, _, guarantee)| ceiling.value.of(division.gate) < *guarantee);
        if let Some((division, class, guarantee)) = above.next() {
            problems.warning(
                codes::CEILING,
                ceiling.span.clone(),
                format!(
                    "the group is guaranteed {} in `{}`, {}, which replaces this lower ceiling",
                    in_kbit(guarantee),
                    class.name,
                    division.direction.stream()
                ),
                "raise the ceiling, or lower `share`; a ceiling as a share holds in both directions",
            );
        }
    }
}

/// Reports classes that a limit divides between hosts, if they have their own queue or are
/// already divided between groups.
fn divided(policy: &Policy, cap: &HostCap, problems: &Problems) {
    let own = |class: &&Class| cap.divides(&class.name.value);
    for class in policy.classes.iter().filter(own) {
        let name = &class.name.value;
        if let Some(queue) = &class.queue {
            problems.error(
                codes::HOST_CAP,
                queue.span.clone(),
                format!(
                    "`{name}` has a queue for each host, because line {} limits hosts",
                    cap.line
                ),
                "leave `queue` out",
            );
        }
        if let Some(share) = policy.shares.iter().find(|one| one.divides(name)) {
            let span = cap.class.as_ref().map_or(&cap.span, |class| &class.span);
            problems.error(
                codes::HOST_CAP,
                span.clone(),
                format!(
                    "`{name}` is divided between groups on line {} already",
                    share.line
                ),
                "limit hosts in a class of their own, or list the divided classes in `classes`",
            );
        }
    }
}

fn known(policy: &Policy, name: &Value<String>, problems: &Problems) {
    let names = || policy.classes.iter().map(|class| class.name.value.as_str());
    if names().any(|known| known == name.value) {
        return;
    }
    let (wrong, hint) = if name.value == ACK {
        (
            "the class `ack` cannot be divided".to_owned(),
            "leave it out; acknowledgements follow no group".to_owned(),
        )
    } else {
        let hint = did_you_mean(&name.value, names(), || {
            format!("the classes are {}", names().collect::<Vec<_>>().join(", "))
        });
        (format!("there is no class `{}`", name.value), hint)
    };
    problems.error(codes::UNKNOWN_CLASS, name.span.clone(), wrong, hint);
}

/// Checks the groups of a class: each occurs once, and something is left for other hosts.
fn sums(policy: &Policy, class: &Class, problems: &Problems) {
    let name = class.name.value.as_str();
    let whole = Share::WHOLE.as_millionths() - LEAST_REST.as_millionths();
    let (mut sum, mut seen) = (0_u32, Vec::new());
    for share in policy.shares.iter().filter(|share| share.divides(name)) {
        if seen.contains(&share.group.value.as_str()) {
            problems.error(
                codes::GROUP_SHARE,
                share.group.span.clone(),
                format!("`{}` has a share of `{name}` already", share.group.value),
                "keep one, or list in `classes` what each is for",
            );
        }
        seen.push(&share.group.value);
        let before = sum;
        sum = sum.saturating_add(share.share.value.as_millionths());
        if before <= whole && sum > whole {
            problems.error(
                codes::GROUP_SHARE,
                share.share.span.clone(),
                format!("here the groups' shares of `{name}` exceed 99%"),
                "lower them; hosts of no group need at least 1%",
            );
        }
    }
}

/// Reports more classes in the kernel than can be processed fast.
fn crowds(policy: &Policy, direction: Direction, problems: &Problems) {
    let mut hosts = 0;
    for cap in policy
        .caps
        .iter()
        .filter(|cap| cap.rate(direction).is_some())
    {
        let before = hosts;
        // A host has one queue in each class in which it is limited.
        let classes = policy.classes_of(direction);
        let divided = classes.filter(|class| cap.divides(&class.name.value));
        let own = usize::from(cap.is_over_all() && policy.ack_rate(direction).is_some());
        hosts += cap.hosts.len() * (divided.count() + own);
        if before <= MOST_CAPPED && hosts > MOST_CAPPED {
            problems.error(
                codes::HOST_CAP,
                cap.span.clone(),
                format!(
                    "from here on, hosts with {} limits have more than {MOST_CAPPED} queues, one \
                     in each class that applies to them",
                    direction.stream()
                ),
                "limit fewer hosts, or share between hosts: `fair = \"hosts\"`",
            );
        }
    }
    let mut parts = policy.classes_of(direction).count();
    for share in &policy.shares {
        let divided = policy
            .classes_of(direction)
            .filter(|class| share.divides(&class.name.value));
        let before = parts;
        parts += divided.count();
        if before <= MOST_PARTS && parts > MOST_PARTS {
            problems.error(
                codes::TOO_MANY,
                share.span.clone(),
                format!("classes and groups together make more than {MOST_PARTS} parts here"),
                "list the divided classes in `classes`",
            );
        }
    }
}
