// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of fields: each field of a file is declared once, beside its reader,
//! with what may be written and what it means. Readers, the errors about unknown
//! fields and the reference follow from the declarations.
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
//! Methods that read are inlined, so that a program that has no reference has no texts
//! of it.
//!
//! A field of type [`Own`] has a reader of its own, which takes the field's name. A
//! [`Table`] lists the fields of one table.

#![allow(
    clippy::inline_always,
    reason = "the router's program would have the texts of the reference"
)]

use crate::{Reader, Value};
use std::fmt::{self, Display};
use std::str::FromStr;

/// What may be written in a field, and how it is read.
pub trait FieldType {
    /// What is read.
    type Value;

    /// The value; `None` where the field is absent, or wrong and reported.
    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<Self::Value>;

    /// What may be written, for the reference.
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
    /// For a required field, what to write where it is missing.
    hint: Option<&'static str>,
}

impl<T> Field<T> {
    /// An optional field without a default.
    pub const fn new(name: &'static str, of: T, about: &'static str) -> Self {
        Self {
            name,
            of,
            about,
            default: "",
            hint: None,
        }
    }

    /// The same field with what holds where it is absent.
    #[must_use]
    pub const fn default(mut self, text: &'static str) -> Self {
        self.default = text;
        self
    }

    /// The same field, required, with what to write where it is missing.
    #[must_use]
    pub const fn required(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Whether the table has it.
    #[inline(always)]
    pub fn is_in(&self, table: &mut Reader<'_, '_>) -> bool {
        table.has(self.name)
    }

    /// Reports where a required field is missing, and whether it is there.
    #[inline(always)]
    pub fn is_there(&self, table: &mut Reader<'_, '_>) -> bool {
        is_there(table, self.name, self.hint)
    }
}

impl<T: FieldType> Field<T> {
    /// The value; `None` where the field is absent, or wrong and reported. That a
    /// required field is missing is reported too.
    #[inline(always)]
    pub fn get(&self, table: &mut Reader<'_, '_>) -> Option<T::Value> {
        if self.hint.is_some() && !self.is_there(table) {
            return None;
        }
        self.of.read(table, self.name)
    }

    /// The value, or another where the field is absent; `None` where it is wrong.
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

/// One text or several, of this kind.
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

/// A value within bounds, both included.
#[derive(Debug, Clone, Copy)]
pub struct Within<T> {
    what: &'static str,
    code: &'static str,
    least: T,
    most: T,
    bare: bool,
}

impl<T> Within<T> {
    /// A value, such as a `rate`; one that is out of bounds is reported with `code`.
    pub const fn new(what: &'static str, code: &'static str, least: T, most: T) -> Self {
        Self {
            what,
            code,
            least,
            most,
            bare: false,
        }
    }

    /// The same, which a whole number without quotes may be too.
    #[must_use]
    pub const fn bare(mut self) -> Self {
        self.bare = true;
        self
    }
}

impl<T: FromStr<Err: Display> + Display + PartialOrd + Copy> Within<T> {
    /// The value if it is within the bounds; reports it otherwise.
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

/// What has a reader of its own: what may be written.
#[derive(Debug, Clone, Copy)]
pub struct Own(pub &'static str);

/// A table of a file.
#[derive(Clone, Copy)]
pub struct Table {
    /// Its name, as it is written.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    fields: &'static [&'static (dyn Described + Sync)],
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
pub trait Described {
    /// How the reference describes it.
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
    /// A table with these fields, in the order of the reference.
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

    /// Its fields, in the order of the reference.
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
