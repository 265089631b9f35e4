// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ShapedDevices.csv` of LibreQoS: a line for each device, which names its circuit.

use crate::codes::{ADDRESS, KEY, NAME, SWITCH, UNUSED};
use crate::files::joined::join;
use crate::files::located::FileMistakes;
use crate::files::overrides::Overrides;
use crate::files::raw::{Collected, PlacedKey, RATES, RawCircuit, RawRates, SQM, named};
use crate::files::table::{Cell, Column, Header, Row};
use crate::keys::{Key, KeyKind, Prefix, parts};
use weirgate_document::SourceSpan;

/// The columns. LibreQoS does not have the last four.
pub(crate) const COLUMNS: &[Column] = &[
    Column::needed("Circuit ID"),
    Column::free("Circuit Name"),
    Column::free("Device ID"),
    Column::free("Device Name"),
    Column::free("Parent Node"),
    Column::free("MAC"),
    Column::free("IPv4"),
    Column::free("IPv6"),
    Column::free(RATES[0]),
    Column::free(RATES[1]),
    Column::free(RATES[2]),
    Column::free(RATES[3]),
    Column::free("Comment"),
    Column::unused("sqm"),
    Column::free("Plan"),
    Column::free("Suspended"),
    Column::free("PPPoE Session"),
    Column::free("VLAN"),
];

/// The length of a typical line in bytes, to estimate how many circuits a file has.
pub(crate) const LINE: usize = 64;

/// Column numbers.
const ID: usize = 0;
const DEVICE: usize = 2;
const PARENT: usize = 4;
const FIRST_RATE: usize = 8;
const PLAN: usize = 14;
const SUSPENDED: usize = 15;

/// A column of keys: its number, its parser, and the error code for a malformed key.
type KeyColumn = (
    usize,
    fn(&str) -> Result<Key, (String, String)>,
    &'static str,
);

const KEYS: [KeyColumn; 5] = [
    (6, |text| Prefix::read(text, 4).map(Key::Address), ADDRESS),
    (7, |text| Prefix::read(text, 6).map(Key::Address), ADDRESS),
    (16, |text| KeyKind::Session.read(text), KEY),
    (17, |text| KeyKind::Vlan.read(text), KEY),
    (5, |text| KeyKind::Mac.read(text), KEY),
];

/// Reads the lines of a file.
pub(crate) struct Devices<'d, 'm, 't> {
    header: Header,
    mistakes: &'d FileMistakes<'m, 't>,
    /// The columns of keys that this file has.
    columns: Vec<KeyColumn>,
    /// Columns that circuits do not use, each with its first non-empty field and the number of
    /// non-empty fields.
    unused: Vec<(usize, Option<(SourceSpan, usize)>)>,
    /// The keys of the current line.
    keys: Vec<PlacedKey>,
}

impl<'d, 'm, 't> Devices<'d, 'm, 't> {
    pub(crate) fn new(header: Header, mistakes: &'d FileMistakes<'m, 't>) -> Self {
        // Without a column `Plan`, circuits need the columns of maximum rates.
        if !header.has(PLAN) {
            for (number, name) in RATES.iter().enumerate().skip(2) {
                if !header.has(FIRST_RATE + number) {
                    let message = format!("the column `{name}` is missing");
                    let hint = "add it, or a column `Plan` and a file of plans";
                    mistakes.error(crate::codes::COLUMN, &(0..0), message, hint);
                }
            }
        }
        let columns: Vec<KeyColumn> = KEYS
            .into_iter()
            .filter(|(column, ..)| header.has(*column))
            .collect();
        if columns.is_empty() {
            let message = "no column identifies the packets of circuits";
            let hint = "add `IPv4`, `IPv6`, `MAC`, `VLAN` or `PPPoE Session`";
            mistakes.error(crate::codes::COLUMN, &(0..0), message, hint);
        }
        let unused = COLUMNS.iter().enumerate();
        let unused = unused.filter(|(number, column)| column.unused && header.has(*number));
        let unused = unused.map(|(number, _)| (number, None)).collect();
        Self {
            header,
            mistakes,
            columns,
            unused,
            keys: Vec::new(),
        }
    }

