// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether promises to a class are kept: the guarantee by its counters, the delay by the
//! measured waits of its packets, or else by an estimate.

use crate::legend::ClassLegend;
use serde::Serialize;

/// Whether a class got what it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// It had no backlog, so it did not need more than it got.
    Idle,
    /// The promise was kept.
    Kept,
    /// It had a backlog and got less than its guarantee.
    Rate,
    /// Its packets waited longer than the bound or the objective.
    Wait,
    /// There are no data to decide.
    Unknown,
}

impl Promise {
    /// Returns whether the promise was broken.
    pub fn broken(self) -> bool {
        matches!(self, Self::Rate | Self::Wait)
    }
}

/// The waits of a class's packets in microseconds, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Measured for the packets that left since the previous look.
    Measured {
        /// The mean.
        mean: u64,
        /// The 95th percentile.
        high: u64,
    },
    /// Estimated from the backlog and the rate at which it leaves.
    Estimated(u64),
    /// Unknown.
    Unknown,
}

/// How a wait was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Packets were timed individually.
    Measured,
    /// It was estimated from the backlog and the rate.
    Estimated,
}

/// Whether a promise was kept, and how that was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgedPromise {
    /// The decision.
    pub promise: Promise,
    /// How the delay was determined; `None` if it was not judged.
    pub by: Option<By>,
}

/// The tolerance for a rate: the length of a packet in a second, and the time between two
/// readings.
const RATE_SLACK: f64 = 0.95;
/// The tolerance for an estimated wait, which has the error of the rate.
const ESTIMATE_SLACK: f64 = 1.10;
/// The tolerance for a percentile, which is known to a bin of an eighth of an octave. Beyond it,
/// 5 of 100 packets did wait longer. A mean is exact.
const SPREAD_SLACK: f64 = 1.125;

/// Judges a class by its numbers. `waited` tells whether it had a backlog all the time. Only
/// then it could have used its whole guarantee, and an estimate is meaningful. A bound must hold
/// for 95 of 100 packets. An objective is compared with the mean, to which this hop contributes
/// a part.
pub fn judge(
    class: &ClassLegend,
    waited: bool,
    sent: i64,
    wait: Wait,
    interval: i64,
) -> JudgedPromise {
    let verdict = |promise, by| JudgedPromise { promise, by };
    if interval <= 0 {
        return verdict(Promise::Unknown, None);
    }
    let rate = sent as f64 * 8000.0 / interval as f64;
    if waited && rate < class.guaranteed as f64 * RATE_SLACK {
        return verdict(Promise::Rate, None);
    }
    let beyond = |wait: u64, limit: Option<u64>, slack: f64| {
        limit.is_some_and(|limit| wait as f64 > limit as f64 * slack)
    };
    let delay = match wait {
        Wait::Measured { mean, high } if class.bound.or(class.objective).is_some() => Some((
            beyond(high, class.bound, SPREAD_SLACK) || beyond(mean, class.objective, 1.0),
            By::Measured,
        )),
        Wait::Estimated(wait) if waited && class.bound.is_some() => {
            Some((beyond(wait, class.bound, ESTIMATE_SLACK), By::Estimated))
        }
        _ => None,
    };
    match delay {
        Some((true, by)) => verdict(Promise::Wait, Some(by)),
        Some((false, by)) => verdict(Promise::Kept, Some(by)),
        None if waited => verdict(Promise::Kept, None),
        None => verdict(Promise::Idle, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Handle;

    fn voice() -> ClassLegend {
        ClassLegend {
            device: String::from("wan"),
            direction: String::from("up"),
            name: String::from("voice"),
            handle: Handle::new(2, 0x10),
            guaranteed: 80_000,
            maximum: 500_000,
            bound: Some(40_000),
            objective: None,
        }
    }

    fn estimated(waited: bool, sent: i64, wait: u64, interval: i64) -> (Promise, Option<By>) {
        let found = judge(&voice(), waited, sent, Wait::Estimated(wait), interval);
        (found.promise, found.by)
    }

    #[test]
    fn a_rate_is_broken_only_where_the_class_asked() {
        // The guarantee is 10,000 bytes a second.
        assert_eq!(estimated(false, 0, 0, 1000), (Promise::Idle, None));
        let by = Some(By::Estimated);
        assert_eq!(estimated(true, 10_000, 30_000, 1000), (Promise::Kept, by));
        assert_eq!(estimated(true, 9_000, 30_000, 1000), (Promise::Rate, None));
        assert_eq!(estimated(true, 9_000, 30_000, 900), (Promise::Kept, by));
        assert_eq!(estimated(true, 20_000, 60_000, 1000), (Promise::Wait, by));
        // It is unknown how much it could have sent.
        assert_eq!(
            estimated(false, 20_000, 60_000, 1000),
            (Promise::Idle, None)
        );
        let unknown = judge(&voice(), true, 20_000, Wait::Unknown, 1000);
        assert_eq!((unknown.promise, unknown.by), (Promise::Kept, None));
        assert_eq!(estimated(true, 0, 0, 0).0, Promise::Unknown);
    }

    #[test]
    fn a_measured_wait_tells_also_of_a_class_that_sends_little() {
        let measured = |class: &ClassLegend, mean, high| {
            let found = judge(class, false, 100, Wait::Measured { mean, high }, 1000);
            (found.promise, found.by)
        };
        let by = Some(By::Measured);
        assert_eq!(measured(&voice(), 20_000, 44_000), (Promise::Kept, by));
        assert_eq!(measured(&voice(), 20_000, 46_000), (Promise::Wait, by));
        // The mean is compared with the objective without tolerance.
        let class = ClassLegend {
            bound: None,
            objective: Some(100_000),
            ..voice()
        };
        assert_eq!(measured(&class, 100_000, 300_000), (Promise::Kept, by));
        assert_eq!(measured(&class, 100_001, 300_000), (Promise::Wait, by));
        // Without both, there is nothing to judge.
        let class = ClassLegend {
            objective: None,
            ..class
        };
        assert_eq!(measured(&class, 900_000, 900_000), (Promise::Idle, None));
    }
}
