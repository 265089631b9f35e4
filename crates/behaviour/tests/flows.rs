// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of flows, by the counters of typical programs.

use proptest::prelude::*;
use weirgate_behaviour::{Counted, FlowJudge, Flows, Kind};

/// What passes in a second: packets and bytes of each direction.
type Second = [(u64, u64); 2];

/// Returns the kinds after each reading of a flow, `every` seconds apart.
fn kinds(every: usize, seconds: impl IntoIterator<Item = Second>) -> Vec<Option<Kind>> {
    let mut judge = FlowJudge::default();
    let mut carried = [Counted::default(); 2];
    judge.read(0, carried);
    let mut found = Vec::new();
    for (index, second) in seconds.into_iter().enumerate() {
        for (way, (packets, bytes)) in second.into_iter().enumerate() {
            carried[way].packets += packets;
            carried[way].bytes += bytes;
        }
        let second = index + 1;
        if second % every == 0 {
            judge.read(1000 * second as u64, carried);
            found.push(judge.kind());
        }
    }
    found
}

/// Asserts what a flow is in the end with readings each second, and every ten seconds.
#[track_caller]
fn expect(kind: Option<Kind>, second: impl Fn(u64) -> Second) {
    for every in [1, 10] {
        let found = kinds(every, (0..120).map(&second));
        assert_eq!(found.last(), Some(&kind), "every {every} s: {found:?}");
    }
}

/// Asserts that a flow is never of a kind other than these.
#[track_caller]
fn never_beyond(kinds_permitted: &[Option<Kind>], second: impl Fn(u64) -> Second) {
    for every in [1, 10] {
        let found = kinds(every, (0..120).map(&second));
        let permitted = found.iter().all(|kind| kinds_permitted.contains(kind));
        assert!(permitted, "every {every} s: {found:?}");
    }
}

/// Returns a number from 0 to 99 that is the same at each run.
fn chance(second: u64, salt: u64) -> u64 {
    let mixed = (second * 31 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) & 0xffff
}

fn of_hundred(second: u64, salt: u64) -> u64 {
    chance(second, salt) % 100
}

#[test]
fn calls_are_calls() {
    // G.711 and G.729 in 20 ms; Opus in 60 ms, whose sizes vary; with RTCP now and then.
    expect(Some(Kind::Call), |_| [(50, 10_000), (50, 10_000)]);
    expect(Some(Kind::Call), |_| [(50, 3_000), (50, 3_000)]);
    expect(Some(Kind::Call), |second| {
        let rtcp = u64::from(second.is_multiple_of(5));
        let size = 150 + of_hundred(second, 1);
        [(17 + rtcp, 17 * size), (16 + rtcp, 16 * 200)]
    });
}

#[test]
fn a_game_is_real_time_and_no_call() {
    // 30 updates a second from the client, 64 larger ones from the server.
    expect(Some(Kind::RealTime), |second| {
        let down = 60 + of_hundred(second, 2) / 12;
        [(30, 30 * 80), (down, down * (150 + of_hundred(second, 3)))]
    });
}

/// With silence suppression one end sends little while the other talks.
#[test]
fn a_call_that_suppresses_silence_is_interactive() {
    for every in [1, 10] {
        let found = kinds(
            every,
            (0..120_u64).map(|second| {
                let talks = (second / 3).is_multiple_of(2);
                let way = |talks| if talks { (50, 8_000) } else { (12, 960) };
                [way(talks), way(!talks)]
            }),
        );
        let last = found.last().copied().flatten().expect("a kind");
        assert!(last.is_interactive(), "every {every} s: {found:?}");
    }
}

fn typing(second: u64) -> Second {
    // Words, and thoughts between them: an echo for each key, and some output.
    let types = second / 4 % 3 != 1;
    let keys = if types {
        2 + of_hundred(second, 4) / 16
    } else {
        0
    };
    let output = u64::from(types && second.is_multiple_of(9));
    [(keys, keys * 90), (keys + output, keys * 95 + output * 700)]
}

#[test]
fn typing_is_a_terminal() {
    expect(Some(Kind::Terminal), typing);
}

#[test]
fn a_beat_is_no_terminal() {
    // An echo each second; a keepalive each 25 s.
    expect(None, |_| [(1, 84), (1, 84)]);
    never_beyond(&[None], |second| {
        let beat = u64::from(second.is_multiple_of(25));
        [(beat, beat * 60), (beat, beat * 60)]
    });
}

#[test]
fn transfers_are_bulk_in_either_direction() {
    let ack = |packets: u64| (packets / 2, packets / 2 * 52);
    let data = |packets: u64| (packets, packets * 1_500);
    for packets in [10, 38, 1_000] {
        expect(Some(Kind::Bulk), |_| [data(packets), ack(packets)]);
        expect(Some(Kind::Bulk), |_| [ack(packets), data(packets)]);
    }
    // QUIC acknowledges less often, and a router merges segments of TCP.
    expect(Some(Kind::Bulk), |_| [(100, 8_500), (1_000, 1_250_000)]);
    expect(Some(Kind::Bulk), |_| [(40, 2_080), (60, 60 * 20_000)]);
}

