// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the controller on a modelled line, and with any input.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

mod model;

use model::{MS, SECOND, run, run_along, settings, upstream};
use proptest::prelude::*;
use weirgate_track::{
    Controller, Direction, HEAD, Input, Limits, Reason, Record, Settings, replay,
};

fn mean(steps: &[(u64, u64)]) -> u64 {
    steps.iter().map(|step| step.0).sum::<u64>() / steps.len() as u64
}

#[test]
fn a_step_down_is_followed_and_a_step_up_found() {
    a_step(settings(8_000_000, 1), 7_850_000);
}

#[test]
fn round_trips_of_the_traffic_alone_are_enough_downstream() {
    a_step(settings(8_000_000, 0), 7_800_000);
}

#[test]
fn rare_probes_find_a_queue_later() {
    let rare = Settings {
        probe_ns: 2 * SECOND,
        ..settings(8_000_000, 2)
    };
    let line = |at| {
        if at < 20 * SECOND {
            8_000_000
        } else {
            2_000_000
        }
    };
    let shown = run(rare, 60, 5, line, |_| true);
    assert!(shown.steps[1_900].0 > 7_000_000, "{:?}", shown.steps[1_900]);
    let last = mean(&shown.steps[4_000..]);
    assert!((1_000_000..2_100_000).contains(&last), "{last}");
}

/// Without probes and round trips of the traffic, the rate is the floor, as soon as something
/// crosses the line.
#[test]
fn without_round_trips_of_the_traffic_the_floor_is_held() {
    let gone = |at: u64| !(10 * SECOND..20 * SECOND).contains(&at);
    let shown = run(settings(8_000_000, 0), 30, 3, |_| 8_000_000, gone);
    for step in &shown.steps[1_250..2_000] {
        assert_eq!(step.0, 500_000);
    }
    assert!(mean(&shown.steps[2_600..]) > 7_000_000);
    let mut idle = Controller::new(settings(8_000_000, 0)).unwrap();
    for at in (0..10 * SECOND).step_by(50 * MS as usize) {
        let direction = Direction::Down;
        idle.take(&Input::Load {
            at,
            direction,
            bytes: 100,
            backlog: 0,
        });
    }
    assert!(idle.idle() && !idle.blind());
    assert_eq!(idle.rate(Direction::Down), Some(8_000_000));
}

/// After a page was loaded, no traffic crosses the line that would give information.
#[test]
fn a_short_download_blinds_nobody() {
    let mut passive = Controller::new(settings(8_000_000, 0)).unwrap();
    for look in 0..200_u64 {
        let at = look * 50 * MS;
        let direction = Direction::Down;
        let bytes = if (10..13).contains(&look) { 50_000 } else { 0 };
        passive.take(&Input::Load {
            at,
            direction,
            bytes,
            backlog: 0,
        });
        assert!(!passive.blind(), "{look}");
    }
    assert_eq!(passive.rate(Direction::Down), Some(8_000_000));
    assert!(passive.idle());
}

/// Counters may have any values.
#[test]
fn counters_may_say_anything_before_an_outage() {
    let mut passive = Controller::new(settings(8_000_000, 0)).unwrap();
    for (look, bytes) in [(1, u64::MAX / 2 + 1), (2, u64::MAX / 2 + 1), (3, 0), (4, 1)] {
        let direction = Direction::Down;
        passive.take(&Input::Load {
            at: look * 50 * MS,
            direction,
            bytes,
            backlog: 0,
        });
    }
    assert!(passive.rate(Direction::Down).is_some());
}

#[test]
fn steps_of_the_upstream_are_followed_by_the_growth_of_the_delay() {
    a_step(upstream(8_000_000, 1), 7_800_000);
}

