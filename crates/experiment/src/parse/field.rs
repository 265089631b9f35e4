// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fields that several sections share: names, words.

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

/// Where to point for what concerns a whole table: its head, not its body.
pub(super) fn head(reader: &Reader<'_, '_>) -> SourceSpan {
    reader.span()
}

/// Where to point for what concerns the whole file.
pub(super) const TOP: SourceSpan = 0..0;

/// One of a few words; the first is used where the field is absent.
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

/// The required, well-formed and so far unused name of a table.
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

/// True if a name can stand in a metric; reports it otherwise.
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

/// Checks an experiment's name, which is also a file's.
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
