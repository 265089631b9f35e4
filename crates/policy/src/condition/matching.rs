// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The elements of a rule's conditions: how they are written, and when one
//! contains another.

use std::fmt;
use std::net::IpAddr;

/// What is wrong with an element, and what would be right.
pub type Misread = (String, String);

/// An upper-layer protocol: the number in the IPv4 header's protocol field, or
/// in the last next-header field of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol(pub u8);

/// Names and numbers of IANA's registry, those that links carry.
pub(crate) const PROTOCOLS: [(&str, Protocol); 13] = [
    ("icmp", Protocol::ICMP),
    ("igmp", Protocol(2)),
    ("ipip", Protocol(4)),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("dccp", Protocol(33)),
    ("ipv6", Protocol(41)),
    ("gre", Protocol(47)),
    ("esp", Protocol(50)),
    ("ah", Protocol(51)),
    ("icmpv6", Protocol::ICMPV6),
    ("ospf", Protocol(89)),
    ("sctp", Protocol(132)),
];

impl Protocol {
    /// ICMP of IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP of IPv6.
    pub const ICMPV6: Self = Self(58);

    /// Whether its header begins with two ports.
    #[must_use]
    pub fn has_ports(self) -> bool {
        weirgate_state::PROTOCOLS_WITH_PORTS.contains(&self.0)
    }

    /// Reads a name or a number.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
    pub fn read(text: &str) -> Result<Self, Misread> {
        if let Some(found) = crate::read::one_of(text, &PROTOCOLS) {
            return Ok(found);
        }
        if let Some(number) = digits(text).and_then(|number| u8::try_from(number).ok()) {
            return Ok(Self(number));
        }
        let hint = if text == "icmp6" || text == "ipv6-icmp" {
            "did you mean `icmpv6`?".to_owned()
        } else if digits(text).is_some() {
            "write a number from 0 to 255".to_owned()
        } else {
            format!(
                "{} (or a number from 0 to 255)",
                crate::read::choose(text, &PROTOCOLS)
            )
        };
        Err((format!("`{text}` is not a protocol"), hint))
    }
}

/// The name where there is one, else the number.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|known| known.1 == *self) {
            Some(known) => f.write_str(known.0),
            None => write!(f, "protocol {}", self.0),
        }
    }
}

/// Ports from..=to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
}

impl Ports {
    /// Reads a port, or a range of them such as `5000-5010`.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
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

/// Numbers of users or groups from..=to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// The first.
    pub from: u32,
    /// The last.
    pub to: u32,
}

impl Ids {
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        // The greatest number stands for nobody (`INVALID_UID`).
        let id = |text: &str| {
            let found = digits(text.trim());
            found.filter(|id| *id < u32::MAX)
        };
        match (id(first), id(last)) {
            (Some(from), Some(to)) if from <= to => Ok(Self { from, to }),
            (Some(_), Some(_)) => Err((
                format!("`{text}` ends before it begins"),
                "write the lower number first".to_owned(),
            )),
            _ => Err((
                format!("`{text}` is not the number of a user or group"),
                "write numbers, such as `1000` or `1000-1999`: `id -u NAME` and `id -g NAME` \
                 tell them"
                    .to_owned(),
            )),
        }
    }
}

/// IP packet lengths from..=to, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// The shortest.
    pub from: u16,
    /// The longest.
    pub to: u16,
}

impl Lengths {
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let (from, to) = range(text, "a packet length", "such as `0-128`")?;
        if to < 20 {
            let hint = "an IP packet has at least 20 bytes, headers are counted".to_owned();
            return Err((format!("no packet has {to} bytes or fewer"), hint));
        }
        Ok(Self { from, to })
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// An address prefix; a single address has its full length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The network address, host bits clear.
    pub address: IpAddr,
    /// Its length in bits, 0 to 32 or 128.
    pub length: u8,
}

/// Why a text is not a prefix: host bits have a code of their own.
pub(crate) enum NotPrefix {
    Unreadable(Misread),
    HostBits(Misread),
}

impl Prefix {
    pub(crate) fn read(text: &str) -> Result<Self, NotPrefix> {
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

    /// Reads an address or a prefix without host bits.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
    pub fn of_text(text: &str) -> Result<Self, Misread> {
        Self::read(text).map_err(|error| match error {
            NotPrefix::Unreadable(misread) | NotPrefix::HostBits(misread) => misread,
        })
    }

    /// A single address.
    #[must_use]
    pub const fn single(address: IpAddr) -> Self {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Self { address, length }
    }

    /// Whether it is of IPv4.
    #[must_use]
    pub const fn is_v4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether all of another's addresses are its own.
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

/// The address with everything after the first `length` bits cleared.
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

/// TCP flags: of those in `mask`, exactly those in `value` are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlags {
    /// Bits looked at, as in the header's 14th byte.
    pub mask: u8,
    /// Their required value.
    pub value: u8,
}

/// Names and bits (RFC 9293 section 3.1).
pub(crate) const FLAGS: [(&str, u8); 8] = [
    ("fin", 0x01),
    ("syn", 0x02),
    ("rst", 0x04),
    ("psh", 0x08),
    ("ack", 0x10),
    ("urg", 0x20),
    ("ece", 0x40),
    ("cwr", 0x80),
];

impl TcpFlags {
    /// What a pure ACK has: ACK, and none of SYN, FIN, RST.
    pub const PURE_ACK: Self = Self {
        mask: 0x17,
        value: 0x10,
    };

