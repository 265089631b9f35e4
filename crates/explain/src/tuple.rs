// SPDX-License-Identifier: Apache-2.0 OR MIT
//! By what connection tracking knows a connection: the tuple of a packet and
//! the tuple of its answer (net/netfilter/nf_conntrack_core.c and the
//! `nf_conntrack_proto_*.c` beside it).

use crate::packet::{Headers, Packet, short};
use weirgate_state::{ICMP, ICMPV6, IpVersion, TCP};

pub(crate) const UDP: u8 = 17;
const GRE: u8 = 47;
/// The ethertype of PPP in GRE (`GRE_PROTO_PPP`).
const PPP: u32 = 0x880b;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// What all packets of a direction have in common.
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

/// Answers of ICMP types, both ways (`invmap`).
const ANSWERS: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
/// Those of `ICMPv6`.
const ANSWERS_V6: [(u8, u8); 2] = [(128, 129), (139, 140)];

/// Of what type the answer is.
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

/// Whether a packet of this ICMP type may begin something.
pub(crate) fn asks(protocol: u8, kind: u8) -> bool {
    let list: &[(u8, u8)] = if protocol == ICMP {
        &ANSWERS
    } else {
        &ANSWERS_V6
    };
    list.iter().any(|(ask, _)| *ask == kind)
}

impl Tuple {
    /// The tuple of a packet whose transport header begins at `at`.
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
                // Version 1 with its call (RFC 2637); others have nothing
                // (`gre_pkt_to_tuple`). The call of the other end is known to
                // the PPTP helper alone, which is taken not to run.
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

    /// The tuple of the answer; none where nothing is answered.
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

    /// The ICMP type, of ICMP.
    pub(crate) fn kind(&self) -> u8 {
        (self.to >> 8) as u8
    }

    pub(crate) fn comes_from(&self) -> u128 {
        self.source.1
    }
}

/// The tuple of the packet that an ICMP error is about, as it stands there
/// (`nf_conntrack_inet_error`, net/netfilter/nf_conntrack_proto_icmp.c).
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
