// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The preconditions of matches: a port needs a protocol that has ports, an address needs its IP
//! version.

use crate::Origin;
use crate::classify::field::{Field, ICMP, ICMPV6, TCP};
use crate::classify::value::{IpVersion, Key};
use crate::classify::{Content, Match, Rule, Set, Values};

impl Rule {
    /// Returns the rule with the preconditions of its matches before them: the IP version and the
    /// upper-layer protocol. If a port belongs to any protocol, the protocol is looked up in the
    /// set [`PORT_PROTOCOLS`], which the table then needs.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        self.matches = guarded(self.matches);
        self
    }
}

/// The name of the set of protocols whose header begins with two ports.
pub const PORT_PROTOCOLS: &str = "port_protocols";

/// Upper-layer protocols whose header begins with two ports: TCP, UDP, DCCP,
/// SCTP.
pub const PROTOCOLS_WITH_PORTS: [u8; 4] = [6, 17, 33, 132];

/// The name of the set of IPv6 extension headers.
pub const EXTENSION_HEADERS: &str = "extension_headers";

/// The extension headers that the kernel skips: hop-by-hop options, routing, fragment, destination
/// options (`ipv6_ext_hdr`, net/ipv6/exthdrs_core.c).
pub const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];

/// Returns the set with the name [`PORT_PROTOCOLS`].
#[must_use]
pub fn port_protocols() -> Set {
    protocols(PORT_PROTOCOLS, PROTOCOLS_WITH_PORTS)
}

/// Returns the set with the name [`EXTENSION_HEADERS`].
#[must_use]
pub fn extension_headers() -> Set {
    protocols(EXTENSION_HEADERS, EXTENSIONS)
}

fn protocols(name: &str, numbers: [u8; 4]) -> Set {
    let each = numbers.map(|number| (u128::from(number), u128::from(number)));
    Set {
        name: name.to_owned(),
        key: Key::Byte,
        content: Content::Fixed(each.to_vec()),
        origin: Origin::default(),
    }
}

fn guarded(matches: Vec<Match>) -> Vec<Match> {
    let mut out: Vec<Match> = Vec::new();
    let mut add = |guard: Match| {
        if !matches.contains(&guard) && !out.contains(&guard) {
            out.push(guard);
        }
    };
    for version in [IpVersion::V4, IpVersion::V6] {
        if matches.iter().any(|m| m.version() == Some(version)) {
            add(Match::version_is(version));
        }
    }
    let fields = || matches.iter().filter_map(Match::field);
    if fields().any(|field| field == Field::SourceMac) {
        add(Match::one(Field::InputKind, 1));
    }
    for protocol in [ICMP, TCP, ICMPV6] {
        if matches.iter().any(|m| m.protocol() == Some(protocol)) {
            add(Match::one(Field::Protocol, u128::from(protocol)));
        }
    }
    let port = fields().any(|f| matches!(f, Field::SourcePort | Field::DestinationPort));
    if port && !matches.iter().any(has_ports) {
        add(Match::within(Field::Protocol, PORT_PROTOCOLS));
    }
    // Tests of version and protocol come before the tests that need them.
    let first = |m: &Match| matches!(m.field(), Some(Field::Version | Field::Protocol));
    let (early, late): (Vec<Match>, Vec<Match>) = matches.into_iter().partition(first);
    out.extend(early);
    out.extend(late);
    let mut seen: Vec<Match> = Vec::new();
    for candidate in out {
        if matches!(candidate, Match::Meter(_)) || !seen.contains(&candidate) {
            seen.push(candidate);
        }
    }
    // Meters come last, so that only packets that pass all tests are counted.
    let (meters, tests): (Vec<Match>, Vec<Match>) =
        seen.into_iter().partition(|m| matches!(m, Match::Meter(_)));
    [tests, meters].concat()
}

/// Returns whether a match only holds for stated protocols, which have ports if it is a single one.
fn has_ports(one: &Match) -> bool {
    let single = match one {
        Match::Test {
            field: Field::Protocol,
            negated: false,
            values: Values::Range(from, to),
        } if from == to => u8::try_from(*from).ok(),
        other => other.protocol(),
    };
    match single {
        Some(protocol) => PROTOCOLS_WITH_PORTS.contains(&protocol),
        None => one.names_protocol(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Handle;

    #[test]
    fn what_matches_presuppose_is_stated_first() {
        let rule = Rule::classify(
            vec![
                Match::range(Field::SourcePort, 1, 9),
                Match::TcpPayloadEmpty {
                    version: IpVersion::V4,
                    negated: false,
                },
            ],
            Handle::new(1, 0x10),
            Origin::default(),
        );
        let matches = rule.guarded().matches;
        assert_eq!(matches[0], Match::version_is(IpVersion::V4));
        assert_eq!(matches[1], Match::one(Field::Protocol, 6));
        assert_eq!(matches.len(), 4);
        let port = Match::one(Field::DestinationPort, 80);
        let ports = Match::within(Field::Protocol, PORT_PROTOCOLS);
        assert_eq!(guarded(vec![port.clone()])[0], ports);
        // ICMP has no ports: its checksum is not one.
        let icmp = Match::one(Field::Protocol, u128::from(ICMP));
        let not = port.negated();
        assert!(guarded(vec![icmp, not.clone()]).contains(&ports));
        let udp = Match::one(Field::Protocol, 17);
        assert!(!guarded(vec![udp, not]).contains(&ports));
    }
}
