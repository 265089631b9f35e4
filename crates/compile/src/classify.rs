// SPDX-License-Identifier: Apache-2.0 OR MIT
//! nftables rules that give each packet its class.
//!
//! Upstream they hang at postrouting, before source NAT: forwarded packets and
//! the router's own, with inside addresses. Downstream they hang where packets
//! arrive (IFB), before destination NAT, or at postrouting of the LAN device,
//! after it. The order is the same everywhere:
//!
//! 1. on a LAN device, what does not come from the link is not shaped;
//! 2. neighbour discovery and DHCP go to the first class, so that a full queue
//!    never costs the link itself (ARP is not IP: no rule of `inet` sees it,
//!    and [`Scheduler::unseen`] is its class);
//! 3. pure ACKs go to their class, where `[ack]` asks for it;
//! 4. the policy's rules; the first that matches decides;
//! 5. all other IP packets go to the default class.
//!
//! A rule that names no IP version holds for both; where a condition needs a
//! version (code points, lengths, pure ACKs), it is written for each.

use crate::scheduler::{Member, Scheduler};
use crate::tree::LOCAL;
use std::net::IpAddr;
use weirgate_policy::{Direction, Inbound, Policy, Prefix, Protocol, Rule as PolicyRule, TcpFlags};
use weirgate_state::{Field, IpVersion, Match, Origin, Rule};

const VERSIONS: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

/// The rules of a direction's chain.
pub(crate) fn rules(policy: &Policy, scheduler: &Scheduler) -> Vec<Rule> {
    let mut rules = Vec::new();
    let link = &policy.link;
    let direction = scheduler.direction;
    let on_lan = direction == Direction::Down && link.inbound.value == Inbound::Lan;
    if on_lan {
        rules.push(Rule::classify(
            vec![Match::text(Field::InputDevice, link.device.value.as_str()).negated()],
            LOCAL,
            Origin::new(link.inbound.line, "does not come from the link"),
        ));
    }
    if let Some(first) = scheduler.members.first() {
        control(first, direction, &mut rules);
    }
    if let Some(ack) = scheduler.members.iter().find(|member| member.class.ack) {
        let origin = Origin::new(ack.class.line, "an acknowledgement without data");
        for version in VERSIONS {
            rules.push(Rule::classify(pure_ack(version), ack.id, origin.clone()).guarded());
        }
    }
    for rule in policy
        .rules
        .iter()
        .filter(|rule| rule.directions.contains(direction))
    {
        if let Some(member) = scheduler.named(&rule.class.value) {
            let origin = Origin::new(rule.line, format!("rule for class {}", rule.class.value));
            for matches in combinations(rule, direction) {
                rules.push(Rule::classify(matches, member.id, origin.clone()).guarded());
            }
        }
    }
    if let Some(default) = scheduler.default_class() {
        rest(default, &mut rules);
    }
    rules
}

/// What the link itself lives on.
fn control(first: &Member, direction: Direction, rules: &mut Vec<Rule>) {
    let mut add = |matches: Vec<Match>, what: &str| {
        let reason = format!("{what}, never behind others");
        rules.push(
            Rule::classify(matches, first.id, Origin::new(first.class.line, reason)).guarded(),
        );
    };
    add(
        vec![
            Match::version_is(IpVersion::V6),
            protocol(Protocol::ICMPV6),
            Match::range(Field::IcmpType(IpVersion::V6), 133, 137),
        ],
        "neighbour discovery of IPv6",
    );
    // RFC 2131 section 4.1 and RFC 8415 section 7.2: server's and client's port.
    for (version, server, client) in [(IpVersion::V4, 67, 68), (IpVersion::V6, 547, 546)] {
        let (source, destination) = match direction {
            Direction::Up => (client, server),
            Direction::Down => (server, client),
        };
        add(
            vec![
                Match::version_is(version),
                protocol(Protocol::UDP),
                Match::one(Field::SourcePort, source),
                Match::one(Field::DestinationPort, destination),
            ],
            "DHCP",
        );
    }
}

fn rest(default: &Member, rules: &mut Vec<Rule>) {
    for version in VERSIONS {
        rules.push(Rule::classify(
            vec![Match::version_is(version)],
            default.id,
            Origin::new(default.class.line, "what no rule matches"),
        ));
    }
}

fn pure_ack(version: IpVersion) -> Vec<Match> {
    let TcpFlags { mask, value } = TcpFlags::PURE_ACK;
    vec![
        Match::tcp_flags(mask, value),
        Match::TcpPayloadEmpty {
            version,
            negated: false,
        },
    ]
}

