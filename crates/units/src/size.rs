// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes.

use crate::parse::{self, ParseError, Unit, serde_by_text};
use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Size(u64);

const DECIMAL: [Unit; 4] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];
const BINARY: [Unit; 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const ACCEPTED: [Unit; 8] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];
const HINT: &str =
    "write a number of bytes with no unit, B, kB, MB, GB, KiB, MiB or GiB, such as `28125`";

impl Size {
    /// Makes a size from bytes.
    #[must_use]
    pub const fn bytes(value: u64) -> Self {
        Self(value)
    }

    /// Returns the number of bytes.
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

/// Prints the size in decimal units if one is exact, otherwise in KiB, MiB or GiB.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = self.0.is_multiple_of(DECIMAL[1].1);
        parse::canonical(f, self.0, if decimal { &DECIMAL } else { &BINARY })
    }
}

serde_by_text!(Size);
