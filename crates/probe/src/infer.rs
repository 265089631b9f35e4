// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives a link layer from times: whether a line sends cells, the overhead of a packet, and the
//! rate of the line.
//!
//! # How
//!
//! On a line that is never idle, a packet of s IP bytes takes `w(s) / R`, with
//! w the bytes on the wire and R the line's rate. For each way in which lines
//! cut frames up, and each overhead, w is known ([`LinkLayer`]); the R that fits
//! best follows by least squares, and how well it fits by the sum of squared
//! errors over the measurements' own (chi squared). Cells show by their steps of
//! 48 bytes, and where the steps are gives the overhead; 64/65 code words by
//! steps of one byte each 64; plain bytes by a straight line whose distance from
//! nothing is the overhead.
//!
//! A way is believed if it fits, and no other way fits nearly as well; else the
//! answer is that it is not known. So it is with overheads: all that fit nearly
//! as well as the best are given.
//!
//! Round trips to a host that merely answers hold a time of unknown length
//! beside the line's ([`Timing::RoundTrip`]); then cells show as before, an
//! overhead only by the place of their steps, so up to a whole cell, and plain
//! bytes not at all.

use std::fmt;
use weirgate_linklayer::{Framing, LinkLayer};
use weirgate_units::Arrange as _;
use weirgate_units::Rate;

/// What was measured for packets of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// The size of the IP packet in bytes.
    pub size: u32,
    /// The time of one packet in seconds.
    pub time: f64,
    /// Its standard error in seconds, above 0.
    pub error: f64,
}

/// What the times are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// From packet to packet on a line that is never idle: the line alone.
    Busy,
    /// The shortest round trips on an idle line: there, back, and whatever else
    /// there is, the same for all sizes.
    RoundTrip,
}

/// What a line does with frames, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// ATM cells.
    Cells,
    /// Bytes as they are, or code words of 65 for 64.
    Bytes,
}

/// What times say of a link layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Inference {
    /// How frames are cut up; `None` where it is not sure.
    pub cut: Option<Cut>,
    /// All that fits nearly as well as the best, the best first; empty where
    /// `cut` is `None`.
    pub layers: Vec<Fit>,
}

/// One link layer that fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// What frames are cut into.
    pub framing: Framing,
    /// Bytes beside the IP packet; modulo 48 of round trips.
    pub overhead: i32,
    /// The line's rate; of round trips the rate of both directions one after
    /// the other.
    pub rate: Rate,
    /// The sum of squared errors over the measurements' own.
    pub chi_squared: f64,
}

/// The smallest size that is looked at: below it, smallest frames (64 bytes of
/// Ethernet, IEEE 802.3 section 4.2.3.3) would look like cells.
pub const SMALLEST: u32 = 100;

/// Sizes that show every place of a step of 48 bytes: strides of 7 meet each
/// remainder of 48 once (7 and 48 have no common divisor).
pub fn sizes() -> impl Iterator<Item = u32> {
    (0..48).map(|step| SMALLEST + 7 * step)
}

/// Overheads that lines have, with room on both sides (docs/link-layer.md).
const OVERHEADS: std::ops::RangeInclusive<i32> = 0..=64;

/// How much worse another way of cutting must fit for one to be sure: five
/// standard deviations.
const SURE: f64 = 25.0;

/// How much worse another overhead must fit: four.
const APART: f64 = 16.0;

/// The worst fit that is a fit, in squared errors for each degree of freedom.
const FITS: f64 = 4.0;

