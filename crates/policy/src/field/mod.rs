// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of fields: each field of a policy is declared once, as a row.
//!
//! A row has the field's name, what may be written, its default, its text, its
//! former names and its reader. The parser, the errors about unknown fields,
//! `weirgate schema`, the reference and weirgate-policy(5) follow from the rows.
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
//! [`row!`] takes what may be written, and the reader, from the member's type; it
//! also takes bounds. [`Row::new`] is for a field that needs a reader of its own.
//!
//! The reader runs only where the field is present, with the [`Cell`] that holds
//! its value and the struct under construction, so the struct begins with its
//! defaults. [`read`] walks the rows; checks that concern several fields follow
//! it. `needed` makes a field required and gives the hint for where it is
//! missing; `formerly` lists names that are accepted with a note. A reader
//! that needs more than its value, such as the groups of a policy, takes it from
//! [`Cell::context`]: `Row<Conditions, Groups>`.
//!
//! A [`Table`] joins the rows of one or more lists under the table's name, and
//! `crate::TABLES` lists every table.

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
    /// What may be written.
    pub kind: FieldKind,
    /// What it means, one line.
    pub about: &'static str,
    /// What holds where it is absent, as written in a policy or in words.
    pub default: Option<&'static str>,
    /// For a required field, the hint for a policy that lacks it.
    pub required: Option<&'static str>,
    /// Names that it had before; they are accepted with a note.
    pub former: &'static [&'static str],
}

/// What may be written in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A text; an example.
    Text(&'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number from..=to.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `true`, `false` or a rate.
    BooleanOrRate,
    /// A rate such as `512kbit`.
    Rate,
    /// A percentage.
    Share,
    /// A rate or a percentage.
    Amount,
    /// A number of bytes, or a text such as `64KiB`.
    Size,
    /// A text such as `5ms`.
    Time,
    /// One value or several: texts or numbers; an example.
    List(&'static str),
    /// One of these words, or several of them.
    Words(&'static [&'static str]),
    /// A table of this name in [`crate::TABLES`].
    Table(&'static str),
    /// A text, or a table of this name; an example of the text.
    TextOrTable(&'static str, &'static str),
    /// One or more tables of this name, `[[...]]`.
    Tables(&'static str),
    /// A table that holds a table of this name for each name.
    Named(&'static str),
    /// A table from texts to texts.
    Map,
    /// A text, a number, or `true` and `false`, by what else the table says; an
    /// example.
    Setting(&'static str),
}

impl FieldKind {
    /// The kind that takes what either of two takes.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Integer(..) | Self::Size, Self::Integer(..) | Self::Size) => Self::Size,
            (Self::Setting(example), _) | (_, Self::Setting(example)) => Self::Setting(example),
            _ => Self::Setting("1"),
        }
    }
}

/// A field with its reader, which puts the value into `T`. `C` is what readers
/// of this table need beside the value.
pub(crate) struct Row<T, C = ()> {
    field: Field,
    read: fn(&mut Cell<'_, '_, '_, C>, &mut T),
}

impl<T, C> Row<T, C> {
    /// An optional field without a default.
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

    /// The same for a member whose type says what may be written.
    pub(crate) const fn member<S: OwnKind>(
        name: &'static str,
        _member: fn(&mut T) -> &mut S,
        about: &'static str,
        read: fn(&mut Cell<'_, '_, '_, C>, &mut T),
    ) -> Self {
        Self::new(name, S::KIND, about, read)
    }

    /// The field.
    pub(crate) const fn field(&self) -> Field {
        self.field
    }

    /// The field's name.
    pub(crate) const fn name(&self) -> &'static str {
        self.field.name
    }

    /// The same field, required; `hint` says what to write where it is missing.
    pub(crate) const fn needed(mut self, hint: &'static str) -> Self {
        self.field.required = Some(hint);
        self
    }

    /// The same field with what holds where it is absent.
    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.field.default = Some(text);
        self
    }

    /// The same field with names that it had before.
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

/// A list of rows, whatever they are read into.
pub trait Rows: fmt::Debug {
    /// The fields, in the order of the list.
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

/// Rows that count for one kind of a table alone, such as a kind of queue: the
/// table as a whole requires none of them.
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
    /// Its name here: `policy` is the file itself.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    /// Its rows, in lists; a name may stand in several, as a queue's settings do.
    pub rows: &'static [&'static dyn Rows],
}

impl Table {
    /// Its fields, each name once; a name with several kinds takes any of them.
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

/// Reads the fields of `rows` that the table has into `into`, and reports the
/// required ones that it lacks.
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
        // A name that resembles a required field's is one error, not two.
        if let Some(hint) = row.field.required
            && !table.has(row.field.name)
            && !table.meant(row.field.name)
        {
            table.missing::<()>(row.field.name, hint);
        }
    }
}

/// Puts a value that could be read in the place of the default.
pub(crate) fn set<T>(slot: &mut T, found: Option<T>) {
    if let Some(found) = found {
        *slot = found;
    }
}
