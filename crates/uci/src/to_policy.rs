// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts UCI to the text of a policy.

use crate::fields::{NAME, ROOT, WITHIN, called, fields, inner, several, written};
use crate::read::{Choice, Section, read};
use crate::{SERVICE, UciError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_document::quoted;
use weirgate_policy::FieldKind;

/// The contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// The policy's text.
    pub policy: String,
    /// Whether the service applies the policy.
    pub enabled: bool,
}

const OPTIONS: &str = "docs/guides/openwrt.md has how options are called; \
                       `weirgate export --uci` writes them";

/// Returns the policy in a file.
///
/// # Errors
///
/// Fails if the text is not UCI, or a section or option is not a table or field of a policy.
pub fn to_policy(text: &str) -> Result<Configured, UciError> {
    let mut enabled = true;
    let mut head = String::new();
    let mut tables = String::new();
    // The last section of each table that may contain others, by the path of its header.
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut once: Vec<String> = Vec::new();
    for section in read(text)? {
        let twice = || {
            UciError::new(
                section.line,
                format!("a second {}", shown(&section)),
                OPTIONS,
            )
        };
        match section.kind.as_str() {
            SERVICE | ROOT => {
                if once.contains(&section.kind) {
                    return Err(twice());
                }
                if section.kind == SERVICE {
                    enabled = service(&section)?;
                } else {
                    body(&mut head, ROOT, &section, false)?;
                }
                once.push(section.kind);
            }
            kind => {
                let target = policy_table(kind, &section, &last)?;
                if target.single && once.contains(&target.path) {
                    return Err(twice());
                }
                let (open, close) = if target.array {
                    ("[[", "]]")
                } else {
                    ("[", "]")
                };
                let _ = writeln!(tables, "\n{open}{}{close}", target.path);
                body(&mut tables, target.table, &section, target.named)?;
                once.push(target.path.clone());
                last.insert(kind.to_owned(), target.path);
            }
        }
    }
    Ok(Configured {
        policy: format!("{head}{tables}"),
        enabled,
    })
}

