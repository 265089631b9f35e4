// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meters against the definitions in their RFCs: tokens arrive one by one, at the instants
//! k/rate, and buckets take one at a time.

#[path = "support/definition.rs"]
mod definition;
mod support;

use definition::Definition;
use proptest::prelude::*;
use support::Chance;
use weirgate_aqm::{Colour, Meter, MeterKind};

fn kinds() -> impl Strategy<Value = MeterKind> {
    let rate = 1_u64..2_000_000;
    let burst = 1_u64..20_000;
    prop_oneof![
        (rate.clone(), 0_u64..20_000, burst.clone()).prop_map(|(rate, burst, excess)| {
            MeterKind::SingleRate {
                rate,
                burst,
                excess,
            }
        }),
        (rate.clone(), burst.clone(), rate.clone(), burst.clone()).prop_map(
            |(rate, burst, more, peak_burst)| MeterKind::TwoRate {
                rate,
                burst,
                peak: rate + more,
                peak_burst,
            }
        ),
        (rate.clone(), burst).prop_map(|(rate, burst)| MeterKind::Bucket { rate, burst }),
        (rate, 1_u64..2_000_000_000)
            .prop_map(|(rate, interval)| MeterKind::Average { rate, interval }),
    ]
}

/// Returns the time to the next packet. It is mostly close to what the rates need for one, and
/// sometimes very long, so that buckets run empty, hover and fill.
fn gap(word: u64) -> u64 {
    match word % 16 {
        0 => word * 800,
        1..=3 => 0,
        4..=8 => word % 1_000_000,
        _ => word % 20_000_000,
    }
}

fn brought(word: u64) -> Colour {
    [Colour::Green, Colour::Yellow, Colour::Red][(word % 3) as usize]
}

/// Compares a meter with its definition on `packets` packets of one seed; returns the number of
/// each colour.
fn compare(kind: MeterKind, aware: bool, seed: u64, packets: usize) -> [usize; 3] {
    let mut meter = Meter::new(kind, aware).expect("a meter");
    let mut definition = Definition::new(kind, aware);
    let mut words = Chance(seed);
    let mut now = u64::from(words.word()) << 20;
    let mut colours = [0; 3];
    for packet in 0..packets {
        now += gap(u64::from(words.word()));
        let bytes = 20 + (u64::from(words.word()) % 1481) as u32;
        let brings = brought(u64::from(words.word()));
        let got = meter.colour(bytes, brings, now);
        let expected = definition.colour(bytes, brings, now);
        assert_eq!(got, expected, "packet {packet} of {kind:?}, aware {aware}");
        colours[got as usize] += 1;
    }
    colours
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_meter_decides_as_its_definition(kind in kinds(), aware: bool, seed: u64) {
        compare(kind, aware, seed, 500);
    }

    /// Additional packets of 0 bytes change nothing.
    #[test]
    fn being_asked_in_between_changes_nothing(kind in kinds(), seed: u64) {
        let mut often = Meter::new(kind, false).expect("a meter");
        let mut seldom = Meter::new(kind, false).expect("a meter");
        let mut words = Chance(seed);
        let mut now = 0;
        often.colour(0, Colour::Green, now);
        seldom.colour(0, Colour::Green, now);
        for _ in 0..200 {
            for _ in 0..u64::from(words.word()) % 4 {
                now += u64::from(words.word()) % 3_000_000;
                often.colour(0, Colour::Green, now);
            }
            let bytes = 20 + (u64::from(words.word()) % 1481) as u32;
            prop_assert_eq!(
                often.colour(bytes, Colour::Green, now),
                seldom.colour(bytes, Colour::Green, now)
            );
        }
    }
}

/// 100,000 packets for each marker, blind and aware; every colour is seen.
#[test]
fn a_hundred_thousand_packets_have_the_colours_of_the_rfc() {
    let single = MeterKind::SingleRate {
        rate: 80_001,
        burst: 2_003,
        excess: 3_001,
    };
    let double = MeterKind::TwoRate {
        rate: 80_011,
        burst: 2_003,
        peak: 120_007,
        peak_burst: 3_001,
    };
    let bucket = MeterKind::Bucket {
        rate: 120_007,
        burst: 3_001,
    };
    let average = MeterKind::Average {
        rate: 120_007,
        interval: 50_000_003,
    };
    for (kind, own) in [(single, 3), (double, 3), (bucket, 2), (average, 2)] {
        for aware in [false, true] {
            let seen = compare(kind, aware, 20_261_122, 100_000);
            let colours = seen.iter().filter(|count| **count > 5_000).count();
            let expected = if aware { 3 } else { own };
            assert_eq!(colours, expected, "{kind:?}: {seen:?}");
        }
    }
}

