// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups (version 2) as conditions: their paths, and the bits of a
//! packet's mark in which a packet's group is numbered.

use crate::codes;
use crate::condition::facts::{ConditionRow, Conditions, Facts, Finding, first};
use crate::condition::number::number;
use crate::condition::user::forwarded;
use crate::field::FieldKind;
use std::fmt;
use weirgate_document::{Span, Value};

/// The bits of a packet's mark without `[marks]`: 15 groups.
pub(crate) const MASK: u32 = 0xf000_0000;
/// The most bits: every group is a rule that each of the machine's own packets
/// is tried on.
const MOST_BITS: u32 = 8;
/// The deepest path. The kernel counts to 255 (`nft_socket_init`).
const DEEPEST: usize = 32;
/// Bytes of a part (`NAME_MAX`) and of the whole.
const LONGEST: (usize, usize) = (255, 1024);

/// The path of a control group, from below the root of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControlGroup(String);

impl ControlGroup {
    pub(crate) fn read(text: &str) -> Result<Self, (String, String)> {
        let wrong = |what: &str| {
            let right = "write it from below the root, such as `system.slice/backup.service`: \
                         `systemctl show -p ControlGroup UNIT` tells it, with a `/` before it \
                         that is left out here";
            Err((format!("`{text}` {what}"), right.to_owned()))
        };
        if text.starts_with('/') {
            return wrong("begins with a `/`");
        }
        if text.len() > LONGEST.1 || text.split('/').any(|part| part.len() > LONGEST.0) {
            return wrong("is longer than the path of a control group can be");
        }
        if text.split('/').any(|part| ["", ".", ".."].contains(&part)) {
            return wrong("has a part that is empty, `.` or `..`");
        }
        if text.split('/').count() > DEEPEST {
            return wrong("is more than 32 levels deep");
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return wrong("has a space or a control character in it");
        }
        Ok(Self(text.to_owned()))
    }

    /// The path, without a `/` before it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// How many levels below the root it is, from 1 to 32.
    #[must_use]
    pub fn level(&self) -> u8 {
        // At most 32 parts were read.
        self.0.split('/').count() as u8
    }

    /// Whether it is the other group, or below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let rest = self.0.strip_prefix(&other.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for ControlGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any of these control groups, or one below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups(pub Vec<Value<ControlGroup>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "cgroup",
    FieldKind::List("system.slice/backup.service"),
    "Upstream, the router's own packets: control groups (version 2) in which the sockets that \
     send them were made, with those below",
    |cell, when| {
        let list = cell.list(codes::CONTROL_GROUP, ControlGroup::read);
        when.add_list(list, ControlGroups);
    },
);

impl Facts for ControlGroups {
    fn span(&self) -> Option<&Span> {
        first(&self.0)
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        forwarded(when, codes::CONTROL_GROUP, "a control group", add);
    }
}

/// Reads the bits of `[marks]`.
pub(crate) fn mask(text: &str) -> Result<u32, (String, String)> {
    let mask = number(text)?;
    let run = mask.checked_shr(mask.trailing_zeros()).unwrap_or(0);
    if mask == 0 || run & run.wrapping_add(1) != 0 || run.count_ones() > MOST_BITS {
        return Err((
            format!("`{text}` is not 1 to {MOST_BITS} bits that stand together"),
            "write a mask such as `0xf0000000`, which has room for 15 numbers".to_owned(),
        ));
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> ControlGroup {
        ControlGroup::read(text).unwrap()
    }

    #[test]
    fn a_group_is_within_those_above_it_only() {
        assert!(group("a/b").is_within(&group("a")));
        assert!(group("a").is_within(&group("a")));
        assert!(!group("a").is_within(&group("a/b")));
        assert!(!group("ab").is_within(&group("a")));
        assert_eq!(group("system.slice/a.service").level(), 2);
    }

    #[test]
    fn paths_are_bounded() {
        for wrong in ["", "/", "/a", "a/", "a//b", "a/../b", ".", "a b", "a\nb"] {
            assert!(ControlGroup::read(wrong).is_err(), "{wrong:?}");
        }
        assert!(ControlGroup::read(&["a"; 32].join("/")).is_ok());
        assert!(ControlGroup::read(&["a"; 33].join("/")).is_err());
        assert!(ControlGroup::read(&"a".repeat(255)).is_ok());
        assert!(ControlGroup::read(&"a".repeat(256)).is_err());
    }

    #[test]
    fn bits_stand_together() {
        assert_eq!(mask("0xf0000000"), Ok(0xf000_0000));
        assert_eq!(mask("0xff"), Ok(0xff));
        for wrong in ["0", "0x1ff", "0x5", "0xffffffff"] {
            assert!(mask(wrong).is_err(), "{wrong}");
        }
    }
}
