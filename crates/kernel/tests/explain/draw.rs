// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random packets: flows between a few hosts on the ports that rules name, so that conditions match
//! about as often as not.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_explain::{Blueprint, IPV4, IPV6, Packet};
use weirgate_signatures::{Length, PATTERNS, Pattern};
use weirgate_state::IpVersion;

/// The classes of a policy, and a group of hosts and ports that packets have.
pub const CLASSES: &str = r#"[[class]]
name = "first"
share = "20%"
priority = 0
[[class]]
name = "good"
share = "20%"
[[class]]
name = "bad"
share = "20%"
[[class]]
name = "rest"
share = "20%"
default = true
[group.g]
addresses = ["192.168.0.1", "192.168.0.3", "2001:db8:1::1/128", "2001:db8:9::2/127"]
ports = [25, "8000-8010", 443]
"#;

/// A packet to send, in one part or more.
#[derive(Debug, Clone)]
pub struct Drawn {
    pub up: bool,
    pub parts: Vec<Packet>,
    /// Milliseconds to wait before sending it.
    pub pause: u64,
}

fn inside(version: IpVersion, host: u8) -> IpAddr {
    match version {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1 + host)),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::new(
            0x2001,
            0xdb8,
            1,
            0,
            0,
            0,
            0,
            u16::from(host) + 1,
        )),
    }
}

fn outside(version: IpVersion, host: u8) -> IpAddr {
    match version {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::new(203, 0, 113, 6 + host)),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::new(
            0x2001,
            0xdb8,
            9,
            0,
            0,
            0,
            0,
            u16::from(host) + 1,
        )),
    }
}

/// Two hosts and their protocol.
#[derive(Debug, Clone)]
pub struct Flow {
    version: IpVersion,
    hosts: (u8, u8),
    /// Inside port, outside port.
    ports: (u16, u16),
    protocol: u8,
    dscp: u8,
}

const PORTS: [u16; 14] = [
    22, 25, 53, 80, 443, 8005, 5005, 5001, 5060, 6881, 20, 21, 40_000, 51_820,
];

pub fn flow() -> impl Strategy<Value = Flow> {
    let version = prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)];
    let port = prop_oneof![
        3 => prop::sample::select(&PORTS[..]),
        1 => 1024_u16..1040,
    ];
    let protocol = prop_oneof![
        8 => Just(6_u8),
        6 => Just(17),
        3 => Just(1),
        1 => Just(50),
        1 => Just(47),
    ];
    let dscp = prop_oneof![
        4 => Just(0_u8),
        3 => prop::sample::select(&[46_u8, 8, 18, 1, 45, 34, 4, 2][..]),
        1 => 0_u8..64,
    ];
    (
        version,
        (0_u8..3, 0_u8..3),
        (port.clone(), port),
        protocol,
        dscp,
    )
        .prop_map(|(version, hosts, ports, protocol, dscp)| Flow {
            version,
            hosts,
            ports,
            protocol: match (protocol, version) {
                (1, IpVersion::V6) => 58,
                (other, _) => other,
            },
            dscp,
        })
}

/// An event of a flow.
#[derive(Debug, Clone)]
pub enum Event {
    /// A segment, datagram or message.
    Plain {
        up: bool,
        flags: u8,
        payload: usize,
        options: (usize, usize),
        icmp: (u8, u8),
        ecn: u8,
        /// A pattern in its payload, and how it is corrupted.
        betrays: Option<(usize, u8)>,
    },
    /// A correct TCP handshake.
    Handshake { up: bool },
    /// An ICMP error about the flow's packets in the other direction.
    Error { up: bool },
    /// A datagram in two or three parts.
    Fragments {
        up: bool,
        payload: usize,
        swapped: bool,
    },
}

const FLAGS: [u8; 12] = [
    0x02, 0x12, 0x10, 0x10, 0x10, 0x18, 0x18, 0x11, 0x14, 0x04, 0xc2, 0x00,
];

