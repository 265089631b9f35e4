// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads series and events over a span of time.
//!
//! The ring with the requested step is read as far as it goes. Data that are not condensed that
//! far yet are read from finer rings, and older data from coarser ones.

use crate::chunk::{Chunk, Head};
use crate::layout::STEPS;
use crate::thin::{self, Cell};
use crate::{Event, History, HistoryError, Kind, Storage};
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of points of a series in a reading: one per second for two days. For a
/// longer reading, the steps are lengthened.
const MAX_POINTS: i64 = 172_800;

/// The values of a series in one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The start of the interval in milliseconds of Unix time.
    pub start: i64,
    /// The end of the interval.
    pub end: i64,
    /// The mean over the known part; for a counter, per second.
    pub mean: f64,
    /// The smallest value.
    pub least: i64,
    /// The largest value.
    pub most: i64,
    /// The increment of a counter in the known part; 0 for a gauge.
    pub counted: i64,
    /// The known fraction of the interval.
    pub known: f64,
}

/// The values of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The name.
    pub name: String,
    /// The kind; `None` if there are no data.
    pub kind: Option<Kind>,
    /// The points in chronological order; those without data are omitted.
    pub points: Vec<Point>,
}

/// Collects the cells of one series.
struct Gathered {
    kind: Option<Kind>,
    cells: BTreeMap<i64, (i64, Cell)>,
    /// The step of the last cells, with its start and end. Most cells belong to the same step as
    /// the previous one.
    last: Option<(i64, i64, Cell)>,
}

/// A source of data: a chunk, or the rows in memory.
#[derive(Clone, Copy)]
struct Span {
    tier: usize,
    first: i64,
    last: i64,
    /// Rows that end later belong to another source.
    until: i64,
}

impl<S: Storage> History<S> {
    /// Reads series by name, between two times in milliseconds of Unix time, in steps of this
    /// many milliseconds; 0 means as recorded. Data that are only known in longer steps have
    /// those.
    pub fn read(
        &self,
        names: &[&str],
        from: i64,
        to: i64,
        step: i64,
    ) -> Result<Vec<Reading>, HistoryError> {
        Ok(self.read_with_events(names, from, to, step)?.0)
    }

    /// Reads series, and the events in the same time, as [`History::events`] does.
    pub fn read_with_events(
        &self,
        names: &[&str],
        from: i64,
        to: i64,
        step: i64,
    ) -> Result<(Vec<Reading>, Vec<Event>), HistoryError> {
        let mut events = BTreeSet::new();
        let happened = (from, to);
        let (first, last) = self.span().unwrap_or((from, from));
        let (from, to) = (from.max(first), to.min(last));
        let length = to.saturating_sub(from).max(0);
        let step = step.max(0).max(if length / 1000 > MAX_POINTS {
            length / MAX_POINTS
        } else {
            0
        });
        let mut all: Vec<Gathered> = names
            .iter()
            .map(|_| Gathered {
                kind: None,
                cells: BTreeMap::new(),
                last: None,
            })
            .collect();
        let mut hidden: Vec<(i64, i64)> = Vec::new();
        self.visit(from, to, step, |chunk, span| {
            events.extend(self.happened(chunk, happened));
            let width = STEPS[span.tier];
            // Most chunks have no hidden rows.
            let hidden_here: Vec<(i64, i64)> = hidden
                .iter()
                .filter(|(first, last)| {
                    *last >= span.first && *first <= span.last.saturating_add(width)
                })
                .copied()
                .collect();
            for (name, gathered) in names.iter().zip(&mut all) {
                let found = match chunk {
                    Some(chunk) => chunk.cells(name, span.tier == 0),
                    None => self.live_cells(name),
                };
                let Some((kind, cells)) = found else { continue };
                if *gathered.kind.get_or_insert(kind) != kind {
                    continue;
                }
                let (times, intervals) = match chunk {
                    Some(chunk) => (&chunk.times, &chunk.intervals),
                    None => (&self.live.times, &self.live.intervals),
                };
                for ((time, interval), cell) in times.iter().zip(intervals).zip(cells) {
                    let Some(cell) = cell else { continue };
                    let (start, end) = match span.tier {
                        0 => (time.saturating_sub(*interval), *time),
                        _ => (*time, time.saturating_add(width)),
                    };
                    let covered = |(first, last): &(i64, i64)| start >= *first && start < *last;
                    if end <= from
                        || start >= to
                        || end > span.until
                        || hidden_here.iter().any(covered)
                    {
                        continue;
                    }
                    gathered.add(start, end, step, cell);
                }
                gathered.put();
            }
            let rows = match chunk {
                Some(chunk) => (&chunk.times, &chunk.intervals),
                None => (&self.live.times, &self.live.intervals),
            };
            hidden.extend(runs(rows, span));
        })?;
        let readings = names.iter().zip(all);
        let readings = readings.map(|(name, gathered)| gathered.reading(name));
        Ok((readings.collect(), events.into_iter().collect()))
    }

