// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fuzzy: its rules beside a plain reading of them in floating point, the
//! reference held against a load that does not listen, idle times.

use crate::support::{Chance, MS, ONE, S, link, packet, queue};
use weirgate_aqm::Queue;

/// Returns the membership of `x` in the triangular set whose peak is at `peak`. Sets are half a
/// unit apart, and the outer two extend to infinity.
fn membership(x: f64, peak: f64) -> f64 {
    (1.0 - (x.clamp(-1.0, 1.0) - peak).abs() / 0.5).max(0.0)
}

/// Returns the fraction of the gain by which the probability changes: the mean of the table of
/// rules, each weighted by the product of its memberships.
fn answer(error: f64, movement: f64) -> f64 {
    const PEAKS: [f64; 5] = [-1.0, -0.5, 0.0, 0.5, 1.0];
    const RULES: [[i32; 5]; 5] = [
        [-4, -3, -2, -1, 0],
        [-3, -2, -1, 0, 1],
        [-2, -1, 0, 1, 2],
        [-1, 0, 1, 2, 3],
        [0, 1, 2, 3, 4],
    ];
    let (mut sum, mut weights) = (0.0, 0.0);
    for (row, at) in RULES.iter().zip(PEAKS) {
        for (rule, moved) in row.iter().zip(PEAKS) {
            let weight = membership(error, at) * membership(movement, moved);
            weights += weight;
            sum += weight * f64::from(rule * rule.abs()) / 16.0;
        }
    }
    assert!((weights - 1.0).abs() < 1e-9, "{weights}");
    sum / weights
}

/// Every change of the probability follows the rules, whatever the queue does.
#[test]
fn changes_are_what_the_rules_say() {
    let params = [
        ("reference_bytes", 20_000),
        ("update_ns", 10 * MS),
        ("gain", ONE / 4),
        ("span", ONE / 2),
    ];
    let mut fuzzy: Queue<()> = queue("fuzzy", &link(100_000_000), &params);
    let mut chance = Chance(5);
    let (mut probability, mut before) = (1.0 / 65_536.0, 0.0);
    let (mut up, mut down) = (0, 0);
    for period in 0..4_000_u64 {
        let now = S + period * 10 * MS;
        // The queue lengths found by three arrivals of a period are the input of the next period.
        let mut found = Vec::new();
        for arrival in 0..3 {
            let wanted = chance.below(60_000);
            while fuzzy.bytes() > wanted {
                fuzzy.depart(now);
            }
            found.push(fuzzy.bytes() as f64);
            let missing = wanted - fuzzy.bytes() + 40;
            let one = packet(now + arrival * MS, missing as u32);
            fuzzy.arrive(&one, chance.word(), ());
            if arrival == 0 && period > 0 {
                let got = fuzzy.var("probability").expect("one") as f64 / ONE as f64;
                assert!(
                    (got - probability).abs() < 1e-6 + probability * 1e-4,
                    "{period}: {got}, not {probability}"
                );
                probability = got;
            }
        }
        let queue = (found.iter().sum::<f64>() / 3.0).floor();
        let answered = answer((queue - 20_000.0) / 20_000.0, (queue - before) / 10_000.0);
        probability = (probability * (1.0 + 0.25 * answered)).clamp(1.0 / 65_536.0, 1.0);
        before = queue;
        up += u32::from(answered > 0.0);
        down += u32::from(answered < 0.0);
    }
    assert!(up > 500 && down > 500, "{up} up, {down} down");
}

