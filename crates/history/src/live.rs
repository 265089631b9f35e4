// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows that are in no chunk yet, in memory.

use crate::chunk::Builder;
use crate::column::ABSENT;
use crate::{Event, Kind, MAX_EVENTS, MAX_NAME, MAX_SERIES};
use std::collections::BTreeMap;

/// One series' values since the chunk began; shorter than the rows are where
/// the last are not known.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) values: Vec<i64>,
    /// The last value that is known, which the journal writes changes from.
    pub(crate) latest: i64,
}

/// The rows of the next chunk.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) times: Vec<i64>,
    pub(crate) intervals: Vec<i64>,
    pub(crate) columns: Vec<Column>,
    pub(crate) events: Vec<Event>,
    places: BTreeMap<String, usize>,
}

impl Live {
    /// The place of a series, which is made if there is room.
    pub(crate) fn place(&mut self, name: &str, kind: Kind) -> Option<usize> {
        if let Some(place) = self.places.get(name) {
            return (self.columns[*place].kind == kind).then_some(*place);
        }
        if self.columns.len() >= MAX_SERIES || name.len() > MAX_NAME {
            return None;
        }
        let place = self.columns.len();
        self.places.insert(name.to_owned(), place);
        self.columns.push(Column {
            name: name.to_owned(),
            kind,
            values: Vec::new(),
            latest: 0,
        });
        Some(place)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Column> {
        self.places.get(name).map(|place| &self.columns[*place])
    }

    /// Begins a row.
    pub(crate) fn row(&mut self, time: i64, interval: i64) {
        self.times.push(time);
        self.intervals.push(interval);
    }

    /// A value of the row that was begun last.
    pub(crate) fn set(&mut self, place: usize, value: i64) {
        let rows = self.times.len();
        let column = &mut self.columns[place];
        column.values.resize(rows - 1, ABSENT);
        column.values.push(value);
        column.latest = value;
    }

    /// Whether there is room for the event.
    pub(crate) fn event(&mut self, event: Event) -> bool {
        let room = self.events.len() < MAX_EVENTS;
        if room {
            self.events.push(event);
        }
        room
    }

    /// When it begins and ends; the time of events where there are no rows.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let rows = self.times.first().zip(self.intervals.first());
        let first = rows.map(|(time, interval)| time - interval);
        let first = first.or_else(|| self.events.first().map(|event| event.time))?;
        let last = self.times.last().copied();
        Some((first, last.unwrap_or(first)))
    }

    /// Forgets the oldest rows.
    pub(crate) fn forget(&mut self, rows: usize) {
        let rows = rows.min(self.times.len());
        self.times.drain(..rows);
        self.intervals.drain(..rows);
        for column in &mut self.columns {
            column.values.drain(..rows.min(column.values.len()));
        }
    }

    /// The body of a chunk with all of it.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut builder = Builder::new(&self.times, &self.intervals, &self.events);
        for (name, place) in &self.places {
            let column = &self.columns[*place];
            if column.values.is_empty() {
                continue;
            }
            let mut values = column.values.clone();
            values.resize(self.times.len(), ABSENT);
            builder.series(name, column.kind, [&values[..]]);
        }
        builder.finish()
    }
}
