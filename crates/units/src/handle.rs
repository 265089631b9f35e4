// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identifiers of qdiscs and classes.

use crate::parse::{ParseError, serde_by_text};
use std::fmt;
use std::str::FromStr;

/// A tc handle or class identifier, `major:minor`, both hexadecimal as in
/// tc(8); a qdisc's own handle has minor 0 and prints as `1:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Handle {
    /// The qdisc's number.
    pub major: u16,
    /// The class's number within the qdisc; 0 names the qdisc itself.
    pub minor: u16,
}

const HINT: &str = "write two hexadecimal numbers of at most four digits, such as `1:10`";

impl Handle {
    /// Makes the handle `major:minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Converts to the kernel's 32-bit number (`TC_H_MAKE`, linux/pkt_sched.h).
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        ((self.major as u32) << 16) | self.minor as u32
    }

    /// Converts from the kernel's 32-bit number.
    #[must_use]
    pub const fn from_u32(value: u32) -> Self {
        Self {
            major: (value >> 16) as u16,
            minor: value as u16,
        }
    }
}

impl FromStr for Handle {
    type Err = ParseError;

    /// Parses `1:`, `1:10`, `ffff:fff1`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::new(format!("`{text}` is not a handle"), HINT);
        let (major, minor) = text.trim().split_once(':').ok_or_else(bad)?;
        let number = |part: &str| match part {
            "" => Some(0),
            _ if part.starts_with('+') => None,
            _ => u16::from_str_radix(part, 16).ok(),
        };
        Ok(Self {
            major: number(major).ok_or_else(bad)?,
            minor: number(minor).ok_or_else(bad)?,
        })
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            0 => write!(f, "{:x}:", self.major),
            minor => write!(f, "{:x}:{minor:x}", self.major),
        }
    }
}

serde_by_text!(Handle);