    /// Takes a line of the file, after applying the overrides to it.
    pub(crate) fn take<'f>(
        &mut self,
        row: &Row<'f>,
        overrides: &mut Overrides,
        into: &mut Collected<'f>,
    ) {
        let mistakes = self.mistakes;
        for (number, found) in &mut self.unused {
            let cell = self.header.cell(row, *number);
            if !cell.text.is_empty() {
                found.get_or_insert((cell.span, 0)).1 += 1;
            }
        }
        let (id, at) = self.header.lasting(row, ID);
        let named = named(&id, "circuit");
        if let Err((message, hint)) = &named {
            mistakes.error(NAME, &at, message, hint);
        }
        let rates = RawRates::read(row, &self.header, FIRST_RATE, mistakes);
        self.keys.clear();
        for (column, read, code) in &self.columns {
            let cell = self.header.cell(row, *column);
            if cell.text.is_empty() {
                continue;
            }
            for (text, span) in placed(&cell) {
                match read(text) {
                    Ok(key) => self.keys.push((key, mistakes.at(&span))),
                    Err((message, hint)) => mistakes.error(code, &span, message, hint),
                }
            }
        }
        let (suspended, suspended_at) = self.suspended(row);
        if named.is_err() {
            return;
        }
        let (parent, parent_at) = self.header.lasting(row, PARENT);
        let (plan, plan_at) = self.header.lasting(row, PLAN);
        let mut own = RawCircuit {
            id,
            at: mistakes.at(&at),
            parent,
            parent_at: mistakes.at(&parent_at),
            plan,
            plan_at: mistakes.at(&plan_at),
            rates,
            suspended,
        };
        let device = self.header.cell(row, DEVICE);
        if overrides.device(device.text, &mut own, &mut self.keys) {
            let suspended_at = mistakes.at(&suspended_at);
            join(own, &mut self.keys, &suspended_at, mistakes.all, into);
        }
    }

    /// Returns whether the line suspends its circuit, and the span of that field. A malformed
    /// value is reported.
    fn suspended(&self, row: &Row<'_>) -> (bool, SourceSpan) {
        let cell = self.header.cell(row, SUSPENDED);
        let says = |word: &str| cell.text.eq_ignore_ascii_case(word);
        let is_suspended = match cell.text {
            "" => false,
            _ if ["yes", "true", "1"].into_iter().any(says) => true,
            _ if ["no", "false", "0"].into_iter().any(says) => false,
            _ => {
                let message = format!("`{}` is neither `yes` nor `no`", cell.text);
                let hint = "write one of them, or leave the field empty";
                self.mistakes.error(SWITCH, &cell.span, message, hint);
                false
            }
        };
        (is_suspended, cell.span)
    }

    /// Warns about columns that have values but are not used.
    pub(crate) fn finish(self) {
        for (number, found) in self.unused {
            let Some((span, lines)) = found else {
                continue;
            };
            let name = COLUMNS.get(number).map_or("", |column| column.name);
            let message = format!("`{name}` is not used (lines with a value: {lines})");
            self.mistakes.warning(UNUSED, &span, message, SQM);
        }
    }
}

/// Splits a field into keys, each with its span. Where the text of the field differs from the
/// file's, the span is that of the whole field.
fn placed<'r>(cell: &Cell<'r>) -> impl Iterator<Item = (&'r str, SourceSpan)> {
    let Cell { text, span } = cell.clone();
    // Quotes and spaces around the text.
    let around = span.len().checked_sub(text.len());
    let plain = around.is_some_and(|around| around <= 2);
    let shift = around.map_or(0, |around| around / 2);
    parts(text).map(move |part| {
        let at = part.as_ptr() as usize - text.as_ptr() as usize;
        let start = span.start + shift + at;
        let own = start..start + part.len();
        (part, if plain { own } else { span.clone() })
    })
}
