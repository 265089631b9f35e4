// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes.

use crate::parse::{self, ParseError, Unit, serde_by_text};
use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Size(u64);

const DECIMAL: [Unit; 3] = [("B", 1), ("kB", 1_000), ("MB", 1_000_000)];
const BINARY: [Unit; 3] = [("B", 1), ("KiB", 1_024), ("MiB", 1_048_576)];
const ACCEPTED: [Unit; 6] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("kib", 1_024),
    ("mib", 1_048_576),
];
const HINT: &str = "write a number of bytes with no unit, B, kB, MB, KiB or MiB, such as `28125`";

impl Size {
    /// A size of so many bytes.
    #[must_use]
    pub const fn bytes(value: u64) -> Self {
        Self(value)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = ParseError;

    /// Parses `28125`, `206kB` (1000), `64KiB` (1024).
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::scaled(text, &ACCEPTED, "a size", HINT).map(Self)
    }
}

/// `{:#}` also has KiB and MiB, where no decimal unit is exact: as a person
/// would write the size.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = f.alternate() && !self.0.is_multiple_of(DECIMAL[1].1);
        parse::canonical(f, self.0, if binary { &BINARY } else { &DECIMAL })
    }
}

serde_by_text!(Size);
