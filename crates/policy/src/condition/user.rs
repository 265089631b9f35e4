// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `uid` and `gid`: the user or group that owns the sending socket on this machine.

use crate::codes;
use crate::condition::facts::{ConditionRow, Facts, Origin, first};
use crate::condition::number::{Misread, digits};
use crate::field::FieldKind;
use weirgate_document::{SourceSpan, Value};

/// A range of users' or groups' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// The first number.
    pub from: u32,
    /// The last number.
    pub to: u32,
}

impl Ids {
    /// Reads numbers of `field`, which the command prints for a name.
    fn read(text: &str, field: &str, command: &str) -> Result<Self, Misread> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        // The largest number is reserved for an invalid ID (`INVALID_UID`).
        let id = |text: &str| {
            let found = digits(text.trim());
            found.filter(|id| *id < u32::MAX)
        };
        match (id(first), id(last)) {
            (Some(from), Some(to)) if from <= to => Ok(Self { from, to }),
            (Some(_), Some(_)) => Err((
                format!("`{text}` ends before it begins"),
                "write the lower number first".to_owned(),
            )),
            _ => Err((
                format!("`{text}` is not the number of a user or group"),
                if digits(text).is_some() {
                    format!("write numbers up to {}", u32::MAX - 1)
                } else {
                    format!(
                        "write the number that `{command} {text}` prints, such as `{field} = 1000`, or \
                     a range, such as `1000-1999`"
                    )
                },
            )),
        }
    }
}

fn user(text: &str) -> Result<Ids, Misread> {
    Ids::read(text, "uid", "id -u")
}

fn group(text: &str) -> Result<Ids, Misread> {
    Ids::read(text, "gid", "getent group")
}

/// The accepted users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users(pub Vec<Value<Ids>>);

/// The accepted groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserGroups(pub Vec<Value<Ids>>);

pub(crate) const UID: ConditionRow = ConditionRow::new(
    "uid",
    FieldKind::List("1000"),
    "Upstream, the router's own packets: users who own the sending sockets, numbers or ranges",
    |cell, when| when.add_list(cell.list(codes::USER, user), Users),
);

pub(crate) const GID: ConditionRow = ConditionRow::new(
    "gid",
    FieldKind::List("100"),
    "Upstream, the router's own packets: groups that own the sending sockets, numbers or ranges",
    |cell, when| when.add_list(cell.list(codes::USER, group), UserGroups),
);

impl Facts for Users {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn origin(&self) -> Option<Origin> {
        Some(Origin::Here(codes::USER, "a user or a group"))
    }
}

impl Facts for UserGroups {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn origin(&self) -> Option<Origin> {
        Some(Origin::Here(codes::USER, "a user or a group"))
    }
}