/// The fastest rate and the longest pause neither overflow nor lose a token.
#[test]
fn the_ends_of_the_range_are_exact() {
    let kind = MeterKind::SingleRate {
        rate: 12_500_000_000,
        burst: (1 << 29) - 1,
        excess: (1 << 29) - 1,
    };
    let mut meter = Meter::new(kind, false).expect("a meter");
    for now in [0, u64::MAX / 2, u64::MAX] {
        for expected in [Colour::Green, Colour::Yellow, Colour::Red] {
            assert_eq!(meter.colour((1 << 29) - 1, Colour::Green, now), expected);
        }
    }
    // 12.5 bytes of tokens accrue in a nanosecond: 12, then 13.
    let mut meter = Meter::new(
        MeterKind::Bucket {
            rate: 12_500_000_000,
            burst: 100,
        },
        false,
    )
    .expect("a meter");
    assert_eq!(meter.colour(100, Colour::Green, 0), Colour::Green);
    assert_eq!(meter.colour(13, Colour::Green, 1), Colour::Red);
    assert_eq!(meter.colour(12, Colour::Green, 1), Colour::Green);
    assert_eq!(meter.colour(13, Colour::Green, 2), Colour::Green);
    // Time that goes backwards adds no tokens.
    assert_eq!(meter.colour(1, Colour::Green, 1), Colour::Red);
}

/// RFC 3290 section 5.1.1: a rate's bytes pass in each interval, and no more.
#[test]
fn an_average_meter_counts_each_interval_by_itself() {
    let second = 1_000_000_000;
    let kind = MeterKind::Average {
        rate: 10_000,
        interval: second,
    };
    let mut meter = Meter::new(kind, false).expect("a meter");
    let mut passed = 0;
    for packet in 0..100 {
        let now = packet * second / 10;
        if meter.colour(1500, Colour::Green, now) == Colour::Green {
            passed += 1;
        }
    }
    // Six packets of 1500 bytes fit in 10,000, in each of ten seconds.
    assert_eq!(passed, 60);
}

/// RFC 3290 section 5.1.2: the average follows the offered load with its gain, computed here in
/// floating point.
#[test]
fn a_moving_average_follows_the_formula() {
    let (rate, interval, gain) = (7_500.0, 1_000_000_000, 0.25);
    let kind = MeterKind::Moving {
        rate: 7_500,
        interval,
        gain: 1 << 30,
    };
    let mut meter = Meter::new(kind, false).expect("a meter");
    let (mut average, mut total, mut until) = (0.0, 0.0, interval);
    let mut words = Chance(7);
    let (mut now, mut red) = (0, 0);
    meter.colour(0, Colour::Green, now);
    for _ in 0..2000 {
        now += u64::from(words.word()) % 400_000_000;
        while now >= until {
            average += gain * (total - average);
            (total, until) = (0.0, until + interval);
        }
        let bytes = (u64::from(words.word()) % 3000) as u32;
        total += f64::from(bytes);
        // Close to the rate, rounding to 2^-16 byte may decide either way.
        let near = (average - rate).abs() < 1.5;
        let got = meter.colour(bytes, Colour::Green, now);
        assert!(
            near || (got == Colour::Red) == (average > rate),
            "{average}"
        );
        red += usize::from(got == Colour::Red);
    }
    assert!((200..1800).contains(&red), "{red} of 2000 red");
}

#[test]
fn what_no_meter_can_be_is_refused_with_the_range() {
    let two = |rate, burst, peak, peak_burst| MeterKind::TwoRate {
        rate,
        burst,
        peak,
        peak_burst,
    };
    let single = |rate, burst, excess| MeterKind::SingleRate {
        rate,
        burst,
        excess,
    };
    for (kind, message) in [
        (single(0, 1, 1), "rate is 0; it may be 1 to 12500000000"),
        (
            single(1, 0, 0),
            "the larger burst is 0; it may be 1 to 536870911",
        ),
        (
            two(100, 1, 99, 1),
            "peak rate is 99; it may be 100 to 12500000000",
        ),
        (
            two(100, 0, 100, 1),
            "committed burst is 0; it may be 1 to 536870911",
        ),
        (
            MeterKind::Average {
                rate: 1,
                interval: 0,
            },
            "interval is 0; it may be 1 to 1000000000000",
        ),
        (
            MeterKind::Moving {
                rate: 1,
                interval: 1,
                gain: 0,
            },
            "gain is 0; it may be 1 to 4294967296",
        ),
    ] {
        assert_eq!(
            Meter::new(kind, false)
                .expect_err("out of range")
                .to_string(),
            message
        );
    }
}
