// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bits per second.

use crate::parse::{self, ParseError, Unit, serde_by_text};
use crate::{Size, Span};
use std::fmt;
use std::str::FromStr;

/// A rate in bit/s. The context determines whether IP bytes or wire bytes are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

const UNITS: [Unit; 4] = [
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
];
const ALIASES: [Unit; 7] = [
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("mbit/s", 1_000_000),
    ("gbit/s", 1_000_000_000),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
];
/// Units that providers use for bits and tc(8) reads as bytes; the factors are for bits. They are
/// refused, because a policy must not be wrong by a factor of eight.
const AMBIGUOUS: [Unit; 8] = [
    ("bps", 1),
    ("kbps", 1_000),
    ("mbps", 1_000_000),
    ("gbps", 1_000_000_000),
    ("b/s", 1),
    ("kb/s", 1_000),
    ("mb/s", 1_000_000),
    ("gb/s", 1_000_000_000),
];
const HINT: &str = "write a number with bit, kbit, mbit or gbit, such as `512kbit`";

impl Rate {
    /// A rate of 0.
    pub const ZERO: Self = Self(0);

    /// Makes a rate from bit/s.
    #[must_use]
    pub const fn bits_per_second(value: u64) -> Self {
        Self(value)
    }

    /// Makes a rate from byte/s, at most the largest rate.
    #[must_use]
    pub const fn bytes_per_second(value: u64) -> Self {
        Self(value.saturating_mul(8))
    }

    /// Makes a rate from kbit/s (1000 bit/s), at most the largest rate.
    #[must_use]
    pub const fn kbit(value: u64) -> Self {
        Self(value.saturating_mul(1_000))
    }

    /// Returns the rate in bit/s.
    #[must_use]
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the rate in whole byte/s, rounded down: the unit of tc's 64-bit rates.
    #[must_use]
    pub const fn as_bytes_per_second(self) -> u64 {
        self.0 / 8
    }

    /// Returns the rate in kbit/s.
    #[must_use]
    pub fn as_kbit(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the time that `size` takes at this rate, rounded up to a nanosecond; `None` at a
    /// rate of 0.
    #[must_use]
    pub fn time_for(self, size: Size) -> Option<Span> {
        if self.0 == 0 {
            return None;
        }
        // Most sizes need no division of 128 bits, which takes several times as long.
        let ns = if let Some(bits) = size.as_bytes().checked_mul(8_000_000_000) {
            bits.div_ceil(self.0)
        } else {
            let bits = u128::from(size.as_bytes()) * 8_000_000_000;
            u64::try_from(bits.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX)
        };
        Some(Span::from_nanos(ns))
    }

    /// Returns the bytes that pass in `span` at this rate, rounded down.
    #[must_use]
    pub fn bytes_in(self, span: Span) -> Size {
        let bytes = u128::from(self.0) * u128::from(span.as_nanos()) / 8_000_000_000;
        Size::bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    /// Parses `512kbit`, `2 Mbit/s`, `1.5mbit`, `40M`. Refuses `40 Mbps`, which
    /// providers write for megabits and tc(8) reads as megabytes.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Ok(bits) = parse::scaled(text, &AMBIGUOUS, "a rate", HINT) {
            let (bits, bytes) = (Self(bits), Self(bits.saturating_mul(8)));
            return Err(ParseError::new(
                format!("`{text}` may be bits or bytes per second"),
                format!("write `{bits}` if it is bits, or `{bytes}` if it is bytes"),
            ));
        }
        let all: Vec<Unit> = UNITS.iter().chain(&ALIASES).copied().collect();
        parse::scaled(text, &all, "a rate", HINT).map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::canonical(f, self.0, &UNITS)
    }
}

serde_by_text!(Rate);