/// One element of each condition, in every combination that a packet can have.
fn combinations(rule: &PolicyRule, direction: Direction) -> Vec<Vec<Match>> {
    let (local_port, remote_port): (PortMatch, PortMatch) = match direction {
        Direction::Up => (source_port, destination_port),
        Direction::Down => (destination_port, source_port),
    };
    let local_is_source = direction == Direction::Up;
    let either: Vec<Match> = rule
        .ports
        .iter()
        .flat_map(|ports| {
            let (from, to) = (ports.value.from, ports.value.to);
            [source_port(from, to), destination_port(from, to)]
        })
        .collect();
    let ports = |list: &[weirgate_document::Value<weirgate_policy::Ports>], make: PortMatch| {
        list.iter()
            .map(|ports| make(ports.value.from, ports.value.to))
            .collect::<Vec<_>>()
    };
    let addresses = |list: &[weirgate_document::Value<Prefix>], source: bool| {
        list.iter()
            .map(|prefix| address(prefix.value, source))
            .collect::<Vec<_>>()
    };
    let protocols = rule
        .protocols
        .iter()
        .map(|number| protocol(number.value))
        .collect::<Vec<_>>();
    let plain = [
        protocols,
        addresses(&rule.local_addresses, local_is_source),
        addresses(&rule.remote_addresses, !local_is_source),
        ports(&rule.local_ports, local_port),
        ports(&rule.remote_ports, remote_port),
        either,
    ];
    let mut found = Vec::new();
    for version in versions(rule) {
        let mut partial: Vec<Vec<Match>> = vec![Vec::new()];
        for alternatives in &plain {
            partial = multiplied(&partial, alternatives);
        }
        if let Some(version) = version {
            partial = multiplied(&partial, &of_version(rule, version));
            let lengths = lengths(rule, version);
            if lengths.is_empty() && !rule.lengths.is_empty() {
                continue;
            }
            partial = multiplied(&partial, &lengths);
        }
        for mut matches in partial {
            if let Some(flags) = &rule.tcp_flags {
                let TcpFlags { mask, value } = flags.value;
                matches.push(Match::tcp_flags(mask, value));
            }
            if let (true, Some(version)) = (rule.pure_ack, version) {
                matches.extend(pure_ack(version));
            }
            if possible(&matches) {
                found.push(matches);
            }
        }
    }
    found
}

type PortMatch = fn(u16, u16) -> Match;

fn source_port(from: u16, to: u16) -> Match {
    Match::range(Field::SourcePort, from.into(), to.into())
}

fn destination_port(from: u16, to: u16) -> Match {
    Match::range(Field::DestinationPort, from.into(), to.into())
}

fn protocol(protocol: Protocol) -> Match {
    Match::one(Field::Protocol, protocol.0.into())
}

fn address(prefix: Prefix, source: bool) -> Match {
    let (version, value, bits) = match prefix.address {
        IpAddr::V4(v4) => (IpVersion::V4, u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (IpVersion::V6, u128::from(v6), 128),
    };
    let host = u32::from(128 - (bits - prefix.length));
    let rest = u128::MAX.checked_shr(host).unwrap_or(0);
    let field = if source {
        Field::Source(version)
    } else {
        Field::Destination(version)
    };
    Match::range(field, value & !rest, value | rest)
}

/// The versions for which a rule must be written: once for both where nothing
/// in it depends on the version.
fn versions(rule: &PolicyRule) -> Vec<Option<IpVersion>> {
    let depends = !rule.dscp.is_empty() || !rule.lengths.is_empty() || rule.pure_ack;
    if depends {
        VERSIONS.map(Some).to_vec()
    } else {
        vec![None]
    }
}

fn of_version(rule: &PolicyRule, version: IpVersion) -> Vec<Match> {
    rule.dscp
        .iter()
        .map(|dscp| Match::one(Field::Dscp(version), dscp.value.value().into()))
        .collect()
}

/// Lengths that packets of a version can have: an IPv6 header has 40 bytes.
fn lengths(rule: &PolicyRule, version: IpVersion) -> Vec<Match> {
    let least = if version == IpVersion::V6 { 40 } else { 20 };
    rule.lengths
        .iter()
        .map(|length| length.value)
        .filter(|length| length.to >= least)
        .map(|length| {
            Match::range(
                Field::Length(version),
                length.from.max(least).into(),
                length.to.into(),
            )
        })
        .collect()
}

/// Each partial combination with each alternative; without alternatives, as it
/// was.
fn multiplied(partial: &[Vec<Match>], alternatives: &[Match]) -> Vec<Vec<Match>> {
    if alternatives.is_empty() {
        return partial.to_vec();
    }
    let with = |matches: &Vec<Match>| {
        let matches = matches.clone();
        alternatives.iter().map(move |one| {
            let mut matches = matches.clone();
            matches.push(one.clone());
            matches
        })
    };
    partial.iter().flat_map(with).collect()
}

/// Whether a packet can fulfil all: one IP version, and a protocol that has
/// it.
fn possible(matches: &[Match]) -> bool {
    let version = |candidate: &Match| {
        if *candidate == protocol(Protocol::ICMP) {
            Some(IpVersion::V4)
        } else if *candidate == protocol(Protocol::ICMPV6) {
            Some(IpVersion::V6)
        } else {
            candidate.version()
        }
    };
    let mut versions = matches.iter().filter_map(version);
    let first = versions.next();
    versions.all(|version| Some(version) == first)
}
