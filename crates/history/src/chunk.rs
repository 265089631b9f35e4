// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A chunk: many rows, stored by column, in one write.
//!
//! Its header identifies its rows; two checksums tell whether header and body are intact.

use crate::bits::{Bytes, put_bytes, put_varint, u32_at, u64_at, zigzag};
use crate::{Event, Kind, MAX_EVENTS, MAX_NAME, MAX_SERIES, MAX_TEXT, column};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The size of a chunk's header in bytes.
pub(crate) const HEADER: usize = 56;
const MAGIC: u32 = 0x3163_6777;
/// The largest number of rows in a chunk.
pub(crate) const MAX_ROWS: usize = 1 << 16;

/// The header of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The index in [`crate::STEPS`].
    pub(crate) tier: u32,
    /// The number in its ring; later chunks have larger numbers.
    pub(crate) number: u64,
    /// The last chunk of the finer ring that was condensed into it.
    pub(crate) source: u64,
    /// The start of its first row's interval, in milliseconds of Unix time.
    pub(crate) first: i64,
    /// The time of its last row.
    pub(crate) last: i64,
    /// Its size in bytes, including the header.
    pub(crate) length: u32,
}

impl Head {
    /// Returns the bytes of a chunk with this header and body.
    pub(crate) fn bytes(&self, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(self.tier.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.source.to_le_bytes());
        bytes.extend(self.first.to_le_bytes());
        bytes.extend(self.last.to_le_bytes());
        bytes.extend(((HEADER + body.len()) as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(body).to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        let check = crc32fast::hash(&bytes);
        bytes.extend(check.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// Parses the header at the front of these bytes, if it is intact; also returns the checksum
    /// of the body.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, u32)> {
        if u32_at(bytes, 0)? != MAGIC {
            return None;
        }
        if u32_at(bytes, HEADER - 4)? != crc32fast::hash(&bytes[..HEADER - 4]) {
            return None;
        }
        let head = Self {
            tier: u32_at(bytes, 4)?,
            number: u64_at(bytes, 8)?,
            source: u64_at(bytes, 16)?,
            first: u64_at(bytes, 24)? as i64,
            last: u64_at(bytes, 32)? as i64,
            length: u32_at(bytes, 40)?,
        };
        let sound = head.length as usize >= HEADER && head.number > 0;
        sound.then_some((head, u32_at(bytes, 44)?))
    }
}

/// Writes the body of a chunk.
pub(crate) struct Builder {
    front: Vec<u8>,
    names: Vec<u8>,
    columns: Vec<u8>,
    series: usize,
    before: String,
}

impl Builder {
    /// Starts a body for rows with these times and durations in milliseconds.
    pub(crate) fn new(times: &[i64], intervals: &[i64], events: &[Event]) -> Self {
        let mut front = Vec::new();
        put_varint(&mut front, times.len() as u64);
        put_bytes(&mut front, &column::encode(times));
        put_bytes(&mut front, &column::encode(intervals));
        put_varint(&mut front, events.len() as u64);
        for event in events {
            put_event(&mut front, event);
        }
        Self {
            front,
            names: Vec::new(),
            columns: Vec::new(),
            series: 0,
            before: String::new(),
        }
    }

    /// Adds a series and its columns. Names are stored without the prefix that they share with
    /// the previous name.
    pub(crate) fn series<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        columns: impl IntoIterator<Item = &'a [i64]>,
    ) {
        let alike = self.before.bytes().zip(name.bytes());
        let mut shared = alike.take_while(|(one, other)| one == other).count();
        while !name.is_char_boundary(shared) {
            shared -= 1;
        }
        let start = self.columns.len();
        for values in columns {
            put_bytes(&mut self.columns, &column::encode(values));
        }
        put_varint(&mut self.names, shared as u64);
        put_bytes(&mut self.names, &name.as_bytes()[shared..]);
        self.names.push(kind_byte(kind));
        put_varint(&mut self.names, (self.columns.len() - start) as u64);
        self.series += 1;
        name.clone_into(&mut self.before);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut body = self.front;
        put_varint(&mut body, self.series as u64);
        body.extend(self.names);
        body.extend(self.columns);
        body
    }
}

pub(crate) fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
    }
}

pub(crate) fn kind_of(byte: u8) -> Option<Kind> {
    match byte {
        0 => Some(Kind::Counter),
        1 => Some(Kind::Gauge),
        _ => None,
    }
}

pub(crate) fn put_event(into: &mut Vec<u8>, event: &Event) {
    put_varint(into, zigzag(event.time));
    put_bytes(into, event.kind.as_bytes());
    put_bytes(into, event.text.as_bytes());
}

pub(crate) fn get_event(bytes: &mut Bytes<'_>) -> Option<Event> {
    Some(Event {
        time: bytes.signed()?,
        kind: bytes.text(MAX_TEXT)?,
        text: bytes.text(MAX_TEXT)?,
    })
}

/// A parsed body; columns are decompressed on demand.
pub(crate) struct Chunk {
    pub(crate) times: Vec<i64>,
    pub(crate) intervals: Vec<i64>,
    pub(crate) events: Vec<Event>,
    /// Name, kind and range of columns of each series, in the order of the chunk.
    series: Vec<(String, Kind, usize, usize)>,
    columns: Vec<u8>,
}

