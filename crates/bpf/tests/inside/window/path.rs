// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the round trip of a connection's path, which determines the offered window.

use super::{ACK, SCALE_7, SYN, Segment, control, edge, window};
use std::thread::sleep;
use std::time::Duration;
use weirgate_bpf::WindowControl;
use weirgate_state::Windows;

const FULL: u32 = 1_448;

/// Returns TCP's timestamps in the usual layout (RFC 7323, appendix A).
fn stamps(value: u32, echo: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(value.to_be_bytes());
    option.extend(echo.to_be_bytes());
    option
}

/// Returns the window after many segments of a connection whose handshake took 100 ms, and its
/// first data 8 ms, alone on a line of 1.5 MB/s.
fn offered(control: &WindowControl, port: u16, stamped: bool) -> u32 {
    let syn = Segment {
        version: 4,
        port,
        out: true,
        flags: SYN,
        seq: 1,
        ack: 0,
        window: 64_240,
        options: &SCALE_7,
        payload: 0,
    };
    control.run(false, &syn.frame()).expect("a run");
    sleep(Duration::from_millis(100));
    let answer = Segment {
        out: false,
        flags: SYN | ACK,
        ack: 2,
        ..syn
    };
    control.run(true, &answer.frame()).expect("a run");
    let mut last = 0;
    let mut exchange = |number: u32, stamp: u32| {
        let options = if stamped {
            stamps(stamp, stamp)
        } else {
            Vec::new()
        };
        let data = Segment {
            flags: ACK,
            seq: 2 + number * FULL,
            ack: 2,
            options: &options,
            payload: FULL as usize,
            ..answer
        };
        control.run(true, &data.frame()).expect("a run");
        let ack = Segment {
            out: true,
            seq: 2,
            ack: data.seq + FULL,
            window: 60_000,
            payload: 0,
            ..data
        };
        let frame = ack.frame();
        let after = control.run(false, &frame).expect("a run");
        last = u32::from(window(&ack, &frame, &after)) << 7;
    };
    exchange(0, 50);
    sleep(Duration::from_millis(8));
    for number in 1..400 {
        exchange(number, 50);
    }
    last
}

/// By its handshake the connection's path takes 100 ms, by its timestamps 8 ms. The window is what
/// that and a queue of 4 ms take at 1.5 MB/s: 156 and 18 kB.
#[test]
#[ignore = "runs in the lab's kernel"]
fn timestamps_tell_the_path() {
    // Each alone on the line.
    let [by_handshake, by_stamps] = [false, true].map(|stamped| {
        let control = control(&Windows {
            beside_others: true,
            ..edge(1_500_000)
        });
        offered(&control, 1_001, stamped)
    });
    println!("{by_handshake} and {by_stamps} bytes on offer");
    assert!((150_000..165_000).contains(&by_handshake), "{by_handshake}");
    assert!((16_000..20_000).contains(&by_stamps), "{by_stamps}");
}