    /// `syn,ack/syn,ack,fin,rst` is value/mask; `syn` alone looks at no other.
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (flags(value)?, flags(mask)?),
            None => (flags(text)?, flags(text)?),
        };
        if mask == 0 {
            let hint = "name the flags to look at, such as `syn/syn,ack,fin,rst`".to_owned();
            return Err((format!("`{text}` looks at no flag"), hint));
        }
        if value & !mask != 0 {
            let hint = "flags before the `/` must also stand after it".to_owned();
            return Err((format!("`{text}` never matches"), hint));
        }
        Ok(Self { mask, value })
    }

    /// Whether every packet that fulfils `other` fulfils this.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.mask & other.mask == self.mask && other.value & self.mask == self.value
    }

    /// Whether no packet can fulfil both.
    pub(crate) const fn excludes(self, other: Self) -> bool {
        let common = self.mask & other.mask;
        self.value & common != other.value & common
    }
}

fn flags(text: &str) -> Result<u8, Misread> {
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != "none");
    names.into_iter().try_fold(0, |bits, name| {
        let lower = name.to_ascii_lowercase();
        crate::read::one_of(&lower, &FLAGS)
            .map(|bit| bits | bit)
            .ok_or_else(|| {
                (
                    format!("`{name}` is not a TCP flag"),
                    crate::read::choose(name, &FLAGS),
                )
            })
    })
}

/// `number` or `from-to`, up to 65535.
fn range(text: &str, what: &str, such_as: &str) -> Result<(u16, u16), Misread> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |part: &str| digits(part.trim()).and_then(|number| u16::try_from(number).ok());
    let (Some(from), Some(to)) = (number(from), number(to)) else {
        let hint = format!("write a number up to 65535 or a range, {such_as}");
        return Err((format!("`{text}` is not {what}"), hint));
    };
    if from > to {
        return Err((
            format!("`{text}` runs backwards"),
            format!("write `{to}-{from}`"),
        ));
    }
    Ok((from, to))
}

/// A whole number written in digits alone; the standard library also takes `+`.
fn digits(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// A MAC address as a number of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub u64);

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

/// A type of ICMP and of `ICMPv6`; `None` where a version has no such type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpType {
    /// The type of ICMP (RFC 792).
    pub v4: Option<u8>,
    /// The type of `ICMPv6` (RFC 4443, RFC 4861).
    pub v6: Option<u8>,
}

const fn icmp(v4: Option<u8>, v6: Option<u8>) -> IcmpType {
    IcmpType { v4, v6 }
}

/// Names that mean the same in both versions where both have it.
const ICMP_TYPES: [(&str, IcmpType); 9] = [
    ("echo-request", icmp(Some(8), Some(128))),
    ("echo-reply", icmp(Some(0), Some(129))),
    ("destination-unreachable", icmp(Some(3), Some(1))),
    ("packet-too-big", icmp(None, Some(2))),
    ("time-exceeded", icmp(Some(11), Some(3))),
    ("parameter-problem", icmp(Some(12), Some(4))),
    ("redirect", icmp(Some(5), Some(137))),
    ("timestamp-request", icmp(Some(13), None)),
    ("timestamp-reply", icmp(Some(14), None)),
];

impl IcmpType {
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        crate::read::one_of(text, &ICMP_TYPES).ok_or_else(|| {
            (
                format!("`{text}` is not a type of ICMP"),
                crate::read::choose(text, &ICMP_TYPES),
            )
        })
    }
}

/// Whose packets a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The router's own.
    Router,
    /// Those that it forwards.
    Forwarded,
}

/// Their names.
pub(crate) const FROM: [(&str, From); 2] =
    [("router", From::Router), ("forwarded", From::Forwarded)];

/// A packet's mark under a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bits looked at.
    pub mask: u32,
    /// Their value.
    pub value: u32,
}

impl Mark {
    /// `0x10` or `0x10/0xff`.
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(text)?, u32::MAX),
        };
        if mask == 0 || value & !mask != 0 {
            return Err((
                format!("`{text}` never matches, or always"),
                "the value before the `/` has only bits of the mask after it, which is not 0"
                    .to_owned(),
            ));
        }
        Ok(Self { mask, value })
    }
}

/// A number of 32 bits, decimal or hexadecimal.
pub(crate) fn number(text: &str) -> Result<u32, Misread> {
    let text = text.trim();
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let found = match text.strip_prefix("0x") {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16)
            .ok()
            .filter(|_| plain(hexadecimal)),
        None => digits(text),
    };
    found.ok_or_else(|| {
        (
            format!("`{text}` is not a number of 32 bits"),
            "write it such as `0x10` or `16`".to_owned(),
        )
    })
}

/// A state of connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first packets, before an answer.
    New,
    /// Packets of a connection that has been answered.
    Established,
    /// The first packets of a connection that another announced, such as FTP's
    /// data, and ICMP errors.
    Related,
    /// What fits no connection.
    Invalid,
}

/// Their names.
pub(crate) const STATES: [(&str, ConnectionState); 4] = [
    ("new", ConnectionState::New),
    ("established", ConnectionState::Established),
    ("related", ConnectionState::Related),
    ("invalid", ConnectionState::Invalid),
];
