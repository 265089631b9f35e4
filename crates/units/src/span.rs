// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time spans in nanoseconds.

use crate::parse::{self, ParseError, Unit, serde_by_text};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// A time span, or a time since an agreed origin, in whole nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

const UNITS: [Unit; 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const HINT: &str = "write a number with ns, us, ms, s, min or h, such as `150ms`";

impl Span {
    /// A span of 0.
    pub const ZERO: Self = Self(0);

    /// Makes a span from nanoseconds.
    #[must_use]
    pub const fn from_nanos(value: u64) -> Self {
        Self(value)
    }

    /// Makes a span from microseconds, at most the longest span.
    #[must_use]
    pub const fn from_micros(value: u64) -> Self {
        Self(value.saturating_mul(1_000))
    }

    /// Makes a span from milliseconds, at most the longest span.
    #[must_use]
    pub const fn from_millis(value: u64) -> Self {
        Self(value.saturating_mul(1_000_000))
    }

    /// Makes a span from seconds, at most the longest span.
    #[must_use]
    pub const fn from_secs(value: u64) -> Self {
        Self(value.saturating_mul(1_000_000_000))
    }

    /// Returns the span in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the span in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the difference, or zero if `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Self;

    /// Returns the sum, at most the longest span.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;

    /// Returns the difference, as [`Span::saturating_sub`] does.
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl FromStr for Span {
    type Err = ParseError;

    /// Parses `150ms`, `2.5s`, `1min`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::scaled(text, &UNITS, "a time span", HINT).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        parse::canonical(f, self.0, &UNITS)
    }
}

serde_by_text!(Span);
