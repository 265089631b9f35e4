// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of malformed texts, captures and frames.

use crate::{
    Devices, Direction, Mistake, Packet, PacketTime, Simulator, is_capture, parse_line,
    read_capture,
};
use proptest::prelude::*;
use weirgate_state::DeviceName;

fn mistakes(text: &str) -> Vec<Mistake> {
    match parse_line(text) {
        Err(mistakes) => mistakes,
        Ok(line) => panic!("{text}: {line:?}"),
    }
}

#[test]
fn a_line_says_what_it_means() {
    let text =
        "+20ms down udp [2001:db8::1]:53 > [2001:db8::2]:9 dscp EF len 100 x 3 every 1s => a";
    let line = parse_line(text).unwrap().unwrap();
    assert_eq!(line.when, Some(PacketTime::After(20_000_000)));
    assert_eq!(line.direction, Some(Direction::Down));
    assert_eq!(line.repeat, (3, 1_000_000_000));
    assert_eq!(line.expected.as_deref(), Some("a"));
    assert_eq!(line.packet.length, 100);
    assert_eq!(line.packet.dscp(), Some(46));
    assert_eq!(parse_line("  # nothing").unwrap(), None);
}

#[test]
fn a_packet_of_many_segments_is_as_long_as_it_is() {
    for (text, field) in [
        ("tcp 192.0.2.1:1 > 192.0.2.2:2 len 100", 2),
        ("tcp [2001:db8::1]:1 > [2001:db8::2]:2 len 100", 4),
    ] {
        let mut packet = parse_line(text).unwrap().unwrap().packet;
        packet.bytes[field..field + 2].fill(0);
        packet.length = 70_000;
        assert_eq!(packet.ip_length(), 70_000, "{text}");
        assert!(packet.headers().version.is_some(), "{text}");
    }
}

#[test]
fn every_mistake_of_a_line_has_its_place() {
    let found = mistakes("tcp 192.0.2.1 > 192.0.2.2:99999 dscp ZZ x 0");
    let columns: Vec<usize> = found.iter().map(|one| one.column).collect();
    assert_eq!(columns, [5, 17, 38, 43], "{found:?}");
    assert_eq!(found[0].wrong, "`192.0.2.1` has no port");
    let found = mistakes("udp 192.0.2.1:1 > [::1]:2");
    assert!(
        found[0].wrong.contains("different IP versions"),
        "{found:?}"
    );
    assert_eq!(mistakes("tcp")[0].column, 4);
    let found = mistakes("tcp 192.0.2.1:1 > 192.0.2.2:2 len 39");
    assert!(found[0].wrong.contains("40 bytes"), "{found:?}");
    let found = mistakes("udp 192.0.2.1:1 > 192.0.2.2:2 paylod 5");
    assert!(found[0].right.contains("payload"), "{found:?}");
}

/// Returns a capture of one Ethernet frame: the captured bytes, and the original length.
fn pcap(frame: &[u8], stated: u32) -> Vec<u8> {
    let mut out = 0xa1b2_c3d4_u32.to_be_bytes().to_vec();
    out.extend([
        0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1,
    ]);
    out.extend([0, 0, 0, 1, 0, 0, 0, 2]);
    out.extend((frame.len() as u32).to_be_bytes());
    out.extend(stated.to_be_bytes());
    out.extend(frame);
    out
}

fn frame() -> Vec<u8> {
    let line = parse_line("udp 192.0.2.1:1 > 192.0.2.2:2 payload 50").unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend(line.unwrap().packet.bytes);
    frame
}

#[test]
fn a_frame_that_was_cut_off_keeps_its_length() {
    let frame = frame();
    let file = pcap(&frame[..40], frame.len() as u32);
    assert!(is_capture(&file));
    let capture = read_capture(&file);
    assert_eq!(capture.trouble, None);
    let packet = capture.packets[0].carried.packet.as_ref().unwrap();
    assert_eq!((packet.bytes.len(), packet.length), (26, 78));
    assert_eq!(packet.source_mac, Some(0x0200_0000_0002));
    assert_eq!(capture.packets[0].time, 1_000_002_000);
}

#[test]
fn a_tag_is_looked_behind_and_reported() {
    let mut frame = frame();
    frame.splice(12..12, [0x81, 0, 0, 7]);
    let capture = read_capture(&pcap(&frame, frame.len() as u32));
    assert_eq!(capture.packets[0].carried.inside, ["VLAN"]);
    assert!(capture.packets[0].carried.packet.is_some());
}

