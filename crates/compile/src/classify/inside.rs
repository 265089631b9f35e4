// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects parts of classes behind address translation, where packets are shaped on arrival and
//! their inside host is not visible yet.
//!
//! The upstream chains know the inside host and store it in the connection. Hosts with equal
//! parts share a number, which is written into bits of the connection's mark (`[marks]`
//! `inside`). This takes one or two rules for each bit, however many hosts there are.
//! `act_ctinfo` copies the bits into the marks of arriving packets, where one rule for each part
//! of each class reads them. This applies to IPv4 only: IPv6 packets have the inside address
//! everywhere.

use crate::classify::{naming, part_rules};
use crate::codes;
use crate::scheduler::Scheduler;
use std::collections::BTreeMap;
use weirgate_document::Problems;
use weirgate_policy::{Direction, Inbound, Policy};
use weirgate_state::{
    Capabilities, Content, Effect, Field, Frame, IpVersion, Key, Match, Origin, Rule, RuleVerdict,
    Set,
};
use weirgate_units::{Arrange as _, Handle};

/// The largest number of bits: arriving packets are compared with a rule for each number.
const MOST: u32 = 8;

/// Sets of hosts, numbered from 1: the addresses of each, and its part of each divided class, in
/// the order of classes.
struct Numbers {
    mask: u32,
    hosts: Vec<Hosts>,
}

/// The hosts that share a number.
struct Hosts {
    addresses: Vec<(u128, u128)>,
    parts: Vec<Option<Handle>>,
}

/// Returns the mask of mark bits, if the policy has them for telling inside hosts apart.
fn is_asked(policy: &Policy) -> Option<u32> {
    let by_ifb =
        policy.line_rate(Direction::Down).is_some() && policy.link.inbound.value == Inbound::Ifb;
    policy
        .marks
        .inside
        .as_ref()
        .filter(|_| by_ifb)
        .map(|mask| mask.value)
}

/// Returns the numbers of a policy; `None` if there are no hosts to tell apart.
fn numbers(policy: &Policy) -> Option<Numbers> {
    let mask = is_asked(policy)?;
    let scheduler = crate::scheduler(policy, Direction::Down)?;
    let parents: Vec<_> = scheduler
        .parents
        .iter()
        .map(|parent| part_rules::ranges(&parent.members, IpVersion::V4))
        .collect();
    // All addresses between two edges belong to the same parts.
    let ends = parents.iter().flatten();
    let mut edges: Vec<u128> = ends.flat_map(|part| [part.0, part.1 + 1]).collect();
    edges.arrange();
    edges.dedup();
    let mut hosts: BTreeMap<Vec<Option<Handle>>, Vec<(u128, u128)>> = BTreeMap::new();
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1] - 1);
        let part = |ranges: &Vec<(u128, u128, Handle)>| {
            let at = ranges.partition_point(|range| range.1 < from);
            let found = ranges.get(at).filter(|range| range.0 <= from);
            found.map(|range| range.2)
        };
        let parts: Vec<Option<Handle>> = parents.iter().map(part).collect();
        if parts.iter().any(Option::is_some) {
            hosts.entry(parts).or_default().push((from, to));
        }
    }
    let hosts = hosts.into_iter();
    let hosts: Vec<Hosts> = hosts
        .map(|(parts, addresses)| Hosts { addresses, parts })
        .collect();
    (!hosts.is_empty()).then_some(Numbers { mask, hosts })
}

/// Returns the bits of their connections' marks that arriving packets need; 0 for none.
pub(crate) fn bits(policy: &Policy) -> u32 {
    numbers(policy).map_or(0, |numbers| numbers.mask)
}

fn origin(policy: &Policy, what: &str) -> Origin {
    Origin::new(policy.link.inbound.line, what)
}

