// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`History`] accepts rows, makes them durable, and moves them from ring to ring.

use crate::chunk::Head;
use crate::column::ABSENT;
use crate::journal::{self, Found, Journal};
use crate::layout::{Layout, SOURCES, STEPS};
use crate::live::Live;
use crate::ring::{Ring, Slot};
use crate::{Event, HistoryError, Kind, MAX_TEXT, Storage, thin};
use std::collections::BTreeSet;

/// The rows of a chunk: a quarter of an hour, with one row a second.
const ROWS: usize = 900;

/// The state of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The largest size of the file in bytes.
    pub size: u64,
    /// For each of [`STEPS`], the first and the last time in milliseconds of Unix time. The
    /// first step excludes rows that are only in memory.
    pub spans: Vec<Option<(i64, i64)>>,
    /// The number of rows that are in no chunk yet.
    pub waiting: usize,
    /// The number of series in the current rows.
    pub series: usize,
    /// The number of values that were omitted since the history was opened: there were too many
    /// series, a name was too long, or a series changed its kind.
    pub refused: u64,
    /// The number of rows and events that were lost, at least. Since opening, they are lost if
    /// the storage fails for too long, or if there are too many at once. At opening, those after
    /// a damaged record of the journal are lost.
    pub lost: u64,
}

/// The history of many series in one storage.
pub struct History<S> {
    pub(crate) storage: S,
    pub(crate) layout: Layout,
    pub(crate) rings: Vec<Ring>,
    pub(crate) live: Live,
    journal: Journal,
    /// Whether rows are missing in the journal. It then accepts none until the next chunk is
    /// written.
    closed: bool,
    refused: u64,
    lost: u64,
}

impl<S: Storage> History<S> {
    /// Opens an existing history, or makes an empty one of at most `size` bytes. An existing one
    /// keeps its size.
    pub fn open(mut storage: S, size: u64) -> Result<Self, HistoryError> {
        let layout = if let Some(layout) = Layout::read(&storage)? {
            layout
        } else {
            let layout = Layout::of(size)?;
            layout.create(&mut storage)?;
            layout
        };
        Self::with(storage, layout)
    }

    /// Opens an existing history for reading. [`History::append`] and [`History::commit`] must
    /// not be called.
    pub fn open_reading(storage: S) -> Result<Self, HistoryError> {
        let layout = Layout::read(&storage)?.ok_or(HistoryError::Empty)?;
        Self::with(storage, layout)
    }

    /// Returns a copy of the index for reading through another handle of the same storage, while
    /// this one continues. It contains the named series, or all of them if none is named. Data
    /// that are overwritten in the meantime are omitted from readings.
    pub fn reading<R: Storage>(&self, storage: R, names: &[&str]) -> History<R> {
        let live = if names.is_empty() {
            self.live.clone()
        } else {
            self.live.only(names)
        };
        History {
            storage,
            layout: self.layout,
            rings: self.rings.clone(),
            live,
            journal: Journal::default(),
            closed: true,
            refused: self.refused,
            lost: self.lost,
        }
    }

    fn with(storage: S, layout: Layout) -> Result<Self, HistoryError> {
        let rings = (0_u32..).zip(layout.rings);
        let rings = rings.map(|(tier, region)| Ring::open(&storage, tier, region));
        let rings = rings.collect::<Result<Vec<_>, _>>()?;
        let after = rings[0].newest();
        let mut found: Option<Found> = None;
        for half in [0, 1] {
            let other = Journal::recover(&storage, layout.journal, half, after)?;
            let newer = |other: &Found| {
                let best = found.as_ref().map_or(0, |found| found.journal.number);
                other.journal.number > best
            };
            if other.as_ref().is_some_and(newer) {
                found = other;
            }
        }
        let found = found.unwrap_or_else(|| Found {
            journal: Journal::begin(layout.journal, after + 1),
            live: Live::default(),
            lost: 0,
        });
        let Found {
            journal,
            live,
            lost,
        } = found;
        Ok(Self {
            storage,
            layout,
            rings,
            live,
            journal,
            // The lost records are where the journal would continue, so it restarts with the
            // next chunk.
            closed: lost > 0,
            refused: 0,
            lost,
        })
    }

    /// Returns the state of the history.
    pub fn status(&self) -> Status {
        let span = |ring: &Ring| {
            let first = ring.slots.iter().map(|slot| slot.head.first).min()?;
            let last = ring.slots.iter().map(|slot| slot.head.last).max()?;
            Some((first, last))
        };
        Status {
            size: self.layout.size,
            spans: self.rings.iter().map(span).collect(),
            waiting: self.live.times.len(),
            series: self.live.columns.len(),
            refused: self.refused,
            lost: self.lost,
        }
    }

    /// Returns how many bytes the rows in one of [`STEPS`] use, and the capacity of that ring.
    pub fn bytes_of(&self, step: usize) -> Option<(u64, u64)> {
        let slots = self.rings.get(step)?.slots.iter();
        let length = slots.map(|slot| u64::from(slot.head.length)).sum();
        Some((length, self.layout.rings.get(step)?.size))
    }

    /// Returns the storage.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Returns the storage, to change its settings; its bytes must not be changed.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Consumes the history and returns the storage.
    pub fn into_storage(self) -> S {
        self.storage
    }

