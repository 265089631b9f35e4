// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses and prefixes of circuits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, or all those that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The first `length` bits of an address; `None` where it has fewer, or others
    /// behind them that are not 0.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let one = Self { address, length };
        (length <= bits(address) && one.masked() == one).then_some(one)
    }

    /// The first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits of it count.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether it is one address.
    pub fn is_host(&self) -> bool {
        self.length == bits(self.address)
    }

    /// Whether the other, which may be the same, is a part of it.
    pub fn contains(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length <= other.length
            && Self {
                length: self.length,
                ..*other
            }
            .masked()
                == *self
    }

    /// The prefix of this length that it is a part of.
    #[must_use]
    pub fn shortened(&self, length: u8) -> Self {
        Self {
            length: length.min(self.length),
            ..*self
        }
        .masked()
    }

    /// The same without bits behind those that count.
    fn masked(self) -> Self {
        let keep = u32::from(self.length);
        let address = match self.address {
            IpAddr::V4(own) => {
                let mask = u32::MAX.checked_shl(32 - keep.min(32)).unwrap_or(0);
                Ipv4Addr::from_bits(own.to_bits() & mask).into()
            }
            IpAddr::V6(own) => {
                let mask = u128::MAX.checked_shl(128 - keep.min(128)).unwrap_or(0);
                Ipv6Addr::from_bits(own.to_bits() & mask).into()
            }
        };
        Self { address, ..self }
    }

    /// Reads an address or a prefix; says what is wrong and what would be right.
    pub(crate) fn read(text: &str, version: u8) -> Result<Self, (String, String)> {
        let example = match version {
            4 => "write an address such as `100.64.0.1`, or a prefix such as `100.64.0.0/24`",
            _ => {
                "write an address such as `2001:db8::1`, or a prefix such as `2001:db8:0:100::/56`"
            }
        };
        let refused = || {
            (
                format!("`{text}` is no address or prefix of IPv{version}"),
                example.to_owned(),
            )
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| refused())?;
        if address.is_ipv4() != (version == 4) {
            let other = 10 - version;
            let hint = format!("write it into the column `IPv{other}`");
            return Err((format!("`{text}` is of IPv{other}"), hint));
        }
        let length = match length {
            Some(length) => length.trim().parse().map_err(|_| refused())?,
            None => bits(address),
        };
        if length > bits(address) {
            return Err(refused());
        }
        let one = Self { address, length };
        if one.masked() != one {
            let message = format!("`{text}` has bits beyond its prefix");
            return Err((
                message,
                format!("write `{}`, or the address alone", one.masked()),
            ));
        }
        Ok(one)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() {
            return self.address.fmt(f);
        }
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Bits of an address of this version.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
