// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal: data that are not in a chunk yet, appended record by record.
//!
//! Two halves of the file are used in turn: the records of a chunk stay until the chunk is
//! safely written. A record names its chunk and its index, so that remains of an earlier use of
//! the half are ignored.

use crate::bits::{Bytes, put_bytes, put_varint, u32_at, u64_at, zigzag};
use crate::chunk::{get_event, kind_byte, kind_of, put_event};
use crate::column::ABSENT;
use crate::layout::Region;
use crate::live::Live;
use crate::ring::fill;
use crate::{Event, HistoryError, Kind, MAX_NAME, Storage, mend};

const MAGIC: u32 = 0x316a_6777;
/// The header of a record: magic, length, chunk, index, checksum; and their offsets.
pub(crate) const HEADER: usize = 24;
pub(crate) const LENGTH: usize = 4;
const CHUNK: usize = 8;
const INDEX: usize = 16;
pub(crate) const CHECK: usize = 20;
/// How many apparent records are checked, each of which may claim to be as long as the half.
const MOST_TRIED: u32 = 64;
const SERIES: u8 = 1;
const EVENT: u8 = 2;
const ROW: u8 = 3;
/// The largest number of rows in a journal: more than ever wait (`ROWS`, engine.rs), and few
/// enough for memory if a file claims to have the maximum number of series.
const MAX_ROWS: usize = 2048;
const SAME: u64 = 0;
const UNKNOWN: u64 = 1;

/// The position of the next record, and its contents.
#[derive(Default)]
pub(crate) struct Journal {
    region: Option<Region>,
    /// The number of the chunk that will contain these data.
    pub(crate) number: u64,
    at: u64,
    index: u32,
    pending: Vec<u8>,
    /// The time and interval of the previous row.
    before: (i64, i64),
}

impl Journal {
    /// Starts the journal of a chunk.
    pub(crate) fn begin(halves: [Region; 2], number: u64) -> Self {
        Self {
            region: Some(halves[usize::from(number % 2 == 1)]),
            number,
            ..Self::default()
        }
    }

    pub(crate) fn series(&mut self, name: &str, kind: Kind) {
        self.pending.extend([SERIES, kind_byte(kind)]);
        put_bytes(&mut self.pending, name.as_bytes());
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.pending.push(EVENT);
        put_event(&mut self.pending, event);
    }

    /// Adds a row of changes from the previous values; `None` means unknown.
    pub(crate) fn row(
        &mut self,
        time: i64,
        interval: i64,
        changes: impl Iterator<Item = Option<i64>>,
    ) {
        let bytes = &mut self.pending;
        bytes.push(ROW);
        put_varint(bytes, zigzag(time.wrapping_sub(self.before.0)));
        put_varint(bytes, zigzag(interval.wrapping_sub(self.before.1)));
        self.before = (time, interval);
        let mut run = (SAME, 0);
        let flush = |bytes: &mut Vec<u8>, run: (u64, u64)| {
            if run.1 > 0 {
                put_varint(bytes, run.0);
                put_varint(bytes, run.1);
            }
        };
        for change in changes {
            let token = match change {
                None => UNKNOWN,
                Some(0) => SAME,
                Some(change) => {
                    flush(bytes, run);
                    run = (SAME, 0);
                    let number = zigzag(change);
                    // The increment would overflow for the two largest numbers, so they are
                    // written after the largest token.
                    put_varint(bytes, number.saturating_add(1));
                    if number >= u64::MAX - 1 {
                        put_varint(bytes, number);
                    }
                    continue;
                }
            };
            if run.0 != token {
                flush(bytes, run);
                run = (token, 0);
            }
            run.1 += 1;
        }
        flush(bytes, run);
    }

    /// Returns whether the pending record fits, with as much again to spare.
    pub(crate) fn has_room(&self) -> bool {
        let size = self.region.map_or(0, |region| region.size);
        self.at + (HEADER + 2 * self.pending.len()) as u64 <= size
    }

    /// Discards the pending record.
    pub(crate) fn stop(&mut self) {
        self.pending = Vec::new();
    }

    fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the pending record and waits until it is on stable storage.
    pub(crate) fn commit(&mut self, storage: &mut impl Storage) -> Result<(), HistoryError> {
        let Some(region) = self.region.filter(|_| self.is_pending()) else {
            return Ok(());
        };
        let size = (HEADER + self.pending.len()) as u64;
        if self.at + size > region.size {
            return Ok(());
        }
        let mut record = Vec::with_capacity(size as usize);
        record.extend(MAGIC.to_le_bytes());
        record.extend((self.pending.len() as u32).to_le_bytes());
        record.extend(self.number.to_le_bytes());
        record.extend(self.index.to_le_bytes());
        record.extend(check(&record, &self.pending).to_le_bytes());
        record.extend(&self.pending);
        storage.write(region.start + self.at, &record)?;
        storage.sync()?;
        self.at += size;
        self.index += 1;
        self.pending.clear();
        Ok(())
    }

    /// Reads the data of chunks later than `after` from a half. Also returns the journal to
    /// continue, and how many rows and events follow a damaged record. Those are lost, because
    /// each record contains changes from the previous one.
    pub(crate) fn recover(
        storage: &impl Storage,
        halves: [Region; 2],
        half: usize,
        after: u64,
    ) -> Result<Option<Found>, HistoryError> {
        let region = halves[half];
        let there = region
            .size
            .min(storage.size()?.saturating_sub(region.start));
        let mut bytes = vec![0; there as usize];
        let read = fill(storage, region.start, &mut bytes)?;
        bytes.truncate(read);
        let mut live = Live::default();
        let mut journal = Self::default();
        // Records contain changes, so a missing one makes all later ones unreadable.
        loop {
            let rest = &bytes[journal.at as usize..];
            let mended;
            let (number, payload) = if let Some(found) = record(rest, journal.index) {
                found
            } else {
                mended = mend::mended(rest, journal.index);
                let Some(found) = mended.as_ref().and_then(|own| record(own, journal.index)) else {
                    break;
                };
                found
            };
            if journal.index == 0 {
                if number % 2 != half as u64 || number <= after {
                    break;
                }
                journal = Self::begin(halves, number);
            }
            if number != journal.number || replay(payload, &mut journal.before, &mut live).is_none()
            {
                break;
            }
            journal.at += (HEADER + payload.len()) as u64;
            journal.index += 1;
        }
        let number = (journal.index > 0).then_some(journal.number);
        let lost = behind(&bytes[journal.at as usize..], journal.index, |other| {
            let later = other > after && other % 2 == half as u64;
            number.map_or(later, |number| other == number)
        });
        if number.is_none() {
            let Some((number, _)) = lost else {
                return Ok(None);
            };
            (journal, live) = (Self::begin(halves, number), Live::default());
        }
        let lost = lost.map_or(0, |(_, lost)| lost);
        Ok(Some(Found {
            journal,
            live,
            lost,
        }))
    }
}

/// The contents of a half.
pub(crate) struct Found {
    pub(crate) journal: Journal,
    pub(crate) live: Live,
    /// The number of rows and events that cannot be read, at least.
    pub(crate) lost: u64,
}

/// Returns the chunk of the intact records after a damaged one with this index. Also returns how
/// many rows and events are lost with them, at least: one for each record.
fn behind(bytes: &[u8], index: u32, is_own: impl Fn(u64) -> bool) -> Option<(u64, u64)> {
    let magic = MAGIC.to_le_bytes();
    let mut tried = 0;
    // The index of the last record tells how many there were.
    for at in (0..bytes.len().saturating_sub(HEADER)).rev() {
        let rest = &bytes[at..];
        if !rest.starts_with(&magic) {
            continue;
        }
        let (number, other) = (u64_at(rest, CHUNK)?, u32_at(rest, INDEX)?);
        if other <= index || !is_own(number) {
            continue;
        }
        if record(rest, other).is_some() {
            return Some((number, u64::from(other - index) + 1));
        }
        tried += 1;
        if tried == MOST_TRIED {
            break;
        }
    }
    None
}

