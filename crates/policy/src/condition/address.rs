// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `local-address` and `remote-address`: addresses and prefixes of the inside
//! and of the outside host, or a group of DNS names in place of a list.

use crate::codes;
use crate::condition::number::{Misread, digits};
use crate::condition::{ConditionRow, Facts, Finding, Known, When, first, within};
use crate::field::{Cell, FieldKind};
use crate::named::group::{self, Groups};
use std::fmt;
use std::net::IpAddr;
use weirgate_document::{Problems, Span, Value};

/// An address prefix; a single address has its full length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The network address, host bits clear.
    pub address: IpAddr,
    /// Its length in bits, 0 to 32 or 128.
    pub length: u8,
}

/// Why a text is not a prefix: host bits have a code of their own.
enum NotPrefix {
    Unreadable(Misread),
    HostBits(Misread),
}

impl Prefix {
    fn read(text: &str) -> Result<Self, NotPrefix> {
        let unreadable = |hint: &str| {
            NotPrefix::Unreadable((
                format!("`{text}` is not an address or prefix"),
                hint.to_owned(),
            ))
        };
        let hint =
            "write an IPv4 or IPv6 address or prefix, such as `192.0.2.0/24` or `2001:db8::/32`";
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| unreadable(hint))?;
        let full = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => full,
            Some(length) => digits(length)
                .and_then(|length| u8::try_from(length).ok())
                .filter(|length| *length <= full)
                .ok_or_else(|| unreadable(&format!("write a prefix length from 0 to {full}")))?,
        };
        let network = network(address, length);
        if network != address {
            return Err(NotPrefix::HostBits((
                format!("`{text}` has bits set beyond its first {length}"),
                format!(
                    "write `{network}/{length}` for the network, or the address without a length"
                ),
            )));
        }
        Ok(Self { address, length })
    }

    /// Reads an address or a prefix without host bits.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
    pub fn of_text(text: &str) -> Result<Self, Misread> {
        Self::read(text).map_err(|error| match error {
            NotPrefix::Unreadable(misread) | NotPrefix::HostBits(misread) => misread,
        })
    }

    /// A single address.
    #[must_use]
    pub const fn single(address: IpAddr) -> Self {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Self { address, length }
    }

    /// Whether it is of IPv4.
    #[must_use]
    pub const fn is_v4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether all of another's addresses are its own.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.is_v4() == other.is_v4()
            && self.length <= other.length
            && network(other.address, self.length) == self.address
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// The address with everything after the first `length` bits cleared.
fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// Addresses of the inside host, any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddresses(pub Vec<Value<Prefix>>);

/// Addresses of the outside host, any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAddresses(pub Vec<Value<Prefix>>);

/// The group of DNS names of which the inside host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNames(pub Value<String>);

/// The group of DNS names of which the outside host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteNames(pub Value<String>);

pub(crate) const LOCAL: ConditionRow = ConditionRow::new(
    "local-address",
    FieldKind::List("192.0.2.7"),
    "Addresses of the inside host, prefixes or @groups",
    |cell, when| match addresses(cell) {
        (_, Some(names)) => when.add(LocalNames(names)),
        (list, None) => when.add_list(list, LocalAddresses),
    },
);

pub(crate) const REMOTE: ConditionRow = ConditionRow::new(
    "remote-address",
    FieldKind::List("198.51.100.0/24"),
    "Addresses of the outside host, prefixes or @groups",
    |cell, when| match addresses(cell) {
        (_, Some(names)) => when.add(RemoteNames(names)),
        (list, None) => when.add_list(list, RemoteAddresses),
    },
);

