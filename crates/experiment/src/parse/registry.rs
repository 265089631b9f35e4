// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of fields: each field of an experiment file is declared once, beside
//! its reader, with what may be written and what it means. Readers, the errors about
//! unknown fields and the reference follow from the declarations.
//!
//! ```text
//! const HOSTS: Field<Integer> =
//!     Field::new("hosts", Integer(1, 250), "Hosts behind the gateway").default("1");
//!
//! let hosts = HOSTS.or(table, 1);
//! ```
//!
//! A field of type [`Own`] has a reader of its own, which takes the field's name. A
//! [`Table`] lists the fields of one table, and `super::TABLES` has every table.

use super::field;
use std::fmt::Display;
use weirgate_document::{Reader, Value};
use weirgate_units::{Rate, Size, Span};

/// What may be written in a field, and how it is read.
pub(super) trait FieldType {
    /// What is read.
    type Value;

    /// The value; `None` where the field is absent, or wrong and reported.
    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Self::Value>;

    /// What may be written, for the reference.
    fn text(&self) -> String;
}

/// A field.
#[derive(Clone, Copy)]
pub(super) struct Field<T> {
    /// Its name.
    pub(super) name: &'static str,
    of: T,
    about: &'static str,
    default: &'static str,
    /// For a required field, what to write where it is missing.
    hint: Option<&'static str>,
}

impl<T> Field<T> {
    /// An optional field without a default.
    pub(super) const fn new(name: &'static str, of: T, about: &'static str) -> Self {
        Self {
            name,
            of,
            about,
            default: "",
            hint: None,
        }
    }

    /// The same field with what holds where it is absent.
    pub(super) const fn default(mut self, text: &'static str) -> Self {
        self.default = text;
        self
    }

    /// The same field, required, with what to write where it is missing.
    pub(super) const fn required(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Whether the table has it.
    pub(super) fn is_in(&self, table: &mut Reader<'_, '_>) -> bool {
        table.has(self.name)
    }

    /// Reports where a required field is missing, and whether it is there.
    pub(super) fn is_there(&self, table: &mut Reader<'_, '_>) -> bool {
        if table.has(self.name) {
            return true;
        }
        if let Some(hint) = self.hint {
            table.missing::<()>(self.name, hint);
        }
        false
    }
}

impl<T: FieldType> Field<T> {
    /// The value; `None` where the field is absent, or wrong and reported. That a
    /// required field is missing is reported too.
    pub(super) fn get(&self, table: &mut Reader<'_, '_>) -> Option<T::Value> {
        if self.hint.is_some() && !self.is_there(table) {
            return None;
        }
        self.of.read(table, self.name)
    }

    /// The value, or another where the field is absent; `None` where it is wrong.
    pub(super) fn or(&self, table: &mut Reader<'_, '_>, absent: T::Value) -> Option<T::Value> {
        if self.is_in(table) {
            self.of.read(table, self.name)
        } else {
            Some(absent)
        }
    }
}

/// A text.
#[derive(Clone, Copy)]
pub(super) struct Text;

impl FieldType for Text {
    type Value = Value<String>;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Value<String>> {
        table.text(name)
    }

    fn text(&self) -> String {
        "text".to_owned()
    }
}

/// One text or several, of this kind.
#[derive(Clone, Copy)]
pub(super) struct Texts(pub(super) &'static str);

impl FieldType for Texts {
    type Value = Vec<Value<String>>;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Self::Value> {
        table.text_list(name)
    }

    fn text(&self) -> String {
        format!("list of {}", self.0)
    }
}

/// A whole number within bounds.
#[derive(Clone, Copy)]
pub(super) struct Integer(pub(super) i64, pub(super) i64);

impl FieldType for Integer {
    type Value = i64;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<i64> {
        let Self(least, most) = *self;
        table.integer(name, least..=most).map(|value| value.value)
    }

    fn text(&self) -> String {
        match *self {
            Self(least, i64::MAX) => format!("number from {least}"),
            Self(least, most) => format!("{least} to {most}"),
        }
    }
}

/// A number.
#[derive(Clone, Copy)]
pub(super) struct Number;

impl FieldType for Number {
    type Value = f64;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<f64> {
        table.number(name).map(|value| value.value)
    }

    fn text(&self) -> String {
        "number".to_owned()
    }
}

/// `true` or `false`.
#[derive(Clone, Copy)]
pub(super) struct Switch;

impl FieldType for Switch {
    type Value = Value<bool>;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Value<bool>> {
        table.boolean(name)
    }

    fn text(&self) -> String {
        "true or false".to_owned()
    }
}

fn bounds<T: Display + Default + PartialEq>(what: &str, least: &T, most: &T) -> String {
    if *least == T::default() {
        format!("{what} up to {most}")
    } else {
        format!("{what}, {least} to {most}")
    }
}

/// A time within bounds.
#[derive(Clone, Copy)]
pub(super) struct Time(pub(super) Span, pub(super) Span);

impl FieldType for Time {
    type Value = Span;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Span> {
        field::span(table, name, self.0, self.1)
    }

    fn text(&self) -> String {
        bounds("time", &self.0, &self.1)
    }
}

/// A rate within bounds.
#[derive(Clone, Copy)]
pub(super) struct Speed(pub(super) Rate, pub(super) Rate);

impl FieldType for Speed {
    type Value = Rate;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Rate> {
        field::rate(table, name, self.0, self.1)
    }

    fn text(&self) -> String {
        bounds("rate", &self.0, &self.1)
    }
}

/// A size within bounds.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub(super) Size, pub(super) Size);

impl FieldType for Bytes {
    type Value = Size;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Size> {
        field::size(table, name, self.0, self.1)
    }

    fn text(&self) -> String {
        bounds("size", &self.0, &self.1)
    }
}

/// One of these words; the first is used where the field is absent.
#[derive(Clone, Copy)]
pub(super) struct Word<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy> FieldType for Word<T> {
    type Value = T;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<T> {
        field::word(table, name, self.0)
    }

    fn text(&self) -> String {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|one| format!("`\"{}\"`", one.0))
            .collect();
        words.join(", ")
    }
}

/// What has a reader of its own: what may be written.
#[derive(Clone, Copy)]
pub(super) struct Own(pub(super) &'static str);

/// A table of an experiment file.
#[derive(Clone, Copy)]
pub struct Table {
    /// Its name, as it is written.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    pub(super) fields: &'static [&'static (dyn Described + Sync)],
}

/// A field as the reference describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRow {
    /// Its name.
    pub name: &'static str,
    /// What may be written.
    pub kind: String,
    /// What holds where it is absent; `required` where it may not be.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// A field whose type is not known.
pub(super) trait Described {
    fn row(&self) -> FieldRow;
}

impl<T> Field<T> {
    fn described(&self, kind: String) -> FieldRow {
        FieldRow {
            name: self.name,
            kind,
            default: self.hint.map_or(self.default, |_| "required"),
            about: self.about,
        }
    }
}

impl<T: FieldType> Described for Field<T> {
    fn row(&self) -> FieldRow {
        self.described(self.of.text())
    }
}

impl Described for Field<Own> {
    fn row(&self) -> FieldRow {
        self.described(self.of.0.to_owned())
    }
}

impl Table {
    /// Its fields, in the order of the reference.
    #[must_use]
    pub fn rows(&self) -> Vec<FieldRow> {
        self.fields.iter().map(|field| field.row()).collect()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(self.name).finish_non_exhaustive()
    }
}
