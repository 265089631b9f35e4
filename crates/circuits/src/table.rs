// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of CSV (RFC 4180), with the place of every field.
//!
//! The first line has the names of columns. Empty lines, and lines that begin with
//! `#`, are left out.

use crate::codes::{COLUMN, FORM};
use crate::located::Told;
use csv_core::{ReadFieldResult, Reader, ReaderBuilder};
use weirgate_document::{Span, did_you_mean};

/// The fields of a line.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// All texts, one after another.
    text: String,
    /// The end of each in `text`.
    ends: Vec<usize>,
    /// The place of each in the file.
    spans: Vec<Span>,
}

/// A field.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'r> {
    /// What it says, without spaces around it.
    pub(crate) text: &'r str,
    /// Where it stands.
    pub(crate) span: Span,
}

impl Row {
    /// A field, by its number.
    pub(crate) fn get(&self, number: usize) -> Cell<'_> {
        let begin = match number {
            0 => 0,
            other => self.ends.get(other - 1).copied().unwrap_or(self.text.len()),
        };
        let end = self.ends.get(number).copied().unwrap_or(begin);
        Cell {
            text: self.text.get(begin..end).unwrap_or_default().trim(),
            span: match self.spans.get(number) {
                Some(span) => span.clone(),
                None => self.whole(),
            },
        }
    }

    /// How many fields there are.
    pub(crate) fn fields(&self) -> usize {
        self.ends.len()
    }

    /// The place of the whole line.
    pub(crate) fn whole(&self) -> Span {
        let start = self.spans.first().map_or(0, |span| span.start);
        start..self.spans.last().map_or(start, |span| span.end)
    }
}

/// Goes through the lines of a text.
pub(crate) struct Lines<'t> {
    text: &'t str,
    at: usize,
    reader: Reader,
    space: Vec<u8>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let reader = ReaderBuilder::new().comment(Some(b'#')).build();
        Self {
            text,
            at: text.len() - text.trim_start_matches('\u{feff}').len(),
            reader,
            space: vec![0; 1 << 10],
        }
    }

    /// Where the next line with fields begins, as the reader finds it.
    fn begin(&self) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            match bytes.get(at) {
                Some(b'\r' | b'\n') => at += 1,
                Some(b'#') => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    at += rest
                        .iter()
                        .position(|byte| *byte == b'\n')
                        .unwrap_or(rest.len());
                }
                _ => return at,
            }
        }
    }

    /// Reads the next line; `false` at the end.
    pub(crate) fn next(&mut self, row: &mut Row) -> bool {
        row.text.clear();
        row.ends.clear();
        row.spans.clear();
        loop {
            let begin = if row.ends.is_empty() {
                self.begin()
            } else {
                self.at
            };
            let mut used = 0;
            let last = loop {
                let input = self.text.as_bytes().get(self.at..).unwrap_or_default();
                let output = self.space.get_mut(used..).unwrap_or_default();
                let (result, read, written) = self.reader.read_field(input, output);
                self.at += read;
                used += written;
                match result {
                    ReadFieldResult::InputEmpty => {}
                    ReadFieldResult::OutputFull => self.space.resize(self.space.len() * 2, 0),
                    ReadFieldResult::Field { record_end } => break record_end,
                    ReadFieldResult::End => return false,
                }
            };
            // What ends a field is ASCII, so none is cut within a character.
            let field = self.space.get(..used).unwrap_or_default();
            row.text.push_str(&String::from_utf8_lossy(field));
            row.ends.push(row.text.len());
            let raw = self.text.get(begin..self.at).unwrap_or_default();
            let end = raw.strip_suffix(if last { ['\n', '\r'] } else { [',', ','] });
            row.spans.push(begin..begin + end.unwrap_or(raw).len());
            if last {
                return true;
            }
        }
    }
}

/// A column that a file may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its name, as the first line has it.
    pub(crate) name: &'static str,
    /// Whether the file has to have it.
    pub(crate) needed: bool,
    /// Whether nothing is made of it.
    pub(crate) unused: bool,
}

