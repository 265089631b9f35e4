// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates, as LibreQoS writes them: numbers of Mbit/s.

use weirgate_units::Rate;

/// The largest rate, in Mbit/s.
const MOST: f64 = 1_000_000.0;

/// The smallest rate, in Mbit/s: 1 kbit/s.
const LEAST: f64 = 0.001;

/// Reads a rate; `zero` says that it may be 0. Says what is wrong and what would be
/// right.
pub(crate) fn read(text: &str, zero: bool) -> Result<Rate, (String, String)> {
    let number: Option<f64> = text.parse().ok();
    let Some(mbit) = number.filter(|mbit| mbit.is_finite()) else {
        let hint = "write a number of Mbit/s, such as `100` or `2.5`";
        return Err((format!("`{text}` is no rate"), hint.to_owned()));
    };
    if (zero && mbit == 0.0) || (LEAST..=MOST).contains(&mbit) {
        return Ok(Rate::bits_per_second((mbit * 1e6).round() as u64));
    }
    let or = if zero { "0, or " } else { "" };
    let hint = format!("write {or}from {LEAST} to {MOST} Mbit/s");
    Err((format!("a rate of {text} Mbit/s is out of range"), hint))
}
