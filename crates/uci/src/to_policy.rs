// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts UCI to the text of a policy.

use crate::SERVICE;
use crate::codes;
use crate::fields::{NAME, ROOT, WITHIN, called, fields, inner, several, written};
use crate::read::{Choice, Section, read};
use std::collections::BTreeMap;
use weirgate_document::{Draft, Origins, Problem, Problems, quoted};
use weirgate_policy::FieldKind;

/// The contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// The policy's text.
    pub policy: String,
    /// The places of the policy's parts in the file.
    pub origins: Origins,
    /// Whether the service applies the policy.
    pub enabled: bool,
}

const OPTIONS: &str = "docs/guides/openwrt.md has how options are called; \
                       `weirgate export --uci` writes them";

/// Returns the policy in a file.
///
/// # Errors
///
/// Fails if [`convert`] reports a problem. All mistakes are returned, in the order of their places.
pub fn to_policy(text: &str) -> Result<Configured, Vec<Problem>> {
    let problems = Problems::default();
    let configured = convert(text, &problems);
    if problems.has_errors() {
        return Err(problems.into_sorted());
    }
    Ok(configured)
}

/// Returns what a file has of a policy. Reports what is not UCI, and sections and options that are
/// not tables and fields of a policy; the policy is without them.
#[must_use]
pub fn convert(text: &str, problems: &Problems) -> Configured {
    let mut enabled = true;
    let mut policy = Draft::default();
    let mut tables = Draft::default();
    // The last section of each table that may contain others, by the path of its header.
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut once: Vec<String> = Vec::new();
    for section in read(text, problems) {
        let reader = Reading {
            section: &section,
            problems,
        };
        let kind = section.kind.as_str();
        let own = kind == SERVICE || kind == ROOT;
        let target = if own {
            None
        } else {
            let Some(target) = reader.table(&last) else {
                continue;
            };
            Some(target)
        };
        let path = target.as_ref().map_or(kind, |target| &target.path);
        if target.as_ref().is_none_or(|target| target.single) && once.iter().any(|one| one == path)
        {
            reader.misplaced(format!("a second {}", reader.shown()), OPTIONS);
            continue;
        }
        once.push(path.to_owned());
        match target {
            None if kind == SERVICE => enabled = reader.service(),
            None => reader.body(&mut policy, ROOT, false),
            Some(target) => {
                let (open, close) = if target.array {
                    ("[[", "]]")
                } else {
                    ("[", "]")
                };
                let header = format!("\n{open}{}{close}\n", target.path);
                tables.push(&header, &section.span);
                reader.body(&mut tables, target.table, target.named);
                last.insert(kind.to_owned(), target.path);
            }
        }
    }
    policy.append(tables);
    Configured {
        policy: policy.text,
        origins: policy.origins,
        enabled,
    }
}

/// The table of a policy that a section becomes.
struct PolicyTable {
    /// Its header, without brackets.
    path: String,
    /// Its table in the registry.
    table: &'static str,
    /// Whether a policy has several of them, in order.
    array: bool,
    /// Whether it may occur only once.
    single: bool,
    /// Whether an option has its name.
    named: bool,
}

/// One section, and where its mistakes are reported.
struct Reading<'a> {
    section: &'a Section,
    problems: &'a Problems,
}

