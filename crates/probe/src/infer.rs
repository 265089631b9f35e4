// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Infers a link layer from times: whether a line uses ATM cells, the overhead of a packet, and
//! the rate of the line.
//!
//! # How
//!
//! On a line that is never idle, a packet of s IP bytes takes `w(s) / R`, with w its bytes on
//! the wire and R the line's rate. For each framing and each overhead, w is known
//! ([`LinkLayer`]). Least squares give the best R, and the quality of the fit is the sum of
//! squared errors relative to those of the measurements (chi squared). Cells cause steps of 48
//! bytes, and their position gives the overhead. 64/65 code words cause steps of one byte after
//! every 64. Plain bytes give a straight line, whose intercept is the overhead.
//!
//! A framing is accepted if it fits, and no other one fits nearly as well; otherwise the result
//! is unknown. The same applies to overheads: all that fit nearly as well as the best one are
//! returned.
//!
//! Round trips to a host that only replies contain an unknown time besides that of the line
//! ([`Timing::RoundTrip`]). Cells can still be recognised. An overhead only follows from the
//! position of the steps, so it is known modulo a cell. Plain bytes cannot be recognised.

use std::fmt;
use weirgate_linklayer::{Framing, LinkLayer};
use weirgate_units::{Arrange as _, Rate};

/// The measurement of packets of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// The size of the IP packet in bytes.
    pub size: u32,
    /// The time of one packet in seconds.
    pub time: f64,
    /// Its standard error in seconds, above 0.
    pub error: f64,
}

/// The kind of the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// The intervals of packets on a line that is never idle: those of the line alone.
    Busy,
    /// The shortest round trips on an idle line: both directions, and a time that does not
    /// depend on the size.
    RoundTrip,
}

/// The framing of a line, as far as it can be inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// ATM cells.
    Cells,
    /// Plain bytes, or code words of 65 bytes for 64.
    Bytes,
}

/// The link layer that times imply.
#[derive(Debug, Clone, PartialEq)]
pub struct Inference {
    /// The framing; `None` if it is uncertain.
    pub cut: Option<Cut>,
    /// All candidates that fit nearly as well as the best one, which is first; empty if `cut` is
    /// `None`.
    pub layers: Vec<Fit>,
}

/// A link layer that fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The framing.
    pub framing: Framing,
    /// The overhead in bytes; for round trips modulo 48.
    pub overhead: i32,
    /// The line's rate; for round trips, that of both directions in sequence.
    pub rate: Rate,
    /// The sum of squared errors relative to those of the measurements.
    pub chi_squared: f64,
}

/// The smallest size to evaluate. Below it, the minimum frame size (64 bytes of Ethernet, IEEE
/// 802.3 section 4.2.3.3) would look like cells.
pub const SMALLEST: u32 = 100;

/// Returns sizes that cover every position within a step of 48 bytes. Strides of 7 reach each
/// remainder of 48 once, because 7 and 48 are coprime.
pub fn sizes() -> impl Iterator<Item = u32> {
    (0..48).map(|step| SMALLEST + 7 * step)
}

/// The overheads of real lines, with a margin on both sides (docs/link-layer.md).
const OVERHEADS: std::ops::RangeInclusive<i32> = 0..=64;

/// How much worse another framing must fit for the best one to be certain: five standard
/// deviations.
const SURE: f64 = 25.0;

/// How much worse another overhead must fit: four standard deviations.
const APART: f64 = 16.0;

/// The worst acceptable fit, in squared errors for each degree of freedom.
const FITS: f64 = 4.0;

/// Infers the link layer. Sizes below [`SMALLEST`] and invalid times are ignored.
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
        // With an unknown additional time, the overhead cannot be determined.
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
    // The errors of round trips are estimated from their variation. If the best fit deviates by
    // more than these, all differences are scaled down. If times do not grow with size, nothing
    // fits, and nothing is inferred.
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

/// Returns a fit for every overhead of a framing.
fn fits(times: &[Timed], timing: Timing, framing: Framing) -> Vec<Fit> {
    let overheads = match (timing, framing) {
        // A whole number of cells is part of the unknown time.
        (Timing::RoundTrip, Framing::Atm) => 0..=47,
        _ => OVERHEADS,
    };
    overheads
        .filter_map(|overhead| fit(times, timing, framing, overhead))
        .collect()
}

/// Returns the best rate by weighted least squares; `None` if no rate above 0 fits.
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
    /// Returns the overhead, if only one fits.
    #[must_use]
    pub fn overhead(&self) -> Option<i32> {
        let first = self.layers.first()?.overhead;
        let alone = self.layers.iter().all(|fit| fit.overhead == first);
        alone.then_some(first)
    }

    /// Returns the rate of the best fit.
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
