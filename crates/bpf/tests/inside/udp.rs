// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the filter of UDP's states with the kernel's test runs.

use super::filter::{Chance, frame};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weirgate_aqm::UdpVerdict;
use weirgate_bpf::UdpControl;
use weirgate_state::{Datagrams, Measured, SparedMark};
use weirgate_units::{Rate, Size, Span};

const UDP: u8 = 17;
const REFUSED: u32 = 1 << 20;

/// Returns a configuration of 2 Mbit/s with short times.
fn held(bucket: bool) -> Datagrams {
    Datagrams {
        rate: Rate::kbit(2_000),
        bucket,
        burst: Size::bytes(10_000),
        drop: Span::from_millis(400),
        warn: Span::from_millis(200),
        measured: Measured {
            chunk: Span::from_millis(20),
            chunks: 5,
            age: Span::from_secs(5),
        },
        refuse: REFUSED,
        spared: SparedMark {
            mark: 2 << 24,
            mask: 3 << 24,
        },
    }
}

/// Sends 1,470 bytes of IP each `gap` for `time`. Returns the changes of the verdict with their
/// times, and how many bytes were delivered.
fn send(
    control: &UdpControl,
    made: &[u8],
    mark: u32,
    gap: Duration,
    time: Duration,
) -> (Vec<(Duration, UdpVerdict)>, u64) {
    let start = Instant::now();
    let mut seen: Vec<(Duration, UdpVerdict)> = Vec::new();
    let (mut next, mut delivered) = (Duration::ZERO, 0);
    while next < time {
        sleep(next.saturating_sub(start.elapsed()));
        let (verdict, after) = control.run(made, mark, REFUSED).expect("a run");
        assert_eq!(after & !REFUSED, mark & !REFUSED, "other bits stay");
        if seen.last().is_none_or(|last| last.1 != verdict) {
            seen.push((start.elapsed(), verdict));
        }
        if verdict == UdpVerdict::Deliver {
            delivered += made.len() as u64 - 14;
        }
        next += gap;
    }
    (seen, delivered)
}

/// Turns an IPv6 frame into a fragment of a datagram (RFC 8200 section 4.5), at `offset` in units
/// of eight bytes.
fn fragment(mut frame: Vec<u8>, offset: u16) -> Vec<u8> {
    let [protocol, length] = [14 + 6, 14 + 4];
    let payload = u16::from_be_bytes([frame[length], frame[length + 1]]) + 8;
    frame[length..length + 2].copy_from_slice(&payload.to_be_bytes());
    let [high, low] = (offset << 3 | 1).to_be_bytes();
    let header = [frame[protocol], 0, high, low, 0, 0, 0, 7];
    frame[protocol] = 44;
    frame.splice(54..54, header);
    frame
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn states() {
    let control = UdpControl::load(&held(false)).unwrap_or_else(|error| panic!("{error}"));
    let fast = Duration::from_micros(1_680);
    let second = Duration::from_secs(1);
    let mut verdicts = Vec::new();
    let expected = [
        UdpVerdict::Deliver,
        UdpVerdict::Discard,
        UdpVerdict::Deliver,
        UdpVerdict::Refuse,
    ];
    for version in [4, 6] {
        // 7 Mbit/s: delivered, discarded, delivered, refused. A mark that already says refused is
        // not trusted.
        let made = frame(version, UDP, 0, 5_000, 1_442);
        let (seen, _) = send(&control, &made, REFUSED | 5, fast, second);
        let words: Vec<UdpVerdict> = seen.iter().map(|one| one.1).collect();
        assert_eq!(words, expected, "{seen:?}");
        let lasted = |index: usize| seen[index + 1].0.abs_diff(seen[index].0).as_millis();
        assert!(lasted(1).abs_diff(400) <= 10, "{seen:?}");
        assert!(lasted(2).abs_diff(200) <= 10, "{seen:?}");
        verdicts.push(seen);
        // A stream that slows down when it is discarded is delivered again.
        let made = frame(version, UDP, 0, 5_001, 1_442);
        send(&control, &made, 0, fast, second / 10);
        let (seen, _) = send(&control, &made, 0, fast * 7, 2 * second);
        assert_eq!(seen.len(), 2, "{seen:?}");
        // Spared streams, TCP and slow streams are never touched.
        let made = frame(version, UDP, 0, 5_002, 1_442);
        let (seen, _) = send(&control, &made, 2 << 24, fast, second);
        assert_eq!(seen.len(), 1);
        let made = frame(version, 6, 0, 5_003, 1_442);
        assert_eq!(send(&control, &made, 0, fast, second).0.len(), 1);
    }
    // Fragments of IPv6 are a stream, too: that of their addresses.
    let made = fragment(frame(6, UDP, 0, 5_004, 1_434), 180);
    let (seen, _) = send(&control, &made, 0, fast, second);
    let words: Vec<UdpVerdict> = seen.iter().map(|one| one.1).collect();
    assert_eq!(words, expected, "{seen:?}");
    // The token bucket passes 2 Mbit/s of 7, to 2 %.
    control.set(&held(true)).expect("a map");
    let made = frame(4, UDP, 0, 6_000, 1_442);
    let (_, delivered) = send(&control, &made, 0, fast, 5 * second);
    let rate = (delivered as f64 - 10_000.0) / 5.0 / 250_000.0;
    println!("states at {verdicts:?}; the bucket delivers {rate:.4} of its rate");
    assert!((0.98..=1.02).contains(&rate), "{rate}");
}

/// For any frame there is a verdict, and the map does not exceed its maximum size.
#[test]
#[ignore = "runs in the lab's kernel"]
fn any_packet() {
    let control = UdpControl::load(&held(false)).unwrap_or_else(|error| panic!("{error}"));
    let mut chance = Chance(5);
    for round in 0..40_000_u64 {
        let version = [4, 6][(round % 2) as usize];
        let mut bytes = frame(version, UDP, 0, round as u16, chance.below(64) as usize);
        if chance.below(3) == 0 {
            let at = 12 + chance.below(bytes.len() as u64 - 12) as usize;
            bytes[at] = chance.below(256) as u8;
            bytes.truncate(14 + chance.below(bytes.len() as u64 - 13) as usize);
        }
        // The kernel's test run refuses frames that are shorter than a header.
        let _ = control.run(&bytes, 0, REFUSED);
    }
    let known = control.streams().expect("a map");
    println!("{known} streams are known");
    assert!((8_000..=16_384).contains(&known), "{known}");
}
