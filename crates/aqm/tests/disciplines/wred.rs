// SPDX-License-Identifier: Apache-2.0 OR MIT
//! wred: coupled averages, and which precedence is dropped first (RFC 2597; Clark and Fang 1998).

use crate::support::{Chance, MS, ONE, S, link, packet, queue};
use proptest::prelude::*;
use weirgate_aqm::{Packet, Queue};

/// Code points of the first class, by precedence, and one of no class.
const AF: [u32; 3] = [10, 12, 14];

fn of(code: u32, now: u64) -> Packet {
    Packet {
        flow: code,
        ..packet(now, 1000)
    }
}

/// Results of an overload.
struct Outcome {
    /// Packets that came and that were dropped, by precedence.
    arrived: [u64; 3],
    dropped: [u64; 3],
    /// Packets that left.
    sent: u64,
    most: u64,
}

fn of_queue(wred: &Queue<()>, sent: u64, most: u64) -> Outcome {
    let stats = |names: [&str; 3]| names.map(|name| wred.stat(name).expect("a statistic"));
    Outcome {
        arrived: stats(["low_arrived", "middle_arrived", "high_arrived"]),
        dropped: stats(["low_dropped", "middle_dropped", "high_dropped"]),
        sent,
        most,
    }
}

/// Sends `rates[i]` packets of 1000 bytes a second of each precedence for `seconds`, at random
/// instants, to a link of 1,000 a second.
fn overload(rates: [u64; 3], params: &[(&str, u64)], seconds: u64) -> Outcome {
    let mut wred: Queue<()> = queue("wred", &link(8_000_000), params);
    let mut chance = Chance(11);
    let all: u64 = rates.iter().sum();
    let (mut sent, mut most, mut next) = (0, 0, 0);
    for tick in 0..seconds * 10_000 {
        let now = tick * MS / 10;
        if chance.below(10_000) < all {
            let draw = chance.below(all);
            let precedence = match draw {
                draw if draw < rates[0] => 0,
                draw if draw < rates[0] + rates[1] => 1,
                _ => 2,
            };
            wred.arrive(&of(AF[precedence], now), chance.word(), ());
            most = most.max(wred.bytes());
        }
        if now >= next && wred.packets() > 0 {
            wred.depart(now);
            sent += 1;
            next = now + MS;
        }
    }
    of_queue(&wred, sent, most)
}

/// The load is twice the link's rate; nine tenths of the link's rate are within the contract. None
/// of these is lost, and the link is full.
#[test]
fn what_is_within_its_contract_is_not_lost() {
    for beyond in [[900, 0, 1_100], [900, 1_100, 0], [900, 550, 550]] {
        let seen = overload(beyond, &[], 30);
        assert_eq!(seen.dropped[0], 0, "{beyond:?}");
        let lost: u64 = seen.dropped.iter().sum();
        let came: u64 = seen.arrived.iter().sum();
        assert!(lost > came * 2 / 5, "{beyond:?}: {lost} of {came}");
        assert!(seen.sent > 29_500, "{beyond:?}: {}", seen.sent);
        assert!(seen.most < 120_000, "{beyond:?}: {}", seen.most);
    }
    // High precedence is dropped as long as it has packets.
    let seen = overload([500, 400, 1_100], &[], 30);
    assert_eq!(seen.dropped[0], 0);
    let share = seen.dropped[1] as f64 / seen.arrived[1] as f64;
    assert!(share < 0.01, "{share}");
}

/// The load within the contract exceeds the link's rate: some of it is dropped, and no other packet
/// gets through.
#[test]
fn a_contract_that_cannot_be_kept_is_shared() {
    let seen = overload([1_500, 0, 500], &[], 30);
    assert!(seen.dropped[0] > 13_000, "{}", seen.dropped[0]);
    assert!(seen.dropped[2] * 100 > seen.arrived[2] * 95);
    assert!(seen.sent > 29_500);
}

/// The average of a precedence is the exponential average of its own packets and of those with
/// lower drop precedence.
#[test]
fn averages_are_coupled() {
    let params = [
        ("min_bytes", 1_000_000),
        ("max_bytes", 2_000_000),
        ("weight", ONE / 512),
    ];
    let mut wred: Queue<()> = queue("wred", &link(8_000_000), &params);
    let mut chance = Chance(3);
    let mut averages = [0.0_f64; 3];
    let mut waiting: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    // One packet of each precedence stays, so that no queue is ever idle.
    for index in 0..3_000_u64 {
        let precedence = if index < 3 { index } else { chance.below(3) } as usize;
        for (at, average) in averages.iter_mut().enumerate().skip(precedence) {
            let queued = waiting.iter().filter(|own| **own <= at).count();
            *average += (1000.0 * queued as f64 - *average) / 512.0;
        }
        wred.arrive(&of(AF[precedence], index * MS), u32::MAX, ());
        waiting.push_back(precedence);
        let names = ["low_average", "middle_average", "high_average"];
        for (name, average) in names.into_iter().zip(averages) {
            let got = wred.var(name).expect("an average") as f64 / 65_536.0;
            assert!(
                (got - average).abs() < 1.0,
                "{index} {name}: {got}, not {average}"
            );
        }
        while waiting.len() > 40 {
            wred.depart(index * MS);
            waiting.pop_front();
        }
    }
}

