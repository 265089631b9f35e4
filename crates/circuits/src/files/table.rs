// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CSV files (RFC 4180), with the span of every field.
//!
//! The first line names the columns. Empty lines and lines that begin with `#` are skipped.

use crate::codes::{COLUMN, FORM};
use crate::files::located::FileMistakes;
use std::borrow::Cow;
use weirgate_document::{SourceSpan, did_you_mean};

/// The fields of one line.
#[derive(Debug, Default)]
pub(crate) struct Row<'t> {
    /// The whole file.
    file: &'t str,
    /// Unescaped texts of quoted fields, concatenated.
    own: String,
    fields: Vec<Field>,
    /// Whether a quote stands in a place where none is allowed.
    odd: bool,
}

/// A field of a line.
#[derive(Debug, Clone)]
struct Field {
    /// The span in the file, including quotes.
    span: SourceSpan,
    /// The range of its text, in the file or in `Row::own`.
    text: SourceSpan,
    is_own: bool,
}

impl Field {
    /// Makes a field whose text is exactly the text in the file.
    fn plain(span: SourceSpan) -> Self {
        Self {
            text: span.clone(),
            span,
            is_own: false,
        }
    }
}

/// Returns whether a byte ends an unquoted field, or is a quote.
fn ends(byte: u8) -> bool {
    matches!(byte, b'"' | b',' | b'\r' | b'\n')
}

/// The text and the span of one field.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'r> {
    /// The text without surrounding spaces.
    pub(crate) text: &'r str,
    /// The span in the file.
    pub(crate) span: SourceSpan,
}

/// The text and the span of a field, valid for longer than its row.
pub(crate) type Lasting<'t> = (Cow<'t, str>, SourceSpan);

impl<'t> Row<'t> {
    /// Returns the field with this number; an empty one if there is none.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Cell<'_> {
        let Some(field) = self.fields.get(number) else {
            return Cell {
                text: "",
                span: self.whole(),
            };
        };
        let from = if field.is_own { &*self.own } else { self.file };
        Cell {
            text: within(from, &field.text),
            span: field.span.clone(),
        }
    }

    /// Returns the field in a form that outlives the row.
    fn lasting(&self, number: usize) -> Lasting<'t> {
        let Some(field) = self.fields.get(number) else {
            return (Cow::default(), self.whole());
        };
        let text = if field.is_own {
            Cow::Owned(within(&self.own, &field.text).to_owned())
        } else {
            Cow::Borrowed(within(self.file, &field.text))
        };
        (text, field.span.clone())
    }

    /// Returns the number of fields.
    pub(crate) fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Returns the span of the whole line.
    pub(crate) fn whole(&self) -> SourceSpan {
        let start = self.fields.first().map_or(0, |field| field.span.start);
        start..self.fields.last().map_or(start, |field| field.span.end)
    }
}

/// Returns the text in a range, without surrounding spaces.
#[inline]
fn within<'t>(text: &'t str, place: &SourceSpan) -> &'t str {
    if place.is_empty() {
        return "";
    }
    trimmed(text.get(place.clone()).unwrap_or_default())
}

/// Trims a text. Looking at its first and last byte suffices for most texts.
pub(crate) fn trimmed(text: &str) -> &str {
    let is_letter = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_graphic);
    if is_letter(text.as_bytes().first()) && is_letter(text.as_bytes().last()) {
        return text;
    }
    text.trim()
}