    /// Adds a row: the values of series in the `interval` milliseconds before `time`, in
    /// milliseconds of Unix time. It is only in memory until the next [`History::commit`].
    /// Series that are not named are unknown for this row; if a name occurs twice, the first
    /// value counts.
    ///
    /// If the time is not later than that of the previous row, because the clock was set back, a
    /// new chunk starts. If times occur twice, later rows hide earlier ones. An error means that
    /// the previous chunk could not be written; the row is then lost.
    pub fn append<'a>(
        &mut self,
        time: i64,
        interval: i64,
        values: impl IntoIterator<Item = (&'a str, Kind, i64)>,
    ) -> Result<(), HistoryError> {
        if self.live.times.last().is_some_and(|last| time <= *last)
            && let Err(error) = self.seal()
        {
            self.lost += 1;
            return Err(error);
        }
        if self.live.times.len() >= 2 * ROWS {
            self.close();
            self.live.forget(ROWS);
            self.lost += ROWS as u64;
        }
        let mut known: Vec<i64> = vec![ABSENT; self.live.columns.len()];
        for (name, kind, value) in values {
            let before = self.live.columns.len();
            let Some(index) = self.live.index_of(name, kind).filter(|_| value != ABSENT) else {
                self.refused += 1;
                continue;
            };
            if index == before {
                known.push(ABSENT);
                if !self.closed {
                    self.journal.series(name, kind);
                }
            }
            if known[index] == ABSENT {
                known[index] = value;
            }
        }
        if !self.closed {
            let columns = self.live.columns.iter().zip(&known);
            let changes = columns.map(|(column, value)| journal::change(*value, column.latest));
            self.journal.row(time, interval, changes);
        }
        self.live.row(time, interval);
        for (index, value) in known.into_iter().enumerate() {
            if value != ABSENT {
                self.live.set(index, value);
            }
        }
        Ok(())
    }

    /// Adds an event; long texts are truncated.
    pub fn event(&mut self, mut event: Event) {
        for text in [&mut event.kind, &mut event.text] {
            let cut = (0..=MAX_TEXT.min(text.len())).rev();
            let cut = cut.into_iter().find(|at| text.is_char_boundary(*at));
            text.truncate(cut.unwrap_or(0));
        }
        let known = event.clone();
        if !self.live.event(event) {
            self.lost += 1;
        } else if !self.closed {
            self.journal.event(&known);
        }
    }

    /// Makes the accepted data durable. After an error nothing is lost yet: the next call tries
    /// again, until some half an hour of rows is waiting.
    pub fn commit(&mut self) -> Result<(), HistoryError> {
        let written = if self.closed {
            Ok(())
        } else {
            self.journal.commit(&mut self.storage)
        };
        let full = self.closed || !self.journal.has_room();
        if full || self.live.times.len() >= ROWS {
            return self.seal();
        }
        written
    }

    /// Stops the journal: its present contents are what survives a crash.
    fn close(&mut self) {
        self.closed = true;
        self.journal.stop();
    }

    /// Writes a chunk of the rows in memory.
    fn seal(&mut self) -> Result<(), HistoryError> {
        let Some((first, last)) = self.live.span() else {
            return Ok(());
        };
        let body = self.live.body();
        let ring = &mut self.rings[0];
        if ring.holds(body.len()) {
            let head = Head {
                tier: 0,
                number: self.journal.number,
                source: 0,
                first,
                last,
                length: 0,
            };
            if let Err(error) = ring.add(&mut self.storage, head, &body) {
                if !self.journal.has_room() {
                    self.close();
                }
                return Err(error);
            }
        } else {
            self.lost += self.live.times.len() as u64;
        }
        self.journal = Journal::begin(self.layout.journal, self.journal.number + 1);
        self.live = Live::default();
        self.closed = false;
        self.condense()
    }

    /// Writes the chunks of steps that are due.
    fn condense(&mut self) -> Result<(), HistoryError> {
        for (tier, most) in SOURCES.into_iter().enumerate().skip(1) {
            loop {
                let done = self.rings[tier].source();
                let slots = self.rings[tier - 1].slots.iter();
                let due: Vec<Slot> = slots
                    .filter(|slot| slot.head.number > done)
                    .copied()
                    .collect();
                // If rows are far apart, few chunks fill a ring; condense them before they are
                // overwritten.
                if due.len() < most && !self.rings[tier - 1].pressed(&due) {
                    break;
                }
                let count = due.len().min(most);
                self.condense_one(tier, &due[..count])?;
            }
        }
        Ok(())
    }

    fn condense_one(&mut self, tier: usize, due: &[Slot]) -> Result<(), HistoryError> {
        let mut count = due.len();
        loop {
            let due = &due[..count];
            let (mut chunks, mut names) = (Vec::new(), BTreeSet::new());
            for slot in due {
                let ring = &self.rings[tier - 1];
                chunks.extend(ring.outline(&self.storage, slot, &mut names)?);
            }
            let step = STEPS[tier];
            let mut body = thin::condense(&self.storage, &chunks, tier == 1, step)?;
            if !self.rings[tier].holds(body.len()) {
                if count > 1 {
                    count /= 2;
                    continue;
                }
                body = thin::condense(&self.storage, &[], tier == 1, step)?;
            }
            let head = Head {
                tier: tier as u32,
                number: self.rings[tier].newest() + 1,
                source: due.last().map_or(0, |slot| slot.head.number),
                first: due.iter().map(|slot| slot.head.first).min().unwrap_or(0),
                last: due.iter().map(|slot| slot.head.last).max().unwrap_or(0),
                length: 0,
            };
            return self.rings[tier].add(&mut self.storage, head, &body);
        }
    }
}
