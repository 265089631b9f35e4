// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of fields. Each field of a file is declared once, beside its reader, with its
//! permitted values and its meaning. Readers, errors about unknown fields, and the reference are
//! derived from the declarations.
//!
//! ```
//! use weirgate_document::{Problems, parse};
//! use weirgate_document::registry::{Field, Integer, Table};
//!
//! const HOSTS: Field<Integer> =
//!     Field::new("hosts", Integer(1, 250), "Hosts behind the gateway").default("1");
//! const TABLE: Table = Table::new("[topology]", "What is built", &[&HOSTS]);
//!
//! let problems = Problems::default();
//! let hosts = parse("hosts = 3\n", &problems, |mut table| HOSTS.or(&mut table, 1));
//! assert_eq!(hosts, Some(3));
//! assert_eq!(TABLE.rows()[0].kind, "1 to 250");
//! ```
//!
//! Methods that read are inlined, so that a program without the reference does not contain its
//! texts.
//!
//! A field of type [`Own`] has its own reader, which takes the field's name. A [`Table`] lists the
//! fields of one table.

#![allow(
    clippy::inline_always,
    reason = "the router's program would have the texts of the reference"
)]

use crate::{Reader, Value};
use std::fmt::{self, Display};
use std::str::FromStr;

/// The permitted values of a field, and how they are read.
pub trait FieldType {
    /// The type of the value.
    type Value;

    /// Reads the value; returns `None` if the field is absent, or wrong and reported.
    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Self::Value>;

    /// Returns the permitted values, for the reference.
    fn text(&self) -> String;
}

/// A field.
#[derive(Debug, Clone, Copy)]
pub struct Field<T> {
    /// Its name.
    pub name: &'static str,
    of: T,
    about: &'static str,
    default: &'static str,
    /// For a required field, the hint if it is missing.
    hint: Option<&'static str>,
}

impl<T> Field<T> {
    /// Makes an optional field without a default.
    pub const fn new(name: &'static str, of: T, about: &'static str) -> Self {
        Self {
            name,
            of,
            about,
            default: "",
            hint: None,
        }
    }

    /// Returns the same field with a description of its default.
    #[must_use]
    pub const fn default(mut self, text: &'static str) -> Self {
        self.default = text;
        self
    }

    /// Returns the same field as required, with the hint if it is missing.
    #[must_use]
    pub const fn required(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Returns whether the table has the field.
    #[inline(always)]
    pub fn is_in(&self, table: &mut Reader<'_, '_>) -> bool {
        table.has(self.name)
    }

    /// Reports a missing required field, and returns whether it exists.
    #[inline(always)]
    pub fn is_there(&self, table: &mut Reader<'_, '_>) -> bool {
        is_there(table, self.name, self.hint)
    }
}

impl<T: FieldType> Field<T> {
    /// Reads the value; returns `None` if the field is absent, or wrong and reported. A missing
    /// required field is reported too.
    #[inline(always)]
    pub fn get(&self, table: &mut Reader<'_, '_>) -> Option<T::Value> {
        if self.hint.is_some() && !self.is_there(table) {
            return None;
        }
        self.of.read(table, self.name)
    }

    /// Reads the value, or returns `absent` if there is none; `None` if it is wrong.
    #[inline(always)]
    pub fn or(&self, table: &mut Reader<'_, '_>, absent: T::Value) -> Option<T::Value> {
        if self.is_in(table) {
            self.of.read(table, self.name)
        } else {
            Some(absent)
        }
    }
}

fn is_there(table: &mut Reader<'_, '_>, name: &'static str, hint: Option<&str>) -> bool {
    if table.has(name) {
        return true;
    }
    if let Some(hint) = hint {
        table.missing::<()>(name, hint);
    }
    false
}

/// A text.
#[derive(Debug, Clone, Copy)]
pub struct Text;

impl FieldType for Text {
    type Value = Value<String>;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Value<String>> {
        table.text(name)
    }

