// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reduces the size of upstream TCP segments where one full packet would occupy the link for
//! longer than the `delay` of a class allows.
//!
//! A transmission cannot be interrupted, so on a slow line only shorter packets give a short
//! wait. The size of upstream TCP segments is limited by the MSS that the far end announces in
//! its SYN or SYN-ACK. It is therefore reduced in packets from outside; a lower value stays.
//! UDP, including QUIC, has no equivalent: the bounds that `check` prints remain those of full
//! packets.

use crate::classify::condition::Alternative;
use crate::codes;
use crate::scheduler::{Scheduler, bounds};
use weirgate_document::{Problems, Value};
use weirgate_policy::{Class, Direction, Policy, Rule as PolicyRule};
use weirgate_state::{Effect, Field, Frame, IpVersion, Match, Origin, Rule, RuleVerdict, TCP};
use weirgate_units::{Rate, Span};

/// The SYN flag in the 14th byte of a TCP header.
const SYN: u8 = 2;

/// Returns the bytes of IP and TCP headers without options.
const fn headers(version: IpVersion) -> u32 {
    match version {
        IpVersion::V4 => 40,
        IpVersion::V6 => 60,
    }
}

/// Returns the smallest segment that a host must accept: RFC 9293 section 3.7.1 and, for the
/// minimum MTU of IPv6, RFC 8200 section 5.
const fn floor(version: IpVersion) -> u32 {
    match version {
        IpVersion::V4 => 536,
        IpVersion::V6 => 1_220,
    }
}

/// The `delay` of a class and the packet size that it requires.
pub(crate) struct Lowered<'a> {
    pub(crate) class: &'a Class,
    pub(crate) delay: &'a Value<Span>,
    /// The IP packet that meets the delay, in bytes; it may be below the minimum segment.
    packet: u32,
}

impl Lowered<'_> {
    /// Returns the MSS for an IP version.
    fn segment(&self, version: IpVersion) -> u32 {
        self.packet
            .saturating_sub(headers(version))
            .max(floor(version))
    }
}

/// Returns the class whose `delay` requires the smallest packets upstream, if a full packet
/// takes too long for it.
pub(crate) fn lowered(policy: &Policy, gate: Rate) -> Option<Lowered<'_>> {
    let classes = policy.classes_of(Direction::Up);
    let asked = classes.filter_map(|class| Some((class, class.delay.as_ref()?)));
    let (class, delay) = asked.min_by_key(|(_, delay)| delay.value)?;
    let layer = &policy.link.layer.value;
    let time = |ip: u32| bounds::time(u64::from(layer.wire_bytes(ip)), gate);
    let mtu = policy.link.mtu.value;
    if time(mtu) <= delay.value {
        return None;
    }
    let packet = (40..=mtu).rev().find(|ip| time(*ip) <= delay.value);
    let packet = packet.unwrap_or(40);
    Some(Lowered {
        class,
        delay,
        packet,
    })
}

/// Returns the rules at the head of the downstream chain.
pub(crate) fn rules(policy: &Policy, direction: Direction) -> Vec<Rule> {
    let found = match (direction, policy.gate(Direction::Up)) {
        (Direction::Down, Some(gate)) => lowered(policy, gate),
        _ => None,
    };
    let Some(lowered) = found else {
        return Vec::new();
    };
    let rule = |version| Rule {
        frame: Frame::Plain,
        matches: vec![
            Match::version_is(version),
            Match::one(Field::Protocol, u128::from(TCP)),
            Match::tcp_flags(SYN, SYN),
        ],
        counter: None,
        effects: vec![Effect::MaxSegment(
            u16::try_from(lowered.segment(version)).unwrap_or(u16::MAX),
        )],
        verdict: RuleVerdict::Continue,
        origin: Origin::new(
            lowered.delay.line,
            format!(
                "segments upstream lowered for the delay of {}",
                lowered.class.name.value
            ),
        ),
    };
    IpVersion::BOTH.map(rule).to_vec()
}