/// What the times say; times of sizes below [`SMALLEST`], and those that are no
/// times, are not looked at.
#[must_use]
pub fn infer(times: &[Timed], timing: Timing) -> Inference {
    let times: Vec<Timed> = times.iter().copied().filter(usable).collect();
    let unsure = Inference {
        cut: None,
        layers: Vec::new(),
    };
    let unknowns = match timing {
        Timing::Busy => 2,
        Timing::RoundTrip => 3,
    };
    if times.len() <= unknowns {
        return unsure;
    }
    let freedom = (times.len() - unknowns) as f64;
    let fits = |framing| fits(&times, timing, framing);
    let cells = fits(Framing::Atm);
    let bytes = match timing {
        // Beside an unknown time an overhead is none of its own.
        Timing::RoundTrip => fits(Framing::None).into_iter().take(1).collect(),
        Timing::Busy => [fits(Framing::None), fits(Framing::Ptm)].concat(),
    };
    let best = |list: &[Fit]| {
        let all = list.iter().map(|fit| fit.chi_squared);
        all.fold(f64::INFINITY, f64::min)
    };
    let (of_cells, of_bytes) = (best(&cells), best(&bytes));
    let (cut, mut layers, least) = if of_cells < of_bytes {
        (Cut::Cells, cells, of_cells)
    } else {
        (Cut::Bytes, bytes, of_bytes)
    };
    // Errors of round trips are guessed by how far they differ: where times lie
    // further from what fits best than those say, all differences count less. And
    // where time does not grow with size at all, nothing fits, and nothing is inferred.
    let sure = match timing {
        Timing::Busy => SURE,
        Timing::RoundTrip => SURE * (least / freedom).max(1.0),
    };
    let decided = timing == Timing::Busy || (of_cells.is_finite() && of_bytes.is_finite());
    if !decided || (of_cells - of_bytes).abs() < sure || least > FITS * freedom {
        return unsure;
    }
    layers.retain(|fit| fit.chi_squared < least + APART);
    layers.arrange_by(|a, b| a.chi_squared.total_cmp(&b.chi_squared));
    Inference {
        cut: Some(cut),
        layers,
    }
}

fn usable(timed: &Timed) -> bool {
    let sound = |number: f64| number.is_finite() && number > 0.0;
    timed.size >= SMALLEST && sound(timed.time) && sound(timed.error)
}

/// Every overhead of a framing, fitted.
fn fits(times: &[Timed], timing: Timing, framing: Framing) -> Vec<Fit> {
    let overheads = match (timing, framing) {
        // Whole cells more or less are part of the unknown time.
        (Timing::RoundTrip, Framing::Atm) => 0..=47,
        _ => OVERHEADS,
    };
    overheads
        .filter_map(|overhead| fit(times, timing, framing, overhead))
        .collect()
}

/// The rate that fits best, by weighted least squares; `None` where no rate
/// above 0 does.
fn fit(times: &[Timed], timing: Timing, framing: Framing, overhead: i32) -> Option<Fit> {
    let layer = LinkLayer::custom(overhead, 0, framing).ok()?;
    let points: Vec<(f64, f64, f64)> = times
        .iter()
        .map(|one| {
            let wire = f64::from(layer.wire_bytes(one.size));
            (wire, one.time, 1.0 / (one.error * one.error))
        })
        .collect();
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let (mut wire_mean, mut time_mean) = (0.0, 0.0);
    if timing == Timing::RoundTrip {
        let weights = sum(&|point| point.2);
        wire_mean = sum(&|point| point.0 * point.2) / weights;
        time_mean = sum(&|point| point.1 * point.2) / weights;
    }
    let products = sum(&|(wire, time, weight)| (wire - wire_mean) * (time - time_mean) * weight);
    let squares = sum(&|(wire, _, weight)| (wire - wire_mean).powi(2) * weight);
    // Seconds for each byte on the wire.
    let slope = products / squares;
    if !(slope.is_finite() && slope > 0.0) {
        return None;
    }
    let chi_squared = sum(&|(wire, time, weight)| {
        let expected = time_mean + (wire - wire_mean) * slope;
        (time - expected).powi(2) * weight
    });
    let bits = (8.0 / slope).round();
    Some(Fit {
        framing,
        overhead,
        rate: Rate::bits_per_second(bits as u64),
        chi_squared,
    })
}

impl Inference {
    /// The overhead, where only one fits.
    #[must_use]
    pub fn overhead(&self) -> Option<i32> {
        let first = self.layers.first()?.overhead;
        let alone = self.layers.iter().all(|fit| fit.overhead == first);
        alone.then_some(first)
    }

    /// The rate of the best fit.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.layers.first().map(|fit| fit.rate)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cells => "ATM cells",
            Self::Bytes => "bytes (plain or PTM)",
        })
    }
}