/// Iterates over the lines of a text.
pub(crate) struct Lines<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: text.len() - text.trim_start_matches('\u{feff}').len(),
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips comments and empty lines.
    fn skip(&mut self) {
        loop {
            match self.byte() {
                Some(b'\r' | b'\n') => self.at += 1,
                Some(b'#') => {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// Reads the next line; returns `false` at the end of the text.
    pub(crate) fn next(&mut self, row: &mut Row<'t>) -> bool {
        row.file = self.text;
        row.own.clear();
        row.fields.clear();
        row.odd = false;
        self.skip();
        if self.byte().is_none() {
            return false;
        }
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let rest = bytes.get(start..).unwrap_or_default();
            let length = rest
                .iter()
                .position(|byte| ends(*byte))
                .unwrap_or(rest.len());
            let mut end = rest.get(length).copied();
            self.at = start + length;
            let field = if end == Some(b'"') {
                let field = if length == 0 {
                    self.quoted(row)
                } else {
                    self.plain(row);
                    Field::plain(start..self.at)
                };
                end = self.byte();
                field
            } else {
                Field::plain(start..self.at)
            };
            row.fields.push(field);
            if end.is_none() {
                return true;
            }
            self.at += 1;
            if end != Some(b',') {
                return true;
            }
        }
    }

    /// Advances to the end of an unquoted field, or of the rest after a closing quote.
    fn plain(&mut self, row: &mut Row<'t>) {
        loop {
            let bytes = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let found = bytes.iter().position(|byte| ends(*byte));
            self.at += found.unwrap_or(bytes.len());
            if self.byte() != Some(b'"') {
                return;
            }
            row.odd = true;
            self.at += 1;
        }
    }

    /// Reads a quoted field. All delimiters are ASCII, so no slice splits a character.
    fn quoted(&mut self, row: &mut Row<'t>) -> Field {
        let start = self.at;
        self.at += 1;
        let own = row.own.len();
        // The start of the text that was not yet copied to `row.own`.
        let mut from = self.at;
        let text = self.text;
        let take = move |row: &mut Row<'t>, to: std::ops::Range<usize>| {
            row.own.push_str(text.get(to).unwrap_or_default());
        };
        loop {
            let rest = text.as_bytes().get(self.at..).unwrap_or_default();
            let Some(quote) = memchr::memchr(b'"', rest) else {
                self.at = text.len();
                row.odd = true;
                take(row, from..self.at);
                break;
            };
            let closes = self.at + quote;
            self.at = closes + 1;
            match self.byte() {
                Some(b'"') => {
                    // A doubled quote: keep one of the two.
                    take(row, from..self.at);
                    self.at += 1;
                    from = self.at;
                }
                None | Some(b',' | b'\r' | b'\n') if row.own.len() == own => {
                    return Field {
                        span: start..self.at,
                        text: from..closes,
                        is_own: false,
                    };
                }
                other => {
                    take(row, from..closes);
                    if !matches!(other, None | Some(b',' | b'\r' | b'\n')) {
                        row.odd = true;
                        let behind = self.at;
                        self.plain(row);
                        take(row, behind..self.at);
                    }
                    break;
                }
            }
        }
        Field {
            span: start..self.at,
            text: own..row.own.len(),
            is_own: true,
        }
    }
}

/// The description of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// The name in the first line.
    pub(crate) name: &'static str,
    /// Whether the file must have it.
    pub(crate) needed: bool,
    /// Whether its contents are ignored.
    pub(crate) unused: bool,
}

impl Column {
    /// Describes a required column.
    pub(crate) const fn needed(name: &'static str) -> Self {
        Self {
            name,
            needed: true,
            unused: false,
        }
    }

    /// Describes an optional column.
    pub(crate) const fn free(name: &'static str) -> Self {
        Self {
            needed: false,
            ..Self::needed(name)
        }
    }

    /// Describes an optional column whose contents are ignored.
    pub(crate) const fn unused(name: &'static str) -> Self {
        Self {
            unused: true,
            ..Self::free(name)
        }
    }
}

/// The positions of the columns in a file.
pub(crate) struct Header {
    /// For each known column, the index of its field.
    fields: Vec<Option<usize>>,
}

impl Header {
    /// Returns the field in a column; an empty one if the file lacks the column.
    pub(crate) fn cell<'r>(&self, row: &'r Row<'_>, column: usize) -> Cell<'r> {
        match self.fields.get(column).copied().flatten() {
            Some(field) => row.get(field),
            None => Cell {
                text: "",
                span: row.whole(),
            },
        }
    }

    /// Returns the field in a form that outlives the row.
    pub(crate) fn lasting<'t>(&self, row: &Row<'t>, column: usize) -> Lasting<'t> {
        match self.fields.get(column).copied().flatten() {
            Some(field) => row.lasting(field),
            None => (Cow::default(), row.whole()),
        }
    }

    /// Returns whether the file has the column.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.fields.get(column).is_some_and(Option::is_some)
    }
}

/// Normalises a column name: versions of LibreQoS differ in the unit at its end.
pub(crate) fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    name.strip_suffix(" mbps").unwrap_or(&name).to_owned()
}

