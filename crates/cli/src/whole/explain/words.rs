// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of kernel rules as text.

use crate::whole::flows::protocol;
use std::net::{Ipv4Addr, Ipv6Addr};
use weirgate_state::{Content, Field, IpVersion, Match, Table, Values};
use weirgate_units::Dscp;

/// The most values of a list that are named.
const NAMED: usize = 6;

/// Returns the packet's value where a condition failed, such as `DSCP is 0`.
pub fn found(failed: &Match, found: Option<u128>) -> String {
    let of = match failed {
        Match::Test { field, .. } => *field,
        Match::TcpPayloadEmpty { negated: true, .. } => return "it has no payload".to_owned(),
        Match::TcpPayloadEmpty { .. } => return "it has payload".to_owned(),
        Match::Meter(_) => return "limit".to_owned(),
        Match::Other(text) => return text.clone(),
    };
    let name = match of {
        Field::Version => "IP version",
        Field::Shape => return "it has IP options, or is a later fragment".to_owned(),
        Field::InputKind => "kind of device",
        Field::EtherType | Field::PppProtocol => "kind of packet",
        of => of.words(),
    };
    match found {
        Some(found) => format!("{name} is {}", value(of, found)),
        None if of.is_text() => format!("{name} is another"),
        None => format!("it has no {name}"),
    }
}

/// Returns the values that a condition requires, each as text.
pub fn wanted(table: &Table, failed: &Match) -> Vec<String> {
    let Match::Test {
        field,
        negated,
        values,
    } = failed
    else {
        return Vec::new();
    };
    let ranges: Vec<(u128, u128)> = match values {
        Values::Text(text) => return vec![sign(*negated, text.clone())],
        Values::Range(from, to) => vec![(*from, *to)],
        Values::Set(name) => match table.set(name).map(|set| &set.content) {
            Some(Content::Fixed(ranges)) => ranges
                .iter()
                .map(|(from, to)| (field.of_raw(*from), field.of_raw(*to)))
                .collect(),
            Some(Content::Refreshed(refreshed)) => return refreshed.names.clone(),
            _ => Vec::new(),
        },
    };
    if *field == Field::Shape {
        return Vec::new();
    }
    let each = ranges.iter().map(|(from, to)| {
        let (from, to) = (*from, *to);
        let text = match (from == to, to == field.greatest()) {
            (true, _) => value(*field, from),
            (false, true) => format!("{} or more", value(*field, from)),
            (false, false) => format!("{} to {}", value(*field, from), value(*field, to)),
        };
        sign(*negated, text)
    });
    each.collect()
}

fn sign(negated: bool, text: String) -> String {
    if negated { format!("not {text}") } else { text }
}

/// Joins values into a text such as `AF21 or EF`.
pub fn either(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        _ if all.len() > NAMED => {
            let first = all.get(..NAMED).unwrap_or(all);
            format!(
                "{} or one of {} others",
                first.join(", "),
                all.len() - NAMED
            )
        }
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

/// Returns a value in its usual notation.
fn value(field: Field, value: u128) -> String {
    match field {
        Field::Protocol => u8::try_from(value).map_or_else(|_| value.to_string(), protocol),
        Field::Dscp(_) => u8::try_from(value)
            .ok()
            .and_then(Dscp::new)
            .map_or_else(|| value.to_string(), |dscp| dscp.to_string()),
        Field::Source(IpVersion::V4) | Field::Destination(IpVersion::V4) => {
            Ipv4Addr::from(value as u32).to_string()
        }
        Field::Source(IpVersion::V6) | Field::Destination(IpVersion::V6) => {
            Ipv6Addr::from(value).to_string()
        }
        Field::Mark { .. } | Field::ConnectionMark { .. } | Field::TcpFlags { .. } => {
            format!("{value:#x}")
        }
        Field::Hour => format!("{:02}:{:02}", value / 3600, value / 60 % 60),
        _ => value.to_string(),
    }
}
