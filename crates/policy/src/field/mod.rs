// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of fields: each field of a policy is declared once, as a row.
//!
//! A row has the field's name, accepted values, default, description, former names and reader.
//! The parser, the errors about unknown fields, `weirgate schema`, the reference and
//! weirgate-policy(5) are generated from the rows.
//!
//! To add a field to a table, add a member to the table's struct and a row:
//!
//! ```text
//! words!(Moves: "at-once" => Self::AtOnce, "in-order" => Self::InOrder);
//!
//! const ROWS: &[Row<Link>] = &[
//!     row!(Link: "moves" => moves, "How a connection changes class").default("at-once"),
//! ];
//! ```
//!
//! [`row!`] derives the accepted values and the reader from the member's type; it also takes
//! bounds. [`Row::new`] is for a field that needs its own reader.
//!
//! The reader runs only if the field is present. It gets a [`Cell`] with the value, and the
//! struct under construction, which starts with its defaults. [`read`] reads all rows; checks of
//! several fields run after it. `needed` makes a field required, and has the hint for a policy
//! without it. `formerly` lists names that are accepted with a note. A reader that needs more
//! than its value, such as the groups of a policy, takes it from [`Cell::context`]:
//! `Row<Conditions, Groups>`.
//!
//! A [`Table`] joins the rows of one or more lists under the table's name, and `crate::TABLES`
//! lists every table.

mod cell;
mod slot;
mod word;
mod written;

pub(crate) use cell::Cell;
pub(crate) use slot::{OwnKind, Readable, Slot, elements, row, within};
pub(crate) use word::{Word, words};

use std::fmt;
use weirgate_document::Reader;

/// A field as the reference describes it.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: FieldKind,
    /// Its description, in one line.
    pub about: &'static str,
    /// The default, as written in a policy or in words.
    pub default: Option<&'static str>,
    /// The hint for a policy that lacks this required field; `None` for an optional field.
    pub required: Option<&'static str>,
    /// Former names, which are accepted with a note.
    pub former: &'static [&'static str],
}

/// The values that a field accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A text; with an example.
    Text(&'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number within inclusive bounds.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `true`, `false` or a rate.
    BooleanOrRate,
    /// A rate, such as `512kbit`.
    Rate,
    /// A percentage.
    Share,
    /// A rate or a percentage.
    Amount,
    /// A number of bytes, or a text such as `64KiB`.
    Size,
    /// A time, such as `5ms`.
    Time,
    /// One value or a list of texts or numbers; with an example.
    List(&'static str),
    /// One or a list of these words.
    Words(&'static [&'static str]),
    /// A table with this name in [`crate::TABLES`].
    Table(&'static str),
    /// A text, or a table with this name; with an example of the text.
    TextOrTable(&'static str, &'static str),
    /// One or more tables with this name, `[[...]]`.
    Tables(&'static str),
    /// A table of named tables, each described by the table with this name.
    Named(&'static str),
    /// A table from texts to texts.
    Map,
    /// A text, a number or a boolean, depending on other fields of the table; with an example.
    Setting(&'static str),
}

impl FieldKind {
    /// Returns the kind that accepts the values of both kinds.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Integer(..) | Self::Size, Self::Integer(..) | Self::Size) => Self::Size,
            (Self::Setting(example), _) | (_, Self::Setting(example)) => Self::Setting(example),
            _ => Self::Setting("1"),
        }
    }
}

/// A field with its reader, which stores the value in `T`. `C` is the context of this table's
/// readers.
pub(crate) struct Row<T, C = ()> {
    field: Field,
    read: fn(&mut Cell<'_, '_, '_, C>, &mut T),
}

impl<T, C> Row<T, C> {
    /// Returns an optional field without a default.
    pub(crate) const fn new(
        name: &'static str,
        kind: FieldKind,
        about: &'static str,
        read: fn(&mut Cell<'_, '_, '_, C>, &mut T),
    ) -> Self {
        let field = Field {
            name,
            kind,
            about,
            default: None,
            required: None,
            former: &[],
        };
        Self { field, read }
    }

    /// Returns the same for a member whose type determines the accepted values.
    pub(crate) const fn member<S: OwnKind>(
        name: &'static str,
        _member: fn(&mut T) -> &mut S,
        about: &'static str,
        read: fn(&mut Cell<'_, '_, '_, C>, &mut T),
    ) -> Self {
        Self::new(name, S::KIND, about, read)
    }

    /// Returns the field.
    pub(crate) const fn field(&self) -> Field {
        self.field
    }

    /// Returns the field's name.
    pub(crate) const fn name(&self) -> &'static str {
        self.field.name
    }

    /// Makes the field required. `hint` says what to write where it is missing.
    pub(crate) const fn needed(mut self, hint: &'static str) -> Self {
        self.field.required = Some(hint);
        self
    }

    /// Sets the description of the default.
    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.field.default = Some(text);
        self
    }

    /// Sets the former names of the field.
    pub(crate) const fn formerly(mut self, names: &'static [&'static str]) -> Self {
        self.field.former = names;
        self
    }
}

impl<T, C> fmt::Debug for Row<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.field.fmt(f)
    }
}

