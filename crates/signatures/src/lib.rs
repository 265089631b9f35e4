// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The byte patterns by which a protocol is recognised in the first packets of a flow. The
//! classifier in the kernel (`bpf/payload`) and the explanation of a packet use the same table.
//!
//! A pattern is fixed bytes at fixed offsets of a packet's payload, with its source ([`PATTERNS`]).
//! There are no regular expressions: a protocol that a few bytes cannot identify is not recognised,
//! nor is an encrypted one. QUIC's first packets are recognised by their unencrypted header.
//! [`SeenFlows`] is the classifier's state of flows.
//!
//! ```
//! use weirgate_signatures::{Signature, Transport, find};
//!
//! let head = b"\x13BitTorrent protocol";
//! assert_eq!(find(Transport::Tcp, head, 68), Some(Signature::BitTorrent));
//! assert_eq!(find(Transport::Tcp, b"GET / HTTP/1.1", 68), None);
//! ```

mod header;
mod seen_flows;
mod table;

pub use header::header;
pub use seen_flows::{Look, SeenFlows};
pub use table::PATTERNS;

/// The bytes of a payload that are examined; no pattern ends after them.
pub const HEAD: usize = 64;
/// How many packets with payload are examined of each flow.
pub const LOOKS: u8 = 8;
/// The flows that a device's classifier remembers; the least recently used one is evicted.
pub const FLOWS: u32 = 65_536;
/// The IPv6 extension headers that are skipped.
pub const EXTENSIONS: usize = 4;
/// The bits of a packet's mark that contain the signature's number.
pub const BITS: u32 = 3;

/// A recognised protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signature {
    /// `BitTorrent`, with its DHT, trackers over UDP, and uTP.
    BitTorrent,
    /// eDonkey, eMule.
    EDonkey,
    /// Gnutella.
    Gnutella,
    /// Direct Connect: NMDC and ADC.
    DirectConnect,
    /// QUIC, versions 1 and 2.
    Quic,
}

impl Signature {
    /// All signatures.
    pub const ALL: [Self; 5] = [
        Self::BitTorrent,
        Self::EDonkey,
        Self::Gnutella,
        Self::DirectConnect,
        Self::Quic,
    ];

    /// Returns its name in policies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitTorrent => "bittorrent",
            Self::EDonkey => "edonkey",
            Self::Gnutella => "gnutella",
            Self::DirectConnect => "directconnect",
            Self::Quic => "quic",
        }
    }

    /// Returns its number in a packet's mark; 0 means none.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::BitTorrent => 1,
            Self::EDonkey => 2,
            Self::Gnutella => 3,
            Self::DirectConnect => 4,
            Self::Quic => 5,
        }
    }
}

/// The transport protocol of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Returns the transport of an IP protocol number; `None` for those that are not examined.
    #[must_use]
    pub const fn of(protocol: u8) -> Option<Self> {
        match protocol {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

/// The required length of a payload, in addition to containing all bytes of the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Any.
    Any,
    /// Exactly this.
    Exactly(u32),
    /// The four bytes after the first, in little endian, must be the length of what follows them.
    Stated,
}

/// A condition on the bits of one byte: the byte masked with `mask` is `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// The offset of the byte.
    pub place: usize,
    /// The bits that are compared.
    pub mask: u8,
    /// Their values; all other bits are 0.
    pub value: u8,
}

/// A pattern of a protocol.
#[derive(Debug, Clone, Copy)]
pub struct Pattern {
    /// The protocol that it identifies.
    pub is: Signature,
    /// The transport protocol.
    pub transport: Transport,
    /// Bytes with their offsets; all must match.
    pub bytes: &'static [(usize, &'static [u8])],
    /// Bits that must match too.
    pub bits: Option<Bits>,
    /// The payload's length.
    pub length: Length,
    /// The source of the pattern.
    pub source: &'static str,
}

