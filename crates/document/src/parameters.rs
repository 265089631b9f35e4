// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of a document: values in the table `[parameters]` that texts refer to as `{name}`.
//!
//! A text that consists of `{name}` becomes the value, whatever its type, so that `count =
//! "{flows}"` is a number. Within a longer text, the value is inserted. Braces around anything else
//! are unchanged. Places in problems refer to the document as it was written.

use crate::problem::{Problems, SourceSpan};
use crate::suggest::nearest;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// The table's name.
const TABLE: &str = "parameters";

/// The error of a parameter that cannot have a given value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {hint}")]
pub struct ParameterError {
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub hint: String,
}

/// Substitutes the parameters of a document.
pub(crate) fn fill(root: &mut DeTable<'_>, problems: &Problems) {
    let Some(entry) = root.get(TABLE) else {
        return;
    };
    let DeValue::Table(table) = entry.get_ref() else {
        let hint = "write `[parameters]` and one line for each, such as `rate = \"2mbit\"`";
        problems.error("D004", entry.span(), "`parameters` is not a table", hint);
        return;
    };
    let mut values = BTreeMap::new();
    let mut places: BTreeMap<String, SourceSpan> = BTreeMap::new();
    for (key, value) in table {
        let name = key.get_ref().to_string();
        if !well_formed(&name) {
            let hint = "use lower-case letters, digits and hyphens, with a letter first";
            let message = format!("`{name}` cannot name a parameter");
            problems.error("D006", key.span(), message, hint);
        } else if written(value.get_ref()).is_none() {
            let hint = "write a text in quotes, a number, `true` or `false`";
            let message = format!("the parameter `{name}` is not a single value");
            problems.error("D006", value.span(), message, hint);
        } else {
            places.insert(name.clone(), key.span());
            values.insert(name, value.get_ref().clone());
        }
    }
    let mut used = BTreeSet::new();
    for (key, value) in root.iter_mut() {
        if key.get_ref() != TABLE {
            replace(value.get_mut(), &values, &mut used);
        }
    }
    for (name, place) in places {
        if !used.contains(&name) {
            let message = format!("the parameter `{name}` is used nowhere");
            let hint = format!("write `{{{name}}}` in a text where its value belongs");
            problems.error("D006", place, message, hint);
        }
    }
}

