// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Elements of groups and of conditions' lists: address prefixes, port ranges, MAC addresses.

use crate::codes;
use crate::condition::number::{Misread, digits, range};
use crate::field::elements;
use std::fmt;
use std::net::IpAddr;
use weirgate_document::{Problems, Value};

/// An address prefix. A single address has the full length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The network address; host bits are 0.
    pub address: IpAddr,
    /// The prefix length in bits, at most 32 for IPv4 and 128 for IPv6.
    pub length: u8,
}

/// Why a text is not a prefix. Host bits have their own problem code.
enum NotPrefix {
    Unreadable(Misread),
    HostBits(Misread),
}

impl Prefix {
    fn read(text: &str) -> Result<Self, NotPrefix> {
        let unreadable = |hint: &str| {
            NotPrefix::Unreadable((
                format!("`{text}` is not an address or prefix"),
                hint.to_owned(),
            ))
        };
        let hint =
            "write an IPv4 or IPv6 address or prefix, such as `192.0.2.0/24` or `2001:db8::/32`";
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| unreadable(hint))?;
        let full = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => full,
            Some(length) => digits(length)
                .and_then(|length| u8::try_from(length).ok())
                .filter(|length| *length <= full)
                .ok_or_else(|| unreadable(&format!("write a prefix length from 0 to {full}")))?,
        };
        let network = network(address, length);
        if network != address {
            return Err(NotPrefix::HostBits((
                format!("`{text}` has bits set beyond its first {length}"),
                format!(
                    "write `{network}/{length}` for the network, or the address without a length"
                ),
            )));
        }
        Ok(Self { address, length })
    }

    /// Parses an address or a prefix without host bits.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, and how to correct it.
    pub fn of_text(text: &str) -> Result<Self, Misread> {
        Self::read(text).map_err(|error| match error {
            NotPrefix::Unreadable(misread) | NotPrefix::HostBits(misread) => misread,
        })
    }

    /// Returns the prefix of a single address.
    #[must_use]
    pub const fn single(address: IpAddr) -> Self {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Self { address, length }
    }

    /// Returns whether it is an IPv4 prefix.
    #[must_use]
    pub const fn is_v4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Returns whether it is private (RFC 1918 or RFC 6598), and so not seen on a link behind
    /// NAT.
    #[must_use]
    pub fn is_private(self) -> bool {
        match self.address {
            IpAddr::V4(v4) => {
                let [first, second, ..] = v4.octets();
                v4.is_private() || (first == 100 && (64..128).contains(&second))
            }
            IpAddr::V6(_) => false,
        }
    }

    /// Returns its first and its last address as numbers; those of IPv4 as IPv6 maps them (RFC
    /// 4291 section 2.5.5.2).
    pub(crate) fn range(self) -> (u128, u128) {
        let (first, bits) = match self.address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().into(), 32),
            IpAddr::V6(v6) => (v6.into(), 128),
        };
        let host = bits - u32::from(self.length).min(bits);
        let rest = u128::MAX.checked_shr(128 - host).unwrap_or(0);
        (first, first | rest)
    }

    /// Returns whether it contains all addresses of another prefix.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.is_v4() == other.is_v4()
            && self.length <= other.length
            && network(other.address, self.length) == self.address
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Returns the address with everything after the first `length` bits cleared.
fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// Parses an address or a prefix. `hint` can replace the hint for an invalid text.
pub(crate) fn prefix(
    text: &Value<String>,
    problems: &Problems,
    hint: impl FnOnce(String) -> String,
) -> Option<Prefix> {
    match Prefix::read(&text.value) {
        Ok(prefix) => return Some(prefix),
        Err(NotPrefix::Unreadable((wrong, right))) => {
            problems.error(codes::ADDRESS, text.span.clone(), wrong, hint(right));
        }
        Err(NotPrefix::HostBits((wrong, right))) => {
            problems.error(codes::HOST_BITS, text.span.clone(), wrong, right);
        }
    }
    None
}

elements!(Ports: codes::PORT, Ports::read);
elements!(Mac: codes::MAC, Mac::read);

/// A range of ports, including both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The first port.
    pub from: u16,
    /// The last port.
    pub to: u16,
}

impl Ports {
    /// Parses a port, or a range such as `5000-5010`.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, and how to correct it.
    pub fn read(text: &str) -> Result<Self, Misread> {
        let (from, to) = range(text, "a port", "such as `22` or `5000-5010`")?;
        if from == 0 {
            let hint = "write ports from 1 to 65535".to_owned();
            return Err(("no packet has port 0".to_owned(), hint));
        }
        Ok(Self { from, to })
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// A MAC address as a 48-bit number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub u64);

impl std::str::FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|(wrong, right)| format!("{wrong}; {right}"))
    }
}

impl Mac {
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let parts: Vec<&str> = text.split(':').collect();
        let byte = |part: &&str| {
            let plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(part, 16).ok().filter(|_| plain)
        };
        let bytes: Vec<u64> = parts.iter().filter_map(byte).collect();
        if bytes.len() != 6 || parts.len() != 6 {
            return Err((
                format!("`{text}` is not a MAC address"),
                "write six bytes, such as `02:00:5e:10:00:01`".to_owned(),
            ));
        }
        Ok(Self(bytes.iter().fold(0, |all, byte| all << 8 | byte)))
    }
}
