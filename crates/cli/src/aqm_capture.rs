// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm record --capture`: packets of a capture as a recording.

use crate::aqm::wrong;
use crate::aqm_replay::unreadable;
use crate::exit::{Failure, Outcome, Status};
use crate::output;
use anyhow::Context;
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;
use weirgate_aqm::{About, Packet, Record, Writer};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// `weirgate aqm record --capture`.
pub fn record(capture: &Path, path: &Path) -> Outcome {
    let file = File::open(capture).map_err(|error| unreadable(capture, &error))?;
    // Beside its place, so that a capture that breaks off leaves nothing.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let whole = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| path.display().to_string())?;
    let mut out = BufWriter::new(whole);
    let mut writer = Writer::default();
    out.write_all(&writer.begin(&About {
        device: capture.display().to_string(),
        ..About::default()
    }))?;
    let mut count = 0_u32;
    each(capture, BufReader::new(file), |frame| {
        let record = Record::of_packet(&packet(&frame, capture)?, 0, count);
        out.write_all(&writer.record(&record.to_bytes()))?;
        count = count.wrapping_add(1);
        Ok(())
    })?;
    out.write_all(&writer.end())?;
    let whole = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    whole
        .persist(path)
        .with_context(|| path.display().to_string())?;
    output::data(&format!("{}: {count} packets", path.display()))?;
    Ok(Status::Done)
}

/// A packet of a capture.
struct Frame<'a> {
    link: DataLink,
    time: Duration,
    /// Bytes that it had; `data` may be fewer.
    len: u32,
    data: &'a [u8],
}

/// Goes through a capture's packets, pcap or pcapng.
fn each(
    capture: &Path,
    mut file: BufReader<File>,
    mut take: impl FnMut(Frame<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begin = file
        .fill_buf()
        .map_err(|error| unreadable(capture, &error))?;
    // A section header block's type (draft-ietf-opsawg-pcapng, section 4.1).
    if !begin.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapReader::new(file).map_err(|error| unreadable(capture, &error))?;
        let link = reader.header().datalink;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.map_err(|error| unreadable(capture, &error))?;
            take(Frame {
                link,
                time: packet.timestamp(),
                len: packet.orig_len(),
                data: packet.data(),
            })?;
        }
        return Ok(());
    }
    let mut reader = PcapNgReader::new(file).map_err(|error| unreadable(capture, &error))?;
    let mut links: Vec<DataLink> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(|error| unreadable(capture, &error))?.0 {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let link = links.get(packet.interface_id as usize).copied();
                let link = link.ok_or_else(|| {
                    let message = "a packet names an interface that is not there";
                    unreadable(capture, &message)
                })?;
                take(Frame {
                    link,
                    time: packet.timestamp,
                    len: packet.original_len,
                    data: &packet.data,
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a discipline is told of a frame.
fn packet(frame: &Frame<'_>, capture: &Path) -> Result<Packet, Failure> {
    let (header, counted) = match frame.link {
        DataLink::ETHERNET => (ETHERNET, 0),
        // Packets without a header are counted as on an Ethernet device.
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => (0, ETHERNET as u32),
        other => {
            return Err(wrong(format!(
                "{}: its packets are {other:?}; Ethernet and raw IP can be read",
                capture.display()
            )));
        }
    };
    let (flow, ecn) = facts(ip_header(frame.data, header));
    let len = frame.len.saturating_add(counted);
    Ok(Packet {
        arrived_ns: u64::try_from(frame.time.as_nanos()).unwrap_or(u64::MAX / 4),
        len,
        wire: len,
        flow,
        ecn,
    })
}

/// What follows the link's header and up to two VLAN tags.
fn ip_header(data: &[u8], header: usize) -> &[u8] {
    let mut at = header;
    if header == ETHERNET {
        while let Some([0x81 | 0x88, 0x00 | 0xa8]) = data.get(at - 2..at) {
            at += 4;
        }
    }
    data.get(at..).unwrap_or_default()
}

/// A hash of addresses, protocol and ports, and the ECN bits; zeros for what
/// is no IP packet.
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
    // FNV-1a (Fowler, Noll, Vo).
    let hash = hashed
        .concat()
        .into_iter()
        .fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
    (hash, u32::from(ecn))
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
