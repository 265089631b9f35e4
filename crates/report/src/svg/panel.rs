// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pair of axes: grid, labels, phases, and curves thinned to pixels.

use super::axis::{Scale, label};
use super::canvas::{Anchor, Canvas, Path, WIDTH, fill, stroke};
use weirgate_experiment::Experiment;

/// Pixels left of the axes, for numbers and their unit.
pub(super) const LEFT: f64 = 62.0;

/// Pixels right of the axes, for the names of series.
pub(super) const RIGHT: f64 = 112.0;

/// The smallest distance between names of series.
const NAME_HEIGHT: f64 = 14.0;

/// How many characters of a name fit right of the axes.
const NAME_LENGTH: usize = 17;

/// A pair of axes in a rectangle.
pub(super) struct Panel {
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Panel {
    /// Returns axes that begin at `top` and are `height` high. This sets the pixels of `x` and `y`.
    pub(super) fn new(x: Scale, y: Scale, top: f64, height: f64) -> Self {
        Self {
            x: x.at((LEFT, WIDTH - RIGHT)),
            y: y.at((top + height, top)),
        }
    }

    pub(super) fn top(&self) -> f64 {
        self.y.pixels().1
    }

    pub(super) fn bottom(&self) -> f64 {
        self.y.pixels().0
    }

    /// Shades every second phase, and names all phases if `named`.
    pub(super) fn phases(&self, canvas: &mut Canvas, experiment: &Experiment, named: bool) {
        for (index, phase) in experiment.phases.iter().enumerate() {
            let (from, to) = (
                self.x.position(phase.start.as_secs_f64()),
                self.x.position(phase.end.as_secs_f64()),
            );
            let width = to - from;
            if index % 2 == 1 {
                let area = (from, self.top(), width, self.bottom() - self.top());
                canvas.rect("b", area, "");
            }
            // About seven pixels a character.
            if named && width > phase.name.chars().count() as f64 * 7.0 + 4.0 {
                let middle = f64::midpoint(from, to);
                canvas.text(middle, self.top() - 24.0, Anchor::Middle, "", &phase.name);
            }
        }
    }

    /// Draws the horizontal grid with numbers, and the unit beside them.
    pub(super) fn rows(&self, canvas: &mut Canvas, about: usize, unit: &str) {
        let (left, right) = self.x.pixels();
        let mut grid = Path::default();
        for tick in self.y.ticks(about) {
            let y = self.y.position(tick);
            grid.move_to(left, y);
            grid.horizontal_to(right);
            canvas.text(left - 6.0, y + 4.0, Anchor::End, "", &label(tick));
        }
        canvas.path("g", &grid);
        canvas.vertical_text(13.0, f64::midpoint(self.top(), self.bottom()), unit);
    }

    /// Draws the horizontal axis, and the numbers below it if `numbers`.
    pub(super) fn columns(&self, canvas: &mut Canvas, about: usize, unit: &str, numbers: bool) {
        let (left, right) = self.x.pixels();
        let bottom = self.bottom();
        let mut axis = Path::line(left, bottom, right, bottom);
        for tick in self.x.ticks(about) {
            let x = self.x.position(tick);
            axis.move_to(x, bottom);
            axis.vertical_to(bottom + 4.0);
            if numbers {
                canvas.text(x, bottom + 17.0, Anchor::Middle, "", &label(tick));
            }
        }
        canvas.path("a", &axis);
        if numbers {
            canvas.text(
                f64::midpoint(left, right),
                bottom + 33.0,
                Anchor::Middle,
                "",
                unit,
            );
        }
    }

    /// Draws the panel's title above its left corner.
    pub(super) fn title(&self, canvas: &mut Canvas, text: &str) {
        canvas.text(
            self.x.pixels().0,
            self.top() - 7.0,
            Anchor::Start,
            "t",
            text,
        );
    }

    /// Draws the names of series on the right, each at the height of its end, moved apart if they
    /// would overlap.
    pub(super) fn names(&self, canvas: &mut Canvas, names: &[(usize, &str, f64)]) {
        let mut labels: Vec<(f64, usize, &str)> = names
            .iter()
            .map(|&(series, name, value)| (self.y.position(value) + 4.0, series, name))
            .collect();
        labels.sort_by(|one, other| one.0.total_cmp(&other.0));
        let lowest = self.bottom() + 4.0;
        let mut last = f64::NEG_INFINITY;
        for label in &mut labels {
            label.0 = label.0.max(last + NAME_HEIGHT);
            last = label.0;
        }
        let mut next = f64::INFINITY;
        for label in labels.iter_mut().rev() {
            label.0 = label.0.min(next - NAME_HEIGHT).min(lowest);
            next = label.0;
        }
        let x = self.x.pixels().1 + 8.0;
        for (y, series, name) in labels {
            canvas.path(
                &format!("d {}", stroke(series)),
                &Path::line(x, y - 4.0, x + 8.0, y - 4.0),
            );
            let class = fill(series);
            canvas.text(
                x + 14.0,
                y,
                Anchor::Start,
                &format!("n {class}"),
                &short(name, NAME_LENGTH),
            );
        }
    }

    /// Returns a line through points in order of x, thinned to the resolution. The line breaks if
    /// the next point is more than `gap` away.
    pub(super) fn line(&self, points: &[(f64, f64)], gap: f64) -> Path {
        let mut path = Path::default();
        let mut last: Option<f64> = None;
        for column in self.thinned(points) {
            let broken = last.is_none_or(|last| column.first_x - last > gap);
            for (index, (x, value)) in column.points().into_iter().enumerate() {
                let (x, y) = (self.x.position(x), self.y.position(value));
                if index == 0 && broken {
                    path.move_to(x, y);
                } else {
                    path.line_to(x, y);
                }
            }
            last = Some(column.last_x);
        }
        path
    }

    /// Returns the points, with those of a pixel column merged into a stroke from the lowest to the
    /// highest.
    pub(super) fn dots(&self, points: &[(f64, f64)]) -> Path {
        let mut path = Path::default();
        for column in self.thinned(points) {
            let x = self.x.position(column.first_x);
            let (low, high) = (self.y.position(column.low), self.y.position(column.high));
            path.move_to(x, low);
            path.vertical_to(high);
        }
        path
    }

    /// Returns a step curve, with the area below it.
    pub(super) fn steps(&self, points: &[(f64, f64)], until: f64) -> Path {
        let mut path = Path::default();
        for column in self.thinned(points) {
            let x = self.x.position(column.first_x);
            if path.is_empty() {
                path.move_to(x, self.y.position(column.first));
            } else {
                path.horizontal_to(x);
            }
            if column.low < column.high {
                path.vertical_to(self.y.position(column.low));
                path.vertical_to(self.y.position(column.high));
            }
            path.vertical_to(self.y.position(column.last));
        }
        if !path.is_empty() {
            path.horizontal_to(self.x.position(until));
        }
        path
    }

    fn thinned(&self, points: &[(f64, f64)]) -> Vec<Column> {
        let mut columns: Vec<(i64, Column)> = Vec::new();
        for &(x, value) in points.iter().filter(|point| point.1.is_finite()) {
            let pixel = self.x.position(x).floor() as i64;
            match columns.last_mut() {
                Some((last, column)) if *last == pixel => column.add(x, value),
                _ => columns.push((pixel, Column::new(x, value))),
            }
        }
        columns.into_iter().map(|column| column.1).collect()
    }
}

/// The points of one pixel column.
struct Column {
    first_x: f64,
    last_x: f64,
    first: f64,
    last: f64,
    low: f64,
    high: f64,
    count: usize,
}

impl Column {
    fn new(x: f64, value: f64) -> Self {
        Self {
            first_x: x,
            last_x: x,
            first: value,
            last: value,
            low: value,
            high: value,
            count: 1,
        }
    }

