// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules that assign packets of a divided class to the part of their host.
//!
//! They follow the policy's rules, which know only whole classes and write the class of hosts
//! without a part. For each divided class and IP version there is one rule. It looks up the
//! inside host's address in a map and sets the class found there. A single lookup serves any
//! number of hosts; packets of hosts in no part keep their class.

use crate::scheduler::Scheduler;
use crate::scheduler::parts::Parent;
use std::net::IpAddr;
use weirgate_policy::{Direction, Prefix};
use weirgate_state::{
    Content, Effect, Field, Frame, IpVersion, Key, Match, Origin, Rule, RuleVerdict, Set,
};
use weirgate_units::{Arrange as _, Handle};

/// Returns the rules of a direction, and adds the maps that they use to the sets.
pub(crate) fn rules(scheduler: &Scheduler, sets: &mut Vec<Set>) -> Vec<Rule> {
    let direction = scheduler.direction;
    let mut out = Vec::new();
    for parent in &scheduler.parents {
        let name = &parent.class.name;
        let Some(rest) = scheduler.named(name) else {
            continue;
        };
        for version in IpVersion::BOTH {
            let found = ranges(&parent.members, version);
            if found.is_empty() {
                continue;
            }
            let map = format!(
                "parts_{direction}_{}_{}",
                name.replace('-', "_"),
                version.number()
            );
            let origin = origin(parent);
            sets.push(Set {
                name: map.clone(),
                key: Key::Address(version),
                content: Content::Classes(found),
                origin: origin.clone(),
            });
            let field = match direction {
                Direction::Up => Field::Source(version),
                Direction::Down => Field::Destination(version),
            };
            out.push(Rule {
                frame: Frame::Plain,
                matches: vec![
                    Match::version_is(version),
                    Match::one(Field::Class, u128::from(rest.id.as_u32())),
                ],
                counter: None,
                effects: vec![Effect::ClassOf { field, map }],
                verdict: RuleVerdict::Continue,
                origin,
            });
        }
    }
    out
}

fn origin(parent: &Parent) -> Origin {
    Origin::new(
        parent.class.line,
        format!("parts of class {}", parent.class.name),
    )
}

/// Returns disjoint ranges of addresses of one IP version with their classes. Earlier members
/// take precedence.
pub(crate) fn ranges(
    members: &[(Prefix, Handle)],
    version: IpVersion,
) -> Vec<(u128, u128, Handle)> {
    let mut out: Vec<(u128, u128, Handle)> = Vec::new();
    let own = |prefix: &Prefix| prefix.is_v4() == (version == IpVersion::V4);
    for (prefix, class) in members.iter().filter(|member| own(&member.0)) {
        let (from, to) = span(*prefix);
        // The parts of the range that earlier members leave.
        let mut pieces = vec![(from, to)];
        let met = |taken: &&(u128, u128, Handle)| taken.0 <= to && from <= taken.1;
        for &(taken_from, taken_to, _) in out.iter().filter(met) {
            pieces = pieces
                .into_iter()
                .flat_map(|piece| without(piece, (taken_from, taken_to)))
                .collect();
        }
        out.extend(pieces.into_iter().map(|(from, to)| (from, to, *class)));
    }
    out.arrange();
    out
}

/// Returns the parts of a range outside another one.
fn without((from, to): (u128, u128), (first, last): (u128, u128)) -> Vec<(u128, u128)> {
    if last < from || to < first {
        return vec![(from, to)];
    }
    let mut left = Vec::new();
    if from < first {
        left.push((from, first - 1));
    }
    if last < to {
        left.push((last + 1, to));
    }
    left
}

fn span(prefix: Prefix) -> (u128, u128) {
    let (from, bits) = match prefix.address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let host = bits - u32::from(prefix.length);
    let size = 1_u128.checked_shl(host).map_or(u128::MAX, |size| size - 1);
    (from, from | size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix {
            address: text.parse().unwrap(),
            length,
        }
    }

    #[test]
    fn what_is_written_first_holds() {
        let (a, b, c) = (Handle::new(2, 1), Handle::new(2, 2), Handle::new(2, 3));
        let members = [
            (prefix("192.0.2.16", 32), a),
            (prefix("192.0.2.0", 24), b),
            (prefix("192.0.0.0", 16), c),
            (prefix("2001:db8::", 32), c),
        ];
        let at = |third: u128, last: u128| 0xc000_0000 + third * 256 + last;
        assert_eq!(
            ranges(&members, IpVersion::V4),
            [
                (at(0, 0), at(1, 255), c),
                (at(2, 0), at(2, 15), b),
                (at(2, 16), at(2, 16), a),
                (at(2, 17), at(2, 255), b),
                (at(3, 0), at(255, 255), c),
            ]
        );
        assert_eq!(ranges(&members, IpVersion::V6).len(), 1);
        let all = [(prefix("::", 0), a)];
        assert_eq!(ranges(&all, IpVersion::V6), [(0, u128::MAX, a)]);
    }
}
