// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows that are in no chunk yet, in memory.

use crate::bits::{Bytes, put_bytes};
use crate::chunk::Builder;
use crate::column::{self, ABSENT};
use crate::{Event, Kind, MAX_EVENTS, MAX_NAME, MAX_SERIES};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The number of recent rows that are not compressed. Older ones are, so that a quarter of an
/// hour of thousands of series takes little memory.
const BLOCK: usize = 60;

/// The values of one series since the chunk started.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Compressed blocks of [`BLOCK`] values, each preceded by its length.
    blocks: Vec<u8>,
    /// The values since the last block; they may end before the last row if the rest is unknown.
    values: Vec<i64>,
    /// The last known value, to which changes in the journal refer.
    pub(crate) latest: i64,
}

impl Column {
    /// Returns its value in each of the rows.
    pub(crate) fn all(&self, rows: usize) -> Vec<i64> {
        let mut all = Vec::with_capacity(rows);
        let mut blocks = Bytes(&self.blocks);
        while let Some(length) = blocks.length(self.blocks.len()) {
            let block = blocks.take(length);
            let block = block.and_then(|block| column::decode(block, BLOCK));
            all.extend(block.unwrap_or_else(|| vec![ABSENT; BLOCK]));
        }
        all.extend(&self.values);
        all.resize(rows, ABSENT);
        all
    }

    /// Compresses a block of values.
    fn seal(&mut self) {
        self.values.resize(BLOCK, ABSENT);
        put_bytes(&mut self.blocks, &column::encode(&self.values));
        self.values.clear();
    }
}

/// The rows of the next chunk.
#[derive(Default, Clone)]
pub(crate) struct Live {
    pub(crate) times: Vec<i64>,
    pub(crate) intervals: Vec<i64>,
    pub(crate) columns: Vec<Column>,
    pub(crate) events: Vec<Event>,
    indices: BTreeMap<String, usize>,
    /// The number of rows whose values are in blocks.
    sealed: usize,
}

impl Live {
    /// Returns the index of a series, which is added if there is room.
    pub(crate) fn index_of(&mut self, name: &str, kind: Kind) -> Option<usize> {
        if let Some(index) = self.indices.get(name) {
            return (self.columns[*index].kind == kind).then_some(*index);
        }
        if self.columns.len() >= MAX_SERIES || name.len() > MAX_NAME {
            return None;
        }
        let index = self.columns.len();
        self.indices.insert(name.to_owned(), index);
        let mut column = Column {
            name: name.to_owned(),
            kind,
            blocks: Vec::new(),
            values: Vec::new(),
            latest: 0,
        };
        for _ in 0..self.sealed / BLOCK {
            column.seal();
        }
        self.columns.push(column);
        Some(index)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Column> {
        self.indices.get(name).map(|index| &self.columns[*index])
    }

    /// Returns a copy with only these series.
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        let columns = names.iter().filter_map(|name| self.find(name));
        let mut some = Self {
            times: self.times.clone(),
            intervals: self.intervals.clone(),
            events: self.events.clone(),
            sealed: self.sealed,
            ..Self::default()
        };
        for column in columns {
            // A name that occurs twice keeps its first index.
            if let Entry::Vacant(slot) = some.indices.entry(column.name.clone()) {
                slot.insert(some.columns.len());
                some.columns.push(column.clone());
            }
        }
        some
    }

    /// Starts a row.
    pub(crate) fn row(&mut self, time: i64, interval: i64) {
        if self.times.len() == self.sealed + BLOCK {
            self.columns.iter_mut().for_each(Column::seal);
            self.sealed += BLOCK;
        }
        self.times.push(time);
        self.intervals.push(interval);
    }

    /// Sets a value of the current row.
    pub(crate) fn set(&mut self, index: usize, value: i64) {
        let before = self.times.len() - 1 - self.sealed;
        let column = &mut self.columns[index];
        column.values.resize(before, ABSENT);
        column.values.push(value);
        column.latest = value;
    }

    /// Adds an event; returns whether there was room.
    pub(crate) fn event(&mut self, event: Event) -> bool {
        let room = self.events.len() < MAX_EVENTS;
        if room {
            self.events.push(event);
        }
        room
    }

    /// Returns the start and end of the rows; without rows, those of the events.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let rows = self.times.first().zip(self.intervals.first());
        let first = rows.map(|(time, interval)| time - interval);
        let first = first.or_else(|| self.events.first().map(|event| event.time))?;
        let last = self.times.last().copied();
        Some((first, last.unwrap_or(first)))
    }

    /// Removes the oldest rows.
    pub(crate) fn forget(&mut self, rows: usize) {
        let all = self.times.len();
        let rows = rows.min(all);
        self.times.drain(..rows);
        self.intervals.drain(..rows);
        self.sealed = (all - rows).saturating_sub(1) / BLOCK * BLOCK;
        for column in &mut self.columns {
            let kept = column.all(all).split_off(rows);
            let (sealed, last) = kept.split_at(self.sealed);
            column.blocks.clear();
            for block in sealed.chunks(BLOCK) {
                column.values = block.to_vec();
                column.seal();
            }
            column.values = last.to_vec();
        }
    }

    /// Returns the body of a chunk with all rows.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut builder = Builder::new(&self.times, &self.intervals, &self.events);
        for (name, index) in &self.indices {
            let column = &self.columns[*index];
            let values = column.all(self.times.len());
            if values.iter().any(|value| *value != ABSENT) {
                builder.series(name, column.kind, [&values[..]]);
            }
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All known values are returned, for series that start late or pause, and after the
        /// oldest rows were removed.
        #[test]
        fn rows_are_what_they_were(
            rows in proptest::collection::vec(proptest::collection::vec(proptest::option::weighted(0.8, any::<i64>()), 3), 1..300),
            late in 0_usize..200,
            gone in 0_usize..300,
        ) {
            let names = ["a", "b", "late"];
            let mut live = Live::default();
            let mut truth = vec![Vec::new(); 3];
            for (row, values) in rows.iter().enumerate() {
                for (index, name) in names.iter().enumerate() {
                    if index < 2 || row >= late {
                        live.index_of(name, Kind::Gauge);
                    }
                }
                live.row(row as i64, 1);
                for (index, value) in values.iter().enumerate() {
                    let known = value.filter(|value| *value != ABSENT && index < live.columns.len());
                    if let Some(value) = known {
                        live.set(index, value);
                    }
                    truth[index].push(known.unwrap_or(ABSENT));
                }
            }
            let gone = gone.min(rows.len());
            for gone in [0, gone] {
                live.forget(gone);
                for (name, truth) in names.iter().zip(&mut truth) {
                    truth.drain(..gone);
                    if let Some(column) = live.find(name) {
                        prop_assert_eq!(&column.all(live.times.len()), truth);
                    }
                }
            }
            // It can continue after that.
            live.row(1000, 1);
            if !live.columns.is_empty() {
                live.set(0, 5);
                let all = live.columns[0].all(live.times.len());
                prop_assert_eq!(all.last(), Some(&5));
                prop_assert_eq!(&all[..all.len() - 1], &truth[0]);
                let one = live.only(&["a", "a", "none"]);
                prop_assert_eq!(one.columns.len(), 1);
                let found = one.find("a").map(|column| column.all(one.times.len()));
                prop_assert_eq!(found, Some(all));
            }
        }
    }
}