    fn add(&mut self, x: f64, value: f64) {
        self.last_x = x;
        self.last = value;
        self.low = self.low.min(value);
        self.high = self.high.max(value);
        self.count += 1;
    }

    /// Returns the points that a line through the column needs, at most four.
    fn points(&self) -> Vec<(f64, f64)> {
        let middle = f64::midpoint(self.first_x, self.last_x);
        match self.count {
            1 => vec![(self.first_x, self.first)],
            2 => vec![(self.first_x, self.first), (self.last_x, self.last)],
            _ => vec![
                (self.first_x, self.first),
                (middle, self.low),
                (middle, self.high),
                (self.last_x, self.last),
            ],
        }
    }
}

/// Shortens a name to at most `length` characters.
pub(super) fn short(name: &str, length: usize) -> String {
    if name.chars().count() <= length {
        return name.to_owned();
    }
    let kept: String = name.chars().take(length.saturating_sub(1)).collect();
    format!("{kept}\u{2026}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn thinning_keeps_extremes_and_bounds_the_size(
            values in prop::collection::vec(0.0f64..1000.0, 1..5000),
        ) {
            let points: Vec<(f64, f64)> =
                values.iter().enumerate().map(|(n, value)| (n as f64 / 10.0, *value)).collect();
            let x = Scale::linear((0.0, 500.0), (0.0, 0.0));
            let panel = Panel::new(x, Scale::from_zero(1000.0, (0.0, 0.0), 4), 10.0, 100.0);
            let columns = panel.thinned(&points);
            prop_assert!(columns.len() as f64 <= WIDTH);
            let counted: usize = columns.iter().map(|column| column.count).sum();
            prop_assert_eq!(counted, values.len());
            let high = columns.iter().map(|column| column.high).fold(0.0, f64::max);
            let low = columns.iter().map(|column| column.low).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(high, values.iter().copied().fold(0.0, f64::max));
            prop_assert_eq!(low, values.iter().copied().fold(f64::INFINITY, f64::min));
        }
    }
}
