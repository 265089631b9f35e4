// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether promises to a class are kept: the guarantee by its counters, the delay by the measured
//! waits of its packets, or else by an estimate.

use crate::legend::ClassLegend;
use serde::Serialize;

/// Whether a class got what it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// Nothing waits: it asked for no more than it got.
    Idle,
    /// It got it.
    Kept,
    /// It waited and got less than its guarantee.
    Rate,
    /// It waited longer than the bound or the objective.
    Wait,
    /// There is nothing to tell by.
    Unknown,
}

impl Promise {
    /// Whether it was broken.
    pub fn broken(self) -> bool {
        matches!(self, Self::Rate | Self::Wait)
    }
}

/// How long a class's packets waited, as far as it is known, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// By the packets that left since the look before.
    Measured {
        /// Their mean.
        mean: u64,
        /// What 95 of 100 of them did not exceed.
        high: u64,
    },
    /// By what waits and the rate at which it leaves.
    Estimated(u64),
    /// Nothing tells.
    Unknown,
}

/// What a wait was judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Packets that were timed one by one.
    Measured,
    /// What waited, and at which rate it left.
    Estimated,
}

/// Whether a promise was kept, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgedPromise {
    /// Whether it was kept.
    pub promise: Promise,
    /// What its delay was judged by; `None` where it was not judged.
    pub by: Option<By>,
}

/// Less than the guarantee by more than a packet's length in a second and the
/// two readings' distance can explain.
const RATE_SLACK: f64 = 0.95;
/// An estimate of a wait has the error of the rate that it is made from.
const ESTIMATE_SLACK: f64 = 1.10;
/// A spread is known to the step, an eighth of a doubling: beyond that, 5 of 100
/// packets did wait longer. A mean is exact.
const SPREAD_SLACK: f64 = 1.125;

/// What a class's numbers say about its promise. `waited` says that something
/// waited all of the time: then, and only then, it could have sent all of it, and
/// an estimate is worth something. Of a bound, 95 of 100 packets must be within
/// it; of an objective, their mean, for what this hop adds is a part of it.
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
        // 10,000 bytes a second are the guarantee.
        assert_eq!(estimated(false, 0, 0, 1000), (Promise::Idle, None));
        let by = Some(By::Estimated);
        assert_eq!(estimated(true, 10_000, 30_000, 1000), (Promise::Kept, by));
        assert_eq!(estimated(true, 9_000, 30_000, 1000), (Promise::Rate, None));
        assert_eq!(estimated(true, 9_000, 30_000, 900), (Promise::Kept, by));
        assert_eq!(estimated(true, 20_000, 60_000, 1000), (Promise::Wait, by));
        // Nobody knows what it could have sent.
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
        // The mean against an objective, which has no slack.
        let class = ClassLegend {
            bound: None,
            objective: Some(100_000),
            ..voice()
        };
        assert_eq!(measured(&class, 100_000, 300_000), (Promise::Kept, by));
        assert_eq!(measured(&class, 100_001, 300_000), (Promise::Wait, by));
        // Neither: there is nothing to judge.
        let class = ClassLegend {
            objective: None,
            ..class
        };
        assert_eq!(measured(&class, 900_000, 900_000), (Promise::Idle, None));
    }
}
