// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording's capture as a pcapng file (draft-ietf-opsawg-pcapng).
//!
//! The file has two interfaces, one for each direction. A packet's time is its arrival at the
//! line's queue, and its comment says whether it was sent or dropped. Time stamps are nanoseconds
//! since the start of traffic; readers show them as 1 January 1970. The crate `pcap-file` writes
//! the format.

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;
use thiserror::Error;
use weirgate_experiment::{Direction, Fate, LinePacket, Recording};

/// Bytes of an Ethernet header, which the line's lengths do not include.
const ETHERNET: u32 = 14;

/// The interfaces: the device from which packets come, and its description.
const INTERFACES: [(Direction, &str, &str); 2] = [
    (
        Direction::Up,
        "up",
        "from the gateway's device wan to the modem's queue",
    ),
    (
        Direction::Down,
        "down",
        "from the provider's device line to the exchange's queue",
    ),
];

/// The error of a recording whose values the format cannot hold.
#[derive(Debug, Error)]
#[error("the capture cannot be written: {0}")]
pub struct CaptureError(#[from] PcapNgWriteError);

/// Returns the capture as the bytes of a file; `None` if none was requested.
///
/// Packets for which the capture had no room are counted in its comment and in
/// the interfaces' statistics.
pub fn pcapng(recording: &Recording) -> Result<Option<Vec<u8>>, CaptureError> {
    let capture = &recording.capture;
    if capture.snap_bytes == 0 {
        return Ok(None);
    }
    let mut file = PcapNgWriter::with_section_header(Vec::new(), section(recording))?;
    for (_, name, description) in INTERFACES {
        file.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: u32::from(capture.snap_bytes),
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfDescription(description.into()),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ],
        })?;
    }
    let mut kept = [0; INTERFACES.len()];
    for (packet, bytes) in recording.line.iter().zip(capture.packets()) {
        let interface = interface(packet.direction);
        kept[interface] += 1;
        let length = ETHERNET + u32::from(packet.ip_bytes);
        file.write_pcapng_block(EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: Duration::from_nanos(packet.arrived_ns),
            // A frame shorter than its header has no IP bytes.
            original_len: if packet.ip_bytes == 0 {
                bytes.len() as u32
            } else {
                length.max(bytes.len() as u32)
            },
            data: Cow::Borrowed(bytes),
            options: vec![EnhancedPacketOption::Common(CommonOption::Comment(
                fate(recording, packet).into(),
            ))],
        })?;
    }
    for (interface, (direction, ..)) in INTERFACES.into_iter().enumerate() {
        let own = |packet: &&LinePacket| packet.direction == direction;
        let came = recording.line.iter().filter(own).count() as u64;
        file.write_pcapng_block(InterfaceStatisticsBlock {
            interface_id: interface as u32,
            timestamp: Duration::from_nanos(recording.duration_ns),
            options: vec![
                InterfaceStatisticsOption::IsbIfRecv(came),
                InterfaceStatisticsOption::IsbOsDrop(came - kept[interface]),
            ],
        })?;
    }
    Ok(Some(file.into_inner()))
}

fn interface(direction: Direction) -> usize {
    match direction {
        Direction::Up => 0,
        Direction::Down => 1,
    }
}

/// Returns the comment of the whole file: its contents, and what is missing.
fn section(recording: &Recording) -> SectionHeaderBlock<'static> {
    let mut comment = format!(
        "arm {}; times are virtual, since the start of traffic",
        recording.arm
    );
    let missing = recording.not_captured();
    if missing > 0 {
        let _ = write!(comment, "; the last {missing} packets found no room");
    }
    let program = concat!("weirgate ", env!("CARGO_PKG_VERSION"));
    SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![
            SectionHeaderOption::OS(recording.kernel.clone().into()),
            SectionHeaderOption::UserApplication(program.into()),
            SectionHeaderOption::Common(CommonOption::Comment(comment.into())),
        ],
        ..SectionHeaderBlock::default()
    }
}

