// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named groups: what rules list by one name.

use crate::codes;
use crate::matching::{Mac, Ports};
use crate::model::Group;
use crate::read::understood_list;
use crate::when::prefix;
use std::collections::BTreeMap;
use weirgate_document::{Problems, Reader, Value, nearest};

/// The groups of all files by name.
pub(crate) type Groups = BTreeMap<String, Group>;

/// Whether a text can be the name of a group, service, rule set or rule: it
/// becomes part of a name in nftables.
pub(crate) fn usable(name: &str) -> bool {
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase());
    let rest = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
    };
    first && name.len() <= 32 && name.bytes().all(rest)
}

/// What a usable name is.
pub(crate) const USABLE: &str = "write 1 to 32 small letters, digits, `-` and `_`, a letter first";

/// Reads `[group.NAME]`.
pub(crate) fn read(name: Value<String>, mut table: Reader<'_, '_>) -> Group {
    let problems = table.problems();
    if !usable(&name.value) {
        let wrong = format!("`{}` cannot be the name of a group", name.value);
        problems.error(codes::GROUP, name.span.clone(), wrong, USABLE);
    }
    let texts = understood_list(&mut table, "addresses", codes::ADDRESS, |text| {
        Ok(text.to_owned())
    });
    let addresses = texts
        .into_iter()
        .filter_map(|text| prefix(&text, problems).map(|found| text.map(|_| found)))
        .collect();
    let group = Group {
        name,
        addresses,
        ports: understood_list(&mut table, "ports", codes::PORT, Ports::read),
        macs: understood_list(&mut table, "macs", codes::MAC, Mac::read),
    };
    if table.is_empty() {
        problems.error(
            codes::GROUP,
            table.span(),
            "this group has no members",
            "list `addresses`, `ports` or `macs`",
        );
    }
    group
}

/// The members of the group that `@name` names; an error where it has none of
/// the kind.
pub(crate) fn members<T: Clone>(
    groups: &Groups,
    text: &Value<String>,
    kind: &str,
    problems: &Problems,
    of: impl Fn(&Group) -> &Vec<Value<T>>,
) -> Option<Vec<T>> {
    let name = text.value.trim_start_matches('@');
    let Some(group) = groups.get(name) else {
        let hint = match nearest(name, groups.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `@{near}`?"),
            None => format!("write a table `[group.{name}]`"),
        };
        let wrong = format!("there is no group `{name}`");
        problems.error(codes::GROUP, text.span.clone(), wrong, hint);
        return None;
    };
    let list = of(group);
    if list.is_empty() {
        let wrong = format!("the group `{name}` has no {kind}");
        let right = format!("add `{kind}` to it, or name another group");
        problems.error(codes::GROUP, text.span.clone(), wrong, right);
        return None;
    }
    Some(list.iter().map(|value| value.value.clone()).collect())
}