pub fn event() -> impl Strategy<Value = Event> {
    let length = prop_oneof![
        3 => Just(0_usize),
        2 => 1_usize..100,
        2 => 100_usize..700,
        1 => 700_usize..1300,
    ];
    let flags = prop_oneof![9 => prop::sample::select(&FLAGS[..]), 1 => any::<u8>()];
    let options = (
        prop_oneof![8 => Just(0_usize), 1 => Just(8)],
        prop_oneof![3 => Just(0_usize), 2 => Just(12), 1 => Just(40)],
    );
    let icmp = prop_oneof![
        4 => Just((8_u8, 0_u8)),
        3 => Just((0, 0)),
        1 => (0_u8..20, Just(0)),
    ];
    let betrays = prop::option::weighted(0.25, (0..PATTERNS.len(), 0_u8..10));
    let plain = (
        any::<bool>(),
        flags,
        length,
        options,
        icmp,
        0_u8..4,
        betrays,
    )
        .prop_map(
            |(up, flags, payload, options, icmp, ecn, betrays)| Event::Plain {
                up,
                flags,
                payload,
                options,
                icmp,
                ecn,
                betrays,
            },
        );
    prop_oneof![
        12 => plain,
        3 => any::<bool>().prop_map(|up| Event::Handshake { up }),
        1 => any::<bool>().prop_map(|up| Event::Error { up }),
        1 => (any::<bool>(), 16_usize..1200, any::<bool>())
            .prop_map(|(up, payload, swapped)| Event::Fragments { up, payload, swapped }),
    ]
}

