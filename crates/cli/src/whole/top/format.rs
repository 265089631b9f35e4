// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers and names as `weirgate top` prints them.

use weirgate_watch::{Change, Sort, Step};

/// What a look has of one sort.
pub fn of(step: &Step, sort: Sort) -> impl Iterator<Item = &Change> + Clone {
    step.changes
        .iter()
        .filter(move |one| one.object.sort == sort)
}

/// By the second, of what an interval in milliseconds had.
pub fn second(value: i64, interval: i64) -> f64 {
    value as f64 * 1000.0 / interval.max(1) as f64
}

/// Bits by the second, of bytes alike.
pub fn bits(bytes: i64, interval: i64) -> f64 {
    second(bytes, interval) * 8.0
}

/// At most so many letters, none of which steers a terminal.
pub fn cut(text: &str, width: usize) -> String {
    // Names are the kernel's and the policy's: nothing of them may steer the
    // terminal.
    let plain = text
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter });
    plain.take(width).collect()
}

/// Milliseconds of a time in microseconds; a dash where it is not known.
pub fn ms(time: Option<i64>) -> String {
    time.map_or(String::from("-"), |us| format!("{:.1}", us as f64 / 1000.0))
}