fn replace<'i>(
    value: &mut DeValue<'i>,
    values: &BTreeMap<String, DeValue<'i>>,
    used: &mut BTreeSet<String>,
) {
    match value {
        DeValue::Table(table) => {
            for (_, inner) in table.iter_mut() {
                replace(inner.get_mut(), values, used);
            }
        }
        DeValue::Array(array) => {
            for inner in array.iter_mut() {
                replace(inner.get_mut(), values, used);
            }
        }
        DeValue::String(text) => {
            let whole = text
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            if let Some((name, found)) = whole.and_then(|name| values.get_key_value(name)) {
                used.insert(name.clone());
                *value = found.clone();
                return;
            }
            if let Some(filled) = filled(text, values, used) {
                *text = filled.into();
            }
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

/// Returns a text with its parameters substituted; `None` if it has none. The inserted text is not
/// substituted again, so that the expansion terminates.
fn filled(
    text: &str,
    values: &BTreeMap<String, DeValue<'_>>,
    used: &mut BTreeSet<String>,
) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let known = after.split_once('}').and_then(|(name, behind)| {
            let (name, value) = values.get_key_value(name)?;
            Some((name, written(value)?, behind))
        });
        if let Some((name, value, behind)) = known {
            used.insert(name.clone());
            out.push_str(&value);
            rest = behind;
            changed = true;
        } else {
            out.push('{');
            rest = after;
        }
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// Formats a single value for insertion into a text.
fn written(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn well_formed(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 32
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Returns the document with other values for some of its parameters. `given` has `(name, value)`
/// pairs, of which the last one for a name counts. Values are written as in the document, but texts
/// without quotes.
pub fn with_parameters(source: &str, given: &[(String, String)]) -> Result<String, ParameterError> {
    let (root, _) = DeTable::parse_recoverable(source);
    let table = match root.get_ref().get(TABLE).map(toml::Spanned::get_ref) {
        Some(DeValue::Table(table)) => Some(table),
        _ => None,
    };
    let names = || {
        let keys = table.into_iter().flat_map(|table| table.keys());
        keys.map(|key| key.get_ref().as_ref())
    };
    let mut edits: BTreeMap<usize, (SourceSpan, String)> = BTreeMap::new();
    for (name, text) in given {
        let Some(value) = table.and_then(|table| table.get(name.as_str())) else {
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if names().next().is_none() => "the file has no `[parameters]`".to_owned(),
                None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
            };
            let problem = format!("there is no parameter `{name}`");
            return Err(ParameterError { problem, hint });
        };
        let is_text = matches!(value.get_ref(), DeValue::String(_));
        let literal = if is_text {
            quoted(text)
        } else {
            plain(name, text)?
        };
        let span = value.span();
        edits.insert(span.start, (span, literal));
    }
    let mut out = source.to_owned();
    for (span, literal) in edits.into_values().rev() {
        out.replace_range(span, &literal);
    }
    Ok(out)
}

/// Formats a text as a basic string of TOML (TOML 1.0), on one line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(format!("\\u{:04X}", u32::from(c)).chars()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a number or boolean as it was written.
fn plain(name: &str, text: &str) -> Result<String, ParameterError> {
    let (value, errors) = DeValue::parse_recoverable(text);
    let single = matches!(
        value.get_ref(),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)
    );
    if single && errors.is_empty() {
        return Ok(text.trim().to_owned());
    }
    Err(ParameterError {
        problem: format!(
            "`{text}` cannot be the value of `{name}`, which is not a text in the \
                          file"
        ),
        hint: "write a number, `true` or `false`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_with_parameters;

    const SOURCE: &str = "[parameters]\nrate = \"2mbit\"\nflows = 3\n\n[line]\nup = \"{rate}\"\n\
                          count = \"{flows}\"\nsay = [\"at {rate} {other} {flows}\"]\n";

    fn read(source: &str) -> (String, i64, Vec<String>, Vec<&'static str>) {
        let problems = Problems::default();
        let found = parse_with_parameters(source, &problems, |mut root| {
            root.table("parameters").map(|mut table| table.keys());
            let mut line = root.table("line").unwrap();
            let texts = line.text_list("say").unwrap_or_default();
            (
                line.text("up").map(|text| text.value).unwrap_or_default(),
                line.integer("count", 0..=99).map_or(-1, |n| n.value),
                texts.into_iter().map(|text| text.value).collect(),
            )
        });
        let codes = problems.into_sorted().iter().map(|p| p.code).collect();
        (found.0, found.1, found.2, codes)
    }

    #[test]
    fn values_stand_wherever_they_are_named() {
        let (up, count, say, codes) = read(SOURCE);
        assert_eq!((up.as_str(), count), ("2mbit", 3));
        assert_eq!(say, ["at 2mbit {other} 3"]);
        assert!(codes.is_empty());
    }

    #[test]
    fn others_can_be_given() {
        let given = [("rate", "1\"x"), ("flows", "0x10"), ("flows", "16")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (up, count, _, codes) = read(&with_parameters(SOURCE, &given).unwrap());
        assert_eq!((up.as_str(), count), ("1\"x", 16));
        assert!(codes.is_empty());
    }

    #[test]
    fn wrong_ones_are_reported() {
        let set = |name: &str, value: &str| {
            let given = [(name.to_owned(), value.to_owned())];
            with_parameters(SOURCE, &given).unwrap_err().to_string()
        };
        assert!(set("rat", "1").contains("did you mean `rate`?"));
        assert!(set("flows", "many").contains("write a number"));
        assert!(set("flows", "1\nname = 2").contains("write a number"));
        assert!(with_parameters("a = 1", &[("x".into(), "1".into())]).is_err());
        for wrong in ["unused = 1", "rate = [1]", "Rate = 1", "\"a b\" = 1"] {
            let source = format!("[parameters]\n{wrong}\n[line]\nup = \"{{Rate}}\"\n");
            assert_eq!(read(&source).3, ["D006"], "{wrong}");
        }
        assert_eq!(read("parameters = 1\n[line]\n").3[0], "D004");
    }
}
