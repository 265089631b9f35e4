// SPDX-License-Identifier: Apache-2.0 OR MIT
//! drt: importance decides who gets in (Mylonas, section 2.3).

use crate::support::{Chance, MS, S, link, packet, queue};
use weirgate_aqm::{Packet, Queue};

/// Returns the code point of an importance, real-time or not.
fn code(real_time: bool, importance: u32) -> u32 {
    u32::from(real_time) << 5 | importance << 2 | 3
}

fn of(code: u32, now: u64) -> Packet {
    Packet {
        flow: code,
        ..packet(now, 1000)
    }
}

/// Sends `rates[i]` packets of 1000 bytes a second of importance `i` at random instants, to a link
/// of 1,000 packets a second. The queue holds 120 packets, twenty for each level. Returns the
/// fraction of each importance that was lost, and how many packets left.
fn losses(rates: [u64; 6], seconds: u64) -> ([f64; 6], u64) {
    let params = [("limit_bytes", 120_000)];
    let mut drt: Queue<()> = queue("drt", &link(8_000_000), &params);
    let mut chance = Chance(3);
    let all: u64 = rates.iter().sum();
    let (mut sent, mut next) = (0, 0);
    for tick in 0..seconds * 10_000 {
        let now = tick * MS / 10;
        if chance.below(10_000) < all {
            let mut draw = chance.below(all);
            let mut level = 0;
            while draw >= rates[level] {
                draw -= rates[level];
                level += 1;
            }
            let real_time = chance.below(2) == 0;
            let one = of(code(real_time, level as u32 + 1), now);
            drt.arrive(&one, chance.word(), ());
        }
        if now >= next && drt.packets() > 0 {
            drt.depart(now);
            sent += 1;
            next = now + MS;
        }
    }
    let lost = [1, 2, 3, 4, 5, 6].map(|level| {
        let stat = |name: &str| drt.stat(&format!("{name}_{level}")).expect("a statistic");
        stat("dropped") as f64 / stat("arrived").max(1) as f64
    });
    (lost, sent)
}

/// At nearly twice the link's rate in six equal parts, the upper three parts get through and the
/// lower two do not; the link is full.
#[test]
fn the_important_half_gets_through() {
    let (lost, sent) = losses([300; 6], 60);
    println!("{lost:.3?}, {sent} sent");
    assert!(lost[5] == 0.0 && lost[4] == 0.0, "{lost:?}");
    assert!(lost[3] < 0.01, "{lost:?}");
    // The next importance gets the remaining capacity, a third of its load.
    assert!((lost[2] - 2.0 / 3.0).abs() < 0.03, "{lost:?}");
    assert!(lost[1] > 0.97 && lost[0] > 0.99, "{lost:?}");
    assert!(sent > 59_500, "{sent}");
}

/// A flood of less important packets takes nothing from more important ones, and gets the capacity
/// that they leave.
#[test]
fn what_is_left_goes_to_the_less_important() {
    let (lost, sent) = losses([4_000, 0, 0, 0, 0, 900], 30);
    assert!(lost[5] == 0.0, "{lost:?}");
    assert!((lost[0] - 3_900.0 / 4_000.0).abs() < 0.01, "{lost:?}");
    assert!(sent > 29_700, "{sent}");
    let (lost, _) = losses([0, 0, 0, 0, 0, 2_000], 30);
    assert!((lost[5] - 0.5).abs() < 0.02, "{lost:?}");
}

/// Below the link's rate no packet is lost.
#[test]
fn a_light_load_loses_nothing() {
    let (lost, _) = losses([100; 6], 30);
    assert!(lost[1..].iter().all(|lost| *lost == 0.0), "{lost:?}");
    assert!(lost[0] < 0.02, "{lost:?}");
}

/// Each code point is counted by its importance; one without any by the importance in `other`.
#[test]
fn code_points_tell_importance() {
    for number in 0..64 {
        let mut drt: Queue<()> = queue("drt", &link(8_000_000), &[("other", 2)]);
        drt.arrive(&of(number, S), 0, ());
        let level = number >> 2 & 7;
        let own = number & 3 == 3 && (1..=6).contains(&level);
        let name = format!("arrived_{}", if own { level } else { 2 });
        assert_eq!(drt.stat(&name), Some(1), "{number}");
    }
}

/// The levels are sixths of the limit: at a given queue length, a level loses a given fraction.
#[test]
fn levels_are_sixths() {
    for (queued, level, chance) in [
        (9_u64, 1_u32, 1.0),
        (14, 2, 0.0),
        (17, 2, 0.6),
        (29, 3, 1.0),
        (56, 6, 0.4),
        (59, 6, 1.0),
    ] {
        let mut dropped = 0;
        for round in 0..1_000_u64 {
            let mut drt: Queue<()> = queue("drt", &link(8_000_000), &[("limit_bytes", 60_000)]);
            for _ in 0..queued {
                // The greatest random number accepts every packet that may be accepted.
                drt.arrive(&of(code(true, 6), S), u32::MAX, ());
            }
            assert_eq!(drt.packets(), queued);
            let random = (round << 32) / 1_000;
            drt.arrive(&of(code(true, level), S), random as u32, ());
            dropped += 1 - (drt.packets() - queued);
        }
        let found = dropped as f64 / 1_000.0;
        assert!((found - chance).abs() < 0.002, "{queued} {level}: {found}");
    }
}
