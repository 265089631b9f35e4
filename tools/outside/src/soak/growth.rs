// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast a quantity grows. Rounds differ by their step, so each value is compared with those
//! after the same step in other turns.

use std::collections::BTreeMap;

/// The growth that is a leak if it is certain, in KiB an hour: 1 MiB a day.
pub const LEAK: f64 = 1_024.0 / 24.0;

/// The number of standard errors within which a growth is not certain.
const CERTAIN: f64 = 3.0;

/// The number of values beyond the unknowns that a judgement needs.
const FREE: usize = 10;

/// A value after a step.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    pub step: &'a str,
    /// The time, in hours.
    pub hours: f64,
    pub value: f64,
}

/// A growth per hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    pub hourly: f64,
    /// Its standard error.
    pub error: f64,
    /// The number of values.
    pub points: usize,
}

impl Growth {
    /// Returns the common slope of the values after each step, by least squares; `None` if there
    /// are too few. Steps that occur once tell nothing, and do not count.
    pub fn of(points: &[Point]) -> Option<Self> {
        let mut steps: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for point in points {
            let own = steps.entry(point.step).or_default();
            own.push((point.hours, point.value));
        }
        steps.retain(|_, own| own.len() > 1);
        let number: usize = steps.values().map(Vec::len).sum();
        let free = number.checked_sub(steps.len() + 1)?;
        if free < FREE {
            return None;
        }
        let mut centred = Vec::new();
        for own in steps.values() {
            let mean =
                |of: fn(&(f64, f64)) -> f64| own.iter().map(of).sum::<f64>() / own.len() as f64;
            let (hours, value) = (mean(|point| point.0), mean(|point| point.1));
            centred.extend(own.iter().map(|(x, y)| (x - hours, y - value)));
        }
        let square: f64 = centred.iter().map(|(x, _)| x * x).sum();
        let product: f64 = centred.iter().map(|(x, y)| x * y).sum();
        let hourly = product / square;
        let rest: f64 = centred.iter().map(|(x, y)| (y - hourly * x).powi(2)).sum();
        Some(Self {
            hourly,
            error: (rest / free as f64 / square).sqrt(),
            points: number,
        })
    }

    /// Returns whether it is certainly a leak.
    pub fn leaks(&self) -> bool {
        self.hourly - CERTAIN * self.error > LEAK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four turns of five steps, a minute each; each step has its own level.
    fn turns(value: impl Fn(usize, f64) -> f64) -> Vec<Point<'static>> {
        let steps = ["a", "b", "c", "d", "e"];
        (0..20)
            .map(|round| {
                let hours = round as f64 / 60.0;
                Point {
                    step: steps[round % 5],
                    hours,
                    value: 1_000.0 * (round % 5) as f64 + value(round, hours),
                }
            })
            .collect()
    }

    #[test]
    fn a_leak_is_found_whatever_the_steps_use() {
        let growth = Growth::of(&turns(|_, hours| 500.0 * hours)).unwrap();
        assert!((growth.hourly - 500.0).abs() < 1e-6);
        assert!(growth.leaks());
    }

    #[test]
    fn what_swings_does_not_leak() {
        let swing = |round: usize, _: f64| {
            if (round / 5).is_multiple_of(2) {
                100.0
            } else {
                0.0
            }
        };
        let growth = Growth::of(&turns(swing)).unwrap();
        assert!(!growth.leaks(), "{growth:?}");
    }

    #[test]
    fn a_slow_growth_is_not_a_leak() {
        assert!(!Growth::of(&turns(|_, hours| 40.0 * hours)).unwrap().leaks());
    }

    #[test]
    fn few_rounds_tell_nothing() {
        assert_eq!(Growth::of(&turns(|_, hours| hours)[..10]), None);
        assert_eq!(Growth::of(&[]), None);
    }
}
