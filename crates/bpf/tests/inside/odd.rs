// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that are right and unusual, at the programs for what arrives: padded
//! frames, several segments made one packet, also beyond what the length field
//! can say, and segments that pretend to belong to a connection.

use super::filter::setup;
use super::window::{ACK, SCALE_7, SYN, Segment, control, edge, handshake, window};
use weirgate_aqm::{Link, Record};
use weirgate_bpf::{Filter, WindowControl};
use weirgate_state::Windows;
use weirgate_units::Size;

const PORT: u16 = 1_001;

/// An acknowledgement of a connection, of nothing else.
fn acknowledgement(version: u8, ack: u32) -> Segment<'static> {
    Segment {
        version,
        port: PORT,
        out: true,
        flags: ACK,
        seq: 1,
        ack,
        window: 60_000,
        options: &[],
        payload: 0,
    }
}

/// A connection held to a window of 4000 bytes, scaled by 7, that has received.
fn held(version: u8) -> WindowControl {
    let control = control(&Windows {
        fixed: Size::bytes(4_000),
        ..edge(1_000_000)
    });
    handshake(&control, version, PORT, &SCALE_7, &SCALE_7);
    received(&control, version);
    control
}

fn received(control: &WindowControl, version: u8) {
    let data = Segment {
        out: false,
        payload: 1_448,
        ..acknowledgement(version, 1)
    };
    control.run(true, &data.frame()).expect("a run");
}

/// The window that an acknowledgement is given.
fn offered(control: &WindowControl, version: u8, ack: u32) -> u16 {
    let segment = acknowledgement(version, ack);
    let frame = segment.frame();
    window(
        &segment,
        &frame,
        &control.run(false, &frame).expect("a run"),
    )
}

/// On a bridge a frame that was too short for Ethernet arrives and leaves with
/// bytes behind the packet.
#[test]
#[ignore = "runs in the lab's kernel"]
fn padded() {
    for version in [4, 6] {
        let control = held(version);
        let segment = acknowledgement(version, 5_000);
        for (padding, byte) in [(1, 0), (6, 0), (46, 0xa5)] {
            let short = segment.frame();
            let mut frame = short.clone();
            frame.resize(short.len() + padding, byte);
            let after = control.run(false, &frame).expect("a run");
            let (packet, rest) = after.split_at(short.len());
            assert_eq!(window(&segment, &short, packet), 4_000_u16.div_ceil(128));
            assert!(rest.iter().all(|one| *one == byte));
        }
    }
}

/// A packet that many segments were made of is as long as it is, also where its
/// length says 0 because it is more than that can say.
#[test]
#[ignore = "runs in the lab's kernel"]
fn merged_segments_are_received() {
    for version in [4, 6] {
        let control = held(version);
        let data = Segment {
            out: false,
            payload: 1_200,
            ..acknowledgement(version, 1)
        };
        let mut frame = data.frame();
        let length_at = if version == 4 { 16 } else { 18 };
        frame[length_at..length_at + 2].fill(0);
        let after = control.run_merged(true, &frame, (3, 400)).expect("a run");
        assert_eq!(after, frame);
        let all = control.maps().expect("maps").connections().expect("a map");
        assert_eq!(all[0].bytes, 1_448 + 1_200);
    }
}

