// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as operations on a history: rows, clock steps, events, commits, power failures,
//! and corrupted bytes of the file.
//!
//! Besides "no panic", this must hold: an undamaged history opens again with all committed rows.
//! Whatever is read from a damaged one is within the requested time and in order.

use std::io;
use weirgate_history::{Event, History, HistoryError, Kind, LEAST, Storage};

#[derive(Debug, Clone, Default)]
struct Disk(Vec<u8>);

impl Storage for Disk {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..));
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = at as usize;
        assert!(
            at + bytes.len() <= 2 * LEAST as usize,
            "beyond the size that it has"
        );
        self.0.resize(self.0.len().max(at + bytes.len()), 0);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

const NAMES: [&str; 4] = ["a", "b{x=\"y\"}", "c", "number"];

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

pub fn run(data: &[u8]) {
    let mut rest = data;
    let mut history = History::open(Disk::default(), LEAST).expect("an empty disk takes one");
    let (mut now, mut number) = (1_000_000_i64, 0_i64);
    // Rows since the last commit, and whether there was a commit.
    let (mut rows, mut committed) = (0, false);
    let mut whole = true;
    while let Some([act]) = take(&mut rest) {
        match act {
            b'r' => {
                let Some(bytes) = take::<4>(&mut rest) else {
                    break;
                };
                let value = i64::from(i32::from_le_bytes(bytes));
                // Small, large and maximal values.
                let value = if value % 7 == 0 { value << 32 } else { value };
                now += 1000;
                number += 1;
                rows += 1;
                let kind = if value % 2 == 0 {
                    Kind::Counter
                } else {
                    Kind::Gauge
                };
                let name = NAMES[(value & 1) as usize];
                let values = [(name, kind, value), (NAMES[3], Kind::Gauge, number)];
                let _ = history.append(now, 1000, values);
            }
            b't' => {
                now += i64::from(u16::from_le_bytes(take(&mut rest).unwrap_or_default())) * 1000
            }
            b'b' => now -= i64::from(u16::from_le_bytes(take(&mut rest).unwrap_or_default())) * 10,
            b'e' => {
                let Some(text) = take::<4>(&mut rest) else {
                    break;
                };
                planted(text, now);
                let text = String::from_utf8_lossy(&text).into_owned();
                history.event(Event {
                    time: now,
                    kind: String::from("fuzz"),
                    text,
                });
            }
            b'c' => {
                let done = history.commit();
                assert!(done.is_ok() || !whole, "the disk takes it: {done:?}");
                committed |= rows > 0;
                rows = 0;
            }
            b'o' => {
                let disk = history.into_storage();
                history = match History::open(disk, LEAST) {
                    Ok(history) => history,
                    Err(HistoryError::Foreign | HistoryError::Version(_)) if !whole => return,
                    Err(error) => panic!("it does not open: {error}"),
                };
                // Uncommitted rows are lost.
                rows = 0;
                if whole && committed {
                    assert!(history.span().is_some(), "what was committed is gone");
                }
            }
            b'x' => {
                let Some(bytes) = take::<4>(&mut rest) else {
                    break;
                };
                whole = false;
                let disk = history.storage_mut();
                let length = disk.0.len().max(1);
                let at = u32::from_le_bytes(bytes) as usize % length;
                if let Some(byte) = disk.0.get_mut(at) {
                    *byte ^= bytes[0] | 1;
                }
            }
            _ => {}
        }
    }
    looked_at(&history, now);
}

fn looked_at(history: &History<Disk>, now: i64) {
    for (from, to, step) in [
        (i64::MIN, i64::MAX, 0),
        (i64::MIN, i64::MAX, i64::MAX),
        (now - 5_000, now, 1_000),
        (now, now - 1, -1),
        (0, now, 61_001),
    ] {
        // Reading a damaged history may fail, but must report it.
        let Ok(read) = history.read(&NAMES, from, to, step) else {
            continue;
        };
        assert_eq!(read.len(), NAMES.len());
        for one in &read {
            for pair in one.points.windows(2) {
                assert!(pair[0].start <= pair[1].start, "{pair:?}");
            }
            for point in &one.points {
                assert!(
                    point.start <= point.end && point.least <= point.most,
                    "{point:?}"
                );
                assert!(!point.mean.is_nan(), "{point:?}");
            }
        }
        let _ = history.series(from, to);
        let _ = history.events(from, to);
    }
}

/// The planted mistake: a word that no seed has, at a time before the first row.
#[cfg(feature = "planted")]
fn planted(text: [u8; 4], now: i64) {
    assert!(
        text != *b"word" || now >= 1_000_000,
        "the planted mistake: a word before the beginning"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: [u8; 4], _: i64) {}
