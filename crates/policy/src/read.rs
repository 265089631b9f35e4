// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that read fields of several tables.

use crate::codes;
use weirgate_document::{Reader, Value, did_you_mean, nearest};
use weirgate_state::DeviceName;

/// Returns a value that is not in the text: a default, or a replacement for an invalid value.
/// Its position is that of the table.
pub(crate) fn implied<T>(value: T, reader: &Reader<'_, '_>) -> Value<T> {
    Value {
        value,
        span: reader.span(),
        line: reader.line(),
    }
}

/// Reads an optional text and parses it with `understand`, whose error is a message and a hint.
pub(crate) fn understood<T>(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    code: &'static str,
    understand: impl Fn(&str) -> Result<T, (String, String)>,
) -> Option<Value<T>> {
    let text = reader.text(key)?;
    understood_text(reader, text, code, understand)
}

/// Reads a list of such texts.
pub(crate) fn understood_list<T>(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    code: &'static str,
    understand: impl Fn(&str) -> Result<T, (String, String)>,
) -> Vec<Value<T>> {
    let texts = reader.text_list(key);
    if texts.as_ref().is_some_and(Vec::is_empty) {
        reader.problems().error(
            codes::CONTRADICTION,
            reader.span(),
            format!("the list `{key}` is empty, so nothing matches"),
            format!("write at least one element, or leave `{key}` out"),
        );
    }
    texts
        .into_iter()
        .flatten()
        .filter_map(|text| understood_text(reader, text, code, &understand))
        .collect()
}

fn understood_text<T>(
    reader: &Reader<'_, '_>,
    text: Value<String>,
    code: &'static str,
    understand: impl Fn(&str) -> Result<T, (String, String)>,
) -> Option<Value<T>> {
    match understand(&text.value) {
        Ok(value) => Some(text.map(|_| value)),
        Err((message, hint)) => {
            reader.problems().error(code, text.span, message, hint);
            None
        }
    }
}

/// Splits an error text of another crate at `; ` into a message and a hint.
pub(crate) fn in_two(error: &impl ToString) -> (String, String) {
    let text = error.to_string();
    let (wrong, right) = text.split_once("; ").unwrap_or((&text, ""));
    (wrong.to_owned(), right.to_owned())
}

/// Reads an optional word of a fixed set.
pub(crate) fn word<T: Copy>(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    words: &[(&'static str, T)],
) -> Option<Value<T>> {
    let found = place(reader, key, &names(words))?;
    Some(found.map(|place| words[place].1))
}

/// Returns the index of the word in the set. It is not generic, so that it is compiled only
/// once.
fn place(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    names: &[&'static str],
) -> Option<Value<usize>> {
    understood(reader, key, codes::WORD, |text| {
        let place = names.iter().position(|name| *name == text);
        place.ok_or_else(|| {
            let right = match nearest(text, names.iter().copied()) {
                Some(near) => format!("write `{key} = \"{near}\"`"),
                None => choose_name(text, names),
            };
            (format!("`{key}` cannot be `{text}`"), right)
        })
    })
}

pub(crate) fn one_of<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Option<T> {
    words.iter().find(|word| word.0 == text).map(|word| word.1)
}

/// Returns a hint: "did you mean" with one of the words, or a list of all.
pub(crate) fn choose<T>(text: &str, words: &[(&'static str, T)]) -> String {
    choose_name(text, &names(words))
}

fn choose_name(text: &str, names: &[&'static str]) -> String {
    did_you_mean(text, names.iter().copied(), || {
        let all: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("write {}", all.join(", "))
    })
}

fn names<T>(words: &[(&'static str, T)]) -> Vec<&'static str> {
    words.iter().map(|word| word.0).collect()
}

/// Parses a device name that Linux accepts.
pub(crate) fn device(text: &str) -> Result<DeviceName, (String, String)> {
    // The kernel accepts control characters, but a terminal must not receive them.
    let named = DeviceName::new(text).filter(|_| !text.contains(char::is_control));
    named.ok_or_else(|| {
        (
            format!("`{text}` cannot be the name of a device"),
            "write 1 to 15 bytes without spaces, `/`, `:` or control characters, as `ip link` shows it"
                .to_owned(),
        )
    })
}
