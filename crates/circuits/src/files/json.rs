// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON files (RFC 8259), with the span of every value. The parser bounds the depth of nesting.

use crate::codes::{DEEP, JSON, RATE, UNUSED};
use crate::files::located::FileMistakes;
use crate::files::rate;
use crate::files::table::Cell;
use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::collections::BTreeSet;
use weirgate_document::{SourceSpan, did_you_mean};
use weirgate_units::Rate;

/// The largest file in bytes. The syntax tree needs several times as much memory.
const LARGEST: usize = 64 << 20;

/// Parser options that accept strict JSON only.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Returns whether a file is meant to be JSON: it begins with `{`.
pub(crate) fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{')
}

/// Parses the top-level object of a file. Returns `None` after reporting a syntax error or
/// another type.
pub(crate) fn object<'t>(text: &'t str, mistakes: &FileMistakes<'_, '_>) -> Option<Object<'t>> {
    if text.len() > LARGEST {
        let message = format!("the file has {} bytes", text.len());
        let hint = format!("a file of JSON has at most {LARGEST}");
        mistakes.error(DEEP, &(0..0), message, hint);
        return None;
    }
    let reader = Json::new(text, mistakes);
    let text = text.get(reader.begin..).unwrap_or_default();
    match parse_to_ast(text, &CollectOptions::default(), &STRICT) {
        Ok(parsed) => match parsed.value {
            Some(Value::Object(object)) => return Some(object),
            _ => mistakes.error(
                JSON,
                &(0..0),
                "the file has no object",
                "write `{ \"SITE\": { ... } }`",
            ),
        },
        Err(error) => {
            let message = format!("this is not JSON: {}", error.kind());
            let hint = "mend it; what follows was not read";
            reader.error(JSON, &error.range(), message, hint);
        }
    }
    None
}

/// Reads the values of a file and reports errors in them.
pub(crate) struct Json<'d, 'm, 't> {
    pub(crate) mistakes: &'d FileMistakes<'m, 't>,
    /// The offset of the text after the byte order mark.
    begin: usize,
}

impl<'d, 'm, 't> Json<'d, 'm, 't> {
    pub(crate) fn new(text: &str, mistakes: &'d FileMistakes<'m, 't>) -> Self {
        Self {
            mistakes,
            begin: text.len() - text.trim_start_matches('\u{feff}').len(),
        }
    }

    /// Returns the span of a value.
    pub(crate) fn span(&self, at: &impl Ranged) -> SourceSpan {
        let range = at.range();
        range.start + self.begin..range.end + self.begin
    }

    pub(crate) fn error(
        &self,
        code: &'static str,
        at: &impl Ranged,
        message: impl Into<String>,
        hint: &str,
    ) {
        self.mistakes.error(code, &self.span(at), message, hint);
    }

    /// Returns a text without surrounding spaces, with its span.
    pub(crate) fn cell<'v>(&self, text: &'v str, at: &impl Ranged) -> Cell<'v> {
        Cell {
            text: text.trim(),
            span: self.span(at),
        }
    }

    /// Reports the fields that an object has twice. Returns whether there are any.
    pub(crate) fn twice(&self, fields: &Object<'_>) -> bool {
        let mut names = BTreeSet::new();
        let mut any = false;
        for field in &fields.properties {
            let word = field.name.as_str();
            if !names.insert(word) {
                let message = format!("`{word}` is there twice");
                self.error(JSON, &field.name, message, "leave out one of them");
                any = true;
            }
        }
        any
    }

    /// Warns that a field is not used; `fields` lists the fields that `of` can have.
    pub(crate) fn unknown(&self, field: &ObjectProp<'_>, of: &str, fields: &[&str]) {
        let word = field.name.as_str();
        let hint = did_you_mean(word, fields.iter().copied(), || {
            format!("{of} has {}", fields.join(", "))
        });
        let message = format!("`{word}` is not used");
        let at = self.span(&field.name);
        self.mistakes.warning(UNUSED, &at, message, hint);
    }

    /// Reads a rate in Mbit/s, which may be 0 only if `zero` is set. A malformed rate is
    /// reported, and the result is `None`.
    pub(crate) fn rate(&self, value: &Value<'_>, zero: bool) -> Option<Rate> {
        let text = match value {
            Value::NumberLit(number) => number.value,
            Value::StringLit(text) => &text.value,
            _ => {
                let hint = "write a number of Mbit/s, such as `1000`";
                self.error(JSON, value, "a rate is no number", hint);
                return None;
            }
        };
        match rate::read(text, zero) {
            Ok(rate) => Some(rate),
            Err((message, hint)) => {
                self.error(RATE, value, message, &hint);
                None
            }
        }
    }

    /// Reads `true` or `false`. Any other value is reported, and the result is `None`.
    pub(crate) fn flag(&self, name: &str, value: &Value<'_>) -> Option<bool> {
        if let Value::BooleanLit(own) = value {
            return Some(own.value);
        }
        let message = format!("`{name}` is neither true nor false");
        self.error(JSON, value, message, "write `true` or `false`");
        None
    }
}