    /// Returns the names and kinds of series with data in an interval.
    pub fn series(&self, from: i64, to: i64) -> Result<BTreeMap<String, Kind>, HistoryError> {
        let mut names = BTreeMap::new();
        // All rings have the same names, so a coarse one suffices for a long interval.
        let step = self.coarse(from, to);
        self.visit(from, to, step, |chunk, _| {
            if let Some(chunk) = chunk {
                names.extend(chunk.series().map(|(name, kind)| (name.to_owned(), kind)));
            } else {
                let columns = self.live.columns.iter();
                names.extend(columns.map(|column| (column.name.clone(), column.kind)));
            }
        })?;
        Ok(names)
    }

    /// Returns the events in an interval, in chronological order.
    pub fn events(&self, from: i64, to: i64) -> Result<Vec<Event>, HistoryError> {
        let mut events = BTreeSet::new();
        let step = self.coarse(from, to);
        self.visit(from, to, step, |chunk, _| {
            events.extend(self.happened(chunk, (from, to)));
        })?;
        Ok(events.into_iter().collect())
    }

    /// Returns the events of a chunk, or of the rows in memory, between two times.
    fn happened<'a>(
        &'a self,
        chunk: Option<&'a Chunk>,
        (from, to): (i64, i64),
    ) -> impl Iterator<Item = Event> + 'a {
        let found = chunk.map_or(&self.live.events, |chunk| &chunk.events);
        let within = move |event: &&Event| event.time >= from && event.time < to;
        found.iter().filter(within).cloned()
    }

    /// Returns a step for which little is read, but every chunk is visited.
    fn coarse(&self, from: i64, to: i64) -> i64 {
        let (first, last) = self.span().unwrap_or((from, from));
        to.min(last).saturating_sub(from.max(first)) / 100
    }

    /// Returns the times of the first and the last row.
    pub fn span(&self) -> Option<(i64, i64)> {
        let slots = self.rings.iter().flat_map(|ring| &ring.slots);
        let chunks = slots.map(|slot| (slot.head.first, slot.head.last));
        let all = chunks.chain(self.live.span());
        all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    fn live_cells(&self, name: &str) -> Option<(Kind, Vec<Option<Cell>>)> {
        let column = self.live.find(name)?;
        let values = column.all(self.live.times.len());
        let cells = thin::of_rows(column.kind, &values, &self.live.intervals);
        Some((column.kind, cells))
    }

    /// Visits every source that is needed for an interval, later ones first; `None` is the rows
    /// in memory.
    fn visit(
        &self,
        from: i64,
        to: i64,
        step: i64,
        mut see: impl FnMut(Option<&Chunk>, Span),
    ) -> Result<(), HistoryError> {
        let base = STEPS.iter().rposition(|one| *one <= step).unwrap_or(0);
        if let Some((first, last)) = self.live.span() {
            let until = i64::MAX;
            let span = Span {
                tier: 0,
                first,
                last,
                until,
            };
            see(None, span);
        }
        // The time before which only coarser rings have data.
        let mut oldest = i64::MAX;
        for (tier, width) in STEPS.into_iter().enumerate() {
            let ring = &self.rings[tier];
            // Data that the next coarser ring contains are read there.
            let done = if tier < base {
                self.rings[tier + 1].source()
            } else {
                0
            };
            // Data that the coarser ring has lost, but this one still has, are read here.
            let older = if tier < base {
                let slots = self.rings[tier + 1].slots.iter();
                slots.map(|slot| slot.head.first).min()
            } else {
                None
            };
            let until = if tier > base { oldest } else { i64::MAX };
            let wanted = |head: &Head| {
                (head.number > done || older.is_some_and(|first| head.last <= first))
                    && head.last.saturating_add(width) >= from
                    && head.first.saturating_sub(width) < to
                    && (tier <= base || head.first < until)
            };
            for slot in ring.slots.iter().rev() {
                if !wanted(&slot.head) {
                    continue;
                }
                if let Some(chunk) = ring.load(&self.storage, slot)? {
                    let span = Span {
                        tier,
                        first: slot.head.first,
                        last: slot.head.last,
                        until,
                    };
                    see(Some(&chunk), span);
                }
            }
            let first = ring.slots.iter().map(|slot| slot.head.first).min();
            if tier >= base {
                oldest = oldest.min(first.unwrap_or(i64::MAX));
            }
        }
        Ok(())
    }
}

