// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RED and ARED against the formulas of their papers.

use crate::support::{Chance, MS, ONE, S, link, packet, queue};
use weirgate_aqm::{Action, Queue};

/// Holds the queue at `len` packets of 1000 bytes for `arrivals` packets and
/// returns the gaps between early drops.
fn gaps(params: &[(&str, u64)], len: u64, arrivals: u64) -> (Queue<()>, Vec<u64>) {
    let mut red: Queue<()> = queue("red", &link(8_000_000), params);
    let mut chance = Chance(7);
    let mut gaps = Vec::new();
    let mut last = None;
    for index in 0..arrivals {
        let now = index * MS;
        let arrival = red.arrive(&packet(now, 1000), chance.word(), ());
        if arrival.verdict.why() == "early" {
            gaps.extend(last.map(|last| index - last));
            last = Some(index);
        }
        while red.packets() > len {
            red.depart(now);
        }
    }
    (red, gaps)
}

/// Thresholds at 10 and 30 packets of 1000 bytes, the limit at 60.
const PLAIN: [(&str, u64); 4] = [
    ("min_bytes", 10_000),
    ("max_bytes", 30_000),
    ("limit_bytes", 60_000),
    ("weight", ONE / 512),
];

#[test]
fn the_average_is_the_exponential_one() {
    let mut red: Queue<()> = queue("red", &link(8_000_000), &PLAIN);
    let mut average = 0.0_f64;
    for index in 0..3_000_u64 {
        let queued = red.bytes() as f64;
        red.arrive(&packet(index * MS, 1000), u32::MAX, ());
        average += (queued - average) / 512.0;
        let got = red.var("average").expect("average") as f64 / 65_536.0;
        assert!(
            (got - average).abs() < 1.0,
            "packet {index}: {got}, not {average}"
        );
        while red.packets() > 8 {
            red.depart(index * MS);
        }
    }
}

/// Uniform on 1 to 1/p: the mean is (1 + 1/p) / 2, none is larger than 1/p.
#[test]
fn gaps_between_drops_are_uniform() {
    // Halfway between the thresholds p is half of 1/10: gaps of 1 to 20.
    let (red, gaps) = gaps(&PLAIN, 20, 200_000);
    let steady: Vec<u64> = gaps[gaps.len() / 10..].to_vec();
    let mean = steady.iter().sum::<u64>() as f64 / steady.len() as f64;
    let average = red.var("average").expect("average") as f64 / 65_536.0;
    let p = 0.1 * (average - 10_000.0) / 20_000.0;
    let expected = f64::midpoint(1.0, 1.0 / p);
    assert!(
        (mean / expected - 1.0).abs() < 0.02,
        "{mean}, not {expected}"
    );
    let largest = *steady.iter().max().expect("gaps");
    assert!(largest <= (1.0 / p).ceil() as u64 + 1, "{largest} at p {p}");
    // All lengths are about equally frequent: a geometric distribution would have mostly short
    // ones.
    let short = steady.iter().filter(|gap| **gap <= 10).count() as f64 / steady.len() as f64;
    assert!(
        (short - 0.5).abs() < 0.05,
        "{short} of the gaps are in the shorter half"
    );
}

/// The probability rises from max_p at the upper threshold to 1 at the limit, or at twice the
/// threshold.
#[test]
fn gentle_rises_to_one_where_it_says() {
    for (gentle, len, p) in [(1, 45, 0.55), (2, 45, 0.55), (1, 31, 0.13), (0, 29, 0.095)] {
        let mut params = PLAIN.to_vec();
        params.push(("gentle", gentle));
        let (red, gaps) = gaps(&params, len, 50_000);
        let average = red.var("average").expect("average") as f64 / 65_536.0;
        let steady = &gaps[gaps.len() / 4..];
        let mean = steady.iter().sum::<u64>() as f64 / steady.len() as f64;
        let got = 1.0 / (2.0 * mean - 1.0);
        assert!(
            (got / p - 1.0).abs() < 0.1,
            "gentle {gentle}, {len} packets, average {average}: p {got}, not {p}"
        );
    }
}

