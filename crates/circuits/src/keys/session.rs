// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions of PPPoE (RFC 2516).

use super::decimal;
use crate::keys::Mac;
use std::fmt;

/// The last session: 65,535 is reserved (RFC 2516, section 4).
const LAST: u16 = 65_534;

/// A session by its number, and perhaps by the subscriber's MAC. The number and the MACs of
/// both ends make it unique (RFC 2516, section 4): an access concentrator may give one
/// number to several subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    id: u16,
    mac: Option<Mac>,
}

impl Session {
    /// A session of this number, of any subscriber where no MAC is given; `None` where the
    /// number is not from 1 to 65,534.
    pub fn new(id: u16, mac: Option<Mac>) -> Option<Self> {
        (1..=LAST).contains(&id).then_some(Self { id, mac })
    }

    /// Its number.
    pub fn id(self) -> u16 {
        self.id
    }

    /// The subscriber's MAC; `None` for any.
    pub fn mac(self) -> Option<Mac> {
        self.mac
    }

    /// Reads `77`, or `77:02:00:5e:10:00:01` with the MAC, as rp-pppoe writes it; says what is
    /// wrong and what would be right.
    pub(crate) fn read(text: &str) -> Result<Self, (String, String)> {
        let (id, mac) = match text.split_once(':') {
            Some((id, mac)) => (id, Some(Mac::read(mac)?)),
            None => (text, None),
        };
        let own = decimal(id).and_then(|id| Self::new(id, mac));
        own.ok_or_else(|| {
            let hint = format!(
                "write its number, from 1 to {LAST}, or number and MAC, such as \
                 `77:02:00:5e:10:00:01`"
            );
            (format!("`{text}` is no session of PPPoE"), hint)
        })
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)?;
        self.mac.map_or(Ok(()), |mac| write!(f, ":{mac}"))
    }
}