impl Pattern {
    /// Returns whether a payload matches. `head` is its beginning: [`HEAD`] bytes, or all if there
    /// are fewer.
    #[must_use]
    pub fn is_in(&self, head: &[u8], length: u32) -> bool {
        let there = |(place, bytes): &(usize, &[u8])| {
            let end = place.saturating_add(bytes.len());
            length as usize >= end && head.get(*place..end) == Some(*bytes)
        };
        let long = match self.length {
            Length::Any => true,
            Length::Exactly(exact) => length == exact,
            Length::Stated => {
                let stated = head.get(1..5).and_then(|four| four.try_into().ok());
                stated.map(u32::from_le_bytes) == length.checked_sub(5)
            }
        };
        let set = |bits: Bits| {
            let byte = head
                .get(bits.place)
                .filter(|_| length as usize > bits.place);
            byte.is_some_and(|byte| byte & bits.mask == bits.value)
        };
        long && self.bytes.iter().all(there) && self.bits.is_none_or(set)
    }
}

/// Returns the protocol of a payload. `head` is its beginning: [`HEAD`] bytes, or all if there are
/// fewer; `length` is that of the whole payload.
#[must_use]
pub fn find(transport: Transport, head: &[u8], length: u32) -> Option<Signature> {
    PATTERNS
        .iter()
        .find(|pattern| pattern.transport == transport && pattern.is_in(head, length))
        .map(|pattern| pattern.is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_end_within_the_head_and_say_where_they_are_from() {
        for pattern in PATTERNS {
            assert!(!pattern.bytes.is_empty() && !pattern.source.is_empty());
            if let Some(bits) = pattern.bits {
                assert!(bits.place < HEAD && bits.value & !bits.mask == 0);
            }
            for (place, bytes) in pattern.bytes {
                assert!(
                    place + bytes.len() <= HEAD && !bytes.is_empty(),
                    "{pattern:?}"
                );
            }
        }
        for (at, one) in Signature::ALL.iter().enumerate() {
            assert!(one.number() < 1 << BITS);
            assert_eq!(one.number() as usize, at + 1);
            assert!(PATTERNS.iter().any(|pattern| pattern.is == *one));
        }
    }

    #[test]
    fn quic_is_known_by_its_long_headers() {
        let udp = |payload: &[u8]| find(Transport::Udp, payload, payload.len() as u32);
        // Initial, 0-RTT, Handshake, Retry; protected bits may have any value.
        for first in [0xc0, 0xcf, 0xd3, 0xe1, 0xf0] {
            for version in [[0, 0, 0, 1], [0x6b, 0x33, 0x43, 0xcf]] {
                let packet = [&[first][..], &version, &[8; 30]].concat();
                assert_eq!(udp(&packet), Some(Signature::Quic), "{packet:?}");
                assert_eq!(find(Transport::Tcp, &packet, 35), None);
            }
        }
        // No fixed bit, a short header, another version, version negotiation.
        assert_eq!(udp(b"\x80\0\0\0\x01\x08abcdefgh"), None);
        assert_eq!(udp(b"\x43\0\0\0\x01\x08abcdefgh"), None);
        assert_eq!(udp(b"\xc3\0\0\0\x02\x08abcdefgh"), None);
        assert_eq!(udp(b"\xc3\0\0\0\0\x08abcdefgh"), None);
        assert_eq!(udp(b"\xc3\0\0\0"), None);
    }

    #[test]
    fn lengths_count() {
        let tcp = |payload: &[u8]| find(Transport::Tcp, payload, payload.len() as u32);
        let udp = |payload: &[u8]| find(Transport::Udp, payload, payload.len() as u32);
        assert_eq!(tcp(b"\x13BitTorrent protocol"), Some(Signature::BitTorrent));
        assert_eq!(tcp(b"\x13BitTorrent protoco"), None);
        assert_eq!(udp(b"\x13BitTorrent protocol"), None);
        assert_eq!(tcp(b"\xe3\x05\0\0\0\x01abcd"), Some(Signature::EDonkey));
        assert_eq!(tcp(b"\xe3\x05\0\0\0\x01abc"), None);
        assert_eq!(tcp(b"\xe3\x05\0\0"), None);
        let connect = b"\0\0\x04\x17\x27\x10\x19\x80\0\0\0\0abcd";
        assert_eq!(udp(connect), Some(Signature::BitTorrent));
        assert_eq!(udp(&connect[..15]), None);
        assert_eq!(tcp(b""), None);
    }
}
