// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nominal-rate`: sets the importance of DRT by the nominal bit rate of a sender, in place of a
//! meter and colours.

use super::meter::{or_usual, size};
use super::written::{Kind, MOST_RATE, OWNERS, Written};
use crate::codes;
use crate::condition::drt::{MOST, Urgency};
use weirgate_document::Reader;
use weirgate_state::{ColourAction, ColourMeter};
use weirgate_units::Rate;

/// Returns the meter: the nominal rate, with twice that as the peak rate.
pub(super) fn meter(table: &mut Reader<'_, '_>, written: &Written) -> Option<ColourMeter> {
    for (key, _) in OWNERS.into_iter().filter(|(key, _)| *key != "burst") {
        if table.has(key) {
            table.problems().error(
                codes::CONDITIONER,
                table.span_of(key),
                format!("`{key}` excludes `nominal-rate`, which has its own meter"),
                "leave one of them out",
            );
        }
    }
    let rate = written.nominal_rate.as_ref()?.value;
    let peak = Rate::bits_per_second(rate.as_bits_per_second().saturating_mul(2)).min(MOST_RATE);
    let burst = size(table, Kind::TwoRate, "burst", written.burst.as_ref());
    Some(ColourMeter::TwoRate {
        rate,
        burst: or_usual(burst, rate),
        peak,
        peak_burst: or_usual(burst, peak),
    })
}

/// Returns the action for each colour. Packets within the nominal rate get the importance in the
/// policy, those within twice the rate two levels less, and others another two levels less.
pub(super) fn actions(table: &mut Reader<'_, '_>, written: &Written) -> [ColourAction; 3] {
    if !table.has("urgency") {
        table.missing::<()>(
            "urgency",
            "write `urgency = \"real-time\"` or `\"elastic\"`; `nominal-rate` sets the importance",
        );
    }
    for key in ["green", "yellow", "red", "color-aware", "meter"] {
        if table.has(key) {
            table.problems().error(
                codes::CONDITIONER,
                table.span_of(key),
                format!("`{key}` excludes `nominal-rate`, which has its own meter and actions"),
                "leave one of them out",
            );
        }
    }
    let urgency = written.urgency.as_ref();
    let urgency = urgency.map_or(Urgency::Elastic, |found| found.value);
    let level = written
        .importance
        .as_ref()
        .map_or(MOST, |found| found.value);
    [0, 2, 4].map(|less| {
        let level = level.saturating_sub(less).max(1);
        ColourAction::Mark(urgency.code_point(level))
    })
}