impl Column {
    /// A column that a file has to have.
    pub(crate) const fn needed(name: &'static str) -> Self {
        Self {
            name,
            needed: true,
            unused: false,
        }
    }

    /// One that it may have.
    pub(crate) const fn free(name: &'static str) -> Self {
        Self {
            needed: false,
            ..Self::needed(name)
        }
    }

    /// One that it may have, and of which nothing is made.
    pub(crate) const fn unused(name: &'static str) -> Self {
        Self {
            unused: true,
            ..Self::free(name)
        }
    }
}

/// Where columns are in a file.
pub(crate) struct Header {
    /// For each column that is known, its place among the fields.
    places: Vec<Option<usize>>,
}

impl Header {
    /// The field of a line in the column of this number; an empty one where the file
    /// has no such column.
    pub(crate) fn cell<'r>(&self, row: &'r Row, column: usize) -> Cell<'r> {
        match self.places.get(column).copied().flatten() {
            Some(place) => row.get(place),
            None => Cell {
                text: "",
                span: row.whole(),
            },
        }
    }

    /// Whether the file has the column.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.places.get(column).is_some_and(Option::is_some)
    }
}

/// A name as it is compared: LibreQoS' own versions differ in the unit behind it.
pub(crate) fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    name.strip_suffix(" mbps").unwrap_or(&name).to_owned()
}

/// Finds columns by the first line.
pub(crate) fn header(row: &Row, columns: &[Column], told: &Told<'_, '_>) -> Header {
    let mut places = vec![None; columns.len()];
    for number in 0..row.ends.len() {
        let cell = row.get(number);
        let same = |column: &Column| plain(column.name) == plain(cell.text);
        let Some(known) = columns.iter().position(same) else {
            if !cell.text.is_empty() {
                let hint = did_you_mean(cell.text, columns.iter().map(|one| one.name), || {
                    "leave it out, or see the guide for what columns mean".to_owned()
                });
                let message = format!("nothing is made of the column `{}`", cell.text);
                told.warning(crate::codes::UNUSED, &cell.span, message, hint);
            }
            continue;
        };
        match &mut places[known] {
            Some(_) => {
                let message = format!("the column `{}` is there twice", cell.text);
                told.error(COLUMN, &cell.span, message, "leave out one of them");
            }
            place => *place = Some(number),
        }
    }
    for (column, place) in columns.iter().zip(&places) {
        if column.needed && place.is_none() {
            let message = format!("the column `{}` is missing", column.name);
            told.error(
                COLUMN,
                &row.whole(),
                message,
                "name it in the first line, and give each line its field",
            );
        }
    }
    Header { places }
}

/// Whether a field behind its first quote ends in the last one, and has only doubled
/// ones within.
fn ends(rest: &str) -> bool {
    let within = rest.strip_suffix('"');
    within.is_some_and(|within| !within.contains('"') || !within.replace("\"\"", "").contains('"'))
}

/// Whether quotes and the number of fields are right. A wrong one is told.
pub(crate) fn well_formed(text: &str, row: &Row, fields: usize, told: &Told<'_, '_>) -> bool {
    let mut right = true;
    for span in &row.spans {
        let raw = text.get(span.clone()).unwrap_or_default();
        let (message, hint) = match raw.strip_prefix('"') {
            None if !raw.contains('"') => continue,
            Some(rest) if ends(rest) => continue,
            Some(_) => (
                "a quote has no end, or something stands behind it",
                "write the field as `\"...\"`, and a quote within it as `\"\"`",
            ),
            None => (
                "a quote stands within a field",
                "put the whole field into quotes, without spaces before them",
            ),
        };
        // What such a field swallowed may be the rest of the file.
        told.error(FORM, &(span.start..span.start + 1), message, hint);
        right = false;
    }
    let more = (fields..row.ends.len()).any(|number| !row.get(number).text.is_empty());
    if right && more {
        let message = format!(
            "the line has {} fields, and the first line {fields}",
            row.ends.len()
        );
        told.error(
            FORM,
            &row.whole(),
            message,
            "put a field with a comma into quotes",
        );
        right = false;
    }
    right
}
