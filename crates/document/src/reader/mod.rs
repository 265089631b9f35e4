// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the tables of a document, field by field.

mod names;

use crate::problem::{OUT_OF_RANGE, Problems, SourceSpan};
use crate::source::Text;
use crate::value::{Kind, Value};
use crate::vocabulary::Vocabulary;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A reader of one table. Every field that is requested counts as known. When the reader is
/// dropped, it reports each remaining field as unknown (code `D003`).
#[derive(Debug)]
pub struct Reader<'d, 'i> {
    text: &'d Text<'i>,
    table: &'d DeTable<'i>,
    span: SourceSpan,
    name: String,
    problems: &'d Problems,
    vocabulary: &'static Vocabulary,
    known: BTreeSet<&'static str>,
    /// Former names of fields, each with the field's name.
    former: Vec<(&'static str, &'static str)>,
    open: bool,
}

impl<'d, 'i> Reader<'d, 'i> {
    /// Makes a reader of the whole document.
    pub(crate) fn root(
        text: &'d Text<'i>,
        root: &'d Spanned<DeTable<'i>>,
        problems: &'d Problems,
        vocabulary: &'static Vocabulary,
    ) -> Self {
        Self {
            text,
            table: root.get_ref(),
            span: root.span(),
            name: String::new(),
            problems,
            vocabulary,
            known: BTreeSet::new(),
            former: Vec::new(),
            open: false,
        }
    }

    /// Returns the table's place (its header, or its braces).
    #[must_use]
    pub fn span(&self) -> SourceSpan {
        self.span.clone()
    }

