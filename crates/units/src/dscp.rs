// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Differentiated services code points.

use crate::parse::{ParseError, serde_by_text};
use std::fmt;
use std::str::FromStr;

/// A six-bit code point of the DS field (RFC 2474 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dscp(u8);

/// Names and values: RFC 2474 (CS), RFC 2597 (AF), RFC 3246 (EF), RFC 5865 (VA, voice admit), RFC
/// 8622 (LE), IANA's registry of code points (NQB). Mylonas 2.3 misprints EF, which is 101110, as
/// 101100. The behaviours of DRT (RTn in real time, NRTn not, n being the importance) have no
/// standard code points. Here they are in pool 2, for local use: `u iii 11` (`aqm/drt.c`).
const NAMES: [(&str, u8); 36] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("NQB", 45),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("NRT1", 7),
    ("NRT2", 11),
    ("NRT3", 15),
    ("NRT4", 19),
    ("NRT5", 23),
    ("NRT6", 27),
    ("RT1", 39),
    ("RT2", 43),
    ("RT3", 47),
    ("RT4", 51),
    ("RT5", 55),
    ("RT6", 59),
];
const HINT: &str = "write a name such as `EF`, `AF41`, `CS1`, `LE`, or a number from 0 to 63";

impl Dscp {
    /// Returns the code point of a value from 0 to 63; `None` above.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 64 { Some(Self(value)) } else { None }
    }

    /// Returns the six-bit value.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl FromStr for Dscp {
    type Err = ParseError;

    /// Parses `EF`, `af41`, `46`, `0x2e`; `BE`, `DE` and `DF` are CS0,
    /// `VOICE-ADMIT` is VA.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let trimmed = text.trim();
        let upper = trimmed.to_ascii_uppercase();
        if ["BE", "DE", "DF"].contains(&upper.as_str()) {
            return Ok(Self(0));
        }
        if upper == "VOICE-ADMIT" {
            return Ok(Self(44));
        }
        if let Some(found) = NAMES.iter().find(|name| name.0 == upper) {
            return Ok(Self(found.1));
        }
        let (digits, radix) = match upper.strip_prefix("0X") {
            Some(digits) => (digits, 16),
            None => (upper.as_str(), 10),
        };
        // The standard library accepts a sign; a code point has none.
        let plain = digits.chars().all(|c| c.is_ascii_alphanumeric());
        let value = if plain {
            u8::from_str_radix(digits, radix).ok()
        } else {
            None
        };
        value
            .and_then(Self::new)
            .ok_or_else(|| ParseError::new(format!("`{trimmed}` is not a code point"), HINT))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|name| name.1 == self.0) {
            Some(found) => f.write_str(found.0),
            None => write!(f, "{}", self.0),
        }
    }
}

serde_by_text!(Dscp);
