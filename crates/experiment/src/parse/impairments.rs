// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the impairments of packets after transmission.

use super::codes;
use super::registry::{Field, Own, Table, Within, time};
use crate::{Impairments, Reordering};
use weirgate_document::Reader;
use weirgate_units::Span;

/// The upper limit of each time: the kernel's line computes with 32 bits of nanoseconds.
const LONGEST: Span = Span::from_secs(4);
const MILLION: f64 = 1e6;
/// The smallest part above 0: one packet in a million.
const LEAST_PERCENT: f64 = 0.0001;

pub(super) const LOSS: Field<Own> = Field::new(
    "loss",
    Own("`\"0%\"` to `\"100%\"`"),
    "The share of packets that are lost after transmission",
)
.default("0");
pub(super) const JITTER: Field<Within<Span>> = Field::new(
    "jitter",
    time(Span::ZERO, LONGEST),
    "The most that a packet is delayed in addition, uniformly distributed. Packets keep their \
     order",
)
.default("0");
pub(super) const REORDERED: Field<Own> = Field::new(
    "reordering",
    Own("table"),
    "Some packets arrive late, and those behind them overtake them",
);
pub(super) const BURSTS: Field<Within<Span>> = Field::new(
    "bursts",
    time(Span::ZERO, LONGEST),
    "The length of intervals; what was transmitted in one arrives together at its end, as from a \
     Wi-Fi aggregate or a DOCSIS grant",
)
.default("0");

const PART: Field<Own> = Field::new(
    "part",
    Own("percentage"),
    "The share of packets that arrive late",
)
.required("say how many packets are late, such as `part = \"1%\"`");
const BY: Field<Within<Span>> = Field::new(
    "by",
    time(Span::from_nanos(1), LONGEST),
    "How much later they arrive",
)
.required("say how much later they arrive, such as `by = \"5ms\"`");

pub(super) const REORDERING: Table = Table::new(
    "reordering",
    "Packets of a direction that arrive late",
    &[&PART, &BY],
);

/// Reads the impairments of a direction. Returns `None` if one of them is invalid.
pub(super) fn read(side: &mut Reader<'_, '_>) -> Option<Impairments> {
    let loss = part(side, LOSS.name);
    let jitter = JITTER.or(side, Span::ZERO);
    let bursts = BURSTS.or(side, Span::ZERO);
    let reordering = if REORDERED.is_in(side) {
        side.table(REORDERED.name)
            .and_then(|mut table| reordering(&mut table))
    } else {
        Some(Reordering::NONE)
    };
    Some(Impairments {
        loss: loss?,
        jitter: jitter?,
        reordering: reordering?,
        bursts: bursts?,
    })
}

fn reordering(table: &mut Reader<'_, '_>) -> Option<Reordering> {
    let part = PART
        .is_there(table)
        .then(|| part(table, PART.name))
        .flatten();
    let by = BY.get(table);
    Some(Reordering {
        part: part?,
        by: by?,
    })
}

/// Reads a percentage of all packets, and returns it in packets per million.
fn part(table: &mut Reader<'_, '_>, key: &'static str) -> Option<u32> {
    if !table.has(key) {
        return Some(0);
    }
    let text = table.text(key)?;
    let number = text.value.strip_suffix('%').map(str::trim_end);
    let plain = |number: &&str| number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent = number
        .filter(plain)
        .and_then(|text| text.parse::<f64>().ok());
    let (message, hint) = match percent.filter(|percent| *percent <= 100.0) {
        Some(percent) if percent == 0.0 || percent >= LEAST_PERCENT => {
            return Some((percent / 100.0 * MILLION).round() as u32);
        }
        Some(_) => (
            format!("`{}` is less than one packet in a million", text.value),
            "write `0%`, or at least `0.0001%`",
        ),
        None => (
            format!("`{}` is not a part of all packets", text.value),
            "write a percentage from `0%` to `100%`, such as `0.5%`",
        ),
    };
    let problems = table.problems();
    problems.error(codes::LIMIT, text.span, message, hint);
    None
}