#[test]
fn not_gentle_drops_everything_above_the_upper_threshold() {
    let mut params = PLAIN.to_vec();
    params.push(("gentle", 0));
    let mut red: Queue<()> = queue("red", &link(8_000_000), &params);
    for index in 0..5_000 {
        red.arrive(&packet(index * MS, 1000), u32::MAX, ());
        while red.packets() > 40 {
            red.depart(index * MS);
        }
    }
    let forced = red.drops("forced").expect("a reason");
    assert!(forced > 0);
    let arrival = red.arrive(&packet(6 * S, 1000), u32::MAX, ());
    assert_eq!(
        (arrival.verdict.action, arrival.verdict.why()),
        (Action::Drop, "forced")
    );
}

/// AQM-4.2.1: the parabola is at most 0.058 above and 0.078 below the power.
#[test]
fn idle_time_decays_the_average_by_either_rule() {
    for rule in [0, 1] {
        for idle_packets in [1_u64, 50, 200, 500, 1_000, 1_380, 1_400, 5_000] {
            let mut params = PLAIN.to_vec();
            params.push(("idle", rule));
            let mut red: Queue<()> = queue("red", &link(12_000_000), &params);
            for index in 0..4_000 {
                red.arrive(&packet(index * MS, 1000), u32::MAX, ());
                while red.packets() > 8 {
                    red.depart(index * MS);
                }
            }
            while red.packets() > 0 {
                red.depart(4 * S);
            }
            let before = red.var("average").expect("average") as f64;
            // 1500 bytes at 12 Mbit/s take 1 ms.
            red.arrive(&packet(4 * S + idle_packets * MS, 1000), 0, ());
            let factor = red.var("average").expect("average") as f64 / before;
            let exact = (1.0 - 1.0 / 512.0_f64).powi(idle_packets as i32);
            let off = factor - exact;
            if rule == 0 {
                assert!(off.abs() < 1e-4, "{idle_packets}: {factor}, not {exact}");
            } else {
                assert!(off > -0.079 && off < 0.059, "{idle_packets}: off by {off}");
            }
        }
    }
}

/// Returns a queue that is empty after its average was far above the upper threshold.
fn after_overload(params: &[(&str, u64)], now: u64) -> Queue<()> {
    let all = [&PLAIN[..], &[("gentle", 0)], params].concat();
    let mut red: Queue<()> = queue("red", &link(12_000_000), &all);
    for index in 0..5_000 {
        red.arrive(&packet(now + index * 1_000, 1000), u32::MAX, ());
        while red.packets() > 40 {
            red.depart(now + index * 1_000);
        }
    }
    while red.packets() > 0 {
        red.depart(now + 5 * MS);
    }
    red
}

fn average(red: &Queue<()>) -> f64 {
    red.var("average").expect("average") as f64
}

/// Every packet is dropped, so the link stays idle, however often packets arrive. 1500 bytes at 12
/// Mbit/s take 1 ms.
#[test]
fn a_drop_before_an_empty_queue_does_not_end_the_idle_time() {
    for gap in [MS / 10, MS, MS / 10 * 13, 50 * MS] {
        let mut red = after_overload(&[], S);
        let (mut now, before) = (S + 5 * MS, average(&red));
        let mut dropped = 0;
        loop {
            now += gap;
            let verdict = red.arrive(&packet(now, 64), u32::MAX, ()).verdict;
            let packets = (now - S - 5 * MS) as f64 / MS as f64;
            let exact = (1.0 - 1.0 / 512.0_f64).powf(packets);
            let factor = average(&red) / before;
            assert!((factor - exact).abs() < 1e-3, "{factor}, not {exact}");
            if verdict.action != Action::Drop {
                break;
            }
            assert_eq!(verdict.why(), "forced");
            dropped += 1;
        }
        assert!(dropped > 0, "{gap}");
    }
}

/// The link is idle for nine tenths of the time, but never as long as a whole packet takes.
#[test]
fn small_packets_on_an_idle_line_let_the_average_fall() {
    for rule in [0, 1] {
        let mut red = after_overload(&[("idle", rule)], S);
        let before = average(&red);
        for index in 1..=10_000 {
            let now = S + 5 * MS + index * MS / 10 * 9;
            red.arrive(&packet(now, 64), u32::MAX, ());
            red.depart(now);
        }
        assert!(average(&red) < before / 1e3, "rule {rule}");
    }
}

