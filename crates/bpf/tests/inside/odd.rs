// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the programs for arriving packets with valid but unusual packets: padded frames, GSO
//! packets, also longer than the length field can express, and segments that pretend to belong to a
//! connection.

use super::filter::setup;
use super::window::{ACK, SCALE_7, SYN, Segment, control, edge, handshake, window};
use weirgate_aqm::{Link, Record};
use weirgate_bpf::{Filter, WindowControl};
use weirgate_state::Windows;
use weirgate_units::Size;

const PORT: u16 = 1_001;

/// Returns a pure acknowledgement of a connection.
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

/// Returns a connection with a window of 4000 bytes, scaled by 7, that has received data.
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

/// Returns the window that the program writes into an acknowledgement.
fn offered(control: &WindowControl, version: u8, ack: u32) -> u16 {
    let segment = acknowledgement(version, ack);
    let frame = segment.frame();
    window(
        &segment,
        &frame,
        &control.run(false, &frame).expect("a run"),
    )
}

/// On a bridge, a frame that was too short for Ethernet arrives and leaves with padding after the
/// packet.
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

/// The length of a GSO packet is its actual length, also if its length field is 0 because the
/// length exceeds it.
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

/// The virtual queue counts a GSO packet as the segments that were on the line: each with its own
/// headers.
#[test]
#[ignore = "runs in the lab's kernel"]
fn merged_segments_cost_what_they_did() {
    const TIMES: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut wanted = setup(1_000_000, &[]);
    // ATM cells, where twelve more bytes may cost one more cell.
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

/// Anybody can send a SYN with the ports of a connection: the connection is unchanged until this
/// side accepts another one.
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
        // Nor does an unanswered SYN from inside change it.
        let own = Segment {
            out: true,
            seq: 900,
            ..syn
        };
        control.run(false, &own.frame()).expect("a run");
        received(&control, version);
        assert_eq!(offered(&control, version, 19_000), 32, "still held");
        // Another connection with these ports: it is accepted, without scaling.
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

/// The answer to a SYN may be delayed until the SYN was retransmitted, which may then remain
/// unanswered: the connection stays known. Another SYN of these ports that is answered is another
/// connection.
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
