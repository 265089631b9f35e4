// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounds on numbers that a peer reports.
//!
//! Every parser of a peer's message checks each number here, so that later calculations can
//! neither overflow nor take too long.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A number in a peer's message that is outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}, but has to be {bound}")]
pub struct OutOfRange {
    /// The field's name in the message.
    pub field: &'static str,
    /// The value that was reported.
    pub value: String,
    /// The values that are allowed.
    pub bound: String,
}

/// Returns the value if it is within the range. A NaN never is.
pub(crate) fn within<T: PartialOrd + Display>(
    field: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<T, OutOfRange> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(OutOfRange {
        field,
        value: value.to_string(),
        bound: format!("{} to {}", range.start(), range.end()),
    })
}
