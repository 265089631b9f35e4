// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps made of rows, and of finer steps. Both go the same way: what a step
//! holds can be added up without error.

use crate::chunk::{Builder, Chunk, Outline, columns};
use crate::column::ABSENT;
use crate::ring::fill;
use crate::{HistoryError, Kind, Storage};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::Inserted as _;

/// What a series was in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Of a counter, how much was counted; of a gauge, its values times the
    /// milliseconds that each held for.
    pub(crate) sum: i64,
    /// The milliseconds for which it is known.
    pub(crate) covered: i64,
    /// The least and the greatest value; of a counter, by the second.
    pub(crate) least: i64,
    pub(crate) most: i64,
}

/// What a series is, and its steps, none where nothing was seen.
type Thinned = (Kind, Vec<Option<Cell>>);

impl Cell {
    /// One row's.
    pub(crate) fn of(kind: Kind, value: i64, interval: i64) -> Self {
        let covered = interval.max(1);
        let (sum, level) = match kind {
            Kind::Counter => (value, per_second(value, covered)),
            Kind::Gauge => (value.saturating_mul(covered), value),
        };
        Self {
            sum,
            covered,
            least: level,
            most: level,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.covered = self.covered.saturating_add(other.covered);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }
}

fn per_second(value: i64, milliseconds: i64) -> i64 {
    let rate = i128::from(value) * 1000 / i128::from(milliseconds);
    rate.clamp(i128::from(i64::MIN + 1), i128::from(i64::MAX)) as i64
}

/// What a series was at each row.
pub(crate) fn of_rows(kind: Kind, values: &[i64], intervals: &[i64]) -> Vec<Option<Cell>> {
    let cells = values.iter().zip(intervals);
    let cells = cells
        .map(|(value, interval)| (*value != ABSENT).then(|| Cell::of(kind, *value, *interval)));
    cells.collect()
}

/// What it was in each step.
fn of_steps(columns: &[Vec<i64>; 4], intervals: &[i64]) -> Vec<Option<Cell>> {
    let [sums, covers, leasts, mosts] = columns;
    let cell = |index: usize| {
        (sums[index] != ABSENT).then(|| Cell {
            sum: sums[index],
            // What the row as a whole covers is what most series have.
            covered: intervals[index].wrapping_add(covers[index]).max(1),
            least: leasts[index],
            most: mosts[index].max(leasts[index]),
        })
    };
    (0..sums.len()).map(cell).collect()
}

impl Chunk {
    /// A series by its rows; `rows` tells those of a chunk that was not
    /// condensed yet from steps.
    pub(crate) fn cells(&self, name: &str, rows: bool) -> Option<(Kind, Vec<Option<Cell>>)> {
        let (index, kind) = self.find(name)?;
        let cells = if rows {
            let [values] = self.columns(index)?;
            of_rows(kind, &values, &self.intervals)
        } else {
            of_steps(&self.columns(index)?, &self.intervals)
        };
        Some((kind, cells))
    }
}

impl Outline {
    /// The same, read from the storage.
    fn cells(
        &self,
        storage: &impl Storage,
        name: &str,
        rows: bool,
    ) -> Result<Option<Thinned>, HistoryError> {
        let found = self.series.binary_search_by(|one| (*one.0).cmp(name));
        let Some((_, kind, at, length)) = found.ok().and_then(|index| self.series.get(index))
        else {
            return Ok(None);
        };
        let mut bytes = vec![0; *length];
        fill(storage, *at, &mut bytes)?;
        let count = self.times.len();
        let cells = if rows {
            columns(&bytes, count).map(|[values]| of_rows(*kind, &values, &self.intervals))
        } else {
            columns(&bytes, count).map(|columns| of_steps(&columns, &self.intervals))
        };
        Ok(cells.map(|cells| (*kind, cells)))
    }
}

/// The body of a chunk of steps, made of finer ones.
pub(crate) fn condense(
    storage: &impl Storage,
    sources: &[Outline],
    rows: bool,
    step: i64,
) -> Result<Vec<u8>, HistoryError> {
    let mut covered: BTreeMap<i64, i64> = BTreeMap::new();
    for source in sources {
        for (time, interval) in source.times.iter().zip(&source.intervals) {
            let sum = covered.entry(start(*time, step, rows)).or_default();
            *sum = sum.saturating_add(*interval);
        }
    }
    let times: Vec<i64> = covered.keys().copied().collect();
    let intervals: Vec<i64> = covered.into_values().collect();
    let events = sources.iter().flat_map(|source| source.events.clone());
    let events: Vec<_> = events.take(crate::MAX_EVENTS).collect();
    let mut builder = Builder::new(&times, &intervals, &events);
    let names: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.series.iter().map(|one| &*one.0))
        .inserted();
    for name in names.into_iter().take(crate::MAX_SERIES) {
        let mut cells: Vec<Option<Cell>> = vec![None; times.len()];
        let mut kept = None;
        for source in sources {
            let Some((kind, finer)) = source.cells(storage, name, rows)? else {
                continue;
            };
            if *kept.get_or_insert(kind) != kind {
                continue;
            }
            for (time, cell) in source.times.iter().zip(finer) {
                let index = times.binary_search(&start(*time, step, rows));
                let (Ok(index), Some(cell)) = (index, cell) else {
                    continue;
                };
                match &mut cells[index] {
                    Some(sum) => sum.add(cell),
                    none => *none = Some(cell),
                }
            }
        }
        let Some(kind) = kept else { continue };
        let column = |of: &dyn Fn(&Cell, i64) -> i64| -> Vec<i64> {
            let values = cells.iter().zip(&intervals);
            let values = values.map(|(cell, all)| cell.as_ref().map_or(ABSENT, |c| of(c, *all)));
            values.collect()
        };
        let four = [
            column(&|cell, _| cell.sum),
            column(&|cell, all| cell.covered.wrapping_sub(all)),
            column(&|cell, _| cell.least),
            column(&|cell, _| cell.most),
        ];
        builder.series(name, kind, four.iter().map(Vec::as_slice));
    }
    Ok(builder.finish())
}

/// The beginning of the step that a row belongs to. A row's time is the end of
/// its interval; a step's is its beginning.
pub(crate) fn start(time: i64, step: i64, row: bool) -> i64 {
    let inside = time.saturating_sub(i64::from(row));
    inside - inside.rem_euclid(step)
}
