// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VLANs, by the tags of a frame (IEEE 802.1Q, 802.1ad).

use super::decimal;
use std::fmt;

/// The last VLAN identifier: 4,095 is reserved.
const LAST: u16 = 4_094;

/// The VLAN of a frame's outer tag, and optionally that of the inner tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vlan {
    outer: u16,
    inner: Option<u16>,
}

impl Vlan {
    /// Makes a VLAN; without `inner` it matches any inner tag. Returns `None` unless each
    /// identifier is from 1 to 4,094.
    pub fn new(outer: u16, inner: Option<u16>) -> Option<Self> {
        let right = |vlan: &u16| (1..=LAST).contains(vlan);
        (right(&outer) && inner.as_ref().is_none_or(right)).then_some(Self { outer, inner })
    }

    /// Returns the VLAN of the outer tag.
    pub fn outer(self) -> u16 {
        self.outer
    }

    /// Returns the VLAN of the inner tag; `None` matches any or no inner tag.
    pub fn inner(self) -> Option<u16> {
        self.inner
    }

    /// Parses `100`, or `100.20` for the outer and the inner tag. An error is the message and a
    /// hint for the correction.
    pub(crate) fn read(text: &str) -> Result<Self, (String, String)> {
        let own = match text.split_once('.') {
            None => decimal(text).and_then(|outer| Self::new(outer, None)),
            Some((outer, inner)) => {
                let both = decimal(outer).zip(decimal(inner));
                both.and_then(|(outer, inner)| Self::new(outer, Some(inner)))
            }
        };
        own.ok_or_else(|| {
            let hint = format!(
                "write a number from 1 to {LAST}, or the outer and the inner tag's, such as `100.20`"
            );
            (format!("`{text}` is no VLAN"), hint)
        })
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outer.fmt(f)?;
        self.inner.map_or(Ok(()), |inner| write!(f, ".{inner}"))
    }
}