pub(crate) fn check(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// Returns the record at the front of these bytes, if it is intact and the expected one.
pub(crate) fn record(bytes: &[u8], index: u32) -> Option<(u64, &[u8])> {
    if u32_at(bytes, 0)? != MAGIC || u32_at(bytes, INDEX)? != index {
        return None;
    }
    let payload = bytes
        .get(HEADER..)?
        .get(..u32_at(bytes, LENGTH)? as usize)?;
    let sound = u32_at(bytes, CHECK)? == check(&bytes[..CHECK], payload);
    sound.then_some((u64_at(bytes, CHUNK)?, payload))
}

/// Applies the contents of a record.
fn replay(payload: &[u8], before: &mut (i64, i64), live: &mut Live) -> Option<()> {
    let mut bytes = Bytes(payload);
    while let Some(tag) = bytes.byte() {
        match tag {
            SERIES => {
                let kind = kind_of(bytes.byte()?)?;
                let name = bytes.text(MAX_NAME)?;
                live.index_of(&name, kind)?;
            }
            EVENT => {
                live.event(get_event(&mut bytes)?);
            }
            ROW if live.times.len() < MAX_ROWS => {
                before.0 = before.0.wrapping_add(bytes.signed()?);
                before.1 = before.1.wrapping_add(bytes.signed()?);
                live.row(before.0, before.1);
                replay_row(&mut bytes, live)?;
            }
            _ => return None,
        }
    }
    Some(())
}

fn replay_row(bytes: &mut Bytes<'_>, live: &mut Live) -> Option<()> {
    let mut index = 0;
    while index < live.columns.len() {
        let token = bytes.varint()?;
        if token == SAME || token == UNKNOWN {
            let run = bytes.length(live.columns.len() - index)?;
            if token == SAME {
                for index in index..index + run {
                    live.set(index, live.columns[index].latest);
                }
            }
            index += run;
            if run == 0 {
                return None;
            }
        } else {
            let number = match token {
                u64::MAX => bytes.varint()?,
                token => token - 1,
            };
            let change = crate::bits::unzigzag(number);
            live.set(index, live.columns[index].latest.wrapping_add(change));
            index += 1;
        }
    }
    Some(())
}

/// Returns the change between two values in the form of [`Journal::row`].
pub(crate) fn change(value: i64, latest: i64) -> Option<i64> {
    (value != ABSENT).then(|| value.wrapping_sub(latest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back(rows in proptest::collection::vec((any::<i64>(), any::<i64>(), proptest::collection::vec(proptest::option::of(any::<i64>()), 3)), 0..20)) {
            let mut journal = Journal::default();
            let mut written = Live::default();
            for name in ["a", "b", "c"] {
                journal.series(name, Kind::Gauge);
                written.index_of(name, Kind::Gauge);
            }
            for (time, interval, values) in &rows {
                let columns = written.columns.iter().zip(values);
                let changes: Vec<_> = columns
                    .map(|(column, value)| change(value.unwrap_or(ABSENT), column.latest))
                    .collect();
                journal.row(*time, *interval, changes.into_iter());
                written.row(*time, *interval);
                for (index, value) in values.iter().enumerate() {
                    if let Some(value) = value.filter(|value| *value != ABSENT) {
                        written.set(index, value);
                    }
                }
            }
            let mut read = Live::default();
            prop_assert!(replay(&journal.pending, &mut (0, 0), &mut read).is_some());
            prop_assert_eq!(&read.times, &written.times);
            prop_assert_eq!(&read.intervals, &written.intervals);
            for (read, written) in read.columns.iter().zip(&written.columns) {
                prop_assert_eq!(read.all(rows.len()), written.all(rows.len()));
            }
        }

        #[test]
        fn any_payload_does_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut start = vec![SERIES, 1, 1, b'a', SERIES, 0, 1, b'b'];
            start.append(&mut bytes);
            let mut live = Live::default();
            let _ = replay(&start, &mut (0, 0), &mut live);
            let body = live.body();
            prop_assert!(crate::chunk::Chunk::read(&body).is_some());
        }
    }
}
