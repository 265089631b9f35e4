// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of fields, and where a packet has them.

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

    /// Returns 4 or 6.
    #[must_use]
    pub const fn number(self) -> u128 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }
}

/// The type of a set's elements.
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

/// The facts about the values of a set.
struct KeyFacts {
    bytes: usize,
    declared: &'static str,
    number: u32,
    is_number_of: Option<&'static str>,
}

impl KeyFacts {
    /// Describes a number in network byte order.
    const fn new(bytes: usize, declared: &'static str, number: u32) -> Self {
        Self {
            bytes,
            declared,
            number,
            is_number_of: None,
        }
    }

    /// Marks the value as the kernel's own number of an object; `what` is the objects' plural name.
    const fn of(self, what: &'static str) -> Self {
        Self {
            is_number_of: Some(what),
            ..self
        }
    }
}

impl Key {
    /// Every key.
    pub const ALL: [Self; 8] = [
        Self::Address(IpVersion::V4),
        Self::Address(IpVersion::V6),
        Self::Mac,
        Self::Byte,
        Self::Short,
        Self::Long,
        Self::ControlGroup,
        Self::Moment,
    ];

    /// Returns the facts about each key: its bytes, its nft declaration, and nft's number of that
    /// type (`enum datatypes`, include/datatype.h of nftables).
    const fn facts(self) -> KeyFacts {
        match self {
            Self::Address(IpVersion::V4) => KeyFacts::new(4, "type ipv4_addr", 7),
            Self::Address(IpVersion::V6) => KeyFacts::new(16, "type ipv6_addr", 8),
            Self::Mac => KeyFacts::new(6, "type ether_addr", 9),
            Self::Byte => KeyFacts::new(1, "type inet_proto", 12),
            Self::Short => KeyFacts::new(2, "type inet_service", 13),
            Self::Long => KeyFacts::new(4, "type mark", 19),
            Self::ControlGroup => KeyFacts::new(8, "type cgroupsv2", 46).of("control groups"),
            // nft has two types called `time`.
            Self::Moment => KeyFacts::new(8, "typeof meta time", 43),
        }
    }

    /// Returns its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.facts().bytes
    }

    /// Returns the nft declaration of a set of it.
    pub(crate) const fn declared(self) -> &'static str {
        self.facts().declared
    }

    /// Returns nft's number of its type, so that `nft list` can print it.
    #[must_use]
    pub const fn type_number(self) -> u32 {
        self.facts().number
    }

    /// Returns the plural name of the objects, if the values are numbers that the kernel gives
    /// them, in host byte order. A set of these is updated as the objects appear and disappear.
    /// Returns `None` for values that packets contain.
    #[must_use]
    pub const fn followed(self) -> Option<&'static str> {
        self.facts().is_number_of
    }

    /// Returns its greatest value.
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
    /// The IP header.
    Ip,
    /// The upper layer's header.
    Upper,
}

/// Bytes of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderBytes {
    /// Which header.
    pub header: Header,
    /// The offset of the first byte in it.
    pub offset: usize,
    /// The number of bytes.
    pub length: usize,
}