/// On a steady line, at least `kept` is used on average.
fn a_step(settings: Settings, kept: u64) {
    let line = |at: u64| {
        if (20 * SECOND..40 * SECOND).contains(&at) {
            2_000_000
        } else {
            8_000_000
        }
    };
    let shown = run(settings, 60, 7, line, |_| true);
    let trace = || {
        let second = |chunk: &[(u64, u64)]| format!("{} {}", mean(chunk), chunk[0].1 / MS);
        shown
            .steps
            .chunks(100)
            .map(second)
            .collect::<Vec<_>>()
            .join("\n")
    };
    // From 2 s after the step, no queue exceeds 30 ms.
    let down = &shown.steps[2_200..4_000];
    let longest = down.iter().map(|step| step.1).max().unwrap();
    assert!(longest < 40 * MS, "{} ms\n{}", longest / MS, trace());
    assert!(mean(down) > 1_850_000, "{}\n{}", mean(down), trace());
    let up = shown.steps[4_000..5_000]
        .iter()
        .position(|step| step.0 >= 7_200_000);
    assert!(up.is_some(), "{}", trace());
    let steady = &shown.steps[1_000..2_000];
    assert!(mean(steady) > kept, "{}\n{}", mean(steady), trace());
}

/// A line that varies all the time like LTE, by up to four fifths in a second.
#[test]
fn a_line_that_swings_is_followed() {
    let line = |at: u64| {
        let wave = |seconds: f64| (at as f64 / 1e9 / seconds * std::f64::consts::TAU).sin();
        (4e6 * (0.45 * wave(8.0) + 0.2 * wave(3.0)).exp()) as u64
    };
    let shown = run(settings(4_000_000, 0), 60, 5, line, |_| true);
    let (mut used, mut queue) = (0.0, 0);
    let measured = &shown.steps[500..];
    for (number, (rate, stands)) in measured.iter().enumerate() {
        let carries = line((500 + number as u64) * 10 * MS) as f64;
        used += (*rate as f64 * 0.97).min(carries) / carries / measured.len() as f64;
        queue += stands / measured.len() as u64;
    }
    assert!(used > 0.85, "{used}");
    assert!(queue < 35 * MS, "{} us", queue / 1_000);
}

/// The path becomes longer, as when another satellite takes over.
#[test]
fn a_margin_that_does_not_shrink_keeps_no_rate_low() {
    for mut settings in [settings(8_000_000, 1), upstream(8_000_000, 1)] {
        for limits in [&mut settings.up, &mut settings.down].into_iter().flatten() {
            (limits.margin_ppm, limits.margin_bits) = (0, 400_000);
        }
        let line = |at| match at / SECOND {
            20..40 => 1_200_000,
            _ => 8_000_000,
        };
        let shown = run(settings, 160, 7, line, |_| true);
        let last = mean(&shown.steps[15_000..]);
        assert!(last > 7_200_000, "{last}");
        assert!(replay(&shown.text).unwrap().other.is_none());
    }
}

#[test]
fn a_longer_path_is_no_queue() {
    let longer = |at: u64| if at >= 20 * SECOND { 14 * MS } else { 0 };
    let shown = run_along(
        settings(8_000_000, 0),
        40,
        9,
        |_| 8_000_000,
        |_| true,
        longer,
    );
    assert!(mean(&shown.steps[2_200..]) > 7_700_000);
    let worst = shown.steps[2_000..].iter().map(|step| step.0).min();
    assert!(worst > Some(5_500_000), "{worst:?}");
}

#[test]
fn what_an_outage_delays_is_no_queue() {
    let line = |at: u64| {
        let gone = 20 * SECOND..20 * SECOND + 200 * MS;
        if gone.contains(&at) { 0 } else { 8_000_000 }
    };
    let shown = run(settings(8_000_000, 0), 30, 9, line, |_| true);
    let worst = shown.steps[2_000..].iter().map(|step| step.0).min();
    assert!(worst > Some(6_000_000), "{worst:?}");
}

