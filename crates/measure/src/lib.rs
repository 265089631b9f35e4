// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes named figures from recordings of runs.
//!
//! The crate is pure. [`measure`] computes the metrics of one arm, and [`judge`] compares them with
//! the experiment's promises. [`outcome`] builds the document of `weirgate lab run --json`.
//! [`predict`] calculates figures from line and traffic alone, and [`series`] prepares curves for
//! plots. Crate `report` draws them and writes the texts. `weirgate_experiment::Quantity` says what
//! metrics are called and how each is computed.
//!
//! A *window* is a phase from `settle` after its start to its end, or, for a
//! name without a phase, the whole run from its start. A flow is *active* in
//! a window while one of its runs lasts; a transfer of a fixed amount ends
//! when the amount was received. A metric without data is absent, never 0: an
//! expectation on it fails and says why. A phase that the recording does not
//! cover to its end has no metrics.
//!
//! Figures are rounded, so that two runs compare byte for byte and a table
//! shows the number that was judged: `ms`, `kbit` and `mean` to 3 decimals,
//! `bytes` to whole numbers, all others to 6 decimals.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weirgate_measure::{judge, measure};
//!
//! let text = weirgate_testing::read("experiments/adsl/3.2.toml");
//! let (experiment, _) = weirgate_experiment::parse(&text);
//! let experiment = experiment.expect("a file of this project");
//! // A model of the line stands in for the laboratory.
//! let recording = weirgate_testing::line::run(&experiment, "modem-only", false);
//! let figures = measure(&experiment, &recording)?;
//! // An upload fills the modem's buffer, and every packet waits behind it.
//! assert!(figures.metrics["alone.rtt.interactive.mean_ms"] < 200.0);
//! assert!(figures.metrics["upload1.rtt.interactive.mean_ms"] > 900.0);
//! let arms = BTreeMap::from([("modem-only".to_owned(), figures)]);
//! assert!(judge(&experiment, &arms, &BTreeMap::new()).iter().any(|verdict| verdict.kept()));
//! # Ok::<(), weirgate_measure::MeasureError>(())
//! ```

mod activity;
pub mod emodel;
mod error;
mod figures;
mod metric;
pub mod predict;
mod result;
mod run;
pub mod series;
pub mod stats;
mod window;
pub mod y1541;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

/// The SHA-256 of this crate's sources. Figures of the same recording may differ if the sources
/// differ.
pub const SOURCES: &str = env!("WEIRGATE_MEASURE_SOURCES");

/// The SHA-256 of the sources of formulas and of the link layer. Calculated figures follow from
/// these, too.
pub const FORMULAS: &str = env!("WEIRGATE_FORMULA_SOURCES");

pub use error::MeasureError;
pub use figures::{ArmFigures, calculate};
pub use metric::measure;
pub use result::judge::{JudgedExpectation, Judgement, expected, judge, outcome};
pub use result::repeat;
pub use result::sweep::best;
pub use window::{Window, windows};
