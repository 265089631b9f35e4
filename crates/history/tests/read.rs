// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read equals what was written, however old: compared with a plain list of rows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk;

use disk::Disk;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_history::{Event, History, Kind};

const SIZE: u64 = 8 << 20;

/// A row: its duration, and the values of a counter and a gauge, if known.
type Row = (i64, Option<i64>, Option<i64>);

fn row() -> impl Strategy<Value = Row> {
    let interval = prop_oneof![8 => 990_i64..1010, 1 => 1_i64..5000];
    let counter = prop_oneof![1 => Just(None), 9 => (0_i64..100_000).prop_map(Some)];
    let gauge = prop_oneof![1 => Just(None), 9 => (-5_i64..5).prop_map(Some)];
    (interval, counter, gauge)
}

/// Writes rows repeatedly, with values that change from round to round.
fn filled(rows: &[Row], rounds: usize) -> (History<Disk>, Vec<(i64, Row)>) {
    let mut history = History::open(Disk::default(), SIZE).unwrap();
    let mut time = 1_700_000_000_123;
    let mut all = Vec::new();
    for round in 0..rounds {
        for (interval, counter, gauge) in rows {
            time += interval;
            let counter = counter.map(|value| value / (1 + round as i64 % 3));
            let values = [
                counter.map(|value| ("sent{class=\"a\"}", Kind::Counter, value)),
                gauge.map(|value| ("waiting{class=\"a\"}", Kind::Gauge, value)),
            ];
            history
                .append(time, *interval, values.into_iter().flatten())
                .unwrap();
            all.push((time, (*interval, counter, *gauge)));
        }
        history.commit().unwrap();
    }
    (history, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rows_come_back_exactly(rows in proptest::collection::vec(row(), 1..400), rounds in 1_usize..8) {
        let (history, all) = filled(&rows, rounds);
        let names = ["sent{class=\"a\"}", "waiting{class=\"a\"}"];
        let read = history.read(&names, i64::MIN / 2, i64::MAX / 2, 0).unwrap();
        let sent: Vec<_> = read[0].points.iter().map(|p| (p.start, p.end, p.counted)).collect();
        let expected: Vec<_> = all.iter()
            .filter_map(|(time, (interval, counter, _))| Some((time - interval, *time, (*counter)?)))
            .collect();
        prop_assert_eq!(sent, expected);
        let waiting: Vec<_> = read[1].points.iter().map(|p| (p.end, p.least, p.most)).collect();
        let expected: Vec<_> = all.iter()
            .filter_map(|(time, (_, _, gauge))| Some((*time, (*gauge)?, (*gauge)?)))
            .collect();
        prop_assert_eq!(waiting, expected);
    }

    #[test]
    fn steps_lose_nothing(rows in proptest::collection::vec(row(), 300..900), step in 1_i64..40) {
        // At least 17 chunks of 900 to 1,799 rows, so that rows, steps and memory are all used.
        let (history, all) = filled(&rows, 33 * 900 / rows.len() + 1);
        prop_assert!(history.status().spans[1].is_some());
        let step = step * 60_000;
        let names = ["sent{class=\"a\"}", "waiting{class=\"a\"}"];
        let read = history.read(&names, i64::MIN / 2, i64::MAX / 2, step).unwrap();
        let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        let mut means: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (time, (interval, counter, gauge)) in &all {
            let start = (time - 1) - (time - 1).rem_euclid(step);
            if let Some(value) = counter {
                let sum = sums.entry(start).or_default();
                *sum = (sum.0 + value, sum.1 + interval);
            }
            if let Some(value) = gauge {
                let sum = means.entry(start).or_default();
                *sum = (sum.0 + value * interval, sum.1 + interval);
            }
        }
        let found: Vec<_> = read[0].points.iter().map(|p| (p.start, p.counted)).collect();
        let expected: Vec<_> = sums.iter().map(|(start, sum)| (*start, sum.0)).collect();
        prop_assert_eq!(found, expected);
        for (point, (start, sum)) in read[1].points.iter().zip(&means) {
            prop_assert_eq!(point.start, *start);
            prop_assert!((point.mean - sum.0 as f64 / sum.1 as f64).abs() < 1e-9);
        }
    }
}

/// The clock is set forward by an hour, back by two, back by five seconds, and to where it had
/// been. Only the five seconds have two rows each, of which the later ones are shown. Rows and
/// steps within a skipped time are unchanged.
#[test]
fn a_leap_hides_nothing_of_what_it_went_over() {
    const NAME: &str = "sent{class=\"a\"}";
    let mut history = History::open(Disk::default(), SIZE).unwrap();
    let begin = 1_700_000_040_000;
    // The numbers of chunks on the disk of a series that is rewritten each time: none, and so many
    // that there are steps of a minute too.
    for (round, chunks) in [(0_i64, 0), (1, 40)] {
        let begin = begin + round * 86_400_000 * 30;
        let mut expected = BTreeMap::new();
        let mut time = begin;
        for (part, leap) in [3_600, -7_200, -5, 3_605, 0].into_iter().enumerate() {
            for second in 0..10 {
                time += 1000;
                let value = (part as i64 + 1) * 100 + second;
                history
                    .append(time, 1000, [(NAME, Kind::Counter, value)])
                    .unwrap();
                expected.insert(time, value);
            }
            history.commit().unwrap();
            time += leap * 1000;
        }
        // Later rows push them out of memory.
        let mut later = begin + 86_400_000;
        for row in 1..=chunks * 900 {
            later += 1000;
            history
                .append(later, 1000, [(NAME, Kind::Counter, 1)])
                .unwrap();
            if row % 300 == 0 {
                history.commit().unwrap();
            }
        }
        let (from, to) = (begin - 7_200_000, begin + 7_200_000);
        let read = |step| history.read(&[NAME], from, to, step).unwrap().remove(0);
        let found: BTreeMap<i64, i64> = read(0).points.iter().map(|p| (p.end, p.counted)).collect();
        assert_eq!(found.len(), 45, "{chunks}: {found:?}");
        assert_eq!(found, expected, "{chunks}");
        let minutes: i64 = read(60_000).points.iter().map(|p| p.counted).sum();
        println!(
            "{chunks} chunks: {minutes} of {}",
            expected.values().sum::<i64>()
        );
        let starts: Vec<i64> = read(60_000)
            .points
            .iter()
            .map(|p| p.start - begin)
            .collect();
        assert_eq!(starts, [-3_600_000, 0, 3_600_000], "{chunks}");
    }
}

#[test]
fn a_part_of_the_time_is_a_part_of_the_rows() {
    let rows = vec![(1000, Some(1), Some(2)); 600];
    let (history, all) = filled(&rows, 30);
    let (first, last) = (all[0].0 - 1000, all.last().unwrap().0);
    assert_eq!(history.span(), Some((first, last)));
    for (from, to) in [(0, 10), (100, 1000), (5_000, 12_345), (14_000, 18_000)] {
        let (from, to) = (first + from * 1000, first + to * 1000);
        let read = history.read(&["sent{class=\"a\"}"], from, to, 0).unwrap();
        let within = all.iter().filter(|(time, _)| *time > from && *time <= to);
        let sum: i64 = within.filter_map(|(_, row)| row.1).sum();
        assert_eq!(read[0].points.len() as i64, (to - from) / 1000);
        let sent: i64 = read[0].points.iter().map(|point| point.counted).sum();
        assert_eq!(sent, sum);
        assert_eq!(read[0].points[0].start, from);
    }
    assert_eq!(
        history.read(&["none"], first, last, 0).unwrap()[0].points,
        []
    );
    assert_eq!(history.series(first, last).unwrap().len(), 2);
}

#[test]
fn the_oldest_go_and_longer_steps_stay() {
    // A small file, which cannot hold four days of seconds.
    let mut history = History::open(Disk::default(), 1 << 20).unwrap();
    let mut state = 1_u64;
    for second in 0..4 * 86_400_i64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let values = [("sent", Kind::Counter, (state >> 50) as i64)];
        history.append((second + 1) * 1000, 1000, values).unwrap();
        if second % 300 == 0 {
            history.commit().unwrap();
        }
        if second == 1000 {
            history.event(Event {
                time: second * 1000,
                kind: String::from("apply"),
                text: String::from("state 1"),
            });
        }
    }
    history.commit().unwrap();
    let spans = history.status().spans;
    assert!(spans[0].unwrap().0 > 40_000_000, "{spans:?}");
    assert_eq!(spans[1].unwrap().0, 0);
    assert!(history.storage().bytes.len() <= 1 << 20);
    // The whole time is still there, exactly once.
    let read = history.read(&["sent"], 0, 4 * 86_400_000, 0).unwrap();
    let mut end = 0;
    for point in &read[0].points {
        assert!(
            point.start >= end && point.start - end < 60_000,
            "{end} {point:?}"
        );
        end = point.end;
    }
    assert_eq!(end, 4 * 86_400_000);
    let events = history.events(0, i64::MAX / 2).unwrap();
    assert_eq!(events.len(), 1);
    let reopened = History::open(history.into_storage(), 1 << 20).unwrap();
    assert_eq!(
        reopened.read(&["sent"], 0, 4 * 86_400_000, 0).unwrap(),
        read
    );
    assert_eq!(reopened.events(0, i64::MAX / 2).unwrap(), events);
}

