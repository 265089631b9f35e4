// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Condenses rows, or finer steps, to steps. Both work alike, because the contents of steps can
//! be summed without error.

use crate::chunk::{Builder, Chunk, Outline, columns};
use crate::column::ABSENT;
use crate::ring::fill;
use crate::{HistoryError, Kind, Storage};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::Inserted as _;

/// The values of a series in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// For a counter, the increment; for a gauge, the sum of its values times their durations in
    /// milliseconds.
    pub(crate) sum: i64,
    /// The milliseconds for which the value is known.
    pub(crate) covered: i64,
    /// The smallest and the largest value; for a counter, per second.
    pub(crate) least: i64,
    pub(crate) most: i64,
}

/// The kind of a series, and its steps; `None` for steps without data.
type Thinned = (Kind, Vec<Option<Cell>>);

impl Cell {
    /// Makes the cell of one row.
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

/// Returns the cells of a series for each row.
pub(crate) fn of_rows(kind: Kind, values: &[i64], intervals: &[i64]) -> Vec<Option<Cell>> {
    let cells = values.iter().zip(intervals);
    let cells = cells
        .map(|(value, interval)| (*value != ABSENT).then(|| Cell::of(kind, *value, *interval)));
    cells.collect()
}

/// Returns the cells of a series for each step.
fn of_steps(columns: &[Vec<i64>; 4], intervals: &[i64]) -> Vec<Option<Cell>> {
    let [sums, covers, leasts, mosts] = columns;
    let cell = |index: usize| {
        (sums[index] != ABSENT).then(|| Cell {
            sum: sums[index],
            // Most series cover as much as the row itself, so only the difference is stored.
            covered: intervals[index].wrapping_add(covers[index]).max(1),
            least: leasts[index],
            most: mosts[index].max(leasts[index]),
        })
    };
    (0..sums.len()).map(cell).collect()
}

impl Chunk {
    /// Returns the cells of a series; `rows` tells whether the chunk contains rows instead of
    /// steps.
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
    /// Returns the cells of a series, whose columns are read from the storage.
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

/// Returns the body of a chunk of steps, condensed from finer ones.
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

/// Returns the start of the step to which a row belongs. The time of a row is the end of its
/// interval; that of a step is its start.
pub(crate) fn start(time: i64, step: i64, row: bool) -> i64 {
    let inside = time.saturating_sub(i64::from(row));
    inside - inside.rem_euclid(step)
}
