// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates in the notation of LibreQoS: numbers of Mbit/s.

use weirgate_units::Rate;

/// The largest rate, in Mbit/s.
const MOST: f64 = 1_000_000.0;

/// The smallest rate, in Mbit/s: 1 kbit/s.
const LEAST: f64 = 0.001;

/// Parses a rate, which may be 0 only if `zero` is set. An error is the message and a hint for
/// the correction.
pub(crate) fn read(text: &str, zero: bool) -> Result<Rate, (String, String)> {
    // Fast path for small whole numbers, which are the most common; it takes a tenth of the
    // time.
    let whole = text.bytes().try_fold(0_u64, |number, byte| {
        let digit = char::from(byte).to_digit(10)?;
        Some(number * 10 + u64::from(digit)).filter(|number| *number <= 1_000_000)
    });
    let fits = |mbit: &u64| !text.is_empty() && (*mbit > 0 || zero);
    if let Some(mbit) = whole.filter(fits) {
        return Ok(Rate::bits_per_second(mbit * 1_000_000));
    }
    let number: Option<f64> = text.parse().ok();
    let Some(mbit) = number.filter(|mbit| mbit.is_finite()) else {
        let hint = "write a number of Mbit/s, such as `100` or `2.5`";
        return Err((format!("`{text}` is no rate"), hint.to_owned()));
    };
    if (zero && mbit == 0.0) || (LEAST..=MOST).contains(&mbit) {
        return Ok(Rate::bits_per_second((mbit * 1e6).round() as u64));
    }
    Err((
        format!("a rate of {text} Mbit/s is out of range"),
        range(zero),
    ))
}

/// Returns a hint with the allowed range.
pub(crate) fn range(zero: bool) -> String {
    let or = if zero { "0, or " } else { "" };
    format!("write {or}from {LEAST} to {MOST} Mbit/s")
}

/// Returns whether a rate is within the range that [`read`] accepts.
pub(crate) fn is_in_range(rate: Rate, zero: bool) -> bool {
    let bits = rate.as_bits_per_second();
    (zero && bits == 0) || ((LEAST * 1e6) as u64..=(MOST * 1e6) as u64).contains(&bits)
}

/// Parses the rate of a device, with a unit. An error says what is allowed.
///
/// # Errors
/// Fails if the text is no rate, or the engine's rows cannot have it.
pub fn of_device(text: &str) -> Result<Rate, String> {
    let rate: Rate = text
        .parse()
        .map_err(|error: weirgate_units::ParseError| error.to_string())?;
    if is_in_range(rate, false) {
        Ok(rate)
    } else {
        let [least, most] = [LEAST, MOST].map(|mbit| Rate::bits_per_second((mbit * 1e6) as u64));
        Err(format!("out of range; write from {least} to {most}"))
    }
}

/// Writes a rate in the form that [`read`] accepts.
pub(crate) fn write(rate: Rate, text: &mut String) {
    let bits = rate.as_bits_per_second();
    digits::<10>(bits / 1_000_000, text);
    let parts = bits % 1_000_000;
    if parts > 0 {
        let parts = format!(".{parts:06}");
        text.push_str(parts.trim_end_matches('0'));
    }
}

/// Writes a number in a base of at most 16, ten times as fast as the formatting of the standard
/// library.
pub(crate) fn digits<const BASE: u64>(number: u64, text: &mut String) {
    if number >= BASE {
        digits::<BASE>(number / BASE, text);
    }
    let digit = (number % BASE) as u8;
    text.push(char::from(match digit {
        0..10 => b'0' + digit,
        _ => b'a' - 10 + digit,
    }));
}