#[test]
fn a_session_is_looked_behind_and_kept() {
    let mut frame = frame();
    let control = [
        &frame[..12],
        &[0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0xc0, 0x21, 9, 1],
    ]
    .concat();
    frame.splice(
        12..14,
        [0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 1, 0, 80, 0, 0x21],
    );
    let carried = |frame: &[u8]| {
        let capture = read_capture(&pcap(frame, frame.len() as u32));
        capture.packets[0].carried.clone()
    };
    let whole = carried(&frame);
    assert_eq!(whole.inside, ["VLAN", "PPPoE"]);
    let session = whole.bridged.unwrap();
    assert_eq!(session.carried(), whole.packet);
    assert_eq!(session.carried().unwrap().in_session(), session);
    let control = carried(&control);
    assert_eq!(control.packet, None);
    let control = control.bridged.unwrap();
    assert_eq!((control.ethertype, control.carried()), (0x8864, None));
    // Rules see nothing behind a second tag.
    frame.splice(12..12, [0x88, 0xa8, 0, 9]);
    assert_eq!(carried(&frame).bridged, None);
}

#[test]
fn a_file_that_ends_early_keeps_what_came_before() {
    let whole = pcap(&frame(), 92);
    let mut file = whole.clone();
    file.extend(&whole[24..60]);
    let capture = read_capture(&file);
    assert_eq!(capture.packets.len(), 1);
    assert!(capture.trouble.is_some());
    for end in 0..whole.len() {
        assert!(read_capture(&whole[..end]).packets.is_empty());
    }
    // A length that no file has.
    let mut hostile = whole;
    hostile[32..36].fill(0xff);
    let capture = read_capture(&hostile);
    assert!(capture.packets.is_empty() && capture.trouble.is_some());
}

fn pass(packet: Packet) -> crate::Fate {
    let path = Devices {
        arrives: DeviceName::new("lan"),
        leaves: DeviceName::new("wan"),
    };
    Simulator::new(&[]).tracking().pass(packet, &path, 0, None)
}

#[test]
fn headers_that_are_cut_off_are_no_ip() {
    let whole = frame().split_off(14);
    for end in 0..whole.len() {
        let packet = Packet::whole(0x0800, whole[..end].to_vec());
        assert_eq!(packet.headers().version, None, "{end}");
        assert_eq!(pass(packet).connection, None);
    }
    assert!(pass(Packet::whole(0x0800, whole)).connection.is_some());
}

/// Connection tracking sees packets to the router itself, though no chain does.
#[test]
fn what_the_router_itself_gets_is_tracked() {
    let mut simulator = Simulator::new(&[]).tracking();
    let packet = |text: &str| parse_line(text).unwrap().unwrap().packet;
    let wan = DeviceName::new("wan");
    let asked = packet("udp 198.51.100.7:5 > 203.0.113.6:53");
    let sends = Devices {
        arrives: None,
        leaves: wan.clone(),
    };
    let gets = Devices {
        arrives: wan,
        leaves: None,
    };
    let first = simulator.pass(asked.clone(), &sends, 0, None);
    let answer = packet("udp 203.0.113.6:53 > 198.51.100.7:5");
    let answer = simulator.pass(answer, &gets, 1, None);
    let again = simulator.pass(asked, &sends, 2, None);
    let states = [first, answer, again].map(|fate| fate.connection.unwrap().state);
    assert_eq!(states, [crate::NEW, crate::ESTABLISHED, crate::ESTABLISHED]);
}

proptest! {
    #[test]
    fn no_bytes_end_the_program(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        version in prop::sample::select(&[0x0800_u16, 0x86dd][..]),
    ) {
        let _ = read_capture(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = if version == 0x0800 { 0x40 | *first & 0xf } else { 0x60 };
        }
        pass(Packet::whole(version, bytes));
    }

    #[test]
    fn mistakes_are_within_the_line(text in "[a-z0-9.:>@+=# \\[\\]]{0,60}") {
        if let Err(mistakes) = parse_line(&text) {
            prop_assert!(!mistakes.is_empty());
            for one in mistakes {
                prop_assert!(one.column >= 1 && one.column <= text.chars().count() + 1);
                prop_assert!(!one.wrong.is_empty() && !one.right.is_empty());
            }
        }
    }
}
