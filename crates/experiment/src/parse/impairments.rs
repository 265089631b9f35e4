// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to the packets of a direction after transmission.

use super::{codes, field};
use crate::{Impairments, Reordering};
use weirgate_document::Reader;
use weirgate_units::Span;

/// The longest of each time: the kernel's line computes with 32 bits of nanoseconds.
const LONGEST: Span = Span::from_secs(4);
const MILLION: f64 = 1e6;

/// Those that a direction has; none where one of them is wrong.
pub(super) fn read(side: &mut Reader<'_, '_>) -> Option<Impairments> {
    let loss = part(side, "loss");
    let jitter = time(side, "jitter");
    let bursts = time(side, "bursts");
    let reordering = if side.has("reordering") {
        side.table("reordering")
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
    let part = if table.has("part") {
        part(table, "part")
    } else {
        table.missing(
            "part",
            "say how many packets are late, such as `part = \"1%\"`",
        )
    };
    let by = if table.has("by") {
        field::span(table, "by", Span::from_nanos(1), LONGEST)
    } else {
        table.missing(
            "by",
            "say how much later they arrive, such as `by = \"5ms\"`",
        )
    };
    Some(Reordering {
        part: part?,
        by: by?,
    })
}

fn time(side: &mut Reader<'_, '_>, key: &'static str) -> Option<Span> {
    if side.has(key) {
        field::span(side, key, Span::ZERO, LONGEST)
    } else {
        Some(Span::ZERO)
    }
}

/// A part of all packets in percent, as so many of a million.
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
    let Some(percent) = percent.filter(|percent| *percent <= 100.0) else {
        let message = format!("`{}` is not a part of all packets", text.value);
        let hint = "write a percentage from `0%` to `100%`, such as `0.5%`";
        let problems = table.problems();
        problems.error(codes::LIMIT, text.span, message, hint);
        return None;
    };
    Some((percent / 100.0 * MILLION).round() as u32)
}
