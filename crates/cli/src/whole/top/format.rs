// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats numbers and names for `weirgate top`.

use weirgate_watch::{Change, Sort, Step};

/// Returns the objects of one sort.
pub fn of(step: &Step, sort: Sort) -> impl Iterator<Item = &Change> + Clone {
    step.changes
        .iter()
        .filter(move |one| one.object.sort == sort)
}

/// Returns the value per second, for an interval in milliseconds.
pub fn second(value: i64, interval: i64) -> f64 {
    value as f64 * 1000.0 / interval.max(1) as f64
}

/// Returns the rate in bits per second of a number of bytes, for an interval in milliseconds.
pub fn bits(bytes: i64, interval: i64) -> f64 {
    second(bytes, interval) * 8.0
}

/// Cuts a text to a number of characters, and replaces control characters.
pub fn cut(text: &str, width: usize) -> String {
    // Names come from the kernel and the policy; they must not control the terminal.
    let plain = text
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter });
    plain.take(width).collect()
}

/// Returns a time in microseconds as text in milliseconds, or a dash if it is not known.
pub fn ms(time: Option<i64>) -> String {
    time.map_or(String::from("-"), |us| format!("{:.1}", us as f64 / 1000.0))
}