/// A list of rows for any type of struct.
pub trait Rows: fmt::Debug {
    /// Returns the fields, in the order of the list.
    fn fields(&self) -> Vec<Field>;
}

impl<T, C> Rows for &'static [Row<T, C>] {
    fn fields(&self) -> Vec<Field> {
        self.iter().map(|row| row.field).collect()
    }
}

impl Rows for &'static [Field] {
    fn fields(&self) -> Vec<Field> {
        self.to_vec()
    }
}

impl<const N: usize> Rows for [Field; N] {
    fn fields(&self) -> Vec<Field> {
        self.to_vec()
    }
}

/// Rows that are required for only one kind of a table, such as one kind of queue. The table as
/// a whole requires none of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfKind<R: 'static>(pub(crate) &'static R);

impl<R: Rows> Rows for OfKind<R> {
    fn fields(&self) -> Vec<Field> {
        let optional = |field| Field {
            required: None,
            ..field
        };
        self.0.fields().into_iter().map(optional).collect()
    }
}

/// A table of a policy.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name; `policy` is the top level of the file.
    pub name: &'static str,
    /// Its description, in one line.
    pub about: &'static str,
    /// Lists of its rows. A name may occur in several lists, as settings of queues do.
    pub rows: &'static [&'static dyn Rows],
}

impl Table {
    /// Returns its fields with each name once. A name with several kinds accepts the values of
    /// all of them.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for field in self.rows.iter().flat_map(|rows| rows.fields()) {
            match fields.iter_mut().find(|known| known.name == field.name) {
                Some(known) => known.kind = known.kind.or(field.kind),
                None => fields.push(field),
            }
        }
        fields
    }
}

/// Reads the fields of `rows` into `into`, and reports required fields that are missing.
pub(crate) fn read<T, C>(
    table: &mut Reader<'_, '_>,
    rows: &'static [Row<T, C>],
    context: &C,
    into: &mut T,
) {
    for row in rows {
        table.formerly(row.field.name, row.field.former);
    }
    for row in rows {
        if table.has(row.field.name) {
            let mut cell = Cell::new(table, row.field.name, row.field.kind, context);
            (row.read)(&mut cell, into);
        }
    }
    for row in rows {
        // If a misspelt name resembles the required field, report only the misspelling.
        if let Some(hint) = row.field.required
            && !table.has(row.field.name)
            && !table.meant(row.field.name)
        {
            table.missing::<()>(row.field.name, hint);
        }
    }
}

/// Replaces the default if a value could be read.
pub(crate) fn set<T>(slot: &mut T, found: Option<T>) {
    if let Some(found) = found {
        *slot = found;
    }
}
