// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the values of fields are, and where a packet has them.

use serde::{Deserialize, Serialize};

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// 4 or 6.
    #[must_use]
    pub const fn number(self) -> u128 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }
}

/// What the elements of a set are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// An address.
    Address(IpVersion),
    /// A MAC address.
    Mac,
    /// A number of one byte.
    Byte,
    /// A number of two bytes, such as a port.
    Short,
    /// A number of four bytes.
    Long,
    /// The kernel's number of a control group (version 2): the inode of its
    /// directory.
    ControlGroup,
    /// Nanoseconds since 1970.
    Moment,
}

impl Key {
    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Address(IpVersion::V4) | Self::Long => 4,
            Self::Address(IpVersion::V6) => 16,
            Self::Mac => 6,
            Self::ControlGroup | Self::Moment => 8,
            Self::Byte => 1,
            Self::Short => 2,
        }
    }

    /// Its greatest value.
    #[must_use]
    pub const fn greatest(self) -> u128 {
        match self.bytes() {
            16 => u128::MAX,
            bytes => (1 << (bytes * 8)) - 1,
        }
    }
}

/// A header of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// That of IP.
    Ip,
    /// That of the upper layer.
    Upper,
}

/// Bytes of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderBytes {
    /// Which header.
    pub header: Header,
    /// Where they begin in it.
    pub offset: usize,
    /// How many they are.
    pub length: usize,
}