    fn text(&self) -> String {
        "text".to_owned()
    }
}

/// One text or several; the text describes them.
#[derive(Debug, Clone, Copy)]
pub struct Texts(pub &'static str);

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
#[derive(Debug, Clone, Copy)]
pub struct Integer(pub i64, pub i64);

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
#[derive(Debug, Clone, Copy)]
pub struct Number;

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
#[derive(Debug, Clone, Copy)]
pub struct Switch;

impl FieldType for Switch {
    type Value = Value<bool>;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Value<bool>> {
        table.boolean(name)
    }

    fn text(&self) -> String {
        "true or false".to_owned()
    }
}

/// A value within inclusive bounds.
#[derive(Debug, Clone, Copy)]
pub struct Within<T> {
    what: &'static str,
    code: &'static str,
    least: T,
    most: T,
    bare: bool,
}

impl<T> Within<T> {
    /// Makes a field type for values such as a `rate`; values out of bounds are reported with
    /// `code`.
    pub const fn new(what: &'static str, code: &'static str, least: T, most: T) -> Self {
        Self {
            what,
            code,
            least,
            most,
            bare: false,
        }
    }

    /// Returns the same type, which also accepts a whole number without quotes.
    #[must_use]
    pub const fn bare(mut self) -> Self {
        self.bare = true;
        self
    }
}

impl<T: FromStr<Err: Display> + Display + PartialOrd + Copy> Within<T> {
    /// Returns the value if it is within the bounds; reports it otherwise.
    pub fn check(&self, table: &Reader<'_, '_>, name: &str, value: &Value<T>) -> Option<T> {
        if (self.least..=self.most).contains(&value.value) {
            return Some(value.value);
        }
        let message = format!("`{name}` is out of range");
        let hint = format!("write a value from {} to {}", self.least, self.most);
        let place = value.span.clone();
        table.problems().error(self.code, place, message, hint);
        None
    }

    fn one(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Value<T>> {
        if !self.bare {
            return table.parsed(name);
        }
        let mut list = table.parsed_list(name)?.into_iter();
        let first = list.next()?;
        if let Some(second) = list.next() {
            let message = format!("`{name}` takes one {}", self.what);
            let hint = format!("write one {}", self.what);
            let problems = table.problems();
            problems.error(self.code, second.span, message, hint);
        }
        Some(first)
    }
}

impl<T> FieldType for Within<T>
where
    T: FromStr<Err: Display> + Display + PartialOrd + Default + Copy,
{
    type Value = T;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<T> {
        let value = self.one(table, name)?;
        self.check(table, name, &value)
    }

    fn text(&self) -> String {
        let Self {
            what, least, most, ..
        } = self;
        if *least == T::default() {
            format!("{what} up to {most}")
        } else {
            format!("{what}, {least} to {most}")
        }
    }
}

/// A field with its own reader; the text describes the permitted values.
#[derive(Debug, Clone, Copy)]
pub struct Own(pub &'static str);

/// A table of a file.
#[derive(Clone, Copy)]
pub struct Table {
    /// Its name in the file.
    pub name: &'static str,
    /// A description, one line.
    pub about: &'static str,
    fields: &'static [&'static (dyn Described + Sync)],
}

/// A row of the reference about a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRow {
    /// Its name.
    pub name: &'static str,
    /// The permitted values.
    pub kind: String,
    /// The default; `required` if the field is required.
    pub default: &'static str,
    /// The meaning.
    pub about: &'static str,
}

/// A field of any type.
pub trait Described {
    /// Returns the reference's row about the field.
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
    /// Makes a table with these fields, in the order of the reference.
    #[must_use]
    pub const fn new(
        name: &'static str,
        about: &'static str,
        fields: &'static [&'static (dyn Described + Sync)],
    ) -> Self {
        Self {
            name,
            about,
            fields,
        }
    }

    /// Returns the rows of its fields, in the order of the reference.
    #[must_use]
    pub fn rows(&self) -> Vec<FieldRow> {
        self.fields.iter().map(|field| field.row()).collect()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.name).finish_non_exhaustive()
    }
}
