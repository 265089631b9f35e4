// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evaluation by the service classes of ITU-T Y.1541, minute by minute.
//!
//! The recommendation bounds the mean one-way delay and its variation, p99.9 minus minimum, over an
//! interval of a minute. A probe measures the round trip: half its mean is taken as the one-way
//! mean. Its variation, which includes both directions, is compared directly (Brouer 7.3.5 does the
//! same). Below 1000 answers p99.9 is the maximum, so a minute with fewer answers has no variation.

use crate::MeasureError;
use crate::metric::probe::{ENOUGH, answers, variation};
use crate::run::Run;
use crate::window::SECOND;
use weirgate_experiment::{Experiment, Recording};

/// Limits of a class: mean one-way delay and variation in milliseconds
/// (Y.1541 table 1; Brouer 4.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// Its number.
    pub number: u8,
    /// Largest mean delay.
    pub mean_ms: Option<f64>,
    /// Largest variation.
    pub variation_ms: Option<f64>,
}

const fn class(number: u8, mean_ms: Option<f64>, variation_ms: Option<f64>) -> Class {
    Class {
        number,
        mean_ms,
        variation_ms,
    }
}

/// The classes, strictest first within each kind.
pub const CLASSES: [Class; 6] = [
    class(0, Some(100.0), Some(50.0)),
    class(1, Some(400.0), Some(50.0)),
    class(2, Some(100.0), None),
    class(3, Some(400.0), None),
    class(4, Some(1000.0), None),
    class(5, None, None),
];

/// The variation of a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Variation {
    /// The variation in milliseconds, from at least 1000 answers.
    Ms(f64),
    /// Too few answers, with their number.
    TooFew(usize),
}

/// One probe in one minute.
#[derive(Debug, Clone, PartialEq)]
pub struct Minute {
    /// The probe's name.
    pub probe: String,
    /// The minute, from 0.
    pub minute: u64,
    /// Half the mean round trip, milliseconds.
    pub mean_ms: f64,
    /// p99.9 minus minimum of the round trip.
    pub variation: Variation,
}

impl Minute {
    /// Returns whether the minute meets a class; `None` if there are too few answers.
    pub fn meets(&self, class: &Class) -> Option<bool> {
        if class.mean_ms.is_some_and(|limit| self.mean_ms > limit) {
            return Some(false);
        }
        match (class.variation_ms, self.variation) {
            (None, _) => Some(true),
            (Some(limit), Variation::Ms(ms)) => Some(ms <= limit),
            (Some(_), Variation::TooFew(_)) => None,
        }
    }
}

/// Evaluates every full minute of every probe that had answers in it.
///
/// # Errors
///
/// Fails as [`crate::measure`] does.
pub fn evaluate(
    experiment: &Experiment,
    recording: &Recording,
) -> Result<Vec<Minute>, MeasureError> {
    let run = Run::new(experiment, recording)?;
    let mut minutes = Vec::new();
    for (index, probe) in experiment.probes.iter().enumerate() {
        for minute in 0..recording.duration_ns / (60 * SECOND) {
            let start = minute * 60 * SECOND;
            let rtts = answers(&run, index, start, start + 60 * SECOND).rtts;
            let Some(mean) = rtts.mean() else {
                continue;
            };
            let variation = match variation(&rtts) {
                Some(ns) if rtts.len() >= ENOUGH => Variation::Ms(ns as f64 / 1e6),
                _ => Variation::TooFew(rtts.len()),
            };
            let mean_ms = mean / 2e6;
            minutes.push(Minute {
                probe: probe.name.clone(),
                minute,
                mean_ms,
                variation,
            });
        }
    }
    Ok(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_met_by_mean_and_variation() {
        let minute = |mean_ms, variation| Minute {
            probe: "p".into(),
            minute: 0,
            mean_ms,
            variation,
        };
        let met = |minute: &Minute| -> Vec<Option<bool>> {
            CLASSES.iter().map(|class| minute.meets(class)).collect()
        };
        let yes = Some(true);
        let no = Some(false);
        assert_eq!(met(&minute(100.0, Variation::Ms(50.0))), [yes; 6]);
        assert_eq!(
            met(&minute(100.1, Variation::Ms(50.1))),
            [no, no, no, yes, yes, yes]
        );
        assert_eq!(
            met(&minute(20.0, Variation::TooFew(999))),
            [None, None, yes, yes, yes, yes]
        );
        assert_eq!(
            met(&minute(2000.0, Variation::TooFew(3))),
            [no, no, no, no, no, yes]
        );
    }
}