impl Reading<'_> {
    fn misplaced(&self, what: String, hint: &str) {
        let span = self.section.span.clone();
        self.problems.error(codes::UNKNOWN, span, what, hint);
    }

    fn wrong(&self, choice: &Choice, what: String, hint: &str) {
        let span = choice.span.clone();
        self.problems.error(codes::VALUE, span, what, hint);
    }

    fn unknown(&self, choice: &Choice, hint: &str) {
        let what = format!("`{}` is no option of {}", choice.name, self.shown());
        let span = choice.name_span.clone();
        self.problems.error(codes::UNKNOWN, span, what, hint);
    }

    fn shown(&self) -> String {
        format!("`config {}`", self.section.kind)
    }

    /// Returns whether the service's own section enables it.
    fn service(&self) -> bool {
        let mut enabled = true;
        for choice in &self.section.choices {
            let right = "write option enabled '1' or '0'";
            if choice.name != "enabled" {
                self.unknown(choice, right);
            } else if let Some(value) = truth(&choice.value) {
                enabled = value;
            } else {
                let what = format!("`enabled` cannot be `{}`", choice.value);
                self.wrong(choice, what, right);
            }
        }
        enabled
    }

    /// Returns the table that the section becomes; reports it if a policy has none.
    fn table(&self, last: &BTreeMap<String, String>) -> Option<PolicyTable> {
        let kind = self.section.kind.as_str();
        for field in fields(ROOT) {
            let own = written(field.name);
            if let FieldKind::Table(table) = field.kind
                && own == kind
            {
                return Some(PolicyTable {
                    path: field.name.to_owned(),
                    table,
                    array: false,
                    single: true,
                    named: false,
                });
            }
            let Some(table) = several(field.kind) else {
                continue;
            };
            if own == kind {
                return self.one_of(field.name, field.kind, table);
            }
            let Some(within) = kind.strip_prefix(&format!("{own}_")) else {
                continue;
            };
            let Some(found) = called(table, within) else {
                continue;
            };
            if let Some(table) = several(found.kind) {
                let Some(above) = last.get(&own) else {
                    let what = format!("{} without a `config {own}` before it", self.shown());
                    self.misplaced(what, OPTIONS);
                    return None;
                };
                return self.one_of(&format!("{above}.{}", found.name), found.kind, table);
            }
        }
        self.misplaced(format!("{} is no table of a policy", self.shown()), OPTIONS);
        None
    }

    /// Returns the table for one of several: in order, or by name.
    fn one_of(&self, path: &str, kind: FieldKind, table: &'static str) -> Option<PolicyTable> {
        let named = matches!(kind, FieldKind::Named(_));
        let path = if named {
            let mut choices = self.section.choices.iter();
            let explicit = choices.find(|choice| choice.name == NAME);
            let name = explicit
                .map(|choice| &choice.value)
                .or(self.section.name.as_ref());
            let Some(name) = name else {
                let what = format!("{} has no name", self.shown());
                self.misplaced(what, "write option name 'NAME'");
                return None;
            };
            format!("{path}.{}", quoted(name))
        } else {
            path.to_owned()
        };
        Some(PolicyTable {
            path,
            table,
            array: !named,
            single: named,
            named,
        })
    }

    /// Writes the fields of the section.
    fn body(&self, out: &mut Draft, table: &str, named: bool) {
        let mut done: Vec<&str> = Vec::new();
        let mut keys: Vec<String> = Vec::new();
        for choice in &self.section.choices {
            let name = choice.name.as_str();
            let all = self.section.choices.iter();
            let same: Vec<&Choice> = all.filter(|other| other.name == name).collect();
            if done.contains(&name) {
                if !(choice.list && same.iter().all(|other| other.list)) {
                    let what = format!("`{name}` is given twice");
                    self.wrong(choice, what, "write one option, or several list");
                }
                continue;
            }
            done.push(name);
            if named && name == NAME {
                continue;
            }
            let Some((key, kind)) = field(table, name) else {
                self.unknown(choice, OPTIONS);
                continue;
            };
            // The field may also be given by a former name, or both as a text and as a table.
            let same_field = |other: &String| {
                let (long, short) = if key.len() > other.len() {
                    (&key, other)
                } else {
                    (other, &key)
                };
                long.strip_prefix(short.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if keys.iter().any(same_field) {
                let what = format!("`{name}` is given twice");
                self.wrong(choice, what, "write one of them");
                continue;
            }
            let mut value = Draft::default();
            self.value(&mut value, kind, &same);
            if !value.text.is_empty() {
                out.push(&format!("{key} = "), &choice.name_span);
                out.append(value);
                out.push("\n", &choice.span);
            }
            keys.push(key);
        }
    }

    /// Writes a value, with the place of each element.
    fn value(&self, out: &mut Draft, kind: FieldKind, choices: &[&Choice]) {
        let first = choices[0];
        if kind == FieldKind::Map {
            return self.map(out, choices);
        }
        let list = matches!(kind, FieldKind::List(_) | FieldKind::Words(_));
        if first.list && !list {
            let what = format!("`{}` has one value", first.name);
            self.wrong(first, what, "write it as option");
        } else if first.list {
            for (number, one) in choices.iter().enumerate() {
                let before = if number == 0 { "[" } else { ", " };
                out.push(before, &one.span);
                out.push(&element(kind, &one.value), &one.span);
            }
            out.push("]", &first.span);
        } else if kind != FieldKind::Boolean {
            out.push(&element(kind, &first.value), &first.span);
        } else if let Some(value) = truth(&first.value) {
            out.push(&value.to_string(), &first.span);
        } else {
            let what = format!("`{}` is neither true nor false", first.value);
            self.wrong(first, what, "write '1' or '0'");
        }
    }

    /// Writes a table from values of `KEY=VALUE`.
    fn map(&self, out: &mut Draft, choices: &[&Choice]) {
        let mut all: BTreeMap<&str, (&str, &Choice)> = BTreeMap::new();
        for choice in choices {
            let Some((key, value)) = choice.value.split_once('=') else {
                let what = format!("`{}` has no `=`", choice.value);
                self.wrong(choice, what, "write list NAME 'KEY=VALUE'");
                continue;
            };
            if all.insert(key, (value, *choice)).is_some() {
                let what = format!("`{key}` is given twice");
                self.wrong(choice, what, "write each key once");
            }
        }
        let mut before = "{ ";
        for (key, (value, choice)) in &all {
            let pair = format!("{before}{} = {}", quoted(key), quoted(value));
            out.push(&pair, &choice.span);
            before = ", ";
        }
        if !all.is_empty() {
            out.push(" }", &choices[0].span);
        }
    }
}

/// Returns the key of an option in a policy, and its permitted values.
fn field(table: &str, name: &str) -> Option<(String, FieldKind)> {
    let mut table = table;
    let mut key = String::new();
    let mut parts = name.split(WITHIN).peekable();
    while let Some(part) = parts.next() {
        let field = called(table, part)?;
        key.push_str(field.name);
        if parts.peek().is_none() {
            let whole = matches!(field.kind, FieldKind::Table(_)) || several(field.kind).is_some();
            return (!whole).then_some((key, field.kind));
        }
        table = inner(field.kind)?;
        key.push('.');
    }
    None
}

/// Formats a single value.
fn element(kind: FieldKind, text: &str) -> String {
    let integer = || text.parse::<i64>().ok().map(|number| number.to_string());
    let whole = integer().filter(|number| number == text);
    let number = || {
        let number = text.parse::<f64>().ok();
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".-e".contains(&byte));
        number.filter(|number| plain && number.is_finite())
    };
    let found = match kind {
        FieldKind::Integer(..) | FieldKind::Size | FieldKind::List(_) | FieldKind::Words(_) => {
            whole
        }
        FieldKind::BooleanOrRate => truth(text).map(|value| value.to_string()),
        FieldKind::Number => whole.or_else(|| number().map(|number| format!("{number:?}"))),
        FieldKind::Setting(_) => match text {
            "true" | "false" => Some(text.to_owned()),
            _ => whole.or_else(|| number().map(|number| format!("{number:?}"))),
        },
        _ => None,
    };
    found.unwrap_or_else(|| quoted(text))
}

/// Parses UCI's words for true and false (`uci_parse_boolean`, and get_bool of OpenWrt's scripts).
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "yes" | "on" | "true" | "enabled" => Some(true),
        "0" | "no" | "off" | "false" | "disabled" => Some(false),
        _ => None,
    }
}
