// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power failures and full disks: committed rows are readable again, wherever a write was
//! interrupted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk;

use disk::{Disk, Op};
use proptest::prelude::*;
use weirgate_history::{Event, History, Kind, LEAST};

/// An operation of the test.
#[derive(Debug, Clone)]
enum Act {
    /// Rows with this distance in time, in milliseconds.
    Rows(u8),
    /// The clock is set back by this many rows, which begins a chunk.
    Back(u8),
    Happens,
    Commit,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (1_u8..6).prop_map(Act::Rows),
        2 => (1_u8..9).prop_map(Act::Back),
        1 => Just(Act::Happens),
        4 => Just(Act::Commit),
    ]
}

/// Returns what the history knows: the values of `count`, which numbers the rows, in order of time.
fn known(history: &History<Disk>) -> Vec<i64> {
    let read = history.read(&["number"], i64::MIN, i64::MAX, 0).unwrap();
    read[0].points.iter().map(|point| point.most).collect()
}

/// Returns the visible rows of the first `rows`: those of a later chunk hide rows that began during
/// it.
fn visible(times: &[i64], rows: usize) -> Vec<i64> {
    let mut chunks: Vec<Vec<(i64, i64)>> = Vec::new();
    for (number, time) in times[..rows].iter().enumerate() {
        if number == 0 || *time <= times[number - 1] {
            chunks.push(Vec::new());
        }
        chunks.last_mut().unwrap().push((*time, number as i64));
    }
    let mut seen: Vec<(i64, i64)> = Vec::new();
    for chunk in chunks {
        let (first, last) = (chunk[0].0 - 1000, chunk.last().unwrap().0);
        seen.retain(|(time, _)| time - 1000 < first || time - 1000 >= last);
        seen.extend(chunk);
    }
    seen.sort_unstable();
    seen.into_iter().map(|(_, number)| number).collect()
}

fn work(acts: &[Act]) -> (Disk, Vec<i64>, Vec<(usize, usize)>) {
    let mut history = History::open(Disk::default(), LEAST).unwrap();
    let (mut time, mut times) = (1_000_000, Vec::new());
    // After this many operations, at least this many rows are safe.
    let mut safe = Vec::new();
    for act in acts {
        match act {
            Act::Rows(count) => {
                for _ in 0..*count {
                    time += 1000;
                    let number = times.len() as i64;
                    let values = [
                        ("number", Kind::Gauge, number),
                        ("other", Kind::Counter, number % 3),
                    ];
                    history.append(time, 1000, values).unwrap();
                    times.push(time);
                }
            }
            Act::Back(rows) => time -= i64::from(*rows) * 1000,
            Act::Happens => history.event(Event {
                time,
                kind: String::from("apply"),
                text: String::from("a state"),
            }),
            Act::Commit => {
                history.commit().unwrap();
                safe.push((history_ops(&history), times.len()));
            }
        }
    }
    (history.into_storage(), times, safe)
}

fn history_ops(history: &History<Disk>) -> usize {
    history.storage().ops.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_cut_anywhere_leaves_what_was_committed(acts in proptest::collection::vec(act(), 1..24)) {
        let (disk, times, safe) = work(&acts);
        let mut image = Disk::default();
        for (index, op) in disk.ops.iter().enumerate() {
            let Op::Write(at, bytes) = op else { continue };
            let least = safe.iter().rev().find(|(ops, _)| *ops <= index).map_or(0, |safe| safe.1);
            for cut in 0..bytes.len() {
                let mut cut_short = image.clone();
                cut_short.put(*at, &bytes[..cut]);
                let history = History::open(cut_short, LEAST).unwrap();
                let found = known(&history);
                let fits = (least..=times.len()).any(|rows| visible(&times, rows) == found);
                prop_assert!(fits, "{} safe, {:?} found of {:?}", least, found, times);
            }
            image.put(*at, bytes);
        }
    }
}

#[test]
fn chunks_and_steps_survive_cuts_too() {
    // Seventeen chunks, so that the first steps are made.
    let mut history = History::open(Disk::default(), LEAST).unwrap();
    let mut safe = Vec::new();
    for number in 0..17 * 900_i64 {
        let values = [
            ("number", Kind::Gauge, number),
            ("even", Kind::Counter, number / 7 % 2),
        ];
        history.append((number + 1) * 1000, 1000, values).unwrap();
        if number % 5 == 4 {
            history.commit().unwrap();
            safe.push((history_ops(&history), number));
        }
    }
    let disk = history.into_storage();
    let mut image = Disk::default();
    for (index, op) in disk.ops.iter().enumerate() {
        let Op::Write(at, bytes) = op else { continue };
        // All large writes, and some of the others.
        if bytes.len() > 500 || index % 97 == 0 {
            let least = safe
                .iter()
                .rev()
                .find(|(ops, _)| *ops <= index)
                .map_or(-1, |safe| safe.1);
            for cut in (0..bytes.len()).step_by(bytes.len() / 7 + 1) {
                let mut cut_short = image.clone();
                cut_short.put(*at, &bytes[..cut]);
                let history = History::open(cut_short, LEAST).unwrap();
                let found = known(&history);
                assert!(found.len() as i64 > least, "{} of {least}", found.len());
                assert!(
                    found
                        .iter()
                        .enumerate()
                        .all(|(index, number)| index as i64 == *number)
                );
            }
        }
        image.put(*at, bytes);
    }
    let history = History::open(image, LEAST).unwrap();
    assert!(history.status().spans[1].is_some());
    assert_eq!(known(&history).len(), 17 * 900);
}

#[test]
fn a_full_disk_loses_nothing_while_there_is_memory() {
    let mut history = History::open(Disk::default(), LEAST).unwrap();
    let row = |history: &mut History<Disk>, number: i64| {
        let values = [("number", Kind::Gauge, number)];
        history.append((number + 1) * 1000, 1000, values).unwrap();
        history.commit()
    };
    for number in 0..10 {
        row(&mut history, number).unwrap();
    }
    history.storage_mut().full = true;
    for number in 10..1500 {
        assert!(row(&mut history, number).is_err());
    }
    assert_eq!(known(&history).len(), 1500);
    history.storage_mut().full = false;
    for number in 1500..1520 {
        row(&mut history, number).unwrap();
    }
    let history = History::open(history.into_storage(), LEAST).unwrap();
    assert_eq!(known(&history), (0..1520).collect::<Vec<_>>());
    assert_eq!(history.status().lost, 0);
}

#[test]
fn a_disk_that_stays_full_costs_the_oldest_rows_and_no_more_memory() {
    let mut history = History::open(Disk::default(), LEAST).unwrap();
    history.storage_mut().full = true;
    for number in 0..6000 {
        let values = [("number", Kind::Gauge, number)];
        history.append((number + 1) * 1000, 1000, values).unwrap();
        assert!(history.commit().is_err());
    }
    assert!(history.status().waiting <= 1800);
    assert_eq!(
        history.status().lost,
        6000 - history.status().waiting as u64
    );
    history.storage_mut().full = false;
    history.commit().unwrap();
    let kept = known(&history);
    let reopened = History::open(history.into_storage(), LEAST).unwrap();
    assert_eq!(known(&reopened), kept);
    assert_eq!(*kept.last().unwrap(), 5999);
}

#[test]
fn what_is_no_history_is_left_alone() {
    let mut disk = Disk::default();
    disk.put(0, b"root:x:0:0:root:/root:/bin/bash\n");
    assert!(History::open(disk, LEAST).is_err());
    assert!(History::open(Disk::default(), 10).is_err());
    assert!(History::open_reading(Disk::default()).is_err());
}
