// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types of fields in experiments, in addition to those of `weirgate_document`.

use super::{codes, field};
use weirgate_document::Reader;
pub(super) use weirgate_document::registry::{
    Field, FieldType, Integer, Number, Own, Switch, Table, Text, Texts, Within,
};
use weirgate_units::{Rate, Size, Span};

pub(super) const fn time(least: Span, most: Span) -> Within<Span> {
    Within::new("time", codes::LIMIT, least, most)
}

pub(super) const fn rate(least: Rate, most: Rate) -> Within<Rate> {
    Within::new("rate", codes::LIMIT, least, most)
}

pub(super) const fn size(least: Size, most: Size) -> Within<Size> {
    Within::new("size", codes::LIMIT, least, most).bare()
}

/// One of these words. The first one is the default.
#[derive(Clone, Copy)]
pub(super) struct Word<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy> FieldType for Word<T> {
    type Value = T;

    fn read(&self, table: &mut Reader<'_, '_>, name: &'static str) -> Option<T> {
        field::word(table, name, self.0)
    }

    fn text(&self) -> String {
        let words = self.0.iter().map(|one| format!("`\"{}\"`", one.0));
        words.collect::<Vec<_>>().join(", ")
    }
}