/// Finds the columns by the first line, and reports unknown, duplicate and missing ones.
pub(crate) fn header(row: &Row<'_>, columns: &[Column], mistakes: &FileMistakes<'_, '_>) -> Header {
    let mut fields = vec![None; columns.len()];
    for number in 0..row.fields() {
        let cell = row.get(number);
        let same = |column: &Column| plain(column.name) == plain(cell.text);
        let Some(known) = columns.iter().position(same) else {
            if !cell.text.is_empty() {
                let hint = did_you_mean(cell.text, columns.iter().map(|one| one.name), || {
                    "leave it out, or see the guide for what columns mean".to_owned()
                });
                let message = format!("the column `{}` is not used", cell.text);
                mistakes.warning(crate::codes::UNUSED, &cell.span, message, hint);
            }
            continue;
        };
        match &mut fields[known] {
            Some(_) => {
                let message = format!("the column `{}` is there twice", cell.text);
                mistakes.error(COLUMN, &cell.span, message, "leave out one of them");
            }
            field => *field = Some(number),
        }
    }
    for (column, field) in columns.iter().zip(&fields) {
        if column.needed && field.is_none() {
            let message = format!("the column `{}` is missing", column.name);
            mistakes.error(
                COLUMN,
                &row.whole(),
                message,
                "name it in the first line, and give each line its field",
            );
        }
    }
    Header { fields }
}

/// Returns whether the rest of a quoted field ends with a quote and contains only doubled
/// quotes.
fn closes(rest: &str) -> bool {
    let within = rest.strip_suffix('"');
    within.is_some_and(|within| !within.contains('"') || !within.replace("\"\"", "").contains('"'))
}

/// Checks the quotes and the number of fields of a line, and reports errors.
pub(crate) fn well_formed(
    text: &str,
    row: &Row<'_>,
    fields: usize,
    mistakes: &FileMistakes<'_, '_>,
) -> bool {
    let mut right = true;
    let spans = row.fields.iter().map(|field| &field.span);
    for span in spans.filter(|_| row.odd) {
        let raw = text.get(span.clone()).unwrap_or_default();
        let (message, hint) = match raw.strip_prefix('"') {
            None if !raw.contains('"') => continue,
            Some(rest) if closes(rest) => continue,
            Some(_) => (
                "a quote has no end, or something stands behind it",
                "write the field as `\"...\"`, and a quote within it as `\"\"`",
            ),
            None => (
                "a quote stands within a field",
                "put the whole field into quotes, without spaces before them",
            ),
        };
        // An unclosed quote can swallow the rest of the file, so mark only its first character.
        mistakes.error(FORM, &(span.start..span.start + 1), message, hint);
        right = false;
    }
    let more = (fields..row.fields()).any(|number| !row.get(number).text.is_empty());
    if right && more {
        let message = format!(
            "the line has {} fields, and the first line {fields}",
            row.fields()
        );
        mistakes.error(
            FORM,
            &row.whole(),
            message,
            "put a field with a comma into quotes",
        );
        right = false;
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use csv_core::{ReadFieldResult, ReaderBuilder};
    use proptest::prelude::*;

    /// Parses the same text with an independent CSV reader.
    fn others(text: &str) -> Vec<Vec<String>> {
        let mut reader = ReaderBuilder::new().comment(Some(b'#')).build();
        let (mut rest, mut lines, mut line) = (text.as_bytes(), Vec::new(), Vec::new());
        let mut space = [0; 256];
        loop {
            let mut used = 0;
            let last = loop {
                let (result, read, written) = reader.read_field(rest, &mut space[used..]);
                rest = &rest[read..];
                used += written;
                match result {
                    ReadFieldResult::InputEmpty => {}
                    ReadFieldResult::Field { record_end } => break record_end,
                    ReadFieldResult::End => return lines,
                    ReadFieldResult::OutputFull => panic!("a long field"),
                }
            };
            line.push(String::from_utf8_lossy(&space[..used]).trim().to_owned());
            if last {
                lines.push(std::mem::take(&mut line));
            }
        }
    }

    proptest! {
        #[test]
        fn lines_are_those_that_others_read(text in "[a,\"#\\r\\n ü]{0,60}") {
            // The other reader returns a final comment without a line break as a line.
            let text = text + "\n";
            let (mut lines, mut row, mut own) = (Lines::new(&text), Row::default(), Vec::new());
            let mut end = 0;
            while lines.next(&mut row) {
                let fields = (0..row.fields()).map(|number| row.get(number));
                for field in &row.fields {
                    // Spans are ascending and within the text.
                    prop_assert!(field.span.start >= end && field.span.end >= field.span.start);
                    prop_assert!(text.get(field.span.clone()).is_some());
                    end = field.span.end;
                }
                own.push(fields.map(|cell| cell.text.to_owned()).collect::<Vec<_>>());
            }
            prop_assert_eq!(own, others(&text));
        }
    }
}
