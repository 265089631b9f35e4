// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the meter of a conditioner: rates, bursts, intervals and gains, with their defaults.

use super::written::{Kind, MOST_BURST, OWNERS, SMALLEST, Written};
use crate::codes;
use crate::field::Word;
use crate::model::in_kbit;
use weirgate_document::{Reader, Value};
use weirgate_state::ColourMeter;
use weirgate_units::{Rate, Size, Span};

/// The default burst: the bytes that arrive at the rate in this time, and at least two packets
/// of 1500 bytes.
const BURST: Span = Span::from_millis(100);
const LEAST_BURST: u64 = 3000;

/// The default interval, and its bounds.
const INTERVAL: Span = Span::from_millis(100);
const INTERVALS: (Span, Span) = (Span::from_millis(1), Span::from_secs(1000));

/// The fixed-point value of a gain of 1 (RFC 3290 section 5.1.2).
const ONE: f64 = 4_294_967_296.0;

/// Reports fields that this kind of meter does not have, and fields of `nominal-rate`.
pub(super) fn strangers(table: &mut Reader<'_, '_>, kind: Option<Kind>, unread: bool) {
    for key in ["urgency", "importance"] {
        if table.has(key) {
            table.problems().error(
                codes::CONDITIONER,
                table.span_of(key),
                format!("`{key}` belongs to a conditioner with `nominal-rate`"),
                "leave it out, or write `nominal-rate`, which sets the importance",
            );
        }
    }
    for (key, owners) in OWNERS {
        let own = kind.is_some_and(|kind| owners.contains(&kind));
        if !table.has(key) || own || unread {
            continue;
        }
        let names: Vec<String> = Kind::WORDS
            .iter()
            .filter(|(_, kind)| owners.contains(kind))
            .map(|(name, _)| format!("`meter = \"{name}\"`"))
            .collect();
        table.problems().error(
            codes::CONDITIONER,
            table.span_of(key),
            format!("`{key}` belongs to {}", names.join(", ")),
            "leave it out, or choose that meter",
        );
    }
}

/// Reads a rate that the meter requires, and reports it if it is missing.
fn needed(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    rate: Option<&Value<Rate>>,
) -> Option<Rate> {
    let present = table.has(key);
    match rate {
        None if !present => table.missing(key, &format!("state it, such as `{key} = \"1mbit\"`")),
        found => found.map(|rate| rate.value),
    }
}

pub(super) fn meter(
    table: &mut Reader<'_, '_>,
    kind: Kind,
    written: &Written,
) -> Option<ColourMeter> {
    let rate = needed(table, "rate", written.rate.as_ref());
    let peak = (kind == Kind::TwoRate).then(|| needed(table, "peak", written.peak.as_ref()));
    let burst = size(table, kind, "burst", written.burst.as_ref());
    let excess = size(table, kind, "excess-burst", written.excess_burst.as_ref());
    let peak_burst = size(table, kind, "peak-burst", written.peak_burst.as_ref());
    let interval = interval(table, kind, written);
    let gain = gain(table, kind, written);
    let rate = rate?;
    Some(match kind {
        Kind::Bucket => ColourMeter::Bucket {
            rate,
            burst: or_usual(burst, rate),
        },
        Kind::SingleRate => {
            let (burst, excess) = (or_usual(burst, rate), or_usual(excess, rate));
            // RFC 2697 section 1: at least one of the two is larger than 0.
            if let (Some(at), 0) = (&written.burst, burst.as_bytes() + excess.as_bytes()) {
                table.problems().error(
                    codes::CONDITIONER,
                    at.span.clone(),
                    "`burst` and `excess-burst` are both 0, so that every packet is red",
                    "let one of them hold a full packet",
                );
            }
            ColourMeter::SingleRate {
                rate,
                burst,
                excess,
            }
        }
        Kind::TwoRate => {
            let peak = peak.flatten()?;
            // RFC 2698 section 1: the PIR is at least the CIR.
            if let (true, Some(at)) = (peak < rate, &written.peak) {
                table.problems().error(
                    codes::CONDITIONER,
                    at.span.clone(),
                    format!(
                        "`peak` of {} is below `rate` of {}",
                        in_kbit(peak),
                        in_kbit(rate)
                    ),
                    "write a peak that is at least the rate",
                );
            }
            ColourMeter::TwoRate {
                rate,
                burst: or_usual(burst, rate),
                peak,
                peak_burst: or_usual(peak_burst, peak),
            }
        }
        Kind::Average => ColourMeter::Average { rate, interval },
        Kind::Moving => ColourMeter::Moving {
            rate,
            interval,
            gain,
        },
    })
}

/// Returns the burst, or the default of [`BURST`] at the rate.
pub(super) fn or_usual(burst: Option<Size>, rate: Rate) -> Size {
    let usual = rate.bytes_in(BURST).as_bytes();
    burst.unwrap_or(Size::bytes(usual.clamp(LEAST_BURST, MOST_BURST)))
}

pub(super) fn size(
    table: &Reader<'_, '_>,
    kind: Kind,
    key: &str,
    found: Option<&Value<Size>>,
) -> Option<Size> {
    let found = found?;
    // RFC 2697 allows one of its bursts to be 0; the others may not.
    let least = u64::from(kind != Kind::SingleRate);
    if !(least..=MOST_BURST).contains(&found.value.as_bytes()) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("`{key}` of {} is out of range", found.value),
            format!("write from {least} bytes to less than 512MiB"),
        );
    }
    Some(found.value)
}

/// Reads `mpu`, which requires a meter.
pub(super) fn smallest(table: &Reader<'_, '_>, written: &Written, metered: bool) -> Option<Size> {
    let found = written.smallest.as_ref()?;
    let (least, most) = SMALLEST;
    if !(least..=most).contains(&found.value.as_bytes()) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("`mpu` of {} is out of range", found.value),
            format!("write from {least} to {most} bytes"),
        );
    } else if !metered && !table.problems().has_errors() {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            "`mpu` needs a meter, which this conditioner lacks",
            "write a `meter`, or leave `mpu` out",
        );
    }
    Some(found.value)
}

fn interval(table: &Reader<'_, '_>, kind: Kind, written: &Written) -> Span {
    let Some(found) = written
        .interval
        .as_ref()
        .filter(|_| matches!(kind, Kind::Average | Kind::Moving))
    else {
        return INTERVAL;
    };
    if !(INTERVALS.0..=INTERVALS.1).contains(&found.value) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("an interval of {} is out of range", found.value),
            "write from 1ms to 1000s",
        );
    }
    found.value
}

fn gain(table: &Reader<'_, '_>, kind: Kind, written: &Written) -> u64 {
    const HALF: u64 = 1 << 31;
    let Some(found) = written.gain.as_ref().filter(|_| kind == Kind::Moving) else {
        return HALF;
    };
    let gain = (found.value * ONE).round();
    if !(1.0..=ONE).contains(&gain) {
        table.problems().error(
            codes::CONDITIONER,
            found.span.clone(),
            format!("a gain of {} is out of range", found.value),
            "write a number above 0 and at most 1",
        );
        return HALF;
    }
    gain as u64
}
