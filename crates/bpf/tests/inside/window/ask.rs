// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the MSS in handshakes, chosen by what a connection may have in a round trip, with the
//! kernel's test runs.

use super::announced::{right, syn};
use super::{ACK, SYN, Segment, edge, tcp_at};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weirgate_bpf::WindowControl;
use weirgate_state::Windows;
use weirgate_units::{Handle, Rate, Span};

const VIDEO: u32 = 0x2_0011;
const SLOW: u32 = 0x2_0012;
const STATED: Duration = Duration::from_millis(20);
const FULL: [u8; 4] = [2, 4, 5, 0xb4];

fn control(rate_bytes_s: u64) -> WindowControl {
    let class = |class, rate| (Handle::from_u32(class), Rate::bytes_per_second(rate));
    super::control(&Windows {
        classes: vec![class(VIDEO, 0), class(SLOW, rate_bytes_s / 2)],
        round_trip: Span::from_nanos(STATED.as_nanos() as u64),
        ..edge(rate_bytes_s)
    })
}

/// Returns the MSS in a class's SYN after the program.
fn asked(control: &WindowControl, segment: &Segment<'_>, class: u32) -> u16 {
    let frame = segment.frame();
    let after = control.run_as(false, &frame, (0, class)).expect("a run");
    assert_eq!(after.len(), frame.len());
    assert!(right(segment.version, &after), "checksum");
    let at = tcp_at(segment.version) + 22;
    u16::from_be_bytes([after[at], after[at + 1]])
}

/// Makes the other side's answer arrive.
fn answered(control: &WindowControl, segment: &Segment<'_>) {
    let answer = Segment {
        out: false,
        flags: SYN | ACK,
        ack: segment.seq + 1,
        ..*segment
    };
    control.run(true, &answer.frame()).expect("a run");
}

/// The configured round trip decides, then the one that an answer measured. A class has its own
/// share. The MSS is never below the kernel's minimum, nor above the original value.
#[test]
#[ignore = "runs in the lab's kernel"]
fn shares() {
    const RATE: u64 = 20_000;
    let share = |rate: u64, time: Duration| (rate as f64 * time.as_secs_f64()) as u16;
    let one = control(RATE);
    for version in [4, 6] {
        assert_eq!(asked(&one, &syn(version, 1, &FULL), 0), 400);
        assert_eq!(asked(&one, &syn(version, 2, &FULL), SLOW), 200);
        assert_eq!(asked(&one, &syn(version, 3, &FULL), VIDEO), 1_460);
    }
    // An answer measures the round trip to one host, and to no other.
    let measured = syn(4, 4, &FULL);
    let before = Instant::now();
    asked(&one, &measured, 0);
    sleep(Duration::from_millis(40));
    answered(&one, &measured);
    let most = before.elapsed();
    let then = asked(&one, &syn(4, 5, &FULL), 0);
    let expected = share(RATE, Duration::from_millis(40))..=share(RATE, most);
    assert!(expected.contains(&then), "{then} of {expected:?}");
    assert_eq!(asked(&one, &syn(6, 5, &FULL), 0), 400);
    // The answer to a retransmitted SYN may be that to the first one, so it is not used.
    let twice = syn(6, 6, &FULL);
    asked(&one, &twice, 0);
    asked(&one, &twice, 0);
    answered(&one, &twice);
    assert_eq!(asked(&one, &syn(6, 7, &FULL), 0), 400);
    // A shorter round trip is used at once.
    let near = syn(4, 8, &FULL);
    let before = Instant::now();
    asked(&one, &near, 0);
    sleep(Duration::from_millis(10));
    answered(&one, &near);
    let most = share(RATE, before.elapsed());
    let then = asked(&one, &syn(4, 9, &FULL), 0);
    assert!((share(RATE, Duration::from_millis(10))..=most).contains(&then));
    println!("40 ms, then 10 ms of a round trip: {expected:?} and {then} bytes");

    assert_eq!(asked(&control(1_000), &syn(4, 1, &FULL), 0), 88);
    assert_eq!(asked(&control(1_000_000), &syn(4, 1, &FULL), 0), 1_460);
    let none = control(RATE);
    none.set(&edge(RATE)).expect("a map");
    assert_eq!(asked(&none, &syn(4, 1, &FULL), 0), 1_460);
}