impl Chunk {
    /// Parses a body; returns `None` if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let rows = bytes.length(MAX_ROWS)?;
        let mut column = || {
            let length = bytes.length(body.len())?;
            column::decode(bytes.take(length)?, rows)
        };
        let (times, intervals) = (column()?, column()?);
        let count = bytes.length(MAX_EVENTS)?;
        let events: Option<Vec<Event>> = (0..count).map(|_| get_event(&mut bytes)).collect();
        let events = events?;
        let count = bytes.length(MAX_SERIES)?;
        let mut series: Vec<(String, Kind, usize, usize)> = Vec::with_capacity(count);
        let mut start = 0_usize;
        for _ in 0..count {
            let shared = bytes.length(MAX_NAME)?;
            let before = series.last().map_or("", |one| &one.0);
            let mut name = before.get(..shared)?.to_owned();
            name.push_str(&bytes.text(MAX_NAME - shared)?);
            let kind = kind_of(bytes.byte()?)?;
            let end = start.checked_add(bytes.length(body.len())?)?;
            series.push((name, kind, start, end));
            start = end;
        }
        if start != bytes.0.len() {
            return None;
        }
        Some(Self {
            times,
            intervals,
            events,
            series,
            columns: bytes.0.to_vec(),
        })
    }

    /// Iterates over names and kinds.
    pub(crate) fn series(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.series.iter().map(|(name, kind, ..)| (&**name, *kind))
    }

    /// Finds a series by name in the sorted list.
    pub(crate) fn find(&self, name: &str) -> Option<(usize, Kind)> {
        let index = self
            .series
            .binary_search_by(|one| (*one.0).cmp(name))
            .ok()?;
        Some((index, self.series[index].1))
    }

    /// Decompresses the `N` columns of a series.
    pub(crate) fn columns<const N: usize>(&self, index: usize) -> Option<[Vec<i64>; N]> {
        let (_, _, start, end) = self.series.get(index)?;
        columns(self.columns.get(*start..*end)?, self.times.len())
    }

    /// Returns the chunk without its columns; `end` is where the chunk ends in the storage.
    /// `names` contains the names of all series so far, so that each is kept in memory once.
    pub(crate) fn outline(self, end: u64, names: &mut BTreeSet<Arc<str>>) -> Outline {
        let mut known = |name: String| {
            if let Some(name) = names.get(&*name) {
                return Arc::clone(name);
            }
            let name: Arc<str> = name.into();
            names.insert(Arc::clone(&name));
            name
        };
        let at = end - self.columns.len() as u64;
        let series = self.series.into_iter().map(|(name, kind, start, end)| {
            let offset = at + start as u64;
            (known(name), kind, offset, end - start)
        });
        Outline {
            series: series.collect(),
            times: self.times,
            intervals: self.intervals,
            events: self.events,
        }
    }
}

/// Decompresses `N` columns with this many rows.
pub(crate) fn columns<const N: usize>(bytes: &[u8], rows: usize) -> Option<[Vec<i64>; N]> {
    let mut bytes = Bytes(bytes);
    let mut columns = [const { Vec::new() }; N];
    for column in &mut columns {
        let length = bytes.length(bytes.0.len())?;
        *column = column::decode(bytes.take(length)?, rows)?;
    }
    Some(columns)
}

/// A chunk whose columns are read from the storage one by one, because the columns of many
/// chunks would take much memory.
pub(crate) struct Outline {
    pub(crate) times: Vec<i64>,
    pub(crate) intervals: Vec<i64>,
    pub(crate) events: Vec<Event>,
    /// Name, kind, offset and size of the columns of each series, sorted by name.
    pub(crate) series: Vec<(Arc<str>, Kind, u64, usize)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body() -> Vec<u8> {
        let event = Event {
            time: 5,
            kind: String::from("apply"),
            text: String::from("état 3"),
        };
        let mut builder = Builder::new(&[1000, 2000, 3000], &[1000; 3], &[event]);
        for name in ["a", "bytes{class=\"è\"}", "bytes{class=\"é\"}"] {
            builder.series(
                name,
                Kind::Counter,
                [&[1, 2, 30_000][..], &[column::ABSENT, 0, 0]],
            );
        }
        builder.finish()
    }

    #[test]
    fn a_body_comes_back() {
        let chunk = Chunk::read(&body()).unwrap();
        let names: Vec<&str> = chunk.series().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "bytes{class=\"è\"}", "bytes{class=\"é\"}"]);
        assert_eq!(chunk.find(names[1]), Some((1, Kind::Counter)));
        assert_eq!(chunk.find("b"), None);
        let expected = [vec![1, 2, 30_000], vec![column::ABSENT, 0, 0]];
        assert_eq!(chunk.columns(2), Some(expected));
        assert_eq!(chunk.events[0].text, "état 3");
    }

    proptest! {
        #[test]
        fn a_damaged_body_does_no_harm(index in 0_usize..200, value: u8, cut in 0_usize..200) {
            let mut bytes = body();
            let length = bytes.len();
            bytes[index % length] = value;
            bytes.truncate(length - cut % 8);
            if let Some(chunk) = Chunk::read(&bytes) {
                for index in 0..chunk.series().count() {
                    let _ = chunk.columns::<4>(index);
                }
            }
        }

        #[test]
        fn any_header_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Head::read(&bytes).is_none());
        }
    }
}