#[test]
fn ecn_marks_the_capable_and_drops_the_others() {
    let mut params = PLAIN.to_vec();
    params.push(("ecn", 1));
    let mut red: Queue<()> = queue("red", &link(8_000_000), &params);
    let mut chance = Chance(3);
    for index in 0..40_000_u64 {
        let mut packet = packet(index * MS, 1000);
        packet.ecn = (index % 2) as u32 * 2;
        let verdict = red.arrive(&packet, chance.word(), ()).verdict;
        match verdict.action {
            Action::Mark => assert_eq!(packet.ecn, 2),
            Action::Drop => assert_eq!(packet.ecn, 0),
            Action::Pass => {}
        }
        while red.packets() > 20 {
            red.depart(index * MS);
        }
    }
    assert!(red.marks("early").expect("a reason") > 500);
    assert!(red.drops("early").expect("a reason") > 500);
}

/// ARED's step: the average is held above, then below its target.
#[test]
fn ared_steps_as_the_paper_says() {
    for rule in [0, 1] {
        let mut params = PLAIN.to_vec();
        params.extend([("rule", rule), ("weight", ONE / 16)]);
        params.extend([
            ("max_p", ONE / 10),
            ("least_p", ONE / 100),
            ("beta", ONE / 10 * 9),
        ]);
        let mut ared: Queue<()> = queue("ared", &link(8_000_000), &params);
        let mut p = 0.1_f64;
        let mut steps = 0;
        let mut ups = 0;
        for index in 0..30_000_u64 {
            let high = (index / 10_000) % 2 == 0;
            ared.arrive(&packet(index * MS, 1000), u32::MAX, ());
            while ared.packets() > if high { 27 } else { 12 } {
                ared.depart(index * MS);
            }
            let average = ared.var("average").expect("average") as f64 / 65_536.0;
            let taken = ared.stat("increases").expect("up") + ared.stat("decreases").expect("down");
            if taken > steps {
                assert_eq!(taken, steps + 1);
                steps = taken;
                let up = ared.stat("increases").expect("up") > ups;
                ups += u64::from(up);
                let (low, high) = if rule == 0 {
                    (20e3, 20e3)
                } else {
                    (18e3, 22e3)
                };
                if up {
                    assert!(average > high && p <= 0.5, "up at {average}, {p}");
                    p += (p / 4.0).min(0.01);
                } else {
                    assert!(average < low && p >= 0.01, "down at {average}, {p}");
                    p *= 0.9;
                }
                let got = ared.var("max_p").expect("max_p") as f64 / ONE as f64;
                assert!((got - p).abs() < 1e-6, "{got}, not {p}");
            }
        }
        assert!((50..=60).contains(&steps), "{steps} steps in 30 s");
    }
}

/// A change of a parameter keeps packets, the average and the adapted probability.
#[test]
fn a_change_keeps_the_queue() {
    let mut ared: Queue<u64> = queue("ared", &link(8_000_000), &PLAIN);
    for index in 0..25 {
        ared.arrive(&packet(index * 600 * MS, 1000), u32::MAX, index);
    }
    let discipline = weirgate_aqm::Discipline::named("ared").expect("ared");
    let changed = weirgate_aqm::Settings::new(discipline)
        .with("limit_bytes", 20_000)
        .expect("a parameter");
    let before = (ared.packets(), ared.var("average"), ared.var("max_p"));
    ared.change(&changed, &link(8_000_000));
    assert_eq!(
        before,
        (ared.packets(), ared.var("average"), ared.var("max_p"))
    );
    assert_eq!(
        ared.arrive(&packet(20 * S, 1000), u32::MAX, 99).refused,
        Some(99)
    );
    assert_eq!(ared.depart(20 * S).sent.map(|sent| sent.2), Some(0));
}