/// Returns the rules before the policy's upstream rules that store the inside host in the
/// connection.
pub(crate) fn keeping(policy: &Policy, sets: &mut Vec<Set>) -> Vec<Rule> {
    let Some(Numbers { mask, hosts }) = numbers(policy) else {
        return Vec::new();
    };
    let all: Vec<_> = hosts.iter().map(|one| &one.addresses).collect();
    // Other numbers make other rules, so that a plan clears stored numbers.
    let digest = naming::digest(&format!("{all:?}"));
    let lowest = mask.trailing_zeros();
    let used = usize::BITS - hosts.len().leading_zeros();
    let mut rules = Vec::new();
    for bit in 0..used.min(mask.count_ones()) {
        let name = format!("inside_{digest}_{bit}");
        let numbered = hosts.iter().zip(1_usize..);
        let with = numbered.filter(|(_, number)| number >> bit & 1 == 1);
        let addresses = with.flat_map(|(one, _)| one.addresses.iter().copied());
        let set = Set {
            name: name.clone(),
            key: Key::Address(IpVersion::V4),
            content: Content::Fixed(addresses.collect()),
            origin: origin(policy, "inside hosts by a bit of their number"),
        };
        sets.push(set.canonical());
        let within = Match::within(Field::Source(IpVersion::V4), &name);
        let own = 1 << (lowest + bit);
        for (one, value) in [(within.clone(), own), (within.negated(), 0)] {
            rules.push(Rule {
                frame: Frame::Plain,
                matches: vec![Match::version_is(IpVersion::V4), one],
                counter: None,
                effects: vec![Effect::ConnectionMark { mask: own, value }],
                verdict: RuleVerdict::Continue,
                origin: origin(policy, "the connection keeps whose it is"),
            });
        }
    }
    rules
}

/// Returns the rules after the policy's, where packets arrive. They send packets of a divided
/// class to the part of their connection's host.
pub(crate) fn leading(policy: &Policy, scheduler: &Scheduler) -> Vec<Rule> {
    let Some(Numbers { mask, hosts }) = numbers(policy) else {
        return Vec::new();
    };
    let mut rules = Vec::new();
    for (at, parent) in scheduler.parents.iter().enumerate() {
        let Some(rest) = scheduler.named(&parent.class.name) else {
            continue;
        };
        for (one, number) in hosts.iter().zip(1_u32..) {
            let Some(part) = one.parts.get(at).copied().flatten() else {
                continue;
            };
            let value = number << mask.trailing_zeros();
            rules.push(Rule {
                frame: Frame::Plain,
                matches: vec![
                    Match::version_is(IpVersion::V4),
                    Match::one(Field::Class, u128::from(rest.id.as_u32())),
                    Match::one(Field::Mark { mask }, value.into()),
                ],
                counter: None,
                effects: vec![Effect::Class(part)],
                verdict: RuleVerdict::Continue,
                origin: origin(policy, "of the host that the connection is of"),
            });
        }
    }
    rules
}

/// Checks that the bits suffice for the numbers, and that the kernel can copy them.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let Some(Numbers { mask, hosts }) = numbers(policy) else {
        return;
    };
    let asked = policy.marks.inside.as_ref().map(|mask| &mask.span);
    let span = asked.unwrap_or(&policy.link.inbound.span);
    let room = 1_usize.checked_shl(mask.count_ones()).unwrap_or(usize::MAX) - 1;
    if hosts.len() > room {
        problems.error(
            codes::INSIDE,
            span.clone(),
            format!(
                "shares and limits distinguish {} kinds of inside hosts, but the bits \
                 {mask:#010x} of `[marks]` have room for {room}",
                hosts.len()
            ),
            format!("give `inside` more bits, at most {MOST}, or write `inbound = \"lan\"`"),
        );
    }
    if !kernel.restore_marks {
        problems.error(
            codes::INSIDE,
            span.clone(),
            format!(
                "{release} has no act_ctinfo, which gives arriving packets their connection's mark"
            ),
            "load or build the module act_ctinfo, or write `inbound = \"lan\"`",
        );
    }
}
