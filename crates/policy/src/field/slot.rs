// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members of a table's struct, into which fields are read. The member's type determines how its
//! field is read and, for most types, which values it accepts.

use crate::amount::Amount;
use crate::field::{Cell, FieldKind, Word};
use std::fmt::Display;
use weirgate_document::Value;
use weirgate_units::{Dscp, Rate, Share, Size, Span};

/// A type that a field's text, number or word is parsed as.
pub(crate) trait Readable: Sized {
    /// Parses the value, and reports it if it is invalid.
    fn read<C>(cell: &mut Cell<'_, '_, '_, C>) -> Option<Value<Self>>;
}

/// A type that determines which values a field accepts.
pub(crate) trait OwnKind {
    /// The values that the field accepts.
    const KIND: FieldKind;
}

/// A member of a table's struct, into which a field is read.
pub(crate) trait Slot {
    /// Reads the field. An invalid value is reported, and leaves the member unchanged.
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>);
}

macro_rules! readable {
    ($($type:ty: $read:ident $(, $kind:ident)?;)+) => {$(
        impl Readable for $type {
            fn read<C>(cell: &mut Cell<'_, '_, '_, C>) -> Option<Value<Self>> {
                cell.$read()
            }
        }

        $(
            impl OwnKind for $type {
                const KIND: FieldKind = FieldKind::$kind;
            }
        )?
    )+};
}

readable! {
    Amount: parsed, Amount;
    Rate: parsed, Rate;
    Share: parsed, Share;
    Span: parsed, Time;
    Size: size, Size;
    f64: number, Number;
    bool: boolean, Boolean;
    Dscp: parsed;
    String: text;
    u8: integer;
    u16: integer;
    u32: integer;
    u64: integer;
    i32: integer;
}

impl<T: Word> Readable for T {
    fn read<C>(cell: &mut Cell<'_, '_, '_, C>) -> Option<Value<Self>> {
        cell.word()
    }
}

impl<T: Word> OwnKind for T {
    const KIND: FieldKind = <T as Word>::KIND;
}

impl<T: OwnKind> OwnKind for Option<T> {
    const KIND: FieldKind = T::KIND;
}

impl<T: OwnKind> OwnKind for Value<T> {
    const KIND: FieldKind = T::KIND;
}

impl<T: Readable> Slot for Option<Value<T>> {
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        *self = T::read(cell);
    }
}

impl<T: Readable> Slot for Value<T> {
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        if let Some(found) = T::read(cell) {
            *self = found;
        }
    }
}

/// Implements [`Slot`] for members that do not keep the position of their value.
macro_rules! plain {
    ($($type:ty)+) => {$(
        impl Slot for $type {
            fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
                if let Some(found) = <$type>::read(cell) {
                    *self = found.value;
                }
            }
        }

        impl Slot for Option<$type> {
            fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
                *self = <$type>::read(cell).map(|found| found.value);
            }
        }
    )+};
}

plain!(bool u8 u32 Size Span);

impl<T: Word> Slot for T {
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        if let Some(found) = cell.word() {
            *self = found.value;
        }
    }
}

impl<T: Word> Slot for Option<T> {
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        *self = cell.word().map(|found| found.value);
    }
}

impl Slot for Vec<Value<String>> {
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        *self = cell.texts();
    }
}

impl Slot for Vec<Value<Dscp>> {
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        *self = cell.parsed_list();
    }
}

impl<T> Slot for Option<Vec<T>>
where
    Vec<T>: Slot,
{
    fn fill<C>(&mut self, cell: &mut Cell<'_, '_, '_, C>) {
        self.insert(Vec::new()).fill(cell);
    }
}

/// Implements reading for a type that is written as one text or a list: `elements!(Mac:
/// codes::MAC, Mac::read)`. The function parses a text. Its error is a message and a hint,
/// reported under the code.
macro_rules! elements {
    ($type:ty: $code:expr, $understand:expr) => {
        impl $crate::field::Readable for $type {
            fn read<C>(
                cell: &mut $crate::field::Cell<'_, '_, '_, C>,
            ) -> Option<weirgate_document::Value<Self>> {
                cell.understood($code, $understand)
            }
        }

        impl $crate::field::Slot for Vec<weirgate_document::Value<$type>> {
            fn fill<C>(&mut self, cell: &mut $crate::field::Cell<'_, '_, '_, C>) {
                *self = cell.list($code, $understand);
            }
        }
    };
}
pub(crate) use elements;

/// Reports a value outside of the inclusive `bounds`.
pub(crate) fn within<T: PartialOrd + Display, C>(
    cell: &Cell<'_, '_, '_, C>,
    code: &'static str,
    found: Option<&Value<T>>,
    (least, most): (T, T),
) {
    if let Some(found) = found
        && !(&least..=&most).contains(&&found.value)
    {
        cell.error(
            code,
            found.span.clone(),
            format!("`{}` of {} is out of range", cell.key, found.value),
            format!("write from {least} to {most}"),
        );
    }
}

/// Defines a row whose reader follows from the type of the member.
///
/// * `row!(Link: "fair" => fair, "...")` also derives the accepted values from the type.
/// * `row!(Link: "mtu": FieldKind::Integer(576, 2048) => mtu, "...")` states them.
/// * `row!(Track: "interval" => interval in INTERVALS or codes::TRACK, "...")` reports a value
///   outside of the bounds under the code.
macro_rules! row {
    ($table:ty: $name:literal => $($member:tt).+ in $bounds:tt or $code:path, $about:expr) => {
        $crate::field::Row::<$table, _>::member(
            $name,
            |it| &mut it.$($member).+,
            $about,
            |cell, it| {
                $crate::field::Slot::fill(&mut it.$($member).+, cell);
                $crate::field::within(cell, $code, it.$($member).+.as_ref(), $bounds);
            },
        )
    };
    ($table:ty: $name:literal => $($member:tt).+, $about:expr) => {
        $crate::field::Row::<$table, _>::member(
            $name,
            |it| &mut it.$($member).+,
            $about,
            |cell, it| $crate::field::Slot::fill(&mut it.$($member).+, cell),
        )
    };
    ($table:ty: $name:literal: $kind:expr => $($member:tt).+, $about:expr) => {
        $crate::field::Row::<$table, _>::new($name, $kind, $about, |cell, it| {
            $crate::field::Slot::fill(&mut it.$($member).+, cell);
        })
    };
}
pub(crate) use row;