/// Returns whether the service's own section enables it.
fn service(section: &Section) -> Result<bool, UciError> {
    let mut enabled = true;
    for choice in &section.choices {
        let wrong = |what| UciError::new(choice.line, what, "write option enabled '1' or '0'");
        if choice.name != "enabled" {
            let what = format!("`{}` is no option of `config weirgate`", choice.name);
            return Err(wrong(what));
        }
        let value = truth(&choice.value);
        enabled = value.ok_or_else(|| {
            wrong(format!(
                "`enabled` cannot be `{}`",
                choice.value.escape_debug()
            ))
        })?;
    }
    Ok(enabled)
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

fn policy_table(
    kind: &str,
    section: &Section,
    last: &BTreeMap<String, String>,
) -> Result<PolicyTable, UciError> {
    for field in fields(ROOT) {
        let own = written(field.name);
        if let FieldKind::Table(table) = field.kind
            && own == kind
        {
            return Ok(PolicyTable {
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
            return one_of(field.name, field.kind, table, section);
        }
        let Some(within) = kind.strip_prefix(&format!("{own}_")) else {
            continue;
        };
        let Some(found) = called(table, within) else {
            continue;
        };
        if let Some(table) = several(found.kind) {
            let above = last.get(&own).ok_or_else(|| {
                let what = format!("{} without a `config {own}` before it", shown(section));
                UciError::new(section.line, what, OPTIONS)
            })?;
            return one_of(
                &format!("{above}.{}", found.name),
                found.kind,
                table,
                section,
            );
        }
    }
    let what = format!("{} is no table of a policy", shown(section));
    Err(UciError::new(section.line, what, OPTIONS))
}

/// Returns the table for one of several: in order, or by name.
fn one_of(
    path: &str,
    kind: FieldKind,
    table: &'static str,
    section: &Section,
) -> Result<PolicyTable, UciError> {
    let named = matches!(kind, FieldKind::Named(_));
    let path = if named {
        let explicit = section.choices.iter().find(|choice| choice.name == NAME);
        let name = explicit
            .map(|choice| &choice.value)
            .or(section.name.as_ref());
        let name = name.ok_or_else(|| {
            let what = format!("{} has no name", shown(section));
            UciError::new(section.line, what, "write option name 'NAME'")
        })?;
        format!("{path}.{}", quoted(name))
    } else {
        path.to_owned()
    };
    Ok(PolicyTable {
        path,
        table,
        array: !named,
        single: named,
        named,
    })
}

/// Writes the fields of a section.
fn body(out: &mut String, table: &str, section: &Section, named: bool) -> Result<(), UciError> {
    let mut done: Vec<&str> = Vec::new();
    let mut keys: Vec<String> = Vec::new();
    for choice in &section.choices {
        let name = choice.name.as_str();
        let same: Vec<&Choice> = section
            .choices
            .iter()
            .filter(|other| other.name == name)
            .collect();
        if done.contains(&name) {
            if choice.list && same.iter().all(|other| other.list) {
                continue;
            }
            let what = format!("`{name}` is given twice");
            return Err(UciError::new(
                choice.line,
                what,
                "write one option, or several list",
            ));
        }
        done.push(name);
        if named && name == NAME {
            continue;
        }
        let (key, kind) = field(table, choice, section)?;
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
            return Err(UciError::new(choice.line, what, "write one of them"));
        }
        let value = value(kind, &same)?;
        let _ = writeln!(out, "{key} = {value}");
        keys.push(key);
    }
    Ok(())
}

/// Returns the key of an option in a policy, and its permitted values.
fn field(table: &str, choice: &Choice, section: &Section) -> Result<(String, FieldKind), UciError> {
    let unknown = || {
        let what = format!("`{}` is no option of {}", choice.name, shown(section));
        UciError::new(choice.line, what, OPTIONS)
    };
    let mut table = table;
    let mut key = String::new();
    let mut parts = choice.name.split(WITHIN).peekable();
    while let Some(part) = parts.next() {
        let field = called(table, part).ok_or_else(unknown)?;
        key.push_str(field.name);
        if parts.peek().is_none() {
            let whole = matches!(field.kind, FieldKind::Table(_)) || several(field.kind).is_some();
            return (!whole).then_some((key, field.kind)).ok_or_else(unknown);
        }
        table = inner(field.kind).ok_or_else(unknown)?;
        key.push('.');
    }
    Err(unknown())
}

/// Formats a value for a policy.
fn value(kind: FieldKind, choices: &[&Choice]) -> Result<String, UciError> {
    let first = choices[0];
    if kind == FieldKind::Map {
        return map(choices);
    }
    let list = matches!(kind, FieldKind::List(_) | FieldKind::Words(_));
    if first.list && !list {
        let what = format!("`{}` has one value", first.name);
        return Err(UciError::new(first.line, what, "write it as option"));
    }
    if first.list {
        let all: Vec<String> = choices
            .iter()
            .map(|one| element(kind, &one.value))
            .collect();
        return Ok(format!("[{}]", all.join(", ")));
    }
    if kind == FieldKind::Boolean {
        let value = truth(&first.value).ok_or_else(|| {
            let what = format!("`{}` is neither true nor false", first.value.escape_debug());
            UciError::new(first.line, what, "write '1' or '0'")
        })?;
        return Ok(value.to_string());
    }
    Ok(element(kind, &first.value))
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

/// Formats a table from values of `KEY=VALUE`.
fn map(choices: &[&Choice]) -> Result<String, UciError> {
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    for choice in choices {
        let pair = choice.value.split_once('=');
        let (key, value) = pair.ok_or_else(|| {
            let what = format!("`{}` has no `=`", choice.value.escape_debug());
            UciError::new(choice.line, what, "write list NAME 'KEY=VALUE'")
        })?;
        if all.insert(key, value).is_some() {
            let what = format!("`{}` is given twice", key.escape_debug());
            return Err(UciError::new(choice.line, what, "write each key once"));
        }
    }
    let pairs: Vec<String> = all
        .iter()
        .map(|(key, value)| format!("{} = {}", quoted(key), quoted(value)))
        .collect();
    Ok(format!("{{ {} }}", pairs.join(", ")))
}

/// Parses UCI's words for true and false (`uci_parse_boolean`, and get_bool of OpenWrt's scripts).
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "yes" | "on" | "true" | "enabled" => Some(true),
        "0" | "no" | "off" | "false" | "disabled" => Some(false),
        _ => None,
    }
}

fn shown(section: &Section) -> String {
    format!("`config {}`", section.kind.escape_debug())
}
