// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of files before they are checked against each other.

use crate::codes::{NAME, RATE};
use crate::files::located::{FileMistakes, FileSpan};
use crate::files::rate;
use crate::files::table::{Cell, Header, Row};
use crate::hash::Known;
use crate::keys::Key;
use crate::model::Pair;
use std::borrow::Cow;
use weirgate_document::SourceSpan;
use weirgate_schedule::Schedule;
use weirgate_units::{Rate, Size};

/// The columns of rates. Arrays of four rates have this order.
pub(crate) const RATES: [&str; 4] = [
    "Download Min Mbps",
    "Upload Min Mbps",
    "Download Max Mbps",
    "Upload Max Mbps",
];

/// The hint for queue settings of LibreQoS, which are ignored.
pub(crate) const SQM: &str = "each circuit has flow queues with CoDel";

/// The longest identifier in bytes: a label in the kernel has no more room.
const LONGEST: usize = 60;

/// The rates of one line.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawRates {
    pub(crate) rates: [Option<Rate>; 4],
    pub(crate) spans: [SourceSpan; 4],
    /// Where the rates that overrides replaced come from.
    pub(crate) replaced: Option<Box<[Option<FileSpan>; 4]>>,
    /// Whether a rate was malformed, which has been reported.
    pub(crate) wrong: bool,
}

impl RawRates {
    /// Reads the rates in four consecutive columns.
    pub(crate) fn read(
        row: &Row<'_>,
        header: &Header,
        first: usize,
        mistakes: &FileMistakes<'_, '_>,
    ) -> Self {
        let mut own = Self::default();
        for number in 0..4 {
            let cell = header.cell(row, first + number);
            own.spans[number] = cell.span;
            if cell.text.is_empty() {
                continue;
            }
            match rate::read(cell.text, number < 2) {
                Ok(rate) => own.rates[number] = Some(rate),
                Err((message, hint)) => {
                    mistakes.error(RATE, &own.spans[number], message, hint);
                    own.wrong = true;
                }
            }
        }
        own
    }

    /// Returns the span of a rate; `file` is the file of the line.
    pub(crate) fn place(&self, number: usize, file: usize) -> FileSpan {
        let replaced = self.replaced.as_ref().and_then(|own| own[number].clone());
        replaced.unwrap_or_else(|| FileSpan {
            file,
            span: self.spans[number].clone(),
        })
    }

    /// Returns where to report that a minimum exceeds its maximum. A rate that an override set
    /// takes precedence.
    pub(crate) fn pair_at(&self, number: usize, file: usize) -> FileSpan {
        let is_replaced = |number: usize| {
            let replaced = self.replaced.as_ref();
            replaced.is_some_and(|own| own[number].is_some())
        };
        let most = !is_replaced(number) && is_replaced(number + 2);
        self.place(if most { number + 2 } else { number }, file)
    }

    /// Replaces a rate by that of an override.
    pub(crate) fn replace(&mut self, number: usize, rate: Rate, at: &FileSpan) {
        self.rates[number] = Some(rate);
        self.replaced.get_or_insert_default()[number] = Some(at.clone());
    }
}

/// A site before it is checked.
#[derive(Debug)]
pub(crate) struct RawSite {
    pub(crate) name: String,
    /// The identifier by which overrides can name it.
    pub(crate) id: Option<String>,
    pub(crate) at: FileSpan,
    pub(crate) parent: Option<usize>,
    /// The maximum rates, down and up.
    pub(crate) rates: [Option<Rate>; 2],
    /// Where the rates were last set.
    pub(crate) rates_at: FileSpan,
    /// Whether a rate was malformed, which has been reported.
    pub(crate) wrong: bool,
    /// Whether the site has no limit.
    pub(crate) is_virtual: bool,
}

/// A plan before it is checked.
#[derive(Debug)]
pub(crate) struct RawPlan {
    pub(crate) name: String,
    pub(crate) at: FileSpan,
    pub(crate) rates: RawRates,
    pub(crate) burst: Pair<Size>,
    /// The hours of the line with their original text; `None` for always.
    pub(crate) times: Option<(Schedule, [String; 3])>,
    pub(crate) quota: Pair<Size>,
    pub(crate) beyond: String,
    pub(crate) beyond_at: FileSpan,
}

/// A key with its span.
pub(crate) type PlacedKey = (Key, FileSpan);

/// A circuit before it is checked. The spans of its rates are in the file of `at`.
#[derive(Debug)]
pub(crate) struct RawCircuit<'t> {
    pub(crate) id: Cow<'t, str>,
    pub(crate) at: FileSpan,
    pub(crate) parent: Cow<'t, str>,
    pub(crate) parent_at: FileSpan,
    pub(crate) plan: Cow<'t, str>,
    pub(crate) plan_at: FileSpan,
    pub(crate) rates: RawRates,
    pub(crate) suspended: bool,
}

/// The contents of all files of a list.
#[derive(Debug, Default)]
pub(crate) struct Collected<'t> {
    pub(crate) sites: Vec<RawSite>,
    pub(crate) plans: Vec<RawPlan>,
    pub(crate) circuits: Vec<RawCircuit<'t>>,
    /// The keys, each with the index of its circuit.
    pub(crate) keys: Vec<(usize, PlacedKey)>,
    /// The index of each circuit by its identifier.
    pub(crate) by_id: Known<Cow<'t, str>, usize>,
    /// Whether one of the files contained sites.
    pub(crate) has_network: bool,
}

/// Checks an identifier of a circuit, a site or a plan, and reports a malformed one.
pub(crate) fn identifier<'r>(
    cell: &Cell<'r>,
    of: &str,
    mistakes: &FileMistakes<'_, '_>,
) -> Option<&'r str> {
    match named(cell.text, of) {
        Ok(()) => Some(cell.text),
        Err((message, hint)) => {
            mistakes.error(NAME, &cell.span, message, hint);
            None
        }
    }
}

/// Checks whether a text is a valid identifier. An error is the message and a hint for the
/// correction.
pub(crate) fn named(text: &str, of: &str) -> Result<(), (String, String)> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && (1..=LONGEST).contains(&text.len()) {
        return Ok(());
    }
    Err(if text.is_empty() {
        (
            format!("the {of} has no identifier"),
            "give it one that no other has".to_owned(),
        )
    } else if text.len() > LONGEST {
        let message = format!("the identifier of the {of} has {} bytes", text.len());
        (message, format!("write at most {LONGEST}"))
    } else if text.trim() != text {
        (
            format!("the identifier of the {of} begins or ends with a space"),
            "leave it out".to_owned(),
        )
    } else if text.contains(char::is_control) {
        (
            format!("the identifier of the {of} has a control character"),
            "leave it out".to_owned(),
        )
    } else {
        return Ok(());
    })
}
