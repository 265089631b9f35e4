// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The value of one field while it is read.

use crate::field::{FieldKind, Word};
use crate::read::{understood, understood_list, word};
use std::fmt::Display;
use std::str::FromStr;
use weirgate_document::{Kind, Problems, Reader, SourceSpan, Value};
use weirgate_units::Size;

/// The input of a field's reader: the table, the field's name and the context. A method that
/// returns `None` has reported an invalid value.
pub(crate) struct Cell<'r, 'd, 'i, C> {
    /// The table that has the field.
    pub(crate) table: &'r mut Reader<'d, 'i>,
    /// The field's current name, even if a former one is written.
    pub(crate) key: &'static str,
    /// The context of this table's readers.
    pub(crate) context: &'r C,
    kind: FieldKind,
}

impl<'r, 'd, 'i, C> Cell<'r, 'd, 'i, C> {
    pub(crate) const fn new(
        table: &'r mut Reader<'d, 'i>,
        key: &'static str,
        kind: FieldKind,
        context: &'r C,
    ) -> Self {
        Self {
            table,
            key,
            context,
            kind,
        }
    }

    /// Returns the collector of problems.
    pub(crate) fn problems(&self) -> &'d Problems {
        self.table.problems()
    }

    /// Reports an error at `span`.
    pub(crate) fn error(
        &self,
        code: &'static str,
        span: SourceSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problems().error(code, span, message, hint);
    }

    /// Reads a text.
    pub(crate) fn text(&mut self) -> Option<Value<String>> {
        self.table.text(self.key)
    }

    /// Reads a list of texts; a single text counts as a list.
    pub(crate) fn texts(&mut self) -> Vec<Value<String>> {
        self.table.text_list(self.key).unwrap_or_default()
    }

    /// Reads a quantity: a rate, share, amount, time or code point.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self) -> Option<Value<T>> {
        self.table.parsed(self.key)
    }

    /// Reads a list of quantities.
    pub(crate) fn parsed_list<T: FromStr<Err: Display>>(&mut self) -> Vec<Value<T>> {
        self.table.parsed_list(self.key).unwrap_or_default()
    }

    /// Reads a text and parses it with `understand`, whose error is a message and a hint.
    pub(crate) fn understood<T>(
        &mut self,
        code: &'static str,
        understand: impl Fn(&str) -> Result<T, (String, String)>,
    ) -> Option<Value<T>> {
        understood(self.table, self.key, code, understand)
    }

    /// Reads a list of such texts. An empty list is an error, because it would match nothing.
    pub(crate) fn list<T>(
        &mut self,
        code: &'static str,
        understand: impl Fn(&str) -> Result<T, (String, String)>,
    ) -> Vec<Value<T>> {
        understood_list(self.table, self.key, code, understand)
    }

    /// Reads one of a type's words.
    pub(crate) fn word<T: Word>(&mut self) -> Option<Value<T>> {
        word(self.table, self.key, T::WORDS)
    }

    /// Reads a whole number within the range of the field's kind, which `T` can hold.
    pub(crate) fn integer<T: TryFrom<i64>>(&mut self) -> Option<Value<T>> {
        let FieldKind::Integer(from, to) = self.kind else {
            return None;
        };
        let number = self.table.integer(self.key, from..=to)?;
        let value = T::try_from(number.value).ok()?;
        Some(number.map(|_| value))
    }

    /// Reads a number, with or without a fraction.
    pub(crate) fn number(&mut self) -> Option<Value<f64>> {
        self.table.number(self.key)
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Option<Value<bool>> {
        self.table.boolean(self.key)
    }

    /// Returns the position of the field if it is `true`.
    pub(crate) fn flagged(&mut self) -> Option<SourceSpan> {
        self.boolean()
            .filter(|flag| flag.value)
            .map(|flag| flag.span)
    }

    /// Reads a size: a text with a unit, or a number of bytes.
    pub(crate) fn size(&mut self) -> Option<Value<Size>> {
        match self.table.kind(self.key)? {
            Kind::Number => {
                let bytes = self.table.integer(self.key, 0..=i64::from(u32::MAX))?;
                Some(bytes.map(|bytes| Size::bytes(bytes.unsigned_abs())))
            }
            _ => self.parsed(),
        }
    }

    /// Reads one or more tables.
    pub(crate) fn tables(&mut self) -> Vec<Reader<'d, 'i>> {
        self.table.tables(self.key)
    }

    /// Reads a table of named tables.
    pub(crate) fn named(&mut self) -> Vec<(Value<String>, Reader<'d, 'i>)> {
        let Some(mut table) = self.table() else {
            return Vec::new();
        };
        let names = table.keys().into_iter();
        names
            .filter_map(|name| {
                let one = table.table_named(&name)?;
                Some((name, one))
            })
            .collect()
    }

    /// Reads a table.
    pub(crate) fn table(&mut self) -> Option<Reader<'d, 'i>> {
        self.table.table(self.key)
    }
}
