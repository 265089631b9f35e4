// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks conditioners for contradictions, among themselves and with the rest of the policy.

use crate::class::ack::ACK;
use crate::codes;
use crate::conditioner::Conditioner;
use crate::link::inbound::Inbound;
use crate::policy::Policy;
use weirgate_document::{Problems, SourceSpan, did_you_mean};
use weirgate_units::Direction;

/// The largest number of conditioners for one device and direction (`CONDITIONERS` of
/// `bpf/inbound/condition.bpf.c`).
const MOST: usize = 32;

/// Checks conditioners for contradictions, among themselves and with the rest of the policy.
pub(crate) fn check(policy: &Policy, problems: &Problems) {
    for (at, one) in policy.conditioners.iter().enumerate() {
        let error = |span: &SourceSpan, wrong: String, right: String| {
            problems.error(codes::CONDITIONER, span.clone(), wrong, right);
        };
        let before = &policy.conditioners[..at];
        if let Some(first) = before
            .iter()
            .find(|other| other.name.value == one.name.value)
        {
            error(
                &one.name.span,
                format!(
                    "there is a conditioner `{}` on line {} already",
                    one.name.value, first.name.line
                ),
                "choose another name".to_owned(),
            );
        }
        if let Some(device) = &one.device {
            let mut known = std::iter::once(&policy.link.device).chain(&policy.link.lan);
            if !known.any(|known| known.value == device.value) {
                error(
                    &device.span,
                    format!("`{}` is not a device of this link", device.value),
                    "name `device` or one of `lan` of `[link]`".to_owned(),
                );
                continue;
            }
        }
        classes(policy, one, &error);
        let same_device =
            |other: &&Conditioner| other.enters == one.enters && other.at(policy) == one.at(policy);
        if before.iter().filter(same_device).count() == MOST {
            error(
                &one.span,
                format!("`{}` has more than {MOST} conditioners", one.at(policy)),
                "condition some of the packets elsewhere".to_owned(),
            );
        }
        // Conditions that could not be read are missing in the model. A conditioner then seems
        // to match more than it does, so skip this check.
        if !problems.has_errors() {
            hidden(policy, one, before, problems);
        }
    }
}

/// Reports classes that do not exist, or that packets do not have at this point.
fn classes(policy: &Policy, one: &Conditioner, error: &dyn Fn(&SourceSpan, String, String)) {
    let direction = one.direction(policy);
    for class in &one.classes {
        let known = || {
            policy
                .classes_of(direction)
                .map(|class| class.name.value.as_str())
        };
        let acknowledges = class.value == ACK && policy.ack.is_some();
        if one.enters {
            error(
                &class.span,
                "packets that enter a device do not have a class yet".to_owned(),
                "write `at = \"leave\"`, or select packets by `dscp` and addresses".to_owned(),
            );
        } else if direction == Direction::Down
            && policy.link.inbound.value != Inbound::Lan
            && !policy.link.bridge
        {
            error(
                &class.span,
                "packets that were shaped on arrival no longer have a class".to_owned(),
                "write `inbound = \"lan\"` in `[link]`, or select packets by `dscp` and \
                 addresses"
                    .to_owned(),
            );
        } else if !known().any(|name| name == class.value) && !acknowledges {
            let stream = direction.stream();
            let hint = did_you_mean(&class.value, known(), || {
                "name a class of the policy".to_owned()
            });
            error(
                &class.span,
                format!("there is no {stream} class `{}`", class.value),
                hint,
            );
        }
    }
}

/// Reports a conditioner if an earlier one at the same place takes all of its packets.
fn hidden(policy: &Policy, one: &Conditioner, before: &[Conditioner], problems: &Problems) {
    let all = before.iter().find(|other| {
        other.enters == one.enters
            && other.at(policy) == one.at(policy)
            && other.classes.is_empty()
            && other.local.is_empty()
            && other.remote.is_empty()
            && other.carried.is_empty()
            && other.dscp.is_empty()
    });
    if let Some(all) = all {
        problems.warning(
            codes::CONDITIONER,
            one.span.clone(),
            format!(
                "no packet reaches this conditioner: `{}` on line {} takes all of them",
                all.name.value, all.line
            ),
            "put it before that one: the first that matches a packet conditions it",
        );
    }
}
