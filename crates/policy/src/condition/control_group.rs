// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cgroup`: control groups (version 2) by their paths. Bits of a packet's mark hold their
//! numbers.

use crate::codes;
use crate::condition::facts::{ConditionRow, Facts, Origin, first};
use crate::field::FieldKind;
use crate::model::Rule;
use std::fmt;
use weirgate_document::{SourceSpan, Value};

/// The largest depth of a path. The kernel's limit is 255 (`nft_socket_init`).
const DEEPEST: usize = 32;
/// The largest length in bytes of a path component (`NAME_MAX`) and of a path.
const LONGEST: (usize, usize) = (255, 1024);

/// The path of a control group, relative to the root of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControlGroup(String);

impl ControlGroup {
    pub(crate) fn read(text: &str) -> Result<Self, (String, String)> {
        let wrong = |what: &str| {
            let right = "write the path from below the root, such as \
                         `system.slice/backup.service`: `systemctl show -p ControlGroup UNIT` \
                         prints it; omit the `/` at its front";
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

    /// Returns the path, without a `/` before it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Returns the number of levels below the root, from 1 to 32.
    #[must_use]
    pub fn level(&self) -> u8 {
        // The cast cannot overflow: a path has at most 32 components.
        self.0.split('/').count() as u8
    }

    /// Returns whether it is the other group or one of its descendants.
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

/// The accepted control groups. Their descendants are accepted too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups(pub Vec<Value<ControlGroup>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "cgroup",
    FieldKind::List("system.slice/backup.service"),
    "Upstream, the router's own packets: control groups (version 2) in which the sending \
     sockets were created, and groups below them",
    |cell, when| {
        let list = cell.list(codes::CONTROL_GROUP, ControlGroup::read);
        when.add_list(list, ControlGroups);
    },
);

impl Facts for ControlGroups {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn origin(&self) -> Option<Origin> {
        Some(Origin::Here(codes::CONTROL_GROUP, "a control group"))
    }
}

impl ControlGroups {
    /// Returns the control groups in rules, each once, in the order of their first use.
    #[must_use]
    pub fn named(rules: &[Rule]) -> Vec<&Value<ControlGroup>> {
        let mut found: Vec<&Value<ControlGroup>> = Vec::new();
        for Self(list) in rules.iter().flat_map(Rule::find) {
            for one in list {
                if !found.iter().any(|known| known.value == one.value) {
                    found.push(one);
                }
            }
        }
        found
    }

    /// Returns the position where a rule first tests a control group. If a service has the
    /// condition, it is the position of the rule, since the service's is in another text.
    pub(crate) fn asked(rules: &[Rule]) -> Option<&SourceSpan> {
        rules.iter().find_map(|rule| {
            rule.find::<Self>().next()?;
            let own = rule.when.find::<Self>().and_then(Facts::span);
            Some(own.unwrap_or(&rule.span))
        })
    }
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
}
