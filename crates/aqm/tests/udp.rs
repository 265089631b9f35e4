// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states of a UDP stream that is too fast (Shah 1999, section 5.2.2), and the token bucket
//! mode.

use proptest::prelude::*;
use weirgate_aqm::{Udp, UdpRule, UdpState, UdpVerdict};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// 2 Mbit/s; three seconds to drop, two to warn.
const RULE: UdpRule = UdpRule {
    mode: 0,
    rate_bytes_s: 250_000,
    burst_bytes: 10_000,
    drop_ns: 3 * SECOND,
    warn_ns: 2 * SECOND,
    chunk_ns: 100 * MS,
    chunks: 10,
    age_ns: 5 * SECOND,
};

/// Sends 1,470 bytes every `gap` until `end`. Returns each state with the time at which it began.
fn send(udp: &mut Udp, from: u64, end: u64, gap: u64) -> Vec<(u64, UdpState)> {
    let mut seen = vec![(from, udp.state())];
    let mut now = from;
    while now < end {
        let verdict = udp.arrived(1_470, now);
        let state = udp.state();
        let expected = match state {
            UdpState::Okay | UdpState::Warn => UdpVerdict::Deliver,
            UdpState::Drop => UdpVerdict::Discard,
            UdpState::Kill => UdpVerdict::Refuse,
        };
        assert_eq!(verdict, expected);
        if seen.last().is_some_and(|last| last.1 != state) {
            seen.push((now, state));
        }
        now += gap;
    }
    seen
}

/// 7 Mbit/s against a limit of 2 Mbit/s (Must show 4 of the issue). The stream passes through all
/// states at the configured times, and stays refused.
#[test]
fn a_sender_that_does_not_listen_is_refused() {
    let mut udp = Udp::new(RULE);
    let seen = send(&mut udp, SECOND, 20 * SECOND, 1_680_000);
    let states: Vec<UdpState> = seen.iter().map(|one| one.1).collect();
    let all = [
        UdpState::Okay,
        UdpState::Drop,
        UdpState::Warn,
        UdpState::Kill,
    ];
    assert_eq!(states, all);
    let lasted: Vec<u64> = seen.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // The first chunk reveals the rate; the later times match within two datagrams.
    assert!(lasted[0] <= 102 * MS, "{lasted:?}");
    assert!(lasted[1].abs_diff(3 * SECOND) <= 4 * MS, "{lasted:?}");
    assert!(lasted[2].abs_diff(2 * SECOND) <= 4 * MS, "{lasted:?}");
    // After a silence of the configured age, the stream counts as a new one.
    assert_eq!(udp.arrived(1_470, 30 * SECOND), UdpVerdict::Deliver);
    assert_eq!(udp.state(), UdpState::Okay);
}

#[test]
fn one_that_slows_down_is_spared() {
    let mut udp = Udp::new(RULE);
    send(&mut udp, SECOND, 3 * SECOND, 1_680_000);
    assert_eq!(udp.state(), UdpState::Drop);
    // 1 Mbit/s from here on.
    let seen = send(&mut udp, 3 * SECOND, 20 * SECOND, 11_760_000);
    let states: Vec<UdpState> = seen.iter().map(|one| one.1).collect();
    assert_eq!(states, [UdpState::Drop, UdpState::Warn, UdpState::Okay]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The bucket delivers the rate and no more, for any arrivals.
    #[test]
    fn the_bucket_delivers_the_rate(
        gaps in prop::collection::vec((100_000_u64..4_000_000, 28_u32..1_500), 200..800),
    ) {
        let mut udp = Udp::new(UdpRule { mode: 1, ..RULE });
        let (mut now, mut delivered, mut came) = (SECOND, 0_u64, 0_u64);
        for (gap, bytes) in gaps {
            now += gap;
            came += u64::from(bytes);
            if udp.arrived(bytes, now) == UdpVerdict::Deliver {
                delivered += u64::from(bytes);
            }
        }
        let due = (now - SECOND) as f64 * 0.00025 + 10_000.0;
        prop_assert!(delivered as f64 <= due + 4.0, "{delivered} of {due}");
        let least = (due - 13_000.0).min(came as f64 - 13_000.0) * 0.98;
        prop_assert!(delivered as f64 >= least.min(due - 13_000.0), "{delivered} of {came}, {due}");
    }

    /// Any datagrams at any time cause no panic; they are discarded only above the rate.
    #[test]
    fn slow_streams_are_never_touched(
        gaps in prop::collection::vec((6_000_000_u64..900_000_000, 0_u32..1_470), 1..300),
    ) {
        let mut udp = Udp::new(RULE);
        let mut now = SECOND;
        for (gap, bytes) in gaps {
            now += gap;
            prop_assert_eq!(udp.arrived(bytes, now), UdpVerdict::Deliver);
        }
    }
}
