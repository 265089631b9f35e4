// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet as nftables sees it: bytes from the IP header on, and the offsets of its headers
//! (`nft_set_pktinfo_ipv4`, `nft_set_pktinfo_ipv6`, include/net/netfilter/nf_tables_ipv4.h and
//! nf_tables_ipv6.h).

use crate::sender::SenderValue;
use std::collections::BTreeMap;
use weirgate_state::{IpVersion, PPPOE_SESSION, SESSION_HEADER};

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

/// The PPP protocol number of IPv4 (RFC 1332 section 2).
pub(crate) const PPP_IPV4: u16 = 0x0021;
/// The PPP protocol number of IPv6 (RFC 5072 section 2).
pub(crate) const PPP_IPV6: u16 = 0x0057;

/// A packet as it arrives at the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The ethertype.
    pub ethertype: u16,
    /// The bytes from the network header on, as far as they are known: a capture may be truncated.
    pub bytes: Vec<u8>,
    /// The length on the wire from the network header on, including padding; at least that of
    /// `bytes`.
    pub length: usize,
    /// The source MAC of the frame in which it arrived, as a number.
    pub source_mac: Option<u64>,
    /// The device through which it arrived; `None` for the router's own packets.
    pub input: Option<String>,
    /// What is known about the local socket that sends it, such as its user, by the words of a
    /// packet's text ([`Field::sender_word`](weirgate_state::Field::sender_word)).
    pub sender: BTreeMap<&'static str, SenderValue>,
    /// `skb->mark`, as something else has set it.
    pub mark: u32,
    /// Given properties of its connection.
    pub given: GivenConnection,
}

/// Given properties of a packet's connection, instead of those that follow from its packets. The
/// connection keeps them from then on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenConnection {
    /// Its state.
    pub state: Option<GivenState>,
    /// Its mark.
    pub mark: Option<u32>,
    /// Its bytes before this packet, in both directions.
    pub bytes: Option<u64>,
    /// Its packets before this one, in both directions.
    pub packets: Option<u64>,
    /// The name of the conntrack helper that expected it, which makes the connection related.
    pub helper: Option<String>,
}

/// A state that can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenState {
    /// Packets were exchanged in both directions before.
    Established,
    /// Another connection expected it.
    Related,
}

/// The offsets of a packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers {
    /// The IP version; `None` if it is not IP or is malformed.
    pub version: Option<IpVersion>,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// The offset of that protocol's header; 0 in an IPv6 fragment other than the first, as in
    /// nftables.
    pub transport: usize,
    /// The fragment's offset in bytes; 0 for whole packets and first fragments.
    pub fragment: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// The identification of the fragment, if it is one.
    pub identity: u32,
    /// The offset of the IPv6 fragment header.
    pub fragment_header: Option<usize>,
}

/// The result of reading bytes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The packet ends before them.
    Absent,
    /// The packet has them, but its known part ends before them.
    CutOff,
}

/// IPv6 extension headers (`ipv6_ext_hdr`, net/ipv6/exthdrs_core.c).
const HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
pub(crate) const AUTHENTICATION: u8 = 51;
const NOTHING: u8 = 59;
const OPTIONS: u8 = 60;

/// Reads a big-endian number at an offset.
pub(crate) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let part = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([part[0], part[1]]))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u32> {
    let high = short(bytes, at)?;
    let low = short(bytes, at.checked_add(2)?)?;
    Some(u32::from(high) << 16 | u32::from(low))
}

/// Returns a big-endian number of any length.
pub(crate) fn number(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u128::from(*byte))
}

impl Packet {
    /// Returns a packet whose bytes are all known.
    #[must_use]
    pub fn whole(ethertype: u16, bytes: Vec<u8>) -> Self {
        Self {
            ethertype,
            length: bytes.len(),
            bytes,
            source_mac: None,
            input: None,
            sender: BTreeMap::new(),
            mark: 0,
            given: GivenConnection::default(),
        }
    }

