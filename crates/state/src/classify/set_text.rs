// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nft(8) text of sets. A set in the kernel contains bytes; a set in nft has a type, and only
//! values of that type can be looked up in it.

use crate::classify::field::Field;
use crate::classify::value::{IpVersion, Key};
use crate::classify::{Content, Match, Set, Table, Values};
use std::net::{Ipv4Addr, Ipv6Addr};
use weirgate_units::Handle;

impl Table {
    /// Returns the nft declaration of a set.
    pub(crate) fn set_text(&self, set: &Set) -> String {
        let field = self.declaring(&set.name);
        let typed = field.filter(|field| field.is_typed());
        let typed = typed.map(|field| format!("typeof {}", field.name()));
        let kind = typed.as_deref().unwrap_or(set.key.declared());
        let body = match &set.content {
            Content::Fixed(elements) => {
                let list = elements_text(set.key, field, elements);
                let ranges = elements.iter().any(|(from, to)| from != to);
                let flags = if ranges { " flags interval;" } else { "" };
                if list.is_empty() {
                    flags.to_owned()
                } else {
                    format!("{flags} elements = {{ {list} }};")
                }
            }
            Content::Classes(elements) => {
                let ranges = elements.iter().any(|(from, to, _)| from != to);
                let each = |&(from, to, class): &(u128, u128, Handle)| {
                    format!("{} : {class}", range_text(set.key, from, to))
                };
                let list: Vec<String> = elements.iter().map(each).collect();
                let flags = if ranges { " flags interval;" } else { "" };
                let list = list.join(", ");
                return format!(
                    "map {} {{ {kind} : classid;{flags} elements = {{ {list} }}; }}",
                    set.name
                );
            }
            Content::Refreshed(refreshed) => {
                let each = refreshed.found.iter();
                let list: Vec<String> = each.map(|one| value_text(set.key, *one)).collect();
                if list.is_empty() {
                    " flags timeout;".to_owned()
                } else {
                    format!(" flags timeout; elements = {{ {} }};", list.join(", "))
                }
            }
            Content::Meter {
                size,
                timeout: Some(timeout),
            } => format!(" size {size}; flags dynamic,timeout; timeout {timeout}s;"),
            Content::Meter { size, .. } => format!(" size {size}; flags dynamic;"),
        };
        format!("set {} {{ {kind};{body} }}", set.name)
    }

    /// Returns the text with which a rule looks a field up. That is the name of the set. If the set
    /// is declared for values of another type, with which nft does not compare, it is the elements.
    pub(crate) fn looked_up(&self, field: Field, name: &str) -> String {
        let own = |field: Field| field.is_typed().then(|| field.name());
        let same = |first: Field| own(first) == own(field);
        let shared = |key| matches!(key, Key::Byte | Key::Short | Key::Long);
        match self.set(name).map(|set| (&set.content, set.key)) {
            Some((Content::Fixed(elements), key))
                if shared(key) && !self.declaring(name).is_some_and(same) =>
            {
                format!("{{ {} }}", elements_text(key, Some(field), elements))
            }
            _ => format!("@{name}"),
        }
    }

    /// Returns the field for whose values a set is declared: the first that is looked up in it.
    fn declaring(&self, name: &str) -> Option<Field> {
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        let mut matches = rules.flat_map(|rule| &rule.matches);
        matches.find_map(|one| match one {
            Match::Test {
                field,
                values: Values::Set(set),
                ..
            } if set == name => Some(*field),
            Match::Meter(meter) if meter.set == name => Some(meter.field),
            _ => None,
        })
    }
}

/// Returns the elements of a list, as values of the field that is looked up.
fn elements_text(key: Key, field: Option<Field>, elements: &[(u128, u128)]) -> String {
    let plain = |raw: u128| raw >> field.map_or(0, Field::shift);
    let each = |&(from, to): &(u128, u128)| range_text(key, plain(from), plain(to));
    let list: Vec<String> = elements.iter().map(each).collect();
    list.join(", ")
}

fn range_text(key: Key, from: u128, to: u128) -> String {
    let (first, last) = (value_text(key, from), value_text(key, to));
    if from == to {
        first
    } else {
        format!("{first}-{last}")
    }
}

pub(crate) fn value_text(key: Key, value: u128) -> String {
    match key {
        Key::Address(IpVersion::V4) => Ipv4Addr::from(value as u32).to_string(),
        Key::Address(IpVersion::V6) => Ipv6Addr::from(value).to_string(),
        Key::Mac => {
            let bytes = value.to_be_bytes();
            let each: Vec<String> = bytes[10..].iter().map(|b| format!("{b:02x}")).collect();
            each.join(":")
        }
        // nft reads a plain number as seconds.
        Key::Moment => (value / 1_000_000_000).to_string(),
        _ => value.to_string(),
    }
}
