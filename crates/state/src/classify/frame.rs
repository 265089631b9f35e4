// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The position of the IP packet in a frame, for rules that look at its fields.

use crate::classify::field::{Field, Variant};
use crate::classify::value::{Header, IpVersion};
use crate::classify::{Effect, Match, Rule};
use serde::{Deserialize, Serialize};

/// The ethertype of PPPoE sessions (RFC 2516 section 4).
pub const PPPOE_SESSION: u16 = 0x8864;

/// The bytes before the IP packet: the PPPoE header and the PPP protocol number (RFC 2516 section
/// 4).
pub const SESSION_HEADER: usize = 8;

/// Where a rule finds the IP packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Frame {
    /// Where the kernel locates it.
    #[default]
    Plain,
    /// In a PPPoE session, where the kernel locates no header. Fields are bytes at fixed offsets
    /// from the network header, which is that of PPPoE. Upper-layer fields are only right if the IP
    /// header has no options or extensions. Earlier rules check that the packet is of this version.
    Session(IpVersion),
}

impl Frame {
    /// Both kinds of session.
    pub const SESSIONS: [Self; 2] = [Self::Session(IpVersion::V4), Self::Session(IpVersion::V6)];

    /// Returns whether it is the plain one.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Returns the bytes from the network header to the IP header, and from there to the upper
    /// layer's header, if these are fixed.
    #[must_use]
    pub const fn fixed(self) -> Option<(usize, usize)> {
        match self {
            Self::Plain => None,
            Self::Session(IpVersion::V4) => Some((SESSION_HEADER, 20)),
            Self::Session(IpVersion::V6) => Some((SESSION_HEADER, 40)),
        }
    }

    /// Returns the offset from the network header and the length of the bytes that contain a field.
    /// Returns `None` if the kernel locates the field, or it is not a field of the IP packet.
    #[must_use]
    pub fn location(self, field: Field) -> Option<(usize, usize)> {
        let Self::Session(version) = self else {
            return None;
        };
        let (ip, header) = self.fixed()?;
        if field.version().is_some_and(|other| other != version) {
            return None;
        }
        // Without extension headers, the IP header has the protocol number.
        if field == Field::Protocol {
            let offset = match version {
                IpVersion::V4 => 9,
                IpVersion::V6 => 6,
            };
            return Some((ip + offset, 1));
        }
        let bytes = field.header_bytes()?;
        let begin = match bytes.header {
            Header::Ip => ip,
            Header::Upper => ip + header,
        };
        Some((begin + bytes.offset, bytes.length))
    }

    /// Returns the field at these bytes of the frame: the inverse of [`Frame::location`].
    #[must_use]
    pub fn field_at(self, location: (usize, usize), mask: u8) -> Option<Field> {
        let Self::Session(version) = self else {
            return None;
        };
        let mut fields = Field::every(Variant {
            version,
            mask: mask.into(),
            level: 0,
        });
        fields.find(|field| self.location(*field) == Some(location))
    }
}

impl Rule {
    /// Returns the rule for packets in another frame; unchanged if it looks at no field whose place
    /// differs there.
    #[must_use]
    pub fn in_frame(mut self, frame: Frame) -> Self {
        let elsewhere = |field: Field| frame.location(field).is_some();
        let matched = self.matches.iter().any(|one| {
            matches!(one, Match::TcpPayloadEmpty { .. }) || one.field().is_some_and(elsewhere)
        });
        let looked_up = self
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::ClassOf { field, .. } if elsewhere(*field)));
        if matched || looked_up {
            self.frame = frame;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fields_of_any_frame_share_their_bytes() {
        let mut seen = std::collections::BTreeMap::new();
        for frame in Frame::SESSIONS {
            for location in (0..80).flat_map(|at| [1, 2, 4, 8, 16].map(|length| (at, length))) {
                if let Some(field) = frame.field_at(location, 0x12) {
                    assert_eq!(seen.insert(location, field), None, "{location:?}");
                    assert_eq!(frame.location(field), Some(location));
                }
            }
        }
        assert_eq!(seen.len(), 22 - 2, "IPv6 has no shape and no offset");
    }
}
