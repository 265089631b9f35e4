// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of a whole.

use crate::Rate;
use crate::parse::{self, ParseError, Unit, serde_by_text};
use std::fmt;
use std::str::FromStr;

/// A share of a whole, in millionths. It may exceed 100 %; the policy checker decides whether that
/// is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share(u32);

const UNITS: [Unit; 1] = [("%", 10_000)];
const HINT: &str = "write a percentage, such as `20%`";

impl Share {
    /// The whole, 100 %.
    pub const WHOLE: Self = Self(1_000_000);

    /// Makes a share from millionths.
    #[must_use]
    pub const fn millionths(value: u32) -> Self {
        Self(value)
    }

    /// Makes a share from per cent, at most the largest share.
    #[must_use]
    pub const fn percent(value: u32) -> Self {
        Self(value.saturating_mul(10_000))
    }

    /// Returns the share in millionths.
    #[must_use]
    pub const fn as_millionths(self) -> u32 {
        self.0
    }

    /// Returns the share as a number, 1.0 for the whole.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Returns this share of a rate, rounded down to a bit/s.
    #[must_use]
    pub fn of(self, rate: Rate) -> Rate {
        let bits = u128::from(rate.as_bits_per_second()) * u128::from(self.0) / 1_000_000;
        Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }
}

impl FromStr for Share {
    type Err = ParseError;

    /// Parses `20%` and `2.5 %`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let value = parse::scaled(text, &UNITS, "a percentage", HINT)?;
        let large = |_| ParseError::new(format!("`{text}` is too large for a percentage"), HINT);
        u32::try_from(value).map(Self).map_err(large)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000, self.0 % 10_000);
        if fraction == 0 {
            return write!(f, "{whole}%");
        }
        let digits = format!("{fraction:04}");
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

serde_by_text!(Share);
