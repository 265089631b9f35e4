// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `local-address` and `remote-address`: addresses and prefixes of the inside and of the outside
//! host, or a group of DNS names instead of a list.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts, Finding, extent, first, within};
use crate::field::{Cell, FieldKind};
use crate::named::group::{self, Groups};
use crate::named::member::{Prefix, prefix};
use weirgate_document::{SourceSpan, Value};

/// The accepted addresses of the inside host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddresses(pub Vec<Value<Prefix>>);

/// The accepted addresses of the outside host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAddresses(pub Vec<Value<Prefix>>);

/// The group of DNS names to which the inside host must belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNames(pub Value<String>);

/// The group of DNS names to which the outside host must belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteNames(pub Value<String>);

pub(crate) const LOCAL: ConditionRow = ConditionRow::new(
    "local-address",
    FieldKind::List("192.0.2.7"),
    "Addresses of the inside host, IPv4 or IPv6, prefixes or @groups",
    |cell, when| match addresses(cell) {
        (_, Some(names)) => when.add(LocalNames(names)),
        (list, None) => when.add_list(list, LocalAddresses),
    },
);

pub(crate) const REMOTE: ConditionRow = ConditionRow::new(
    "remote-address",
    FieldKind::List("198.51.100.0/24"),
    "Addresses of the outside host, IPv4 or IPv6, prefixes or @groups",
    |cell, when| match addresses(cell) {
        (_, Some(names)) => when.add(RemoteNames(names)),
        (list, None) => when.add_list(list, RemoteAddresses),
    },
);

/// Reads a list of addresses, or a group of DNS names.
pub(crate) fn addresses(
    cell: &mut Cell<'_, '_, '_, Groups>,
) -> (Vec<Value<Prefix>>, Option<Value<String>>) {
    let (problems, groups) = (cell.problems(), cell.context);
    // Host bits have their own problem code, so elements are parsed in a second step.
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
                    "`{}` is a group of DNS names in a list with other elements",
                    text.value
                ),
                "write it alone, and make another rule for the rest",
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
        let hint = |hint| group::or_marked(cell, &text, hint);
        if let Some(prefix) = prefix(&text, problems, hint) {
            list.push(text.map(|_| prefix));
        }
    }
    (list, None)
}

fn sides(when: &Conditions) -> [&[Value<Prefix>]; 2] {
    let local = when.find().map(|LocalAddresses(list)| list.as_slice());
    let remote = when.find().map(|RemoteAddresses(list)| list.as_slice());
    [local.unwrap_or_default(), remote.unwrap_or_default()]
}

/// Returns whether either side has addresses.
pub(super) fn is_stated(when: &Conditions) -> bool {
    sides(when).iter().any(|list| !list.is_empty())
}

/// Returns whether the addresses of one side are all IPv4, and whether those of one side are all
/// IPv6.
pub(super) fn versions(when: &Conditions) -> (bool, bool) {
    let only = |v4: bool| {
        sides(when)
            .iter()
            .any(|list| !list.is_empty() && list.iter().all(|one| one.value.is_v4() == v4))
    };
    (only(true), only(false))
}

impl Facts for LocalAddresses {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn covers(&self, later: &Conditions) -> bool {
        let later = later.find::<Self>().map(|later| later.0.as_slice());
        within(&self.0, later, Prefix::contains)
    }

    fn extent(&self) -> Option<(u128, u128)> {
        extent(self.0.iter().map(|one| one.value.range()))
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}

impl Facts for RemoteAddresses {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn covers(&self, later: &Conditions) -> bool {
        let later = later.find::<Self>().map(|later| later.0.as_slice());
        within(&self.0, later, Prefix::contains)
    }

    fn extent(&self) -> Option<(u128, u128)> {
        extent(self.0.iter().map(|one| one.value.range()))
    }

    fn elements(&self) -> usize {
        self.0.len()
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        if let ((true, true), Some(span)) = (versions(when), self.span()) {
            let wrong =
                "the addresses of one side are of IPv4, those of the other of IPv6".to_owned();
            let right = "no packet matches both; make two rules";
            add((codes::CONTRADICTION, span.clone(), wrong, right));
        }
    }
}

impl Facts for LocalNames {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0.span)
    }
}

impl Facts for RemoteNames {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0.span)
    }
}
