// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests receive windows with a large scale.

use super::{ACK, Segment, control, edge, handshake, window};
use weirgate_state::Windows;
use weirgate_units::Size;

/// Windows are rounded up to units of their scale. That does not add up: the edge advances by the
/// credit, and goes back by less than a unit, though each acknowledgement covers less than a unit.
#[test]
#[ignore = "runs in the lab's kernel"]
fn rounded() {
    const UNIT: u32 = 1 << 12;
    const RATE: u32 = 10_000;
    let control = control(&Windows {
        initial: Size::bytes(200_000),
        ..edge(RATE.into())
    });
    let scale_12 = [2, 4, 5, 0xb4, 1, 3, 3, 12, 1, 1, 4, 2];
    handshake(&control, 4, 1_001, &scale_12, &scale_12);
    let edge = |ack| {
        let segment = Segment {
            version: 4,
            port: 1_001,
            out: true,
            flags: ACK,
            seq: 2,
            ack,
            window: 1_000,
            options: &[],
            payload: 0,
        };
        let frame = segment.frame();
        let after = control.run(false, &frame).expect("a run");
        ack + u32::from(window(&segment, &frame, &after)) * UNIT
    };
    let first = edge(1);
    assert_eq!(first, 1 + 200_000_u32.next_multiple_of(UNIT));
    let mut last = first;
    for number in 0..130 {
        let data = Segment {
            version: 4,
            port: 1_001,
            out: false,
            flags: ACK,
            seq: 1 + number * 1_448,
            ack: 2,
            window: 500,
            options: &[],
            payload: 1_448,
        };
        control.run(true, &data.frame()).expect("a run");
        let next = edge(1 + (number + 1) * 1_448);
        assert!(next + UNIT > last, "{next} after {last}");
        last = last.max(next);
    }
    println!("the edge advanced by {} bytes", last - first);
    // At most the credit of a second.
    assert!(last - first <= RATE + UNIT, "{}", last - first);
}