/// Returns a payload with a pattern, of the given length where the pattern allows it. Some values
/// of `spoilt` change, remove or add a byte, or invert the first one.
fn content(pattern: &Pattern, payload: usize, spoilt: u8) -> Vec<u8> {
    let end = pattern.bytes.iter().map(|(at, bytes)| at + bytes.len());
    let end = end.max().unwrap_or_default();
    let length = match pattern.length {
        Length::Exactly(exact) => exact as usize,
        Length::Any | Length::Stated => end.max(payload),
    };
    let mut out = vec![0; length];
    if let (Length::Stated, Some(rest)) = (pattern.length, length.checked_sub(5)) {
        out[1..5].copy_from_slice(&(rest as u32).to_le_bytes());
    }
    for (at, bytes) in pattern.bytes {
        out[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    if let Some(bits) = pattern.bits {
        out[bits.place] = out[bits.place] & !bits.mask | bits.value;
    }
    match spoilt {
        0 => out[end - 1] ^= 1,
        1 => out.truncate(end - 1),
        2 => out.push(0),
        3 => out.insert(0, 0),
        4 => out[0] ^= 0xff,
        _ => {}
    }
    out
}

/// Returns the ICMP type and code in the flow's version.
fn icmp(version: IpVersion, (kind, code): (u8, u8)) -> (u8, u8) {
    match (version, kind) {
        (IpVersion::V6, 8) => (128, 0),
        (IpVersion::V6, 0) => (129, 0),
        // Excludes types that the router answers or consumes.
        (IpVersion::V6, other) => (other.min(4), code),
        (IpVersion::V4, _) => (kind, code),
    }
}

impl Flow {
    fn blueprint(&self, up: bool) -> Blueprint {
        let (a, b) = (
            inside(self.version, self.hosts.0),
            outside(self.version, self.hosts.1),
        );
        let (source, destination) = if up { (a, b) } else { (b, a) };
        let mut one = Blueprint::new(source, destination, self.protocol);
        one.ports = if up {
            self.ports
        } else {
            (self.ports.1, self.ports.0)
        };
        one.dscp = self.dscp;
        one.identifier = self.ports.0;
        one
    }

    fn packet(one: &Blueprint) -> Packet {
        let mut bytes = one.bytes();
        if one.protocol == 6 && one.flags & 2 != 0 && one.tcp_options >= 4 {
            let options = one.header_length() - one.tcp_options;
            // The maximum segment size; checksums are not checked.
            let largest = if one.dscp & 1 == 0 { 1460_u16 } else { 400 };
            bytes[options..options + 2].copy_from_slice(&[2, 4]);
            bytes[options + 2..options + 4].copy_from_slice(&largest.to_be_bytes());
        }
        let mut packet = Packet::whole(one.ethertype(), bytes);
        packet.source_mac = Some(super::router::SENDER);
        packet
    }

    /// Returns the packets of an event.
    pub fn packets(&self, event: &Event) -> Vec<Drawn> {
        let drawn = |up, parts| Drawn {
            up,
            parts,
            pause: 0,
        };
        match event {
            Event::Plain {
                up,
                flags,
                payload,
                options,
                icmp: kind,
                ecn,
                betrays,
            } => {
                let mut one = self.blueprint(*up);
                one.flags = *flags;
                one.payload = *payload;
                if let Some((pattern, spoilt)) = betrays {
                    one.content = content(&PATTERNS[*pattern], *payload, *spoilt);
                    one.payload = one.content.len();
                }
                one.ip_options = options.0;
                one.tcp_options = options.1;
                one.icmp = icmp(self.version, *kind);
                one.ecn = *ecn;
                vec![drawn(*up, vec![Self::packet(&one)])]
            }
            Event::Handshake { up } => {
                let flags = [(0x02, *up), (0x12, !*up), (0x10, *up)];
                let each = flags.map(|(flags, up)| {
                    let mut one = self.blueprint(up);
                    one.flags = flags;
                    one.icmp = icmp(self.version, if flags == 0x02 { (8, 0) } else { (0, 0) });
                    drawn(up, vec![Self::packet(&one)])
                });
                each.to_vec()
            }
            Event::Error { up } => {
                let mut quoted = self.blueprint(!*up);
                quoted.flags = 0x10;
                // At least 64 bits after the header (RFC 792).
                quoted.payload = 8;
                quoted.icmp = icmp(self.version, (8, 0));
                let mut quoted = quoted.bytes();
                quoted.truncate(120);
                let mut one = self.blueprint(*up);
                one.protocol = if self.version == IpVersion::V4 { 1 } else { 58 };
                one.icmp = if self.version == IpVersion::V4 {
                    (3, 1)
                } else {
                    (1, 0)
                };
                one.identifier = 0;
                one.payload = quoted.len();
                one.content = quoted;
                vec![drawn(*up, vec![Self::packet(&one)])]
            }
            Event::Fragments {
                up,
                payload,
                swapped,
            } => {
                let mut one = self.blueprint(*up);
                one.flags = 0x18;
                one.payload = *payload;
                one.icmp = icmp(self.version, (8, 0));
                let mut parts = split(&Self::packet(&one), self.ports.1);
                if *swapped {
                    parts.reverse();
                }
                vec![drawn(*up, parts)]
            }
        }
    }
}

/// Returns a packet in two fragments, or whole if it is too short.
pub fn split(packet: &Packet, number: u16) -> Vec<Packet> {
    let header = if packet.ethertype == IPV4 { 20 } else { 40 };
    let data = &packet.bytes[header..];
    // The first fragment always includes the upper-layer header.
    let cut = (data.len() / 2).max(64).div_ceil(8) * 8;
    if cut >= data.len() {
        return vec![packet.clone()];
    }
    let part = |from: usize, to: usize, more: bool| {
        let mut bytes = packet.bytes[..header].to_vec();
        let piece = &data[from..to];
        if packet.ethertype == IPV6 {
            let next = std::mem::replace(&mut bytes[6], 44);
            bytes[4..6].copy_from_slice(&((piece.len() + 8) as u16).to_be_bytes());
            bytes.extend([next, 0]);
            bytes.extend((from as u16 | u16::from(more)).to_be_bytes());
            bytes.extend(u32::from(number).to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&((20 + piece.len()) as u16).to_be_bytes());
            bytes[4..6].copy_from_slice(&number.to_be_bytes());
            let word = (from / 8) as u16 | u16::from(more) << 13;
            bytes[6..8].copy_from_slice(&word.to_be_bytes());
            bytes[10..12].copy_from_slice(&[0, 0]);
            let sum = weirgate_explain::checksum(&[&bytes]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        bytes.extend(piece);
        Packet {
            length: bytes.len(),
            bytes,
            ..packet.clone()
        }
    };
    vec![part(0, cut, true), part(cut, data.len(), false)]
}

/// Draws a sequence: a few flows with interleaved events.
pub fn sequence() -> impl Strategy<Value = Vec<Drawn>> {
    let flows = prop::collection::vec(flow(), 1..3);
    let events = prop::collection::vec((any::<prop::sample::Index>(), event()), 2..9);
    (flows, events, prop::num::u8::ANY).prop_map(|(flows, events, pause)| {
        let mut all: Vec<Drawn> = events
            .iter()
            .flat_map(|(which, event)| flows[which.index(flows.len())].packets(event))
            .collect();
        // Time passes in some sequences, so that token buckets refill.
        if pause < 8
            && let Some(one) = all.last_mut()
        {
            one.pause = 20 + u64::from(pause) * 15;
        }
        all
    })
}