/// Returns the intervals covered by rows, merged where adjacent. A source hides the data of
/// others in these intervals, but not in a gap that setting the clock forward has left.
fn runs((times, intervals): (&Vec<i64>, &Vec<i64>), span: Span) -> Vec<(i64, i64)> {
    let width = STEPS[span.tier];
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for (time, interval) in times.iter().zip(intervals) {
        let (start, end, slack) = match span.tier {
            0 => (time.saturating_sub(*interval), *time, *interval),
            _ => (*time, time.saturating_add(width), 0),
        };
        let (start, end) = (start.max(span.first), end.min(span.last));
        match runs.last_mut() {
            // A single missed look does not count as a gap.
            Some((_, last)) if start <= last.saturating_add(slack) => *last = end.max(*last),
            _ => runs.push((start, end)),
        }
    }
    runs
}

impl Gathered {
    /// Adds a cell to its step, or as recorded.
    fn add(&mut self, start: i64, end: i64, step: i64, cell: Cell) {
        let (start, end) = if step > end.saturating_sub(start) {
            let start = thin::start(end, step, true);
            (start, start.saturating_add(step))
        } else {
            (start, end)
        };
        if let Some((begin, until, sum)) = &mut self.last
            && *begin == start
        {
            *until = (*until).max(end);
            sum.add(cell);
            return;
        }
        self.put();
        self.last = Some((start, end, cell));
    }

    /// Stores what was collected for one step.
    fn put(&mut self) {
        let Some((start, end, cell)) = self.last.take() else {
            return;
        };
        self.cells
            .entry(start)
            .and_modify(|(last, sum)| {
                *last = (*last).max(end);
                sum.add(cell);
            })
            .or_insert((end, cell));
    }

    fn reading(self, name: &str) -> Reading {
        let kind = self.kind.unwrap_or(Kind::Gauge);
        let point = |(start, (end, cell)): (i64, (i64, Cell))| {
            let seconds = cell.covered as f64 / 1000.0;
            let (mean, counted) = match kind {
                Kind::Counter => (cell.sum as f64 / seconds, cell.sum),
                Kind::Gauge => (cell.sum as f64 / cell.covered as f64, 0),
            };
            let length = end.saturating_sub(start).max(1);
            Point {
                start,
                end,
                mean,
                least: cell.least,
                most: cell.most,
                counted,
                known: (cell.covered as f64 / length as f64).min(1.0),
            }
        };
        Reading {
            name: name.to_owned(),
            kind: self.kind,
            points: self.cells.into_iter().map(point).collect(),
        }
    }
}
