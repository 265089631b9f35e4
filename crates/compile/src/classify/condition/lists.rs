// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sets of a table: a list of several values is looked up in a set. A list that belongs to a
//! group has its name, and equal lists share one set.

use crate::classify::naming;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weirgate_document::Value;
use weirgate_policy::{Policy, Ports, Prefix};
use weirgate_state::{Content, Field, IpVersion, Key, Match, Origin, Refreshed, Set};
use weirgate_units::Inserted as _;

/// Ranges of values, including their ends.
pub(super) type Ranges = Vec<(u128, u128)>;

/// Collects the sets that a table needs.
pub(crate) struct Lists<'a> {
    sets: &'a mut Vec<Set>,
    /// The index of each set, by name.
    indices: BTreeMap<String, usize>,
    /// The contents of groups, by name.
    named: Vec<(String, Key, Ranges)>,
    /// Groups of DNS names, which are refreshed.
    refreshed: Vec<(String, Refreshed)>,
}

impl<'a> Lists<'a> {
    pub(crate) fn new(policy: &Policy, sets: &'a mut Vec<Set>) -> Self {
        let mut named = Vec::new();
        for group in &policy.groups {
            let name = format!("group_{}", group.name.value.replace('-', "_"));
            for version in IpVersion::BOTH {
                let list = addresses(&group.addresses, version);
                let key = Key::Address(version);
                named.push((format!("{name}_{}", version.number()), key, list));
            }
            let ports = port_ranges(&group.ports);
            named.push((format!("{name}_ports"), Key::Short, ports));
            let macs = group.macs.iter().map(|mac| single(mac.value.0.into()));
            named.push((format!("{name}_macs"), Key::Mac, macs.collect()));
        }
        for (_, _, list) in &mut named {
            *list = sorted(list);
        }
        named.retain(|(_, _, list)| !list.is_empty());
        let refreshed = policy
            .groups
            .iter()
            .filter(|group| !group.names.is_empty())
            .map(|group| {
                let hosts = group.names.iter().map(|name| name.value.clone());
                let every = group.refresh.as_nanos() / 1_000_000_000;
                let refreshed = Refreshed {
                    names: hosts.collect(),
                    every: u32::try_from(every).unwrap_or(u32::MAX),
                    found: Vec::new(),
                };
                (group.name.value.clone(), refreshed)
            })
            .collect();
        let indices = sets.iter().enumerate();
        let indices = indices.map(|(at, set)| (set.name.clone(), at)).inserted();
        Self {
            sets,
            indices,
            named,
            refreshed,
        }
    }

    /// Returns a match of a field against the addresses of a group of DNS names.
    pub(super) fn of_names(&mut self, field: Field, version: IpVersion, group: &str) -> Match {
        let mut known = self.refreshed.iter();
        let found = known.find(|(name, _)| name == group);
        let name = format!("group_{}_{}", group.replace('-', "_"), version.number());
        self.add(Set {
            name: name.clone(),
            key: Key::Address(version),
            content: Content::Refreshed(found.map(|found| found.1.clone()).unwrap_or_default()),
            origin: Origin::default(),
        });
        Match::within(field, &name)
    }

    /// Adds a set unless one with its name exists.
    pub(crate) fn add(&mut self, set: Set) {
        if !self.indices.contains_key(&set.name) {
            self.indices.insert(set.name.clone(), self.sets.len());
            self.sets.push(set);
        }
    }

    /// Returns a match of a field against a list of values.
    pub(super) fn any(&mut self, field: Field, list: &Ranges) -> Match {
        let list = sorted(list);
        if let [(from, to)] = list.as_slice() {
            return Match::range(field, *from, *to);
        }
        let Some(key) = field.key() else {
            return Match::range(field, 0, 0);
        };
        // Other fields number their values differently, so they cannot share a set with these.
        let plain = matches!(key, Key::Address(_) | Key::Mac)
            || matches!(field, Field::SourcePort | Field::DestinationPort);
        let group = self
            .named
            .iter()
            .find(|known| known.1 == key && known.2 == list);
        let name = match group.filter(|_| plain) {
            Some((name, _, _)) => name.clone(),
            None => self.anonymous(field, key, &list),
        };
        let raw = list
            .iter()
            .map(|(from, to)| (field.raw(*from), field.raw(*to)))
            .collect();
        self.add(Set {
            name: name.clone(),
            key,
            content: Content::Fixed(raw),
            origin: Origin::default(),
        });
        Match::within(field, &name)
    }

    /// Returns the name of a set for a list. It depends only on the values, so that lists with
    /// equal values share a set, and the name does not change with other lists.
    fn anonymous(&self, field: Field, key: Key, list: &Ranges) -> String {
        let raw: Ranges = list
            .iter()
            .map(|(from, to)| (field.raw(*from), field.raw(*to)))
            .collect();
        let name = format!("list_{}", naming::digest(&format!("{key:?}{raw:?}")));
        let content = Content::Fixed(raw);
        let taken = |name: &str| {
            let known = self.indices.get(name).and_then(|at| self.sets.get(*at));
            known.is_some_and(|set| set.key != key || set.content != content)
        };
        let mut free = name.clone();
        let mut number = 2;
        while taken(&free) {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }
}

/// Returns a range with a single value.
pub(super) const fn single(value: u128) -> (u128, u128) {
    (value, value)
}

/// Sorts ranges, and merges those that overlap or are adjacent.
fn sorted(list: &Ranges) -> Ranges {
    let set = Set {
        name: String::new(),
        key: Key::Long,
        content: Content::Fixed(list.clone()),
        origin: Origin::default(),
    };
    match set.canonical().content {
        Content::Fixed(list) => list,
        Content::Classes(_) | Content::Meter { .. } | Content::Refreshed(_) => Vec::new(),
    }
}

/// Returns the addresses of one IP version as ranges.
pub(super) fn addresses(list: &[Value<Prefix>], version: IpVersion) -> Ranges {
    list.iter()
        .filter(|prefix| prefix.value.is_v4() == (version == IpVersion::V4))
        .map(|prefix| {
            let Prefix { address, length } = prefix.value;
            let (value, bits) = match address {
                IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32_u32),
                IpAddr::V6(v6) => (u128::from(v6), 128),
            };
            let host = 128 - (bits - u32::from(length));
            let rest = u128::MAX.checked_shr(host).unwrap_or(0);
            (value & !rest, value | rest)
        })
        .collect()
}

/// Returns ports as ranges.
pub(super) fn port_ranges(list: &[Value<Ports>]) -> Ranges {
    let range = |ports: Ports| (ports.from.into(), ports.to.into());
    list.iter().map(|ports| range(ports.value)).collect()
}
