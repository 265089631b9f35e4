// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads captures: pcap and pcapng files as packets with their times. The formats are read by the
//! crate `pcap-file`; the contents of frames are decoded here.
//!
//! A mistake in a file ends the reading, and the packets before it are returned. No file can do
//! more harm.

use crate::packet::{IPV4, IPV6, PPP_IPV4, PPP_IPV6, Packet, number, short};
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use weirgate_state::{PPPOE_SESSION, SESSION_HEADER};
use weirgate_units::Direction;

/// The maximum number of packets that are read from a file.
pub const MOST_CAPTURED: usize = 1_000_000;

/// A packet of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Its direction, if the file gives one.
    pub direction: Option<Direction>,
    /// The contents of its frame.
    pub carried: Carried,
}

/// The contents of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// The IP packet; `None` if it is not IP.
    pub packet: Option<Packet>,
    /// The headers between Ethernet and IP, into which rules on this device would not look: VLAN
    /// tags, PPPoE.
    pub inside: Vec<&'static str>,
    /// The packet as rules on a bridge see it: behind one VLAN tag, and within a PPPoE session of
    /// any contents; `None` for other frames.
    pub bridged: Option<Packet>,
}

/// A capture that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capture {
    /// Its packets, in the order of the file.
    pub packets: Vec<Captured>,
    /// The mistake that ended the reading before the end of the file.
    pub trouble: Option<String>,
}

/// Returns whether a file begins like a capture.
#[must_use]
pub fn is_capture(bytes: &[u8]) -> bool {
    let magic = bytes.get(..4).map(number);
    matches!(
        magic,
        Some(0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0x0a0d_0d0a)
    )
}

/// Reads a capture, pcap or pcapng.
#[must_use]
pub fn read_capture(bytes: &[u8]) -> Capture {
    let mut capture = Capture::default();
    let end = if bytes.first() == Some(&0x0a) {
        read_pcapng(bytes, &mut capture.packets)
    } else {
        read_pcap(bytes, &mut capture.packets)
    };
    capture.trouble = end.err();
    capture
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const TOO_MANY: &str = "it has more packets than are read";

fn read_pcap(bytes: &[u8], out: &mut Vec<Captured>) -> Result<(), String> {
    let mut reader = PcapReader::new(bytes).map_err(|error| error.to_string())?;
    let link = reader.header().datalink;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|error| error.to_string())?;
        if out.len() >= MOST_CAPTURED {
            return Err(TOO_MANY.to_owned());
        }
        out.push(Captured {
            number: out.len() + 1,
            time: nanoseconds(packet.timestamp()),
            direction: None,
            carried: decode(link, packet.data(), packet.orig_len() as usize),
        });
    }
    Ok(())
}

/// Returns the direction that an interface's name gives, as in the laboratory's captures.
fn direction_of(name: &str) -> Option<Direction> {
    match name {
        "up" => Some(Direction::Up),
        "down" => Some(Direction::Down),
        _ => None,
    }
}

fn read_pcapng(bytes: &[u8], out: &mut Vec<Captured>) -> Result<(), String> {
    let mut reader = PcapNgReader::new(bytes).map_err(|error| error.to_string())?;
    let mut links: Vec<(DataLink, Option<Direction>)> = Vec::new();
    while let Some(block) = reader.next_block() {
        let (block, _) = block.map_err(|error| error.to_string())?;
        match block {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => {
                let name = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => direction_of(name),
                    _ => None,
                });
                links.push((interface.linktype, name));
            }
            Block::EnhancedPacket(packet) => {
                if out.len() >= MOST_CAPTURED {
                    return Err(TOO_MANY.to_owned());
                }
                let known = links.get(packet.interface_id as usize).copied();
                let (link, direction) =
                    known.ok_or("a packet names an interface that is not there")?;
                out.push(Captured {
                    number: out.len() + 1,
                    time: nanoseconds(packet.timestamp),
                    direction,
                    carried: decode(link, &packet.data, packet.original_len as usize),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Decodes a frame: an IP packet, and the headers before it.
fn decode(link: DataLink, bytes: &[u8], length: usize) -> Carried {
    let mut carried = Carried::default();
    let mut mac = None;
    // The offset of the network header, and its ethertype.
    let start = match link {
        DataLink::ETHERNET => {
            mac = bytes.get(6..12).map(|mac| number(mac) as u64);
            short(bytes, 12).map(|kind| (14, kind))
        }
        DataLink::LINUX_SLL => short(bytes, 14).map(|kind| (16, kind)),
        DataLink::LINUX_SLL2 => short(bytes, 0).map(|kind| (20, kind)),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => {
            bytes.first().and_then(|first| match first >> 4 {
                4 => Some((0, IPV4)),
                6 => Some((0, IPV6)),
                _ => None,
            })
        }
        _ => None,
    };
    let Some((mut at, mut kind)) = start else {
        return carried;
    };
    let packet = |kind: u16, at: usize| {
        let rest = bytes.get(at..)?;
        Some(Packet {
            length: length.saturating_sub(at).max(rest.len()),
            source_mac: mac,
            ..Packet::whole(kind, rest.to_vec())
        })
    };
    // VLAN tags and PPPoE, as many as there are.
    loop {
        let seen = carried.inside.is_empty() || carried.inside == ["VLAN"];
        match kind {
            0x8100 | 0x88a8 => {
                carried.inside.push("VLAN");
                match short(bytes, at + 2) {
                    Some(next) => kind = next,
                    None => return carried,
                }
                at += 4;
            }
            PPPOE_SESSION => {
                if seen {
                    carried.bridged = packet(kind, at);
                }
                carried.inside.push("PPPoE");
                // RFC 1661: the protocol numbers of IPv4 and IPv6.
                kind = match short(bytes, at + 6) {
                    Some(PPP_IPV4) => IPV4,
                    Some(PPP_IPV6) => IPV6,
                    _ => return carried,
                };
                at += SESSION_HEADER;
            }
            IPV4 | IPV6 => {
                carried.packet = packet(kind, at);
                if seen {
                    carried.bridged.clone_from(&carried.packet);
                }
                return carried;
            }
            _ => return carried,
        }
    }
}