    /// Returns the packet within a PPPoE session (RFC 2516 section 4).
    #[must_use]
    pub fn in_session(mut self) -> Self {
        let protocol = if self.ethertype == IPV4 {
            PPP_IPV4
        } else {
            PPP_IPV6
        };
        // Version and type 1, session data, session 1.
        let mut bytes = vec![0x11, 0, 0, 1];
        let length = u16::try_from(self.length + 2).unwrap_or(u16::MAX);
        bytes.extend(length.to_be_bytes());
        bytes.extend(protocol.to_be_bytes());
        bytes.append(&mut self.bytes);
        Self {
            ethertype: PPPOE_SESSION,
            length: self.length + SESSION_HEADER,
            bytes,
            ..self
        }
    }

    /// Returns the IP packet within a PPPoE session; `None` if this is not a session packet, or
    /// contains something else.
    #[must_use]
    pub fn carried(&self) -> Option<Self> {
        if self.ethertype != PPPOE_SESSION {
            return None;
        }
        let ethertype = match short(&self.bytes, SESSION_HEADER - 2)? {
            PPP_IPV4 => IPV4,
            PPP_IPV6 => IPV6,
            _ => return None,
        };
        Some(Self {
            ethertype,
            length: self.length - SESSION_HEADER,
            bytes: self.bytes[SESSION_HEADER..].to_vec(),
            ..self.clone()
        })
    }

    /// Returns the offsets of its headers. Malformed IP has no version: rules of a `netdev` table
    /// see none of its fields, and those of `inet` never see it.
    #[must_use]
    pub fn headers(&self) -> Headers {
        let found = match self.ethertype {
            IPV4 => self.headers_v4(),
            IPV6 => self.headers_v6(true),
            _ => None,
        };
        found.unwrap_or_default()
    }

    fn headers_v4(&self) -> Option<Headers> {
        let first = *self.bytes.first()?;
        let header = usize::from(first & 0xf) * 4;
        let total = self.stated(0, short(&self.bytes, 2)?);
        let offset = short(&self.bytes, 6)?;
        let protocol = *self.bytes.get(9)?;
        if first >> 4 != 4 || header < 20 || total < header || total > self.length {
            return None;
        }
        let fragment = usize::from(offset & 0x1fff) * 8;
        let more = offset & 0x2000 != 0;
        Some(Headers {
            version: Some(IpVersion::V4),
            protocol,
            transport: header,
            fragment,
            more,
            identity: u32::from(short(&self.bytes, 4)?),
            fragment_header: None,
        })
    }

    /// Finds the headers of IPv6. nftables stops at the authentication header
    /// (`stop_at_authentication`); connection tracking looks beyond it (`ipv6_skip_exthdr`).
    fn headers_v6(&self, stop_at_authentication: bool) -> Option<Headers> {
        let first = *self.bytes.first()?;
        let payload = usize::from(short(&self.bytes, 4)?);
        let mut next = *self.bytes.get(6)?;
        let mut at = 40;
        if first >> 4 != 6 || payload + 40 > self.length {
            return None;
        }
        let mut headers = Headers {
            version: Some(IpVersion::V6),
            ..Headers::default()
        };
        loop {
            let extension = match next {
                HOP | ROUTING | FRAGMENT | OPTIONS => true,
                AUTHENTICATION => !stop_at_authentication,
                _ => false,
            };
            if !extension {
                if next == NOTHING && !stop_at_authentication {
                    return None;
                }
                headers.protocol = next;
                headers.transport = at;
                return Some(headers);
            }
            let following = *self.bytes.get(at)?;
            let length = *self.bytes.get(at + 1)?;
            let size = match next {
                FRAGMENT => {
                    let offset = short(&self.bytes, at + 2)?;
                    headers.fragment = usize::from(offset & !7);
                    headers.more = offset & 1 != 0;
                    headers.identity = long(&self.bytes, at + 4)?;
                    headers.fragment_header = Some(at);
                    8
                }
                AUTHENTICATION => (usize::from(length) + 2) * 4,
                _ => (usize::from(length) + 1) * 8,
            };
            at += size;
            next = following;
            if headers.fragment != 0 {
                // What follows is in the middle of the data.
                let header = [HOP, ROUTING, FRAGMENT, OPTIONS, AUTHENTICATION].contains(&next);
                headers.protocol = next;
                // `ipv6_find_hdr` returns the protocol here, but no offset.
                headers.transport = if stop_at_authentication { 0 } else { at };
                return (!header).then_some(headers);
            }
        }
    }