/// The addresses of a list, or the group of names that it is.
pub(crate) fn addresses(
    cell: &mut Cell<'_, '_, '_, Groups>,
) -> (Vec<Value<Prefix>>, Option<Value<String>>) {
    let (problems, groups) = (cell.problems(), cell.context);
    // Host bits have a code of their own, so the list is read in two steps.
    let texts = cell.list(codes::ADDRESS, |text| Ok(text.to_owned()));
    let mut list = Vec::new();
    let named = |text: &&Value<String>| {
        let group = text
            .value
            .strip_prefix('@')
            .and_then(|name| groups.get(name));
        group.is_some_and(|group| !group.names.is_empty())
    };
    if let Some(text) = texts.iter().find(named) {
        if texts.len() > 1 {
            problems.error(
                codes::GROUP,
                text.span.clone(),
                format!(
                    "`{}` is a group of DNS names, beside others in one list",
                    text.value
                ),
                "let it stand alone, and make another rule for the rest",
            );
        }
        let group = text
            .clone()
            .map(|text| text.trim_start_matches('@').to_owned());
        return (Vec::new(), Some(group));
    }
    for text in texts {
        if text.value.starts_with('@') {
            let found = group::members(groups, &text, "addresses", problems, |group| {
                &group.addresses
            });
            for member in found.unwrap_or_default() {
                list.push(text.clone().map(|_| member));
            }
            continue;
        }
        match Prefix::read(&text.value) {
            Ok(prefix) => list.push(text.map(|_| prefix)),
            Err(NotPrefix::Unreadable((wrong, right))) => {
                let right = group::or_marked(cell, &text, right);
                problems.error(codes::ADDRESS, text.span, wrong, right);
            }
            Err(NotPrefix::HostBits((wrong, right))) => {
                problems.error(codes::HOST_BITS, text.span, wrong, right);
            }
        }
    }
    (list, None)
}

/// An address or prefix.
pub(crate) fn prefix(text: &Value<String>, problems: &Problems) -> Option<Prefix> {
    match Prefix::read(&text.value) {
        Ok(prefix) => return Some(prefix),
        Err(NotPrefix::Unreadable((wrong, right))) => {
            problems.error(codes::ADDRESS, text.span.clone(), wrong, right);
        }
        Err(NotPrefix::HostBits((wrong, right))) => {
            problems.error(codes::HOST_BITS, text.span.clone(), wrong, right);
        }
    }
    None
}

fn sides(when: &When) -> [&[Value<Prefix>]; 2] {
    let local = when.find().map(|LocalAddresses(list)| list.as_slice());
    let remote = when.find().map(|RemoteAddresses(list)| list.as_slice());
    [local.unwrap_or_default(), remote.unwrap_or_default()]
}

/// Whether an address of either side is stated.
pub(super) fn is_stated(when: &When) -> bool {
    sides(when).iter().any(|list| !list.is_empty())
}

/// Whether the addresses of a side are all of IPv4, and whether those of a side
/// are all of IPv6.
pub(super) fn versions(when: &When) -> (bool, bool) {
    let only = |v4: bool| {
        sides(when)
            .iter()
            .any(|list| !list.is_empty() && list.iter().all(|one| one.value.is_v4() == v4))
    };
    (only(true), only(false))
}

impl Facts for LocalAddresses {
    fn span(&self) -> Option<&Span> {
        first(&self.0)
    }

    fn known(&self) -> Known {
        Known::Packet
    }

    fn covers(&self, later: &When) -> bool {
        let later = later.find::<Self>().map(|later| later.0.as_slice());
        within(&self.0, later, Prefix::contains)
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}

impl Facts for RemoteAddresses {
    fn span(&self) -> Option<&Span> {
        first(&self.0)
    }

    fn known(&self) -> Known {
        Known::Packet
    }

    fn covers(&self, later: &When) -> bool {
        let later = later.find::<Self>().map(|later| later.0.as_slice());
        within(&self.0, later, Prefix::contains)
    }

    fn elements(&self) -> usize {
        self.0.len()
    }

    fn contradictions(&self, when: &When, add: &mut dyn FnMut(Finding)) {
        if let ((true, true), Some(span)) = (versions(when), self.span()) {
            let wrong = "one side is of IPv4, the other of IPv6".to_owned();
            let right = "no packet has both; make two rules";
            add((codes::CONTRADICTION, span.clone(), wrong, right));
        }
    }
}

impl Facts for LocalNames {
    fn span(&self) -> Option<&Span> {
        Some(&self.0.span)
    }

    fn known(&self) -> Known {
        Known::Packet
    }

    fn covers(&self, _later: &When) -> bool {
        false
    }
}

impl Facts for RemoteNames {
    fn span(&self) -> Option<&Span> {
        Some(&self.0.span)
    }

    fn known(&self) -> Known {
        Known::Packet
    }

    fn covers(&self, _later: &When) -> bool {
        false
    }
}