#[test]
fn without_answers_the_floor_is_held() {
    let gone = |at: u64| !(10 * SECOND..20 * SECOND).contains(&at);
    let shown = run(settings(8_000_000, 3), 30, 3, |_| 8_000_000, gone);
    for step in &shown.steps[1_250..2_000] {
        assert_eq!(step.0, 500_000);
    }
    let words: Vec<Reason> = shown.reasons.iter().map(|(_, reason)| *reason).collect();
    assert!(
        words.contains(&Reason::Blind) && words.contains(&Reason::Sees),
        "{words:?}"
    );
    assert!(mean(&shown.steps[2_500..]) > 7_000_000);
    // The same without answers from the beginning.
    let shown = run(settings(8_000_000, 2), 5, 3, |_| 8_000_000, |_| false);
    assert_eq!(shown.steps.last().unwrap().0, 500_000);
}

#[test]
fn a_hundred_runs_replay_to_the_same_decisions() {
    for seed in 0..100u64 {
        let rates = [1_000_000, 2_000_000, 4_000_000, 8_000_000, 9_000_000];
        let line = |at: u64| rates[((at / (3 * SECOND) + 1) * (seed + 3) % 5) as usize];
        let lost = |at: u64| !(at / MS * (seed + 1)).is_multiple_of(11);
        let reflectors = (seed % 5) as u16;
        let settings = if seed % 2 == 0 {
            settings(4_000_000, reflectors)
        } else {
            upstream(4_000_000, reflectors.max(1))
        };
        let shown = run(settings, 9, seed, line, lost);
        let replayed = replay(&shown.text).unwrap();
        assert_eq!(replayed.other, None, "run {seed}");
        assert!(replayed.decisions.len() > 1 && replayed.inputs > 170);
        // An altered decision is detected.
        let forged = shown.text.replacen(" start\n", " tried\n", 1);
        assert!(replay(&forged).unwrap().other.is_some());
        // A truncated record, but not between an input and its consequence.
        let cut = &shown.text[..shown.text.len() * 2 / 3];
        let cut = &cut[..=cut.rfind("\nl ").unwrap()];
        assert_eq!(replay(cut).unwrap().other, None, "run {seed}");
    }
}

/// The beginnings of recordings from the laboratory, with a line's jitter, losses and bursts.
#[test]
fn runs_of_the_laboratory_replay_to_the_same_decisions() {
    for (text, least) in [
        (include_str!("../records/down-four.record"), 40),
        (include_str!("../records/down-passive.record"), 15),
        (include_str!("../records/up-one.record"), 10),
        (include_str!("../records/blind.record"), 2),
    ] {
        let replayed = replay(text).unwrap();
        assert_eq!(replayed.other, None);
        assert!(replayed.decisions.len() >= least && replayed.inputs > 60);
    }
}

#[test]
fn mistakes_in_records_are_named() {
    let head =
        "weirgate-track 1\nset reflectors=1 probe-ns=100000000 delay-ns=5000000 packet=1500\n";
    let limits = "way up floor=1000 base=2000 ceiling=3000 margin-ppm=0\n";
    let wrong = |text: String| {
        let wrong = replay(&text).unwrap_err();
        (wrong.line, wrong.word)
    };
    assert_eq!(wrong(String::new()), (1, 1));
    assert_eq!(wrong("something\nelse\n".to_owned()), (1, 1));
    assert_eq!(wrong(head.to_owned()), (2, 1));
    assert_eq!(
        wrong(format!(
            "{head}way up floor=3 base=2 ceiling=x margin-ppm=0\n"
        )),
        (3, 5)
    );
    assert_eq!(wrong(format!("{head}{limits}s 0 0\n")), (4, 4));
    assert_eq!(wrong(format!("{head}{limits}l 0 left 3 4\n")), (4, 3));
    assert_eq!(wrong(format!("{head}{limits}s 0 0 0 0\n")), (4, 5));
    assert_eq!(wrong(format!("{head}{limits}q\n")), (4, 1));
    assert_eq!(wrong(format!("{head}{limits}d 0 up 5 because\n")), (4, 5));
    assert!(
        replay(&format!("{head}{limits}s 5 0 1\n"))
            .unwrap()
            .other
            .is_some()
    );
}

