// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests receive-window control and the handshakes by which it learns connections.

use super::{ACK, SCALE_7, SYN, Segment, control, edge, handshake, window};
use std::time::Instant;
use weirgate_state::Windows;
use weirgate_units::Size;

/// SYNs from forged addresses, answered by an inside host or not, never evict a connection, however
/// long it was idle.
#[test]
#[ignore = "runs in the lab's kernel"]
fn forged_handshakes_evict_nobody() {
    let control = control(&Windows {
        fixed: Size::bytes(4_000),
        ..edge(1_000_000)
    });
    handshake(&control, 4, 1_001, &SCALE_7, &SCALE_7);
    let data = Segment {
        version: 4,
        port: 1_001,
        out: false,
        flags: ACK,
        seq: 1,
        ack: 2,
        window: 500,
        options: &[],
        payload: 1_448,
    };
    control.run(true, &data.frame()).expect("a run");
    let flood = |count: u32, answered: bool| {
        let syn = Segment {
            flags: SYN,
            options: &SCALE_7,
            payload: 0,
            ..data
        };
        let answer = Segment {
            out: true,
            flags: SYN | ACK,
            ..syn
        };
        let (mut syn, mut answer) = (syn.frame(), answer.frame());
        let start = Instant::now();
        for address in 0..count {
            let address = (0x0b00_0000 + address).to_be_bytes();
            syn[26..30].copy_from_slice(&address);
            control.run(true, &syn).expect("a run");
            if answered {
                answer[30..34].copy_from_slice(&address);
                control.run(false, &answer).expect("a run");
            }
        }
        println!("{count} forged SYNs in {:?}", start.elapsed());
    };
    flood(1_000_000, false);
    flood(120_000, true);
    assert_eq!(control.connections().expect("a map"), 1);
    let ack = Segment {
        out: true,
        ack: 5_000,
        window: 60_000,
        payload: 0,
        ..data
    };
    let frame = ack.frame();
    let after = control.run(false, &frame).expect("a run");
    assert_eq!(window(&ack, &frame, &after), 32, "still held");
}

/// TCP Fast Open (RFC 7413 section 3): a SYN may have data, and its answer may acknowledge all of
/// them, a part or none. The same holds for a SYN-ACK.
#[test]
#[ignore = "runs in the lab's kernel"]
fn fast_open() {
    let control = control(&Windows {
        fixed: Size::bytes(4_000),
        ..edge(1_000_000)
    });
    for (version, answers) in [(4, false), (6, false), (4, true), (6, true)] {
        for (acknowledged, known) in [(1, true), (50, true), (101, true), (102, false), (0, false)]
        {
            let open = Segment {
                version,
                port: 1_000 + acknowledged as u16 + if answers { 200 } else { 0 },
                out: true,
                flags: if answers { SYN | ACK } else { SYN },
                seq: 70_000,
                ack: 2,
                window: 60_000,
                options: &SCALE_7,
                payload: 100,
            };
            let before = control.connections().expect("a map");
            control.run(false, &open.frame()).expect("a run");
            // Sent again without data.
            let again = Segment { payload: 0, ..open };
            control.run(false, &again.frame()).expect("a run");
            let answer = Segment {
                out: false,
                flags: if answers { ACK } else { SYN | ACK },
                seq: 1,
                ack: open.seq + acknowledged,
                options: if answers { &[] } else { &SCALE_7 },
                payload: 0,
                ..open
            };
            control.run(true, &answer.frame()).expect("a run");
            let found = control.connections().expect("a map") - before;
            assert_eq!(found, usize::from(known), "{acknowledged}, {answers}");
        }
    }
}

/// A server inside: its SYN-ACK has the scaling of both ends, and only the client that has received
/// it can complete the connection.
#[test]
#[ignore = "runs in the lab's kernel"]
fn servers_are_known_once_acknowledged() {
    let plain = [2, 4, 5, 0xb4];
    for (version, options, expected) in [(4, &SCALE_7[..], 32), (6, &plain, 4_000)] {
        let control = control(&Windows {
            fixed: Size::bytes(4_000),
            ..edge(1_000_000)
        });
        let answer = Segment {
            version,
            port: 1_001,
            out: true,
            flags: SYN | ACK,
            seq: 70_000,
            ack: 2,
            window: 60_000,
            options,
            payload: 0,
        };
        let run = |segment: &Segment<'_>| {
            let frame = segment.frame();
            let after = control.run(!segment.out, &frame).expect("a run");
            window(segment, &frame, &after)
        };
        let third = |ack, flags| {
            let segment = Segment {
                out: false,
                flags,
                seq: 2,
                ack,
                options: &[],
                ..answer
            };
            run(&segment);
            control.connections().expect("a map")
        };
        assert_eq!(run(&answer), 4_000, "a SYN-ACK's window is not scaled");
        assert_eq!(third(70_000, ACK), 0);
        assert_eq!(third(70_002, ACK), 0);
        assert_eq!(third(70_001, 4), 0, "a reset");
        assert_eq!(third(70_001, ACK), 1);
        let data = Segment {
            out: false,
            flags: ACK,
            seq: 2,
            ack: 70_001,
            options: &[],
            payload: 1_448,
            ..answer
        };
        run(&data);
        let ack = Segment {
            flags: ACK,
            seq: 70_001,
            ack: 5_000,
            options: &[],
            ..answer
        };
        assert_eq!(run(&ack), expected);
    }
}