/// Offers `rate` packets of 1000 bytes a second at random instants to a link of 1,000 a second.
/// Returns the mean queue length and the fraction dropped, both after the first ten seconds, and
/// the packets sent.
fn load(fuzzy: &mut Queue<()>, rate: u64, seconds: u64) -> (f64, f64, u64) {
    let mut chance = Chance(7);
    let (mut sum, mut ticks, mut came, mut sent) = (0.0, 0.0, 0.0, 0);
    let (mut next, mut dropped) = (0, 0);
    let of = |queue: &Queue<()>| {
        let drops = ["early", "limit"].map(|why| queue.drops(why).expect("a reason"));
        drops[0] + drops[1]
    };
    for tick in 0..seconds * 10_000 {
        let now = tick * MS / 10;
        if tick == 100_000 {
            dropped = of(fuzzy);
        }
        let late = tick >= 100_000;
        if chance.below(10_000) < rate {
            came += f64::from(u8::from(late));
            fuzzy.arrive(&packet(now, 1_000), chance.word(), ());
        }
        if late {
            sum += fuzzy.bytes() as f64;
            ticks += 1.0;
        }
        if now >= next && fuzzy.packets() > 0 {
            fuzzy.depart(now);
            sent += u64::from(late);
            next = now + MS;
        }
    }
    (sum / ticks, (of(fuzzy) - dropped) as f64 / came, sent)
}

/// The queue stays at its reference under a small or large overload: the excess is dropped, and the
/// link is full.
#[test]
fn the_reference_is_held() {
    for rate in [1_100, 1_500, 2_500, 5_000] {
        let params = [("reference_bytes", 25_000)];
        let mut fuzzy: Queue<()> = queue("fuzzy", &link(8_000_000), &params);
        let (mean, dropped, sent) = load(&mut fuzzy, rate, 60);
        println!("{rate}: {mean:.0} bytes, {dropped:.4} dropped, {sent} sent");
        assert!((mean - 25_000.0).abs() < 2_500.0, "{rate}: {mean}");
        let due = 1.0 - 1_000.0 / rate as f64;
        assert!((dropped - due).abs() < 0.02, "{rate}: {dropped}, not {due}");
        assert!(sent > 49_700, "{rate}: {sent}");
    }
}

/// A load below the link's rate loses nothing.
#[test]
fn a_light_load_loses_nothing() {
    let mut fuzzy: Queue<()> = queue("fuzzy", &link(8_000_000), &[]);
    let (mean, dropped, _) = load(&mut fuzzy, 700, 60);
    assert!(mean < 5_000.0, "{mean}");
    assert!(dropped == 0.0, "{dropped}");
}

/// After an idle time the probability is the same as if it had been updated in every period.
#[test]
fn idle_times_are_made_up_for() {
    let make = || {
        let mut fuzzy: Queue<()> = queue("fuzzy", &link(8_000_000), &[]);
        load(&mut fuzzy, 2_000, 12);
        while fuzzy.packets() > 0 {
            fuzzy.depart(12 * S);
        }
        fuzzy
    };
    let (mut silent, mut asked) = (make(), make());
    let update = silent.var("update_ns").expect("one");
    let base = silent.var("updated_ns").expect("one");
    let idle = 40;
    silent.arrive(&packet(base + idle * update, 1_000), 0, ());
    for period in 1..=idle {
        let now = base + period * update;
        asked.arrive(&packet(now, 1_000), 0, ());
        asked.depart(now);
    }
    let of = |queue: &Queue<()>| queue.var("probability").expect("one") as f64;
    assert!(of(&silent) > 65_536.0 * 1.5, "still above its least");
    let ratio = of(&silent) / of(&asked);
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
}

/// A reference that is not given is what the link sends within its target delay.
#[test]
fn a_reference_is_found() {
    let of = |rate, params: &[(&str, u64)]| {
        let fuzzy: Queue<()> = queue("fuzzy", &link(rate), params);
        ["reference_bytes", "update_ns"].map(|name| fuzzy.var(name).expect("a number"))
    };
    assert_eq!(of(10_000_000, &[]), [18_750, 15 * MS]);
    assert_eq!(of(10_000_000, &[("target_ns", 40 * MS)]), [50_000, 15 * MS]);
    // A full packet takes 24 ms.
    assert_eq!(of(500_000, &[]), [4_500, 48 * MS]);
    assert_eq!(of(0, &[]), [18_750, 15 * MS]);
}
