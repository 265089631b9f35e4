// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the fields of devices and adjustments.

use crate::codes::{JSON, UNUSED};
use crate::files::json::Json;
use crate::files::located::FileSpan;
use crate::files::raw::identifier;
use crate::files::table::Cell;
use jsonc_parser::ast::{Object, ObjectProp, Value};
use std::collections::BTreeMap;
use weirgate_document::SourceSpan;
use weirgate_units::Rate;

/// The fields that contain identifiers.
pub(super) const CIRCUIT: &str = "circuit_id";
pub(super) const DEVICE: &str = "device_id";

/// The object of an adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Circuit,
    Device,
}

impl Of {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Circuit => "circuit",
            Self::Device => "device",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Circuit => CIRCUIT,
            Self::Device => DEVICE,
        }
    }
}

/// Rates by their indices, with their spans.
pub(super) type Rates = Vec<(usize, Rate, FileSpan)>;

/// Which of the four rates may be 0.
pub(super) const MAY_BE_ZERO: [bool; 4] = [true, true, false, false];

/// Returns a field that is present and not `null`.
pub(super) fn get<'o, 'a>(fields: &'o Object<'a>, name: &str) -> Option<&'o ObjectProp<'a>> {
    let mut all = fields.properties.iter();
    let found = all.find(|field| field.name.as_str() == name);
    found.filter(|field| !matches!(field.value, Value::NullKeyword(_)))
}

/// Returns whether a value is empty.
pub(super) fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::Object(of) => of.properties.is_empty(),
        Value::Array(of) => of.elements.is_empty(),
        Value::StringLit(text) => text.value.trim().is_empty(),
        other => matches!(other, Value::NullKeyword(_)),
    }
}

impl Json<'_, '_, '_> {
    /// Returns the text of a required field.
    pub(super) fn text<'o>(&self, fields: &'o Object<'_>, name: &str) -> Option<Cell<'o>> {
        if let Some(field) = get(fields, name) {
            return self.text_of(field);
        }
        let hint = format!("write `\"{name}\": \"...\"`");
        self.error(JSON, fields, format!("`{name}` is missing"), &hint);
        None
    }

    /// Returns the text of a field.
    pub(super) fn text_of<'o>(&self, field: &'o ObjectProp<'_>) -> Option<Cell<'o>> {
        if let Value::StringLit(text) = &field.value {
            return Some(self.cell(&text.value, &field.value));
        }
        let name = field.name.as_str();
        let hint = format!("write `\"{name}\": \"...\"`");
        self.error(JSON, &field.value, format!("`{name}` is no text"), &hint);
        None
    }

    /// Returns the identifier in a required field.
    pub(super) fn id<'o>(&self, fields: &'o Object<'_>, of: Of) -> Option<(&'o str, FileSpan)> {
        let cell = self.text(fields, of.field())?;
        let id = identifier(&cell, of.word(), self.mistakes)?;
        Some((id, self.mistakes.at(&cell.span)))
    }

    /// Reads the rates that are present; `zero` tells which may be 0. Also returns whether one
    /// was malformed.
    pub(super) fn rates(
        &self,
        fields: &Object<'_>,
        names: &[&str],
        zero: &[bool],
    ) -> (Rates, bool) {
        let (mut rates, mut wrong) = (Rates::new(), false);
        for (number, (name, zero)) in names.iter().zip(zero).enumerate() {
            let Some(field) = get(fields, name) else {
                continue;
            };
            match self.rate(&field.value, *zero) {
                Some(rate) => {
                    let at = self.mistakes.at(&self.span(&field.value));
                    rates.push((number, rate, at));
                }
                None => wrong = true,
            }
        }
        (rates, wrong)
    }
}

/// Unused parts of a file: the first span, a hint, and the number of occurrences of each.
#[derive(Default)]
pub(super) struct Unused(BTreeMap<&'static str, (SourceSpan, &'static str, usize)>);

impl Unused {
    pub(super) fn count(&mut self, name: &'static str, at: SourceSpan, hint: &'static str) {
        self.0.entry(name).or_insert((at, hint, 0)).2 += 1;
    }

    /// Reports one warning for each.
    pub(super) fn tell(self, json: &Json<'_, '_, '_>) {
        for (name, (at, hint, many)) in self.0 {
            let message = format!("`{name}` is not used (of these: {many})");
            json.mistakes.warning(UNUSED, &at, message, hint);
        }
    }
}
