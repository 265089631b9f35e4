// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scales and their ticks.

use crate::format::number;

/// Maps a range of values to a range of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// The range of values; their logarithms if `log`.
    from: f64,
    to: f64,
    /// The pixels of both ends; the first is larger on a vertical axis.
    start: f64,
    end: f64,
    log: bool,
}

impl Scale {
    /// Returns a linear scale.
    pub(super) fn linear(values: (f64, f64), pixels: (f64, f64)) -> Self {
        let (from, mut to) = values;
        if to <= from {
            to = from + 1.0;
        }
        Self {
            from,
            to,
            start: pixels.0,
            end: pixels.1,
            log: false,
        }
    }

    /// Returns a logarithmic scale; both values must be positive.
    pub(super) fn log(values: (f64, f64), pixels: (f64, f64)) -> Self {
        let from = values.0.max(1e-9).log10();
        let to = values.1.max(1e-9).log10();
        let to = if to <= from { from + 1.0 } else { to };
        Self {
            from,
            to,
            start: pixels.0,
            end: pixels.1,
            log: true,
        }
    }

    /// Returns a linear scale from 0 to a tick at or above `max`.
    pub(super) fn from_zero(max: f64, pixels: (f64, f64), ticks: usize) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = step(max, ticks);
        Self::linear((0.0, (max / step).ceil() * step), pixels)
    }

    /// Returns a linear scale from 0, or a logarithmic one if the values differ by a factor of more
    /// than 30.
    pub(super) fn fitting(min: f64, max: f64, pixels: (f64, f64), ticks: usize) -> Self {
        if min > 0.0 && max / min > 30.0 {
            Self::log((min / 1.3, max * 1.2), pixels)
        } else {
            Self::from_zero(max * 1.05, pixels, ticks)
        }
    }

    /// Returns the same scale with other pixels.
    pub(super) fn at(self, pixels: (f64, f64)) -> Self {
        Self {
            start: pixels.0,
            end: pixels.1,
            ..self
        }
    }

    /// Returns the pixel of a value; values outside the scale are clamped.
    pub(super) fn position(&self, value: f64) -> f64 {
        let value = if self.log {
            value.max(1e-9).log10()
        } else {
            value
        };
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start + part * (self.end - self.start)
    }

    /// Returns the pixels of both ends.
    pub(super) fn pixels(&self) -> (f64, f64) {
        (self.start, self.end)
    }

    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Returns approximately `about` values for ticks.
    pub(super) fn ticks(&self, about: usize) -> Vec<f64> {
        if self.log {
            self.log_ticks(about)
        } else {
            self.linear_ticks(about)
        }
    }

    fn linear_ticks(&self, about: usize) -> Vec<f64> {
        let step = step(self.to - self.from, about);
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }

    fn log_ticks(&self, about: usize) -> Vec<f64> {
        let decades = self.to - self.from;
        let digits: &[f64] = if decades * 3.0 <= about as f64 + 1.0 {
            &[1.0, 2.0, 5.0]
        } else if decades * 2.0 <= about as f64 + 1.0 {
            &[1.0, 3.0]
        } else {
            &[1.0]
        };
        let mut ticks = Vec::new();
        for exponent in self.from.floor() as i32..=self.to.ceil() as i32 {
            for digit in digits {
                let value = digit * 10f64.powi(exponent);
                if (self.from - 1e-9..=self.to + 1e-9).contains(&value.log10()) {
                    ticks.push(value);
                }
            }
        }
        ticks
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten.
fn step(range: f64, about: usize) -> f64 {
    let rough = range / about.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|f| f * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// Returns a tick's label; whole numbers have their digits in groups of three.
pub(super) fn label(value: f64) -> String {
    if value.abs() < 1000.0 || value.fract() != 0.0 {
        return number(value);
    }
    let digits = format!("{}", value.abs() as u64);
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            // A narrow no-break space.
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if value < 0.0 {
        format!("\u{2212}{grouped}")
    } else {
        grouped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let scale = Scale::from_zero(1769.0, (100.0, 0.0), 4);
        assert_eq!(scale.ticks(4), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(scale.position(1000.0), 50.0);
        assert_eq!(scale.position(99_999.0), 0.0);
        let log = Scale::fitting(8.0, 1200.0, (0.0, 100.0), 4);
        assert!(log.is_log());
        assert_eq!(log.ticks(4), [10.0, 30.0, 100.0, 300.0, 1000.0]);
        assert_eq!(
            log.ticks(8),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert!(!Scale::fitting(8.0, 30.0, (0.0, 100.0), 4).is_log());
        assert_eq!(
            Scale::linear((0.0, 0.0), (0.0, 9.0)).ticks(2),
            [0.0, 0.5, 1.0]
        );
    }

    #[test]
    fn labels_group_digits() {
        assert_eq!(
            [0.5, 100.0, 2000.0, 65000.0].map(label),
            ["0.5", "100", "2\u{202f}000", "65\u{202f}000"]
        );
    }
}
