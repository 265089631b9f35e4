// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constant sets that identify TCP segments without payload.
//!
//! A TCP segment has no payload if its IP length is the sum of both header lengths. nf_tables
//! cannot add, so a set contains every possible combination: 11 x 11 for IPv4, and 11 for IPv6
//! without extension headers. An IPv6 packet with extension headers counts as one with payload.

use std::collections::BTreeSet;
use weirgate_state::Key;
use weirgate_units::Inserted as _;

/// One of the constant sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConstantSet {
    /// `ip length . version-and-header-length . data-offset`, each as the two bytes that contain
    /// it, with other bits cleared.
    TcpEmptyV4,
    /// `payload length . data-offset`, in the same form.
    TcpEmptyV6,
}

impl ConstantSet {
    pub(crate) const ALL: [Self; 2] = [Self::TcpEmptyV4, Self::TcpEmptyV6];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TcpEmptyV4 => "tcp_empty_v4",
            Self::TcpEmptyV6 => "tcp_empty_v6",
        }
    }

    pub(super) fn key_type(self) -> u32 {
        let join = |count| (0..count).fold(0, |all, _| (all << 6) | Key::Short.type_number());
        match self {
            Self::TcpEmptyV4 => join(3),
            Self::TcpEmptyV6 => join(2),
        }
    }

    pub(super) fn key_length(self) -> u32 {
        match self {
            Self::TcpEmptyV4 => 12,
            Self::TcpEmptyV6 => 8,
        }
    }

    /// Returns its elements in the kernel's form: each part in network byte order, padded to four
    /// bytes.
    pub(crate) fn elements(self) -> BTreeSet<Vec<u8>> {
        let part = |value: u16| {
            let bytes = value.to_be_bytes();
            [bytes[0], bytes[1], 0, 0]
        };
        // Header lengths in 32-bit words: RFC 791 section 3.1, RFC 9293
        // section 3.1.
        let words = 5_u16..=15;
        match self {
            Self::TcpEmptyV4 => words
                .clone()
                .flat_map(|ip| words.clone().map(move |tcp| (ip, tcp)))
                .map(|(ip, tcp)| [part((ip + tcp) * 4), part(ip << 8), part(tcp << 12)].concat())
                .inserted(),
            Self::TcpEmptyV6 => words
                .map(|tcp| [part(tcp * 4), part(tcp << 12)].concat())
                .inserted(),
        }
    }
}