/// Times near the maximum of the integer type: those of a record are limited, and those given to a
/// controller count as its latest time.
#[test]
fn times_that_cannot_be_are_named_and_do_no_harm() {
    let record = |at: u64| {
        format!(
            "{HEAD}\nset reflectors=0 probe-ns=100000000 delay-ns=5000000 packet=1500\n\
             way up floor=1000 base=2000 ceiling=3000 margin-ppm=0\n\
             l 0 up 1 0\nl {at} up 1 0\nl {at} up 1 0\n"
        )
    };
    let wrong = replay(&record(u64::MAX)).unwrap_err().to_string();
    assert_eq!(
        wrong,
        "line 5, word 2: the time 18446744073709551615 is out of range; write a time in \
         nanoseconds, at most 4611686018427387904"
    );
    assert_eq!(replay(&record(Input::LATEST)).unwrap().inputs, 3);
    let mut controller = Controller::new(upstream(8_000_000, 0)).unwrap();
    for at in [0, u64::MAX - 1, u64::MAX, u64::MAX] {
        controller.take(&Input::Load {
            at,
            direction: Direction::Up,
            bytes: u64::MAX,
            backlog: u64::MAX,
        });
        controller.take(&Input::Passive {
            at,
            end: 1,
            round_trip: u64::MAX,
        });
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        1_000u64..1 << 40,
        0u64..1 << 40,
        0u64..1 << 40,
        0u64..500_000,
        0u64..1 << 41,
    )
        .prop_map(|(floor, more, most, margin_ppm, margin_bits)| Limits {
            floor,
            base: floor + more,
            ceiling: floor + more + most,
            margin_ppm,
            margin_bits,
        })
}

/// Generates anything that a hostile network may answer, at any time.
fn inputs() -> impl Strategy<Value = Vec<(u8, u64, u16, u32, i64, i64)>> {
    let one = (
        0u8..6,
        0u64..SECOND,
        0u16..6,
        0u32..40,
        any::<i64>(),
        any::<i64>(),
    );
    prop::collection::vec(one, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rates_stay_between_floor_and_ceiling(
        up in prop::option::of(limits()),
        down in limits(),
        inputs in inputs(),
    ) {
        let settings = Settings {
            up,
            down: Some(down),
            reflectors: 3,
            probe_ns: 100 * MS,
            delay_ns: 5 * MS,
            packet: 1_500,
        };
        let mut record = Record::new(settings.clone()).unwrap();
        let mut at = 0;
        for (kind, later, reflector, id, one, other) in inputs {
            at += later;
            let direction = if one % 2 == 0 { Direction::Up } else { Direction::Down };
            let input = match kind {
                0 => Input::Sent { at, reflector, id },
                1 => Input::Reply { at, reflector, id, one_way_us: None },
                2 => Input::Reply { at, reflector, id, one_way_us: Some((one, other)) },
                3 => Input::Passive { at, end: id, round_trip: one.unsigned_abs() },
                _ => Input::Load { at, direction, bytes: other.unsigned_abs(), backlog: one.unsigned_abs() % 3 },
            };
            record.take(&input);
            for direction in Direction::BOTH {
                let limits = settings.limits(direction);
                let rate = record.controller().rate(direction);
                prop_assert_eq!(limits.is_some(), rate.is_some());
                if let (Some(limits), Some(rate)) = (limits, rate) {
                    prop_assert!((limits.floor..=limits.ceiling).contains(&rate));
                }
            }
        }
        prop_assert_eq!(replay(&record.written()).unwrap().other, None);
    }

    #[test]
    fn answers_that_nobody_asked_for_change_nothing(
        inputs in prop::collection::vec((0u64..SECOND, 0u16..6, any::<u32>()), 0..200),
    ) {
        let mut controller = Controller::new(settings(4_000_000, 3)).unwrap();
        let mut at = 0;
        for (later, reflector, id) in inputs {
            at += later;
            controller.take(&Input::Reply { at, reflector, id, one_way_us: Some((0, 0)) });
        }
        prop_assert_eq!(controller.rate(Direction::Down), Some(4_000_000));
    }
}