/// By default the link's rate gives the initial and the least probability: those of ARED's authors
/// on a slow link, less on a fast one, and never 0.
#[test]
fn probabilities_begin_by_the_link() {
    // Windows of a round trip of 100 ms, in packets of 1,500 bytes.
    for (bits_s, start, least) in [
        (56_000, 0.1, 0.01),
        (1_000_000, 0.1, 0.01),
        (10_000_000, 1.0 / 83.0, 3.0 / 83.0 / 83.0),
        (100_000_000, 1.0 / 833.0, 3.0 / 833.0 / 833.0),
        (1_000_000_000_000, 1.0 / 1_048_576.0, 1.0 / 1_048_576.0),
    ] {
        let ared = queue::<()>("ared", &link(bits_s), &[]);
        let number = |name| ared.var(name).expect(name) as f64 / ONE as f64;
        for (name, expected) in [("max_p", start), ("least_p", least)] {
            let got = number(name);
            assert!(
                (got / expected - 1.0).abs() < 0.001,
                "{name} {got} {bits_s}"
            );
        }
    }
    let set = [("max_p", ONE / 7), ("least_p", ONE / 8)];
    let ared = queue::<()>("ared", &link(100_000_000), &set);
    assert_eq!(ared.var("max_p"), Some(ONE / 7));
    assert_eq!(ared.var("least_p"), Some(ONE / 8));
    let red = queue::<()>("red", &link(100_000_000), &[]);
    assert_eq!(red.var("max_p"), Some(ONE / 10));
}

/// The limit of the queue alone gives the thresholds. They are never too small for fifteen packets,
/// and never more than half of the limit. A target delay gives them instead.
#[test]
fn the_limit_chooses_thresholds() {
    for (limit, delay_ns, min, max) in [
        (0, 0, 7_500, 22_500),
        (4_000_000, 0, 333_333, 1_000_000),
        (60_000, 0, 7_500, 22_500),
        (20_000, 0, 3_333, 10_000),
        (4_000_000, 40 * MS, 20_000, 60_000),
    ] {
        let params = [("limit_bytes", limit), ("delay_ns", delay_ns)];
        let red = queue::<()>("red", &link(8_000_000), &params);
        let found = ["min_bytes", "max_bytes"].map(|name| red.var(name).expect(name));
        assert_eq!(found, [min, max], "{limit} bytes, {delay_ns} ns");
    }
}

/// By default a step up and a step down cancel each other.
#[test]
fn a_step_down_takes_a_step_up_back() {
    let mut ared: Queue<()> = queue("ared", &link(8_000_000), &[("limit_bytes", 400_000)]);
    let mut seen = vec![ared.var("max_p").expect("max_p")];
    for second in 0..60 {
        // Six seconds above the target, six below it, repeatedly.
        let queued = if second / 6 % 2 == 0 { 90 } else { 10 };
        for index in 0..400 {
            ared.arrive(&packet(second * S + index * 2 * MS, 1_000), u32::MAX, ());
            while ared.packets() > queued {
                ared.depart(second * S + index * 2 * MS);
            }
        }
        seen.push(ared.var("max_p").expect("max_p"));
    }
    let (least, most) = (seen.iter().min(), seen.iter().max());
    assert!(most > least.map(|least| least * 2).as_ref(), "{seen:?}");
    let (before, after) = (seen[0] as f64, seen[60] as f64);
    let ups = ared.stat("increases").expect("up") as f64;
    let downs = ared.stat("decreases").expect("down") as f64;
    let expected = before * 1.25_f64.powf(ups - downs);
    assert!(
        (after / expected - 1.0).abs() < 1e-3,
        "{after}, not {expected}"
    );
}

/// A small beta does not take the probability to 0, from which no step would raise it.
#[test]
fn a_probability_that_fell_rises_again() {
    let params = [&PLAIN[..], &[("beta", 1), ("interval_ns", 100 * MS)]].concat();
    let mut ared: Queue<()> = queue("ared", &link(8_000_000), &params);
    let mut hold = |len: u64, from: u64, to: u64| {
        for now in (from..to).step_by(MS as usize) {
            ared.arrive(&packet(now, 1000), u32::MAX, ());
            while ared.packets() > len {
                ared.depart(now);
            }
        }
        ared.var("max_p").expect("a probability")
    };
    let least = hold(2, S, 10 * S);
    assert_eq!(least, ONE >> 20);
    assert!(hold(29, 10 * S, 40 * S) > least, "it stays at {least}");
}