/// Returns the comment of a packet: the backlog on arrival, and whether it was sent or dropped.
fn fate(recording: &Recording, packet: &LinePacket) -> String {
    let flow = packet
        .flow
        .and_then(|flow| recording.flows.get(usize::from(flow)));
    let mut text = flow.map_or_else(String::new, |flow| format!("{}: ", flow.name));
    let (packets, bytes) = (packet.ahead_packets, packet.ahead_bytes);
    let _ = write!(text, "{packets} packets ahead ({bytes} IP bytes); ");
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let _ = match packet.fate {
        Fate::Sent { start_ns, end_ns } => write!(
            text,
            "sent {} to {} s in {} line bytes",
            seconds(start_ns),
            seconds(end_ns),
            packet.wire_bytes
        ),
        Fate::Dropped => write!(text, "dropped"),
        Fate::Left => write!(text, "not sent by the end of the run"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use proptest::prelude::*;
    use weirgate_experiment::{Capture, FlowName};

    fn packet(direction: Direction, arrived_ns: u64, ip_bytes: u16, fate: Fate) -> LinePacket {
        LinePacket {
            direction,
            flow: None,
            arrived_ns,
            fate,
            ip_bytes,
            wire_bytes: 1_696,
            ahead_packets: 2,
            ahead_bytes: 80,
            tcp: None,
        }
    }

    /// Returns a recording of packets and as many of their frames as are given.
    fn recording(packets: &[LinePacket], frames: &[&[u8]]) -> Recording {
        let mut capture = Capture::started();
        for (number, frame) in frames.iter().enumerate() {
            capture.keep(number, frame);
        }
        Recording {
            arm: "modem-only".into(),
            duration_ns: 3_000_000_000,
            flows: vec![FlowName {
                name: "up".into(),
                instance: 0,
            }],
            line: packets.to_vec(),
            capture,
            ..Recording::default()
        }
    }

    fn blocks(file: &[u8]) -> Vec<Block<'static>> {
        let mut reader = PcapNgReader::new(file).unwrap();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block() {
            blocks.push(block.unwrap().0.into_owned());
        }
        blocks
    }

    #[test]
    fn what_is_read_back_is_what_was_recorded() {
        let sent = Fate::Sent {
            start_ns: 1_500_000_001,
            end_ns: 1_526_500_001,
        };
        let mut first = packet(Direction::Up, 1_000_000_007, 1_500, sent);
        first.flow = Some(0);
        let packets = [
            first,
            packet(Direction::Down, 1_000_000_009, 40, Fate::Dropped),
            packet(Direction::Down, 2_000_000_000, 40, Fate::Left),
        ];
        let recording = recording(&packets, &[&[7; 1_514], &[8; 54]]);
        let file = pcapng(&recording).unwrap().expect("a capture");
        let blocks = blocks(&file);
        let [
            Block::InterfaceDescription(up),
            Block::InterfaceDescription(down),
            Block::EnhancedPacket(one),
            Block::EnhancedPacket(two),
            Block::InterfaceStatistics(of_up),
            Block::InterfaceStatistics(of_down),
        ] = &blocks[..]
        else {
            panic!("{blocks:?}");
        };
        assert_eq!((up.snaplen, up.linktype), (128, DataLink::ETHERNET));
        assert!(format!("{up:?}").contains("modem") && format!("{down:?}").contains("exchange"));
        assert_eq!((one.interface_id, two.interface_id), (0, 1));
        assert_eq!(one.timestamp, Duration::from_nanos(1_000_000_007));
        assert_eq!((one.original_len, &*one.data), (1_514, &[7; 128][..]));
        assert_eq!((two.original_len, &*two.data), (54, &[8; 54][..]));
        let comment = |options: &[EnhancedPacketOption<'_>]| format!("{options:?}");
        assert!(
            comment(&one.options).contains(
                "up: 2 packets ahead (80 IP bytes); \
                 sent 1.500000001 to 1.526500001 s in 1696 line bytes"
            ),
            "{:?}",
            one.options
        );
        assert!(comment(&two.options).contains("(80 IP bytes); dropped"));
        let lost = |count| InterfaceStatisticsOption::IsbOsDrop(count);
        assert!(of_up.options.contains(&lost(0)), "{of_up:?}");
        assert!(of_down.options.contains(&lost(1)), "{of_down:?}");
        let text = String::from_utf8_lossy(&file);
        assert!(text.contains("the last 1 packets found no room"));
    }

    #[test]
    fn what_was_not_asked_for_is_no_file() {
        assert!(pcapng(&Recording::default()).unwrap().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_damaged_recording_is_written_as_far_as_it_goes(
            lines in prop::collection::vec((any::<bool>(), any::<u64>(), any::<u16>()), 0..8),
            lengths in prop::collection::vec(any::<u16>(), 0..8),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            snap_bytes in 1..u16::MAX,
        ) {
            let packets: Vec<LinePacket> = lines
                .iter()
                .map(|&(up, at, ip)| {
                    let direction = if up { Direction::Up } else { Direction::Down };
                    packet(direction, at, ip, Fate::Dropped)
                })
                .collect();
            let mut recording = recording(&packets, &[]);
            recording.capture = Capture { snap_bytes, lengths, bytes };
            let whole = recording.capture.packets().count().min(packets.len());
            let file = pcapng(&recording).unwrap().expect("a capture");
            prop_assert_eq!(blocks(&file).len(), 2 + whole + 2);
        }
    }
}
