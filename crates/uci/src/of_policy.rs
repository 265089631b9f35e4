// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the text of a policy to UCI.

use crate::fields::{NAME, ROOT, WITHIN, fields, inner, several, written};
use crate::{SERVICE, UciError};
use std::fmt::Write as _;
use toml::{Table, Value};
use weirgate_policy::{Field, FieldKind};

/// Returns the UCI file of a policy, in the order of the registry. A former name of a field becomes
/// the current one. A quoted number becomes a number if either is permitted.
///
/// # Errors
///
/// Fails if the text is not TOML, has an unknown field, or has something that UCI cannot express.
/// The latter is an empty list or inner table, or an `=` in a key of a table of texts.
pub fn of_policy(policy: &str, enabled: bool) -> Result<String, UciError> {
    let table: Table = toml::from_str(policy).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = policy
            .get(..before)
            .unwrap_or_default()
            .matches('\n')
            .count()
            + 1;
        UciError::new(line, error.message().to_owned(), "a policy is TOML")
    })?;
    let writer = Writer { policy };
    let mut out = format!("config {SERVICE}\n");
    option(
        &mut out,
        "option",
        "enabled",
        if enabled { "1" } else { "0" },
    );
    out.push_str("\nconfig policy\n");
    writer.options(&mut out, ROOT, &table, "")?;
    for field in fields(ROOT) {
        let Some(value) = of_field(&table, &field) else {
            continue;
        };
        match (field.kind, value) {
            (FieldKind::Table(name), Value::Table(inner)) => {
                let _ = writeln!(out, "\nconfig {}", written(field.name));
                writer.options(&mut out, name, inner, "")?;
            }
            (kind, value) if several(kind).is_some() => {
                writer.sections(&mut out, &field, value, "")?;
            }
            _ => {}
        }
    }
    Ok(out)
}

/// Returns the value of a field in a table, by its current or a former name.
fn of_field<'a>(table: &'a Table, field: &Field) -> Option<&'a Value> {
    let former = || field.former.iter().find_map(|name| table.get(*name));
    table.get(field.name).or_else(former)
}

struct Writer<'a> {
    policy: &'a str,
}

impl Writer<'_> {
    /// Writes each of several tables, followed by the tables within it.
    fn sections(
        &self,
        out: &mut String,
        field: &Field,
        value: &Value,
        above: &str,
    ) -> Result<(), UciError> {
        let kind = format!("{above}{}", written(field.name));
        let refused = || self.refused(field.name, "is no table");
        let table = several(field.kind).ok_or_else(refused)?;
        let all: Vec<(Option<&String>, &Value)> = match value {
            Value::Array(all) => all.iter().map(|one| (None, one)).collect(),
            Value::Table(all) => all.iter().map(|(name, one)| (Some(name), one)).collect(),
            _ => return Err(refused()),
        };
        for (name, one) in all {
            let one = one.as_table().ok_or_else(refused)?;
            let _ = writeln!(out, "\nconfig {kind}");
            if let Some(name) = name {
                option(out, "option", NAME, name);
            }
            self.options(out, table, one, "")?;
            for field in fields(table) {
                if several(field.kind).is_some()
                    && let Some(value) = of_field(one, &field)
                {
                    self.sections(out, &field, value, &format!("{kind}_"))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the options of a table, and of its inner tables that are not sections.
    fn options(
        &self,
        out: &mut String,
        name: &str,
        table: &Table,
        above: &str,
    ) -> Result<(), UciError> {
        let all = fields(name);
        for key in table.keys() {
            let known = |field: &Field| field.name == key || field.former.contains(&key.as_str());
            if !all.iter().any(known) {
                return Err(self.refused(key, "is no field here"));
            }
        }
        for field in all {
            let section = several(field.kind).is_some()
                || name == ROOT && matches!(field.kind, FieldKind::Table(_));
            let Some(value) = of_field(table, &field).filter(|_| !section) else {
                continue;
            };
            let called = format!("{above}{}", written(field.name));
            match (value, inner(field.kind)) {
                (Value::Table(within), Some(name)) if !within.is_empty() => {
                    self.options(out, name, within, &format!("{called}{WITHIN}"))?;
                }
                (Value::Table(pairs), None)
                    if field.kind == FieldKind::Map && !pairs.is_empty() =>
                {
                    for (key, value) in pairs {
                        let value = value.as_str().filter(|_| !key.contains('='));
                        let value = value
                            .ok_or_else(|| self.refused(key, "cannot be written as KEY=VALUE"))?;
                        option(out, "list", &called, &format!("{key}={value}"));
                    }
                }
                (Value::Array(values), None) if !values.is_empty() => {
                    for value in values {
                        option(out, "list", &called, &self.plain(&field, value)?);
                    }
                }
                (value, _) => option(out, "option", &called, &self.plain(&field, value)?),
            }
        }
        Ok(())
    }

    /// Converts a single value.
    fn plain(&self, field: &Field, value: &Value) -> Result<String, UciError> {
        Ok(match value {
            // If a number is also permitted, UCI's words for true and false would be ambiguous.
            Value::Boolean(value) if matches!(field.kind, FieldKind::Setting(_)) => {
                value.to_string()
            }
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Boolean(value) => (if *value { "1" } else { "0" }).to_owned(),
            _ => return Err(self.refused(field.name, "is nothing that UCI can say")),
        })
    }

    /// Returns an error at the first line with the key.
    fn refused(&self, key: &str, what: &str) -> UciError {
        let mut lines = self.policy.lines();
        let line = lines.position(|line| line.contains(key)).unwrap_or(0) + 1;
        let what = format!("`{}` {what}", key.escape_debug());
        UciError::new(line, what, "`weirgate check` says what a policy may have")
    }
}

/// Writes a line. A quote within the value becomes `'\''`: it closes the quotes, adds an escaped
/// quote, and opens them again.
fn option(out: &mut String, word: &str, name: &str, value: &str) {
    let value = value.replace('\'', "'\\''");
    let _ = writeln!(out, "\t{word} {name} '{value}'");
}
