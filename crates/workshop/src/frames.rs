// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the packets of a capture to a discipline's input. This module uses nothing else of this
//! crate, because fuzzing includes it too (`fuzz/src/capture.rs`).

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::io::BufRead;
use std::time::Duration;
use weirgate_aqm::Packet;
use weirgate_units::fnv1a_32;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A packet of a capture.
struct Frame<'a> {
    link: DataLink,
    time: Duration,
    /// Its length in bytes; `data` may be shorter.
    len: u32,
    data: &'a [u8],
}

/// Passes the packets of a capture (pcap or pcapng) to `take` as a discipline's input, until `take`
/// returns that it has enough. An error describes the mistake in the capture.
pub fn each(mut file: impl BufRead, mut take: impl FnMut(&Packet) -> bool) -> Result<(), String> {
    let begin = file.fill_buf().map_err(worded)?;
    // A section header block's type (draft-ietf-opsawg-pcapng, section 4.1).
    if !begin.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapReader::new(file).map_err(worded)?;
        let link = reader.header().datalink;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.map_err(worded)?;
            let frame = Frame {
                link,
                time: packet.timestamp(),
                len: packet.orig_len(),
                data: packet.data(),
            };
            if !take(&frame.packet()?) {
                break;
            }
        }
        return Ok(());
    }
    let mut reader = PcapNgReader::new(file).map_err(worded)?;
    let mut links: Vec<DataLink> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(worded)?.0 {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let link = links.get(packet.interface_id as usize).copied();
                let link = link.ok_or("a packet names an interface that is not there")?;
                let frame = Frame {
                    link,
                    time: packet.timestamp,
                    len: packet.original_len,
                    data: &packet.data,
                };
                if !take(&frame.packet()?) {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn worded(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Frame<'_> {
    /// Returns the discipline's input for this packet.
    fn packet(&self) -> Result<Packet, String> {
        let (header, counted) = match self.link {
            DataLink::ETHERNET => (ETHERNET, 0),
            // Packets without a link header are counted as on an Ethernet device.
            DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => (0, ETHERNET as u32),
            other => {
                return Err(format!(
                    "its packets are {other:?}; Ethernet and raw IP can be read"
                ));
            }
        };
        let (flow, ecn) = facts(ip_header(self.data, header));
        let len = self.len.saturating_add(counted);
        Ok(Packet {
            arrived_ns: u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX / 4),
            len,
            wire: len,
            flow,
            ecn,
        })
    }
}

/// Returns the bytes after the link's header and up to two VLAN tags.
fn ip_header(data: &[u8], header: usize) -> &[u8] {
    let mut at = header;
    if header == ETHERNET {
        while let Some([0x81 | 0x88, 0x00 | 0xa8]) = data.get(at - 2..at) {
            at += 4;
        }
    }
    data.get(at..).unwrap_or_default()
}

/// Returns a hash of addresses, protocol and ports, and the ECN bits; zeros if it is not an IP
/// packet.
fn facts(ip: &[u8]) -> (u32, u32) {
    let byte = |at: usize| ip.get(at).copied().unwrap_or_default();
    let (addresses, protocol, ports, ecn) = match byte(0) >> 4 {
        4 => {
            let length = usize::from(byte(0) & 15) * 4;
            // Only the first fragment has ports.
            let first = u16::from_be_bytes([byte(6), byte(7)]) << 3 == 0;
            (
                12..20,
                byte(9),
                if first { length } else { ip.len() },
                byte(1) & 3,
            )
        }
        6 => (8..40, byte(6), 40, byte(1) >> 4 & 3),
        _ => return (0, 0),
    };
    let ports = match protocol {
        6 | 17 | 132 | 136 => ip.get(ports..ports + 4).unwrap_or_default(),
        _ => &[],
    };
    let hashed = [ip.get(addresses).unwrap_or_default(), &[protocol], ports];
    (fnv1a_32(hashed.concat()), u32::from(ecn))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: u8, ecn: u8) -> Vec<u8> {
        let mut ip = vec![0; 24];
        ip[0] = 0x45;
        ip[1] = ecn;
        ip[9] = 6;
        ip[15] = source;
        ip
    }

    #[test]
    fn flows_and_marks_are_told_apart() {
        assert_ne!(facts(&packet(1, 0)).0, facts(&packet(2, 0)).0);
        assert_eq!(facts(&packet(1, 0)).0, facts(&packet(1, 2)).0);
        assert_eq!(facts(&packet(1, 3)).1, 3);
        assert_eq!(facts(b"\x10 ARP is no IP"), (0, 0));
        for end in 0..24 {
            let _ = facts(&packet(1, 0)[..end]);
        }
    }

    #[test]
    fn tags_are_stepped_over() {
        let mut frame = vec![0; 12];
        frame.extend([0x81, 0, 0, 7, 0x08, 0x00]);
        frame.extend(packet(1, 2));
        assert_eq!(facts(ip_header(&frame, ETHERNET)), facts(&packet(1, 2)));
    }
}