    /// Returns the line of the table's place, from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.text.line(self.span.start)
    }

    /// Returns the collector of problems.
    #[must_use]
    pub fn problems(&self) -> &'d Problems {
        self.problems
    }

    /// Returns whether the table has no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns whether the field exists, whatever its type.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.known.insert(key);
        self.entry(key).is_some()
    }

    /// Returns the kind of the field's value; `None` if it is absent.
    pub fn kind(&mut self, key: &'static str) -> Option<Kind> {
        let (value, _) = self.field(key)?;
        Some(match value {
            DeValue::String(_) => Kind::Text,
            DeValue::Integer(_) | DeValue::Float(_) => Kind::Number,
            DeValue::Boolean(_) => Kind::Boolean,
            DeValue::Array(_) => Kind::List,
            DeValue::Table(_) => Kind::Table,
            DeValue::Datetime(_) => Kind::Date,
        })
    }

    /// Returns the names of all fields, for tables whose keys the user chooses. None of them is
    /// reported as unknown.
    pub fn keys(&mut self) -> Vec<Value<String>> {
        self.open = true;
        let keys = self.table.keys();
        keys.map(|key| self.value(key.get_ref().to_string(), key.span()))
            .collect()
    }

    /// Reads an optional text.
    pub fn text(&mut self, key: &'static str) -> Option<Value<String>> {
        let (value, span) = self.field(key)?;
        match value {
            DeValue::String(text) => Some(self.value(text.to_string(), span)),
            other => self.wrong(key, other, span, "a text in quotes"),
        }
    }

    /// Reads an optional text parsed as `T`.
    pub fn parsed<T>(&mut self, key: &'static str) -> Option<Value<T>>
    where
        T: FromStr<Err: Display>,
    {
        let (value, span) = self.field(key)?;
        if let DeValue::Integer(number) = value {
            // A quoted number may still lack its unit.
            let wanted = match number.as_str().parse::<T>() {
                Ok(_) => format!("`{key} = \"{}\"`", number.as_str()),
                Err(error) => with_unit::<T>(key, number.as_str()).unwrap_or_else(|| {
                    let error = error.to_string();
                    let right = error.split_once("; write ").map(|(_, right)| right);
                    format!("{}, in quotes", right.unwrap_or("a text"))
                }),
            };
            return self.wrong(key, value, span, &wanted);
        }
        let text = self.text(key)?;
        self.convert(key, text)
    }

    /// Reads an optional list of texts parsed as `T`; a single text is a list of one.
    pub fn parsed_list<T>(&mut self, key: &'static str) -> Option<Vec<Value<T>>>
    where
        T: FromStr<Err: Display>,
    {
        let texts = self.text_list(key)?;
        Some(
            texts
                .into_iter()
                .filter_map(|text| self.convert(key, text))
                .collect(),
        )
    }

    /// Reads an optional list of texts. A single text and whole numbers are accepted too.
    pub fn text_list(&mut self, key: &'static str) -> Option<Vec<Value<String>>> {
        let (value, span) = self.field(key)?;
        let items: Vec<(&DeValue<'i>, SourceSpan)> = match value {
            DeValue::Array(items) => items.iter().map(|i| (i.get_ref(), i.span())).collect(),
            single => vec![(single, span)],
        };
        let mut list = Vec::new();
        for (item, span) in items {
            match item {
                DeValue::String(text) => list.push(self.value(text.to_string(), span)),
                DeValue::Integer(number) if number.radix() == 10 => {
                    list.push(self.value(number.as_str().to_owned(), span));
                }
                other => {
                    self.wrong::<()>(key, other, span, "a text in quotes or a list of them");
                }
            }
        }
        Some(list)
    }

    /// Reads an optional whole number within `range`.
    pub fn integer(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<Value<i64>> {
        let (value, span) = self.field(key)?;
        let DeValue::Integer(number) = value else {
            return self.wrong(key, value, span, "a whole number");
        };
        let parsed = i64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
        match parsed {
            Ok(number) if range.contains(&number) => Some(self.value(number, span)),
            _ => {
                let (low, high) = (range.start(), range.end());
                let message = format!("`{key}` is out of range");
                self.problems.error(
                    OUT_OF_RANGE,
                    span,
                    message,
                    format!("write a whole number from {low} to {high}"),
                );
                None
            }
        }
    }

    /// Reads an optional number, whole or with a fraction; never NaN or infinite.
    pub fn number(&mut self, key: &'static str) -> Option<Value<f64>> {
        let (value, span) = self.field(key)?;
        let text = match value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            other => return self.wrong(key, other, span, "a number"),
        };
        match text.replace('_', "").parse::<f64>() {
            Ok(number) if number.is_finite() => Some(self.value(number, span)),
            _ => {
                self.problems.error(
                    OUT_OF_RANGE,
                    span,
                    format!("`{key}` is not a finite number"),
                    "write a number",
                );
                None
            }
        }
    }

    /// Reads an optional `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<Value<bool>> {
        let (value, span) = self.field(key)?;
        match value {
            DeValue::Boolean(flag) => Some(self.value(*flag, span)),
            other => self.wrong(key, other, span, "`true` or `false`"),
        }
    }

    /// Reads an optional table.
    pub fn table(&mut self, key: &'static str) -> Option<Reader<'d, 'i>> {
        self.table_or(key, &format!("a table, `[{key}]`"))
    }

    /// Reads an optional table of tables with names that the author chooses: `[key.NAME]`.
    pub fn named_tables(&mut self, key: &'static str) -> Option<Reader<'d, 'i>> {
        self.table_or(key, &format!("a table for each, `[{key}.NAME]`"))
    }

    fn table_or(&mut self, key: &'static str, wanted: &str) -> Option<Reader<'d, 'i>> {
        let (value, span) = self.field(key)?;
        match value {
            DeValue::Table(table) => Some(self.nested(key, table, span)),
            other => self.wrong(key, other, span, wanted),
        }
    }

    /// Reads a table under a key from [`Reader::keys`].
    pub fn table_named(&mut self, key: &Value<String>) -> Option<Reader<'d, 'i>> {
        let entry = self.table.get(key.value.as_str())?;
        match entry.get_ref() {
            DeValue::Table(table) => Some(self.nested(&key.value, table, entry.span())),
            other => self.wrong(&key.value, other, entry.span(), "a table"),
        }
    }

    /// Reads a text under a key from [`Reader::keys`].
    pub fn entry_text(&mut self, key: &Value<String>) -> Option<Value<String>> {
        let entry = self.table.get(key.value.as_str())?;
        match entry.get_ref() {
            DeValue::String(text) => Some(self.value(text.to_string(), entry.span())),
            other => self.wrong(&key.value, other, entry.span(), "a text in quotes"),
        }
    }

    /// Returns the place of a field's key, or of the table if the field is absent.
    #[must_use]
    pub fn span_of(&self, key: &str) -> SourceSpan {
        let found = self.entry(key);
        found.map_or_else(|| self.span(), |(key, _)| key.span())
    }

    /// Reads the tables of an array of tables, `[[key]]`; empty if it is absent.
    pub fn tables(&mut self, key: &'static str) -> Vec<Reader<'d, 'i>> {
        let Some((value, span)) = self.field(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value else {
            self.wrong::<()>(
                key,
                value,
                span,
                &format!("one or more tables, `[[{key}]]`"),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::Table(table) => tables.push(self.nested(key, table, item.span())),
                other => {
                    self.wrong::<()>(key, other, item.span(), &format!("a table, `[[{key}]]`"));
                }
            }
        }
        tables
    }

    /// Reads at most `most` tables of an array, the first in the file, and the place of the first
    /// excess table. Excess tables are not checked.
    pub fn tables_up_to(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> (Vec<Reader<'d, 'i>>, Option<SourceSpan>) {
        let mut tables = self.tables(key);
        let excess = tables.get(most).map(Reader::span);
        for table in tables.iter_mut().skip(most) {
            table.open = true;
        }
        tables.truncate(most);
        (tables, excess)
    }

    /// Reports that a field is missing (code `D002`), and returns `None`, for expressions such as
    /// `reader.text("name").or_else(|| reader.missing("name", hint))`.
    pub fn missing<T>(&self, key: &str, hint: &str) -> Option<T> {
        let message = match self.name.as_str() {
            "" => format!("`{key}` is missing"),
            name => format!("`{key}` is missing in `{name}`"),
        };
        // The root table spans the whole document; point at what is written first. What comes
        // before it may be another policy of the file, in place of which there are spaces.
        let place = match self.name.as_str() {
            "" => {
                let written = |c: char| !c.is_whitespace();
                let first = self.text.source.find(written).unwrap_or(self.span.start);
                first..first
            }
            _ => self.span.clone(),
        };
        self.problems.error("D002", place, message, hint);
        None
    }

    fn nested(&self, key: &str, table: &'d DeTable<'i>, span: SourceSpan) -> Self {
        Self {
            text: self.text,
            table,
            span,
            name: key.to_owned(),
            problems: self.problems,
            vocabulary: self.vocabulary,
            known: BTreeSet::new(),
            former: Vec::new(),
            open: false,
        }
    }

    fn field(&mut self, key: &'static str) -> Option<(&'d DeValue<'i>, SourceSpan)> {
        self.known.insert(key);
        let (_, value) = self.entry(key)?;
        Some((value.get_ref(), value.span()))
    }

    fn value<T>(&self, value: T, span: SourceSpan) -> Value<T> {
        let line = self.text.line(span.start);
        Value { value, span, line }
    }

    /// Parses a text of a list as `T`.
    pub fn convert<T>(&self, key: &str, text: Value<String>) -> Option<Value<T>>
    where
        T: FromStr<Err: Display>,
    {
        match text.value.parse() {
            Ok(parsed) => Some(text.map(|_| parsed)),
            Err(error) => {
                // Errors of quantities say what is wrong and, after a semicolon, what to write
                // instead.
                let error = error.to_string();
                let (wrong, right) = error.split_once("; ").unwrap_or((&error, ""));
                let lines = with_unit::<T>(key, &text.value);
                let right =
                    lines.map_or_else(|| right.to_owned(), |lines| format!("write {lines}"));
                self.problems
                    .error("D004", text.span, format!("`{key}`: {wrong}"), right);
                None
            }
        }
    }

    fn wrong<T>(
        &self,
        key: &str,
        found: &DeValue<'_>,
        span: SourceSpan,
        wanted: &str,
    ) -> Option<T> {
        let message = format!("`{key}` is of type {}", found.type_str());
        self.problems
            .error("D004", span, message, format!("write {wanted}"));
        None
    }
}

/// The units that a number may lack, the most likely first.
const UNITS: [&str; 7] = ["%", "mbit", "kbit", "ms", "s", "kB", "B"];

/// Returns corrected lines for a number without a unit, with the first two units that `T` accepts.
fn with_unit<T: FromStr>(key: &str, number: &str) -> Option<String> {
    corrected(key, number, &|text| text.parse::<T>().is_ok())
}

/// Implements [`with_unit`] for all types, so that the program contains it once.
fn corrected(key: &str, number: &str, accepts: &dyn Fn(&str) -> bool) -> Option<String> {
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    // No unit makes a nought right.
    if !digits || number.bytes().all(|byte| byte == b'0') {
        return None;
    }
    let texts = UNITS.iter().map(|unit| format!("{number}{unit}"));
    let lines = texts.filter(|text| accepts(text)).take(2);
    let lines: Vec<String> = lines.map(|text| format!("`{key} = \"{text}\"`")).collect();
    (!lines.is_empty()).then(|| lines.join(" or "))
}
