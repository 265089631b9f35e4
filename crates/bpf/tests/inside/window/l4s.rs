// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests receive windows with L4S senders.

use super::{ACK, Segment, control, edge, handshake, window};
use crate::inside::filter::checksum;
use weirgate_state::Windows;
use weirgate_units::Size;

const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// Returns the frame of a segment with this ECN field.
fn identified(segment: &Segment<'_>, ecn: u8) -> Vec<u8> {
    let mut frame = segment.frame();
    if segment.version == 4 {
        frame[15] |= ecn;
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[15] |= ecn << 4;
    }
    frame
}

/// Windows of L4S senders are not changed, unless all are controlled. A sender that falls back to
/// classic ECN is controlled from then on, and the window that it was offered is not taken back.
#[test]
#[ignore = "runs in the lab's kernel"]
fn left_alone() {
    let plain = [2, 4, 5, 0xb4];
    for version in [4, 6] {
        let wanted = Windows {
            fixed: Size::bytes(4_000),
            ..edge(0)
        };
        let control = control(&wanted);
        handshake(&control, version, 3_001, &plain, &plain);
        let out = Segment {
            version,
            port: 3_001,
            out: true,
            flags: ACK,
            seq: 1,
            ack: 1,
            window: 60_000,
            options: &[],
            payload: 0,
        };
        let mut ack = 1;
        let mut offered = |ecn| {
            let data = Segment {
                out: false,
                seq: ack,
                payload: 1_000,
                ..out
            };
            control.run(true, &identified(&data, ecn)).expect("a run");
            ack += 10_000;
            let segment = Segment { ack, ..out };
            let frame = segment.frame();
            let after = control.run(false, &frame).expect("a run");
            window(&segment, &frame, &after)
        };
        for ecn in [ECT_1, CE, ECT_1, CE] {
            assert_eq!(offered(ecn), 60_000, "{ecn}");
        }
        let classic: Vec<u16> = (0..7).map(|_| offered(ECT_0)).collect();
        assert_eq!(
            classic,
            [50_000, 40_000, 30_000, 20_000, 10_000, 4_000, 4_000]
        );
        assert_eq!(offered(ECT_1), 60_000);
        control
            .set(&Windows {
                l4s: true,
                ..wanted
            })
            .expect("a map");
        for _ in 0..6 {
            offered(ECT_1);
        }
        assert_eq!(offered(ECT_1), 4_000);
    }
}
