// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types of fields that several sections share: names and words.

use super::codes;
use super::registry::{Field, Own};
use crate::Quantity;
use std::collections::BTreeSet;
use weirgate_document::{Reader, SourceSpan, Value, nearest};
use weirgate_units::Span;

/// The longest run, in virtual time.
pub(super) const LONGEST: Span = Span::from_secs(4 * 3600);

/// The longest name of a phase, flow, probe, arm or class.
const LONGEST_NAME: usize = 32;

/// Returns the position of a table's head, to report problems of the whole table.
pub(super) fn head(reader: &Reader<'_, '_>) -> SourceSpan {
    reader.span()
}

/// The position to report problems of the whole file.
pub(super) const TOP: SourceSpan = 0..0;

/// Reads one of a few words. The first one is the default.
pub(super) fn word<T: Copy>(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    words: &[(&str, T)],
) -> Option<T> {
    let Some(text) = reader.text(key) else {
        return words.first().map(|first| first.1);
    };
    let found = words.iter().find(|word| word.0 == text.value);
    if found.is_none() {
        let message = format!("`{}` is not a value of `{key}`", text.value);
        let all = words.iter().map(|word| word.0);
        let hint = match nearest(&text.value, all.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write one of: {}", all.collect::<Vec<_>>().join(", ")),
        };
        reader
            .problems()
            .error(codes::WORD, text.span, message, hint);
    }
    found.map(|word| word.1)
}

/// Reads the required name of a table, which must be well-formed and not used before.
pub(super) fn name(
    reader: &mut Reader<'_, '_>,
    of: &Field<Own>,
    what: &str,
    used: &mut BTreeSet<String>,
) -> Option<Value<String>> {
    if !of.is_there(reader) {
        return None;
    }
    let name = reader.text(of.name)?;
    if !well_formed(reader, what, &name) {
        return None;
    }
    if !used.insert(name.value.clone()) {
        let message = format!("the name `{}` is taken", name.value);
        let hint = format!("give the {what} a name of its own");
        reader
            .problems()
            .error(codes::NAME, name.span, message, hint);
        return None;
    }
    Some(name)
}

/// Returns whether a name can be part of a metric name, and reports it if not.
pub(super) fn well_formed(reader: &Reader<'_, '_>, what: &str, name: &Value<String>) -> bool {
    let text = &name.value;
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    let (problem, hint) = if text.len() > LONGEST_NAME {
        (
            format!("the name of this {what} is too long"),
            format!("use at most {LONGEST_NAME} characters"),
        )
    } else if !plain || !starts {
        (
            format!("`{text}` cannot be the name of the {what}"),
            "use small letters, digits and hyphens, with a letter first".to_owned(),
        )
    } else if Quantity::from_word(text).is_some() {
        (
            format!("`{text}` cannot be the name of the {what}: metric names use the word"),
            "choose another name".to_owned(),
        )
    } else {
        return true;
    };
    reader
        .problems()
        .error(codes::NAME, name.span.clone(), problem, hint);
    false
}

/// Checks the name of an experiment, which is also the name of its file.
pub(super) fn experiment_name(reader: &Reader<'_, '_>, name: &Value<String>) {
    let text = &name.value;
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    if !plain || !starts || text.len() > 64 {
        let message = format!("`{text}` cannot name an experiment");
        let hint = "use small letters, digits, hyphens and points, at most 64";
        reader
            .problems()
            .error(codes::NAME, name.span.clone(), message, hint);
    }
}
