// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds packets from a description, including checksums.

use crate::packet::{IPV4, IPV6};
use std::net::IpAddr;
use weirgate_state::{ICMP, ICMPV6, TCP};

const UDP: u8 = 17;
const GRE: u8 = 47;
const ESP: u8 = 50;
const SCTP: u8 = 132;
const DCCP: u8 = 33;

/// A packet by its parts. Parts that its protocol does not have are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blueprint {
    /// The source; of the same IP version as the destination.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// Ports, source first.
    pub ports: (u16, u16),
    /// TCP flags.
    pub flags: u8,
    /// Sequence and acknowledgement numbers.
    pub sequence: (u32, u32),
    /// TCP options in bytes, a multiple of 4, at most 40; written as NOP.
    pub tcp_options: usize,
    /// IPv4 options in bytes, a multiple of 4, at most 40, written as NOP. For IPv6, the length of
    /// a destination options header, a multiple of 8.
    pub ip_options: usize,
    /// ICMP type and code.
    pub icmp: (u8, u8),
    /// ICMP identifier, IPv4 identification or IPv6 fragment number.
    pub identifier: u16,
    /// The code point, 0 to 63.
    pub dscp: u8,
    /// The two ECN bits.
    pub ecn: u8,
    /// Bytes after the upper-layer header.
    pub payload: usize,
    /// The beginning of the payload; the rest is zero.
    pub content: Vec<u8>,
    /// The fragment's offset in bytes, a multiple of 8, and whether more follow. Only the first
    /// fragment has an upper-layer header.
    pub fragment: Option<(u16, bool)>,
}

/// Returns the Internet checksum (RFC 1071).
#[must_use]
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            sum += u32::from(word);
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    !(sum as u16)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

impl Blueprint {
    /// Returns a packet of a protocol without ports, flags or payload.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self {
            source,
            destination,
            protocol,
            ports: (0, 0),
            flags: 0,
            sequence: (0, 0),
            tcp_options: 0,
            ip_options: 0,
            icmp: (0, 0),
            identifier: 0,
            dscp: 0,
            ecn: 0,
            payload: 0,
            content: Vec::new(),
            fragment: None,
        }
    }

    /// Returns the ethertype.
    #[must_use]
    pub const fn ethertype(&self) -> u16 {
        if self.source.is_ipv4() { IPV4 } else { IPV6 }
    }

    /// Returns the bytes of its headers.
    #[must_use]
    pub fn header_length(&self) -> usize {
        let network = match (self.source.is_ipv4(), self.fragment) {
            (true, _) => 20,
            (false, Some(_)) => 48,
            (false, None) => 40,
        };
        network + self.ip_options + self.upper_length()
    }

    fn upper_length(&self) -> usize {
        if self.fragment.is_some_and(|(offset, _)| offset != 0) {
            return 0;
        }
        match self.protocol {
            TCP => 20 + self.tcp_options,
            UDP | ICMP | ICMPV6 | ESP => 8,
            SCTP | DCCP => 12,
            GRE => 4,
            _ => 0,
        }
    }

    /// Returns the bytes from the IP header on.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let upper = self.upper();
        let mut out = Vec::with_capacity(60 + upper.len());
        let class = self.dscp << 2 | self.ecn & 3;
        let (offset, more) = self.fragment.unwrap_or_default();
        if self.source.is_ipv4() {
            let header = 20 + self.ip_options;
            let total = (header + upper.len()) as u16;
            out.push(0x40 | (header / 4) as u8);
            out.push(class);
            out.extend(total.to_be_bytes());
            out.extend(self.identifier.to_be_bytes());
            out.extend(((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
            out.extend([64, self.protocol, 0, 0]);
            out.extend(octets(self.source));
            out.extend(octets(self.destination));
            out.extend(vec![1; self.ip_options]);
            let sum = checksum(&[&out]);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let mut next = self.protocol;
            let mut extensions = Vec::new();
            if self.fragment.is_some() {
                extensions.extend([next, 0]);
                extensions.extend((offset & !7 | u16::from(more)).to_be_bytes());
                extensions.extend(u32::from(self.identifier).to_be_bytes());
                next = 44;
            }
            if self.ip_options > 0 {
                let mut options = vec![next, (self.ip_options / 8).saturating_sub(1) as u8];
                options.resize(self.ip_options.max(8), 0);
                options.extend(extensions);
                extensions = options;
                next = 60;
            }
            out.extend((0x6000_0000 | u32::from(class) << 20).to_be_bytes());
            out.extend(((extensions.len() + upper.len()) as u16).to_be_bytes());
            out.extend([next, 64]);
            out.extend(octets(self.source));
            out.extend(octets(self.destination));
            out.extend(extensions);
        }
        out.extend(upper);
        out
    }

    /// Returns what follows the IP headers.
    fn upper(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let length = self.upper_length();
        if length > 0 {
            match self.protocol {
                TCP => {
                    out.extend(self.ports.0.to_be_bytes());
                    out.extend(self.ports.1.to_be_bytes());
                    out.extend(self.sequence.0.to_be_bytes());
                    out.extend(self.sequence.1.to_be_bytes());
                    out.push((length / 4) as u8 * 16);
                    out.push(self.flags);
                    out.extend([0x20, 0, 0, 0, 0, 0]);
                    out.extend(vec![1; self.tcp_options]);
                }
                UDP => {
                    out.extend(self.ports.0.to_be_bytes());
                    out.extend(self.ports.1.to_be_bytes());
                    out.extend(((8 + self.payload) as u16).to_be_bytes());
                    out.extend([0, 0]);
                }
                ICMP | ICMPV6 => {
                    out.extend([self.icmp.0, self.icmp.1, 0, 0]);
                    out.extend(self.identifier.to_be_bytes());
                    out.extend([0, 1]);
                }
                SCTP | DCCP => {
                    out.extend(self.ports.0.to_be_bytes());
                    out.extend(self.ports.1.to_be_bytes());
                    out.extend([0; 8]);
                }
                GRE => out.extend([0, 0, 0x08, 0]),
                _ => out.extend([0, 0, 0, 1, 0, 0, 0, 1]),
            }
        }
        let end = out.len() + self.payload;
        out.extend(self.content.iter().take(self.payload));
        out.resize(end, 0);
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            ICMP | ICMPV6 => 2,
            _ => return out,
        };
        if length > 0 {
            let mut pseudo = Vec::new();
            if self.protocol != ICMP {
                pseudo.extend(octets(self.source));
                pseudo.extend(octets(self.destination));
                pseudo.extend((out.len() as u32).to_be_bytes());
                pseudo.extend([0, 0, 0, self.protocol]);
            }
            let sum = match (checksum(&[&pseudo, &out]), self.protocol) {
                (0, UDP) => 0xffff,
                (sum, _) => sum,
            };
            out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        out
    }
}