/// Returns the rules before a rule that states a segment size. They apply the limit to those of
/// its packets that announce an MSS. An MSS in upstream packets limits downstream segments.
pub(crate) fn stated(
    rule: &PolicyRule,
    alternatives: &[Alternative],
    origin: &Origin,
) -> Vec<Rule> {
    let Some(segment) = &rule.mss else {
        return Vec::new();
    };
    let lowering = |Alternative { matches, .. }: &Alternative, version| {
        let other = IpVersion::BOTH.into_iter().find(|one| *one != version);
        let of_other = |one: &Match| other.is_some_and(|other| *one == Match::version_is(other));
        if matches.iter().any(of_other) {
            return None;
        }
        let mut own = vec![
            Match::version_is(version),
            Match::one(Field::Protocol, u128::from(TCP)),
            Match::tcp_flags(SYN, SYN),
        ];
        own.extend(
            matches
                .iter()
                .filter(|one| !own.contains(one))
                .cloned()
                .collect::<Vec<_>>(),
        );
        Some(Rule {
            frame: Frame::Plain,
            matches: own,
            counter: None,
            effects: vec![Effect::MaxSegment(
                segment
                    .value
                    .max(u16::try_from(floor(version)).unwrap_or(u16::MAX)),
            )],
            verdict: RuleVerdict::Continue,
            origin: Origin::new(
                origin.line,
                format!("segments lowered by the {}", origin.reason),
            ),
        })
    };
    alternatives
        .iter()
        .flat_map(|one| {
            IpVersion::BOTH
                .into_iter()
                .filter_map(|version| lowering(one, version))
        })
        .collect()
}

/// Describes the reduction for a report.
pub(crate) fn note(policy: &Policy, scheduler: &Scheduler) -> Option<String> {
    if scheduler.direction != Direction::Up {
        return None;
    }
    policy.line_rate(Direction::Down)?;
    let lowered = lowered(policy, scheduler.gate)?;
    let layer = &policy.link.layer.value;
    let time = |ip: u32| {
        let wire = u64::from(layer.wire_bytes(ip));
        bounds::time(wire, scheduler.gate).as_millis_f64()
    };
    let of = |version| {
        let segment = lowered.segment(version);
        format!(
            "{segment} B in IPv{} ({:.2} ms)",
            version.number(),
            time(segment + headers(version))
        )
    };
    Some(format!(
        "A full packet takes {:.2} ms, more than the `delay` of {:.2} ms of `{}`: TCP segments \
         are lowered to {} and {}. UDP and QUIC still send full packets, as the bounds below \
         assume.",
        time(policy.link.mtu.value),
        lowered.delay.value.as_millis_f64(),
        lowered.class.name.value,
        of(IpVersion::V4),
        of(IpVersion::V6),
    ))
}

/// Reports delays that smaller segments cannot meet.
pub(crate) fn doubts(policy: &Policy, problems: &Problems) {
    let Some(lowered) = policy
        .gate(Direction::Up)
        .and_then(|gate| lowered(policy, gate))
    else {
        return;
    };
    let name = &lowered.class.name.value;
    if policy.line_rate(Direction::Down).is_none() {
        problems.warning(
            codes::DELAY,
            lowered.delay.span.clone(),
            format!("one full packet takes longer than the delay of `{name}`"),
            "add `down`, so that segments can be lowered where replies arrive, or lower `mtu`",
        );
        return;
    }
    for version in IpVersion::BOTH {
        let packet = lowered.segment(version) + headers(version);
        let wire = u64::from(policy.link.layer.value.wire_bytes(packet));
        let gate = policy.gate(Direction::Up).unwrap_or_default();
        let takes = bounds::time(wire, gate);
        if takes > lowered.delay.value {
            problems.warning(
                codes::DELAY,
                lowered.delay.span.clone(),
                format!(
                    "the smallest segment of IPv{} takes {:.2} ms, longer than the delay of \
                     `{name}`",
                    version.number(),
                    takes.as_millis_f64()
                ),
                "state a longer delay; TCP cannot use smaller segments",
            );
        }
    }
}