#[test]
fn a_flood_of_names_is_bounded_and_counted() {
    let mut history = History::open(Disk::default(), SIZE).unwrap();
    let names: Vec<String> = (0..9000).map(|number| format!("host{number}")).collect();
    for time in 1..4 {
        let values = names.iter().map(|name| (&**name, Kind::Gauge, time));
        history.append(time * 1000, 1000, values).unwrap();
        history.commit().unwrap();
    }
    let long = "x".repeat(weirgate_history::MAX_NAME + 1);
    history
        .append(9000, 1000, [(&*long, Kind::Gauge, 1)])
        .unwrap();
    let status = history.status();
    assert_eq!(status.series, weirgate_history::MAX_SERIES);
    assert_eq!(status.refused, 3 * (9000 - 8192) + 1);
}

/// Rows a minute apart fill a ring with few chunks: all of it is still there, at any step.
#[test]
fn rows_far_apart_are_kept_for_as_long() {
    const MINUTE: i64 = 60_000;
    let mut history = History::open(Disk::default(), 2 << 20).unwrap();
    let rows = 60 * 1440_i64;
    let names: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    for row in 1..=rows {
        let value = (row * 7919) % 10_007;
        let values = names.iter().map(|name| (&**name, Kind::Gauge, value));
        history.append(row * MINUTE, MINUTE, values).unwrap();
        if row % 300 == 0 {
            history.commit().unwrap();
        }
    }
    history.commit().unwrap();
    for step in [0, MINUTE, 10 * MINUTE, 120 * MINUTE, 660 * MINUTE] {
        let read = history.read(&["s3"], 0, rows * MINUTE, step).unwrap();
        let points = &read[0].points;
        let mut end = 0;
        for point in points {
            assert!(
                point.start <= end,
                "{step}: a gap from {end} to {}",
                point.start
            );
            // Steps of two hours do not divide one of eleven evenly.
            assert!(point.known > 0.8, "{step}: {point:?}");
            end = point.end;
        }
        assert!(end >= rows * MINUTE, "{step}: ends at {end}");
    }
}