/// Only packets of high precedence arrive; all are dropped, and the link stays idle.
#[test]
fn a_drop_before_an_empty_queue_does_not_end_the_idle_time() {
    let params = [
        ("min_bytes", 40_000),
        ("max_bytes", 60_000),
        ("weight", ONE / 512),
        ("gentle", 0),
    ];
    let mut wred: Queue<()> = queue("wred", &link(12_000_000), &params);
    for index in 0..5_000 {
        wred.arrive(&of(AF[0], S + index * 1_000), u32::MAX, ());
        while wred.packets() > 30 {
            wred.depart(S + index * 1_000);
        }
    }
    while wred.packets() > 0 {
        wred.depart(S + 5 * MS);
    }
    let average = |wred: &Queue<()>| wred.var("high_average").expect("an average") as f64;
    let before = average(&wred);
    for ms in [10, 1_000] {
        wred.arrive(&of(AF[2], S + (5 + ms) * MS), u32::MAX, ());
        let exact = (1.0 - 1.0 / 512.0_f64).powi(ms as i32);
        let factor = average(&wred) / before;
        assert!((factor - exact).abs() < 1e-4, "{ms}: {factor}, not {exact}");
    }
    assert_eq!(wred.stat("high_dropped"), Some(1));
}

#[test]
fn code_points_say_the_precedence() {
    for (other, expected) in [(0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1])] {
        for code in [0, 8, 11, 40, 46, 50] {
            let mut wred: Queue<()> = queue("wred", &link(8_000_000), &[("other", other)]);
            wred.arrive(&of(code, S), 0, ());
            assert_eq!(of_queue(&wred, 0, 0).arrived, expected, "{code}");
        }
        for class in 1..=4 {
            for (at, expected) in [[1, 0, 0], [0, 1, 0], [0, 0, 1]].into_iter().enumerate() {
                let mut wred: Queue<()> = queue("wred", &link(8_000_000), &[("other", other)]);
                let code = 8 * class + 2 * (at as u32 + 1);
                wred.arrive(&of(code, S), 0, ());
                assert_eq!(of_queue(&wred, 0, 0).arrived, expected, "{code}");
            }
        }
    }
}

/// Thresholds are in ascending order, whatever parameters are given.
#[test]
fn thresholds_follow_from_the_link_or_from_those_of_low() {
    let of_link: Queue<()> = queue("wred", &link(10_000_000), &[]);
    let of = |wred: &Queue<()>, names: [&str; 6]| names.map(|name| wred.var(name).expect("one"));
    let names = [
        "high_min_bytes",
        "high_end_bytes",
        "middle_min_bytes",
        "middle_end_bytes",
        "low_min_bytes",
        "low_max_bytes",
    ];
    // RED takes five full packets of 1500 bytes.
    assert_eq!(
        of(&of_link, names),
        [5_000, 15_000, 15_000, 45_000, 45_000, 90_000]
    );
    assert_eq!(of_link.var("low_limit_bytes"), Some(180_000));
    let stated = [
        ("min_bytes", 60_000),
        ("max_bytes", 90_000),
        ("high_min_bytes", 5_000),
    ];
    let stated: Queue<()> = queue("wred", &link(10_000_000), &stated);
    assert_eq!(
        of(&stated, names),
        [5_000, 15_000, 20_000, 60_000, 60_000, 90_000]
    );
    let limited: Queue<()> = queue("wred", &link(10_000_000), &[("limit_bytes", 60_000)]);
    assert_eq!(
        of(&limited, names),
        [1_666, 4_998, 5_000, 15_000, 15_000, 30_000]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The counters by precedence match the queue, also whenever it is empty.
    #[test]
    fn nothing_is_left_of_an_empty_queue(seed: u64, other in 0..3_u64) {
        let params = [("other", other)];
        let mut wred: Queue<()> = queue("wred", &link(8_000_000), &params);
        let mut chance = Chance(seed);
        let mut now = 0;
        for _ in 0..500 {
            now += chance.below(2 * MS);
            wred.arrive(&of(chance.word(), now), chance.word(), ());
            if chance.below(2) == 0 {
                wred.depart(now);
            }
        }
        let sum = |names: [&str; 3]| -> u64 {
            names.into_iter().map(|name| wred.var(name).expect("a number")).sum()
        };
        prop_assert_eq!(sum(["low_packets", "middle_packets", "high_packets"]), wred.packets());
        prop_assert_eq!(sum(["low_bytes", "middle_bytes", "high_bytes"]), wred.bytes());
        while wred.packets() > 0 {
            wred.depart(now);
        }
        for name in ["low_bytes", "middle_bytes", "high_bytes"] {
            prop_assert_eq!(wred.var(name), Some(0));
        }
    }
}