    /// Returns the headers as connection tracking finds them.
    pub(crate) fn tracked_headers(&self) -> Option<Headers> {
        match self.ethertype {
            IPV4 => self.headers_v4(),
            IPV6 => self.headers_v6(false),
            _ => None,
        }
    }

    /// Reads bytes at an offset from the network header.
    pub(crate) fn at(&self, offset: usize, length: usize) -> Found {
        let end = offset.saturating_add(length);
        match self.bytes.get(offset..end) {
            Some(bytes) => Found::Bytes(bytes.to_vec()),
            None if end <= self.length => Found::CutOff,
            None => Found::Absent,
        }
    }

    /// Returns the length of the IP packet without padding; for other packets that of all bytes.
    #[must_use]
    pub fn ip_length(&self) -> usize {
        let stated = match self.ethertype {
            IPV4 => short(&self.bytes, 2).map(|total| self.stated(0, total)),
            IPV6 => short(&self.bytes, 4).map(|payload| self.stated(40, payload)),
            _ => None,
        };
        stated.map_or(self.length, |stated| stated.min(self.length))
    }

    /// Returns the length of an IP packet from its length field. A packet longer than 65,535 bytes
    /// consists of merged segments and has 0 there (BIG TCP; `iph_totlen()`, include/linux/ip.h).
    fn stated(&self, header: usize, length: u16) -> usize {
        if length == 0 && self.length > header + usize::from(u16::MAX) {
            return self.length;
        }
        header + usize::from(length)
    }

    /// Returns source and destination address as numbers.
    #[must_use]
    pub fn addresses(&self) -> Option<(u128, u128)> {
        let (source, destination, length) = match self.ethertype {
            IPV4 => (12, 16, 4),
            IPV6 => (8, 24, 16),
            _ => return None,
        };
        let part = |at: usize| self.bytes.get(at..at + length).map(number);
        Some((part(source)?, part(destination)?))
    }

    /// Returns the code point, 0 to 63.
    #[must_use]
    pub fn dscp(&self) -> Option<u8> {
        match self.ethertype {
            IPV4 => self.bytes.get(1).map(|byte| byte >> 2),
            IPV6 => short(&self.bytes, 0).map(|word| (word >> 6 & 0x3f) as u8),
            _ => None,
        }
    }

    /// Lowers the maximum segment size in the TCP header at this offset (`nft_exthdr_tcp_set_eval`,
    /// net/netfilter/nft_exthdr.c). Returns false if the header or the option is truncated.
    /// Checksums stay as they are, because nothing here checks them.
    pub(crate) fn lower_segment(&mut self, transport: usize, most: u16) -> bool {
        const END: u8 = 0;
        const NOTHING: u8 = 1;
        const MAX_SEGMENT: u8 = 2;
        let words = self.bytes.get(transport + 12).map_or(0, |byte| byte >> 4);
        let end = transport + usize::from(words) * 4;
        if words < 5 || end > self.bytes.len() {
            return false;
        }
        let mut at = transport + 20;
        while at + 1 < end {
            let (kind, length) = (self.bytes[at], usize::from(self.bytes[at + 1]));
            match kind {
                END | NOTHING => at += 1,
                MAX_SEGMENT if length < 4 || at + length > end => return false,
                MAX_SEGMENT => {
                    if short(&self.bytes, at + 2).is_some_and(|old| old > most) {
                        self.bytes[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                    }
                    return true;
                }
                _ => at += length.max(1),
            }
        }
        true
    }

    /// Writes the code point; the ECN bits stay, and the checksum is updated.
    pub(crate) fn set_dscp(&mut self, version: IpVersion, dscp: u8) {
        let Some(old) = short(&self.bytes, 0) else {
            return;
        };
        let new = match version {
            IpVersion::V4 => old & 0xff03 | u16::from(dscp) << 2,
            IpVersion::V6 => old & 0xf03f | u16::from(dscp) << 6,
        };
        self.bytes[..2].copy_from_slice(&new.to_be_bytes());
        if let (IpVersion::V4, Some(sum)) = (version, short(&self.bytes, 10)) {
            // RFC 1624, equation 3.
            let mut total = u32::from(!sum) + u32::from(!old) + u32::from(new);
            total = (total & 0xffff) + (total >> 16);
            total = (total & 0xffff) + (total >> 16);
            self.bytes[10..12].copy_from_slice(&(!(total as u16)).to_be_bytes());
        }
    }
}
