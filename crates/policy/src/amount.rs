// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An amount: a share of a whole, or a rate.

use std::str::FromStr;
use weirgate_units::{ParseError, Rate, Share};

/// An amount, written as a share of a whole or as a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A share of the whole.
    Share(Share),
    /// A rate in wire bits.
    Rate(Rate),
}

impl Amount {
    /// Returns the amount as a rate, as a share of `whole` if it is one.
    #[must_use]
    pub fn of(self, whole: Rate) -> Rate {
        match self {
            Self::Share(share) => share.of(whole),
            Self::Rate(rate) => rate,
        }
    }
}

impl FromStr for Amount {
    type Err = ParseError;

    /// Parses `2%` or `1kbit`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.contains('%') {
            text.parse().map(Self::Share)
        } else {
            text.parse().map(Self::Rate)
        }
    }
}