/// Two seconds of every six have a piece. What is known depends on how often it is read.
#[test]
fn a_stream_in_pieces_is_never_interactive() {
    never_beyond(&[None, Some(Kind::Bulk)], |second| {
        if second % 6 < 2 {
            [(300, 300 * 60), (800, 800 * 1_480)]
        } else {
            [(0, 0), (0, 0)]
        }
    });
}

#[test]
fn names_pages_and_video_calls_are_undecided() {
    never_beyond(&[None], |second| {
        let once = u64::from(second == 3);
        [(once, once * 70), (once, once * 130)]
    });
    never_beyond(&[None], |second| match second {
        0 => [(12, 2_000), (20, 24_000)],
        1 => [(6, 900), (9, 9_000)],
        _ => [(0, 0), (0, 0)],
    });
    never_beyond(&[None], |_| [(300, 300_000), (300, 330_000)]);
}

/// A transfer that stalls for a moment, and a call on hold, keep their kind.
#[test]
fn a_pause_changes_nothing_and_silence_ends_it() {
    let call = |second: u64| {
        let holds = (40..70).contains(&second) || second >= 100;
        if holds {
            [(0, 0); 2]
        } else {
            [(50, 10_000); 2]
        }
    };
    let found = kinds(1, (0..260).map(call));
    let change = |pair: &&[Option<Kind>]| pair[0] != pair[1];
    assert_eq!(found[90], Some(Kind::Call), "{found:?}");
    assert_eq!(found[150], Some(Kind::Call), "{found:?}");
    assert_eq!(found[259], None);
    assert_eq!(found.windows(2).filter(change).count(), 2, "{found:?}");
}

#[test]
fn one_interval_says_less() {
    let ways = |one: (u64, u64), other: (u64, u64)| {
        [one, other].map(|(packets, bytes)| Counted { packets, bytes })
    };
    let of = |ms, one, other| Kind::of_interval(ms, ways(one, other));
    assert_eq!(of(1_000, (50, 10_000), (50, 10_000)), Some(Kind::Call));
    assert_eq!(of(1_000, (30, 2_400), (64, 12_800)), Some(Kind::RealTime));
    assert_eq!(of(1_000, (200, 10_400), (400, 600_000)), Some(Kind::Bulk));
    assert_eq!(of(10_000, (40, 3_600), (44, 4_100)), None);
    assert_eq!(of(10, (50, 10_000), (50, 10_000)), None);
}

#[test]
fn forged_flows_take_nobodys_place() {
    let mut flows = Flows::default();
    let call = |second: u64| {
        let carried = Counted {
            packets: 1 + 50 * second,
            bytes: 200 * (1 + 50 * second),
        };
        [carried, carried]
    };
    let unanswered = [
        Counted {
            packets: 1,
            bytes: 60,
        },
        Counted::default(),
    ];
    for second in 0..40 {
        let forged = (0..30_000).map(|one| (1_000 + second * 30_000 + one, unanswered));
        flows.take(1000 * second, forged.chain([(7, call(second))]));
        assert_eq!(flows.judged(), (1, 0));
    }
    assert_eq!(flows.kind(&7), Some(Kind::Call));
    // Answered ones have a limit, and the known one keeps its place.
    let many = (0..30_000).map(|one| (1_000 + one, call(40)));
    flows.take(40_000, many.chain([(7, call(40))]));
    assert_eq!(flows.judged(), (4_096, 30_001 - 4_096));
    assert_eq!(flows.kind(&7), Some(Kind::Call));
}

proptest! {
    /// Whatever the counters and times are, a kind stays for three readings at least.
    #[test]
    fn a_flow_does_not_flap(
        readings in proptest::collection::vec((0_u64..20_000, std::array::from_fn::<_, 2, _>(|_| (0_u64..3_000, 0_u64..1_600))), 1..80),
        odd in proptest::option::of((any::<u64>(), any::<u64>(), any::<u64>())),
    ) {
        let mut judge = FlowJudge::default();
        let (mut ms, mut carried) = (0_u64, [Counted::default(); 2]);
        let mut since = 100;
        for (passed, ways) in readings {
            ms += passed;
            for (way, (packets, size)) in ways.into_iter().enumerate() {
                carried[way].packets += packets;
                carried[way].bytes += packets * size;
            }
            let before = judge.kind();
            judge.read(ms, carried);
            if judge.kind() == before {
                since += 1;
            } else {
                // Only a long silence takes a kind away sooner.
                prop_assert!(since >= 2 || judge.kind().is_none());
                since = 1;
            }
        }
        if let Some((ms, packets, bytes)) = odd {
            judge.read(ms, [Counted { packets, bytes }; 2]);
        }
    }

    /// Random transfers are never taken for something interactive, nor calls for transfers.
    #[test]
    fn sizes_decide(
        seconds in proptest::collection::vec((1_u64..2_000, 800_u64..1_500, 40_u64..100), 30..60),
        rate in 17_u64..100, size in 60_u64..400,
    ) {
        let transfer = seconds.iter().map(|(packets, size, ack)| {
            [(*packets, packets * size), (packets.div_ceil(2), packets.div_ceil(2) * ack)]
        });
        for kind in kinds(1, transfer) {
            prop_assert!(kind.is_none_or(|kind| !kind.is_interactive()));
        }
        let call = kinds(1, (0..30).map(|_| [(rate, rate * size); 2]));
        prop_assert_eq!(call.last().copied().flatten(), Some(Kind::Call));
    }
}
