// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of connection tracking: the tuple of a packet and the tuple of its reply
//! (net/netfilter/nf_conntrack_core.c and the `nf_conntrack_proto_*.c` beside it).

use crate::packet::{Headers, Packet, short};
use weirgate_state::{ICMP, ICMPV6, IpVersion, TCP};

pub(crate) const UDP: u8 = 17;
const GRE: u8 = 47;
/// The protocol number of PPP in GRE (`GRE_PROTO_PPP`).
const PPP: u32 = 0x880b;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// The common properties of all packets of one direction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tuple {
    pub(crate) protocol: u8,
    source: (IpVersion, u128),
    destination: (IpVersion, u128),
    /// Port, ICMP identifier or GRE key.
    from: u32,
    /// Port, ICMP type and code, or GRE key.
    to: u32,
}

/// Pairs of ICMP request and reply types (`invmap`).
const ANSWERS: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
/// Pairs of `ICMPv6` request and reply types.
const ANSWERS_V6: [(u8, u8); 2] = [(128, 129), (139, 140)];

/// Returns the type of the reply.
fn answer(protocol: u8, kind: u8) -> Option<u8> {
    let list: &[(u8, u8)] = if protocol == ICMP {
        &ANSWERS
    } else {
        &ANSWERS_V6
    };
    list.iter().find_map(|(ask, reply)| {
        if *ask == kind {
            Some(*reply)
        } else {
            (*reply == kind).then_some(*ask)
        }
    })
}

/// Returns whether a packet of this ICMP type may begin a connection.
pub(crate) fn asks(protocol: u8, kind: u8) -> bool {
    let list: &[(u8, u8)] = if protocol == ICMP {
        &ANSWERS
    } else {
        &ANSWERS_V6
    };
    list.iter().any(|(ask, _)| *ask == kind)
}

impl Tuple {
    /// Returns the tuple of a packet.
    pub(crate) fn of(packet: &Packet, headers: &Headers) -> Option<Self> {
        let (source, destination) = packet.addresses()?;
        Self::new(
            headers.version?,
            (source, destination),
            headers.protocol,
            &packet.bytes,
            headers.transport,
        )
    }

    fn new(
        version: IpVersion,
        (source, destination): (u128, u128),
        protocol: u8,
        bytes: &[u8],
        at: usize,
    ) -> Option<Self> {
        let word = |offset| short(bytes, at + offset).map(u32::from);
        let (from, to) = match protocol {
            TCP | UDP | DCCP | SCTP | UDP_LITE => (word(0)?, word(2)?),
            ICMP | ICMPV6 => (word(4)?, word(0)?),
            GRE => {
                // Version 1 with its call id (RFC 2637); other versions have nothing
                // (`gre_pkt_to_tuple`). Only the PPTP helper knows the peer's call id, and it is
                // assumed not to run.
                match (word(0), word(2)) {
                    (Some(flags), Some(carried)) if flags & 7 == 1 && bytes.len() >= at + 8 => {
                        if carried != PPP {
                            return None;
                        }
                        (0, word(6)?)
                    }
                    _ => (0, 0),
                }
            }
            _ => (0, 0),
        };
        Some(Self {
            protocol,
            source: (version, source),
            destination: (version, destination),
            from,
            to,
        })
    }

    /// Returns the tuple of the reply; `None` if there is no reply.
    pub(crate) fn inverted(&self) -> Option<Self> {
        let (from, to) = match self.protocol {
            ICMP | ICMPV6 => {
                let kind = answer(self.protocol, (self.to >> 8) as u8)?;
                (self.from, u32::from(kind) << 8 | self.to & 0xff)
            }
            _ => (self.to, self.from),
        };
        Some(Self {
            protocol: self.protocol,
            source: self.destination,
            destination: self.source,
            from,
            to,
        })
    }

    /// Returns the ICMP type, for ICMP.
    pub(crate) fn kind(&self) -> u8 {
        (self.to >> 8) as u8
    }

    pub(crate) fn comes_from(&self) -> u128 {
        self.source.1
    }
}

/// Returns the tuple of the packet that an ICMP error quotes (`nf_conntrack_inet_error`,
/// net/netfilter/nf_conntrack_proto_icmp.c).
pub(crate) fn quoted(packet: &Packet, headers: &Headers) -> Option<Tuple> {
    let start = headers.transport + 8;
    let inner = packet.bytes.get(start..)?;
    let quoted = Packet {
        // Only its beginning is quoted.
        length: usize::MAX,
        ..Packet::whole(packet.ethertype, inner.to_vec())
    };
    let found = quoted.tracked_headers()?;
    if found.fragment != 0 {
        return None;
    }
    Tuple::of(&quoted, &found)
}
