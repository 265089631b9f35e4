// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IP addresses and prefixes of circuits.

use crate::files::table::trimmed;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address or prefix. The order is: IPv4 before IPv6, then by address. A prefix sorts
/// before the prefixes that it contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Whether it is an IPv6 prefix.
    six: bool,
    /// The first address, left-aligned in 128 bits. Two words instead of a `u128` avoid its
    /// alignment, which would make every key half as large again.
    high: u64,
    low: u64,
    length: u8,
}

impl Prefix {
    /// Returns the prefix of this length; `None` if the length is too large or host bits are
    /// set.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let one = Self::of(address, length);
        (length <= one.most() && one.masked() == one).then_some(one)
    }

    fn of(address: IpAddr, length: u8) -> Self {
        let (six, bits) = match address {
            IpAddr::V4(own) => (false, u128::from(own.to_bits()) << 96),
            IpAddr::V6(own) => (true, own.to_bits()),
        };
        Self::from_bits(six, bits, length)
    }

    fn from_bits(six: bool, bits: u128, length: u8) -> Self {
        Self {
            six,
            high: (bits >> 64) as u64,
            low: bits as u64,
            length,
        }
    }

    fn bits(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    /// Returns the first address.
    pub fn address(&self) -> IpAddr {
        if self.six {
            Ipv6Addr::from_bits(self.bits()).into()
        } else {
            Ipv4Addr::from_bits((self.high >> 32) as u32).into()
        }
    }

    /// Returns the prefix length in bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Returns whether it is a single address.
    pub fn is_host(&self) -> bool {
        self.length == self.most()
    }

    /// Returns whether it contains or equals the other prefix.
    pub fn contains(&self, other: &Self) -> bool {
        self.six == other.six
            && self.length <= other.length
            && (self.bits() ^ other.bits()) & self.mask() == 0
    }

    /// Returns the netmask.
    fn mask(self) -> u128 {
        let behind = 128_u32.saturating_sub(self.length.into());
        u128::MAX.checked_shl(behind).unwrap_or(0)
    }

    /// Returns the prefix with its host bits cleared.
    fn masked(self) -> Self {
        Self::from_bits(self.six, self.bits() & self.mask(), self.length)
    }

    /// Returns the number of bits in an address of this IP version.
    fn most(self) -> u8 {
        if self.six { 128 } else { 32 }
    }

    /// Parses an address or a prefix. An error is the message and a hint for the correction.
    pub(crate) fn read(text: &str, version: u8) -> Result<Self, (String, String)> {
        let refused = || {
            let example = match version {
                4 => "write an address such as `100.64.0.1`, or a prefix such as `100.64.0.0/24`",
                _ => {
                    "write an address such as `2001:db8::1`, or a prefix such as \
                     `2001:db8:0:100::/56`"
                }
            };
            let message = format!("`{text}` is no address or prefix of IPv{version}");
            (message, example.to_owned())
        };
        let (address, length) = match text.bytes().position(|byte| byte == b'/') {
            Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
            None => (text, None),
        };
        let address = trimmed(address);
        let own: Option<IpAddr> = match version {
            4 => octets(address)
                .or_else(|| address.parse().ok())
                .map(IpAddr::V4),
            _ => groups(address)
                .or_else(|| address.parse().ok())
                .map(IpAddr::V6),
        };
        let Some(address) = own else {
            if address.parse::<IpAddr>().is_ok() {
                let other = 10 - version;
                let hint = format!("write it into the column `IPv{other}`");
                return Err((format!("`{text}` is of IPv{other}"), hint));
            }
            return Err(refused());
        };
        let mut one = Self::of(address, 0);
        one.length = match length {
            Some(length) => trimmed(length).parse().map_err(|_| refused())?,
            None => one.most(),
        };
        if one.length > one.most() {
            return Err(refused());
        }
        if !one.is_host() && one.masked() != one {
            let message = format!("`{text}` has bits beyond its prefix");
            return Err((
                message,
                format!("write `{}`, or the address alone", one.masked()),
            ));
        }
        Ok(one)
    }
}

/// Parses an IPv4 address in dotted decimal, twice as fast as the standard library.
fn octets(text: &str) -> Option<Ipv4Addr> {
    let (mut bits, mut count) = (0_u32, 0);
    let (mut octet, mut is_there) = (0_u32, false);
    for byte in text.bytes() {
        match byte {
            // A leading zero is not accepted: some programs read it as octal.
            b'0'..=b'9' if octet > 0 || !is_there => {
                octet = octet * 10 + u32::from(byte - b'0');
                is_there = true;
            }
            b'.' if is_there && count < 3 => {
                bits = bits << 8 | octet;
                count += 1;
                (octet, is_there) = (0, false);
            }
            _ => return None,
        }
        if octet > 255 {
            return None;
        }
    }
    (is_there && count == 3).then(|| Ipv4Addr::from_bits(bits << 8 | octet))
}

/// Parses an IPv6 address in the most common form of prefixes: groups that may end in `::`. The
/// standard library handles every other form too, but takes five times as long.
fn groups(text: &str) -> Option<Ipv6Addr> {
    let (groups, is_whole) = match text.strip_suffix("::") {
        Some(groups) => (groups, false),
        None => (text, true),
    };
    let (mut bits, mut count) = (0_u128, 0_u32);
    let (mut group, mut digits) = (0_u32, 0);
    for byte in groups.bytes().chain([b':']) {
        if byte != b':' {
            group = group << 4 | char::from(byte).to_digit(16)?;
            digits += 1;
            if digits > 4 {
                return None;
            }
            continue;
        }
        if digits == 0 || count == 8 {
            return None;
        }
        bits = bits << 16 | u128::from(group);
        count += 1;
        (group, digits) = (0, 0);
    }
    let fits = if is_whole { count == 8 } else { count < 8 };
    fits.then(|| Ipv6Addr::from_bits(bits << (128 - 16 * count)))
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() {
            return self.address().fmt(f);
        }
        write!(f, "{}/{}", self.address(), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_are_those_that_the_library_reads(
            text in "([0-9a-fA-F]{0,5}:){0,9}[0-9a-f]{0,4}(::)?|[0-9a-f:.+]{0,12}",
        ) {
            if let Some(own) = groups(&text) {
                prop_assert_eq!(text.parse(), Ok(own));
            }
        }

        #[test]
        fn octets_are_those_that_the_library_reads(
            text in "([0-9]{0,4}\\.){0,5}[0-9]{0,3}|[0-9.+]{0,12}", bits: u32,
        ) {
            if let Some(own) = octets(&text) {
                prop_assert_eq!(text.parse(), Ok(own));
            }
            let own = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(octets(&own.to_string()), Some(own));
        }

        #[test]
        fn groups_of_prefixes_are_read(bits: u128, length in 0_u8..8) {
            let all = Ipv6Addr::from_bits(bits | 1 << 112).segments();
            let own = all.iter().take(length.into()).map(|group| format!("{group:x}"));
            let text = own.collect::<Vec<_>>().join(":") + "::";
            prop_assert_eq!(groups(&text), text.parse().ok().filter(|_| length > 0));
        }
    }
}
