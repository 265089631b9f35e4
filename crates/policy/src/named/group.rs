// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named groups: addresses, ports or MAC addresses that rules list as `@NAME`.

use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, row};
use crate::named::member::{Mac, Ports, Prefix, prefix};
use std::collections::BTreeMap;
use weirgate_document::{Problems, Reader, Value, nearest};
use weirgate_units::Span;

/// A named group of elements that rules can list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Value<String>,
    /// Addresses and prefixes, IPv4 and IPv6.
    pub addresses: Vec<Value<Prefix>>,
    /// Ports.
    pub ports: Vec<Value<Ports>>,
    /// MAC addresses.
    pub macs: Vec<Value<Mac>>,
    /// DNS names, which are looked up periodically for both IP versions. A group with names has
    /// no addresses.
    pub names: Vec<Value<String>>,
    /// The interval between look-ups.
    pub refresh: Span,
}

/// The groups of all files by name.
pub(crate) type Groups = BTreeMap<String, Group>;

/// The default interval between look-ups.
const REFRESH: Span = Span::from_secs(300);
/// The shortest and longest interval between look-ups. The lower bound limits the load on the
/// name server, and the upper bound the time that a stale address is used.
const OFTENEST: Span = Span::from_secs(30);
const RAREST: Span = Span::from_secs(86_400);

/// Parses a DNS name (RFC 1123 section 2.1), and removes a dot at its end.
fn dns_name(text: &str) -> Result<String, (String, String)> {
    let plain = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(right)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let number = plain.rsplit('.').next().unwrap_or_default();
    let address = number.bytes().all(|byte| byte.is_ascii_digit());
    if plain.len() <= 253 && plain.split('.').all(label) && !address {
        return Ok(plain.to_ascii_lowercase());
    }
    Err((
        format!("`{text}` is not a DNS name"),
        "write one such as `updates.example.org`; addresses go into `addresses`".to_owned(),
    ))
}

/// Returns whether a text can be the name of a group, service, rule set or rule. It becomes part
/// of a name in nftables.
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

/// The hint for an unusable name.
pub(crate) const USABLE: &str =
    "write 1 to 32 lower-case letters, digits, `-` and `_`, a letter first";

/// The table `[group.NAME]`.
pub(crate) const TABLE: Table = Table {
    name: "group",
    about: "Addresses, ports or MAC addresses under one name",
    rows: &[&ROWS],
};

type GroupRow = Row<Group>;

const ROWS: &[GroupRow] = &[
    GroupRow::new(
        "addresses",
        FieldKind::List("192.0.2.80"),
        "Addresses and prefixes of both IP versions",
        |cell, group| group.addresses = addresses(cell),
    ),
    row!(Group: "ports": FieldKind::List("8000-8080") => ports, "Ports and ranges"),
    row!(Group: "macs": FieldKind::List("02:00:5e:10:00:80") => macs, "MAC addresses"),
    GroupRow::new(
        "names",
        FieldKind::List("updates.example.org"),
        "DNS names, looked up periodically; not beside `addresses`",
        |cell, group| group.names = cell.list(codes::GROUP, dns_name),
    ),
    GroupRow::new(
        "refresh",
        FieldKind::Time,
        "The time between look-ups of names: 30s to 24h",
        |cell, group| {
            if let Some(found) = refresh(cell) {
                group.refresh = found;
            }
        },
    )
    .default("\"5min\""),
];

/// Reads `[group.NAME]`.
pub(crate) fn read(name: Value<String>, mut table: Reader<'_, '_>) -> Group {
    let problems = table.problems();
    if !usable(&name.value) {
        let wrong = format!("`{}` cannot be the name of a group", name.value);
        problems.error(codes::GROUP, name.span.clone(), wrong, USABLE);
    }
    let mut group = Group {
        name,
        addresses: Vec::new(),
        ports: Vec::new(),
        macs: Vec::new(),
        names: Vec::new(),
        refresh: REFRESH,
    };
    field::read(&mut table, ROWS, &(), &mut group);
    if let (Some(name), Some(address)) = (group.names.first(), group.addresses.first()) {
        problems.error(
            codes::GROUP,
            name.span.clone(),
            format!(
                "this group has `names` beside addresses such as `{}`",
                address.value
            ),
            "make two groups, one with `names`, and a rule for each",
        );
    }
    if table.is_empty() {
        problems.error(
            codes::GROUP,
            table.span(),
            "this group has no members",
            "list `addresses`, `names`, `ports` or `macs`",
        );
    }
    group
}

fn addresses(cell: &mut Cell<'_, '_, '_, ()>) -> Vec<Value<Prefix>> {
    let problems = cell.problems();
    let texts = cell.list(codes::ADDRESS, |text| Ok(text.to_owned()));
    let found =
        |text: Value<String>| prefix(&text, problems, |hint| hint).map(|found| text.map(|_| found));
    texts.into_iter().filter_map(found).collect()
}

/// Reads `refresh` and checks its bounds.
fn refresh(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Span> {
    let stated: Value<Span> = cell.parsed()?;
    if !(OFTENEST..=RAREST).contains(&stated.value) {
        cell.error(
            codes::GROUP,
            stated.span.clone(),
            format!("names cannot be looked up every {}", stated.value),
            "write a time from `30s` to `24h`",
        );
    }
    if !cell.table.has("names") {
        cell.error(
            codes::GROUP,
            stated.span,
            "there are no `names` to look up",
            "add `names`, or leave `refresh` out",
        );
    }
    Some(stated.value)
}

/// Returns the members of the group that `@name` refers to. Reports a group that has no members
/// of the required kind.
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

/// Returns the hint for an invalid list element. If it is the name of a group without its `@`,
/// the hint has the corrected text.
pub(crate) fn or_marked(
    cell: &Cell<'_, '_, '_, Groups>,
    text: &Value<String>,
    hint: String,
) -> String {
    if cell.context.contains_key(&text.value) {
        return format!("write `{} = \"@{}\"`", cell.key, text.value);
    }
    hint
}

/// Reads the elements of a condition's list. An element with `@` stands for the members of a
/// group.
pub(crate) fn elements<T: Clone>(
    cell: &mut Cell<'_, '_, '_, Groups>,
    code: &'static str,
    kind: &str,
    of: impl Fn(&Group) -> &Vec<Value<T>>,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Vec<Value<T>> {
    let mut list = Vec::new();
    for text in cell.list(code, |text| Ok(text.to_owned())) {
        if text.value.starts_with('@') {
            let found = members(cell.context, &text, kind, cell.problems(), &of);
            list.extend(
                found
                    .unwrap_or_default()
                    .into_iter()
                    .map(|one| text.clone().map(|_| one)),
            );
            continue;
        }
        match read(&text.value) {
            Ok(found) => list.push(text.map(|_| found)),
            Err((wrong, right)) => {
                let right = or_marked(cell, &text, right);
                cell.error(code, text.span, wrong, right);
            }
        }
    }
    list
}
