// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong bits in the journal: one in a record loses nothing, and the loss due to several is
//! counted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk;

use disk::{Disk, Op};
use weirgate_history::{History, Kind, LEAST};

const RECORDS: usize = 12;
const ROWS: i64 = 3;

fn append(history: &mut History<Disk>, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let values = [
            ("number", Kind::Gauge, number),
            ("other", Kind::Counter, number * number),
        ];
        history.append((number + 1) * 1000, 1000, values).unwrap();
    }
    history.commit().unwrap();
}

/// Returns a journal of records of [`ROWS`] rows each, and the place of each record.
fn journal() -> (Disk, Vec<std::ops::Range<usize>>) {
    let mut history = History::open(Disk::default(), LEAST).unwrap();
    let before = history.storage().ops.len();
    for record in 0..RECORDS as i64 {
        append(&mut history, record * ROWS..(record + 1) * ROWS);
    }
    let disk = history.into_storage();
    let writes = disk.ops[before..].iter().filter_map(|op| match op {
        Op::Write(at, bytes) => Some(*at as usize..*at as usize + bytes.len()),
        Op::Sync => None,
    });
    let ranges: Vec<_> = writes.collect();
    assert_eq!(ranges.len(), RECORDS);
    (disk, ranges)
}

fn known(history: &History<Disk>) -> Vec<i64> {
    let read = history.read(&["number"], i64::MIN, i64::MAX, 0).unwrap();
    read[0].points.iter().map(|point| point.most).collect()
}

fn rows(records: usize) -> Vec<i64> {
    (0..records as i64 * ROWS).collect()
}

#[test]
fn any_wrong_bit_before_the_last_record_is_put_right() {
    let (disk, ranges) = journal();
    let last = ranges.last().unwrap().start;
    for at in ranges[0].start..last {
        for bit in 0..8 {
            let mut damaged = disk.clone();
            damaged.bytes[at] ^= 1 << bit;
            let history = History::open(damaged, LEAST).unwrap();
            assert_eq!(known(&history), rows(RECORDS), "{at} {bit}");
            assert_eq!(history.status().lost, 0);
        }
    }
}

#[test]
fn what_stands_behind_a_damaged_record_is_counted() {
    let (disk, ranges) = journal();
    for (index, record) in ranges[..RECORDS - 1].iter().enumerate() {
        let mut damaged = disk.clone();
        damaged.bytes[record.clone()].fill(0xff);
        let mut history = History::open(damaged, LEAST).unwrap();
        assert_eq!(history.status().lost, (RECORDS - index) as u64, "{index}");
        if index > 0 {
            assert_eq!(known(&history), rows(index));
        }
        // Writing continues, and lost rows are not mistaken for new ones.
        append(&mut history, 1000..1001);
        append(&mut history, 1001..1002);
        let history = History::open(history.into_storage(), LEAST).unwrap();
        let all: Vec<i64> = rows(index).into_iter().chain([1000, 1001]).collect();
        assert_eq!(known(&history), all);
        assert_eq!(history.status().lost, 0, "{index}");
    }
}

/// This is the state after a power failure during a write.
#[test]
fn a_last_record_that_was_cut_short_is_no_loss() {
    let (disk, ranges) = journal();
    let last = ranges.last().unwrap();
    for cut in last.clone() {
        let mut short = disk.clone();
        short.bytes[cut..last.end].fill(0);
        let history = History::open(short, LEAST).unwrap();
        assert_eq!(known(&history), rows(RECORDS - 1), "{cut}");
        assert_eq!(history.status().lost, 0);
    }
}