/// What the virtual queue counts for several segments is what they were on the
/// line: each with headers of its own, as long as theirs are.
#[test]
#[ignore = "runs in the lab's kernel"]
fn merged_segments_cost_what_they_did() {
    const TIMES: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut wanted = setup(1_000_000, &[]);
    // ATM cells, where twelve bytes more may be a cell more.
    wanted.link = Link {
        overhead_bytes: 18,
        framing: 1,
        ..wanted.link
    };
    let filter = Filter::load_recording(&wanted, 7).unwrap_or_else(|error| panic!("{error}"));
    for (version, network) in [(4, 20), (6, 40)] {
        for payload in 380..440 {
            let cases = [
                (options_frame(version, &TIMES, 2 * payload + 100), 32),
                (options_frame(version, &[], 2 * payload + 100), 20),
                (
                    super::filter::frame(version, 17, 0, 5, 2 * payload + 100),
                    8,
                ),
            ];
            for (frame, transport) in cases {
                let merged = (3, payload as u32);
                filter.run_merged(&frame, merged).expect("a run");
                let mut wire = 0;
                let take = |bytes: &[u8]| wire = Record::from_bytes(bytes).expect("a record").wire;
                filter.recorded(take).expect("records");
                let each = |payload: usize| {
                    wanted
                        .link
                        .wire_bytes((14 + network + transport + payload) as u32)
                };
                assert_eq!(
                    wire,
                    2 * each(payload) + each(100),
                    "IPv{version}, header {transport}, {payload} bytes"
                );
            }
        }
    }
}

fn options_frame(version: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let segment = Segment {
        out: false,
        options,
        payload,
        ..acknowledgement(version, 1)
    };
    segment.frame()
}

/// Anybody can send a SYN with the ports of a connection: it stays what it is,
/// until the side here agrees to another one.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_syn_from_outside_frees_nobody() {
    for version in [4, 6] {
        let control = held(version);
        assert_eq!(offered(&control, version, 5_000), 32);
        let syn = Segment {
            out: false,
            flags: SYN,
            ack: 0,
            options: &[2, 4, 5, 0xb4],
            ..acknowledgement(version, 0)
        };
        control.run(true, &syn.frame()).expect("a run");
        received(&control, version);
        assert_eq!(offered(&control, version, 12_000), 32, "still held");
        // Nor does one from inside that nobody has answered.
        let own = Segment {
            out: true,
            seq: 900,
            ..syn
        };
        control.run(false, &own.frame()).expect("a run");
        received(&control, version);
        assert_eq!(offered(&control, version, 19_000), 32, "still held");
        // Another connection of these ports: it is agreed to, without scaling.
        control.run(true, &syn.frame()).expect("a run");
        let agreed = Segment {
            flags: SYN | ACK,
            ..own
        };
        control.run(false, &agreed.frame()).expect("a run");
        received(&control, version);
        assert_eq!(offered(&control, version, 26_000), 32, "not acknowledged");
        let data = Segment {
            out: false,
            payload: 1_448,
            ..acknowledgement(version, 901)
        };
        control.run(true, &data.frame()).expect("a run");
        assert_eq!(offered(&control, version, 1_000), 4_000, "another one");
        let all = control.maps().expect("maps").connections().expect("a map");
        assert_eq!((all.len(), all[0].bytes), (1, 1_448));
    }
}

/// The answer to a SYN may wait on its way here until the SYN is sent again, which
/// need not be answered then: the connection stays known. Another one of these ports
/// is answered, and is another one.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_syn_sent_again_frees_nobody() {
    for version in [4, 6] {
        let control = control(&Windows {
            fixed: Size::bytes(4_000),
            ..edge(1_000_000)
        });
        handshake(&control, version, PORT, &SCALE_7, &SCALE_7);
        let again = Segment {
            flags: SYN,
            ack: 0,
            options: &SCALE_7,
            ..acknowledgement(version, 0)
        };
        control.run(false, &again.frame()).expect("a run");
        offered(&control, version, 1);
        received(&control, version);
        assert_eq!(offered(&control, version, 1_449), 32, "held");
        let control = held(version);
        let syn = Segment {
            seq: 900,
            options: &[],
            ..again
        };
        control.run(false, &syn.frame()).expect("a run");
        let answer = Segment {
            out: false,
            flags: SYN | ACK,
            ack: 901,
            ..syn
        };
        control.run(true, &answer.frame()).expect("a run");
        received(&control, version);
        assert_eq!(offered(&control, version, 1_449), 4_000, "another one");
    }
}
