// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PPPoE sessions (RFC 2516).

use super::decimal;
use crate::keys::Mac;
use std::fmt;

/// The last session number: 65,535 is reserved (RFC 2516, section 4).
const LAST: u16 = 65_534;

/// A session, by number and optionally by the subscriber's MAC address. An access concentrator
/// may use one number for several subscribers. Only number and MAC addresses together are unique
/// (RFC 2516, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    id: u16,
    mac: Option<Mac>,
}

impl Session {
    /// Makes a session; without a MAC address it matches any subscriber. Returns `None` unless
    /// the number is from 1 to 65,534.
    pub fn new(id: u16, mac: Option<Mac>) -> Option<Self> {
        (1..=LAST).contains(&id).then_some(Self { id, mac })
    }

    /// Returns the session number.
    pub fn id(self) -> u16 {
        self.id
    }

    /// Returns the subscriber's MAC address; `None` for any.
    pub fn mac(self) -> Option<Mac> {
        self.mac
    }

    /// Parses `77`, or `77:02:00:5e:10:00:01` with a MAC address, the notation of rp-pppoe. An
    /// error is the message and a hint for the correction.
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
