// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as text: terminal tables, SVG plots, one self-contained HTML file; and packet captures.
//!
//! This crate is pure: it converts [`Findings`] to text, and the caller writes the text. All
//! figures come from `weirgate-measure`. This crate computes none, and only chooses which to show.
//! All text from experiments, recordings and commands is escaped when it enters SVG or HTML
//! ([`markup`]).
//!
//! - [`terminal`]: a table of arms and metrics, then expectations, in 80 columns.
//! - [`try_summary`]: the sentences that `weirgate try` prints.
//! - [`svg`]: plots, standalone or inside HTML, in the reader's choice of light or dark colours.
//! - [`html`]: sections of experiments, and the page around them, without scripts or external
//!   files.
//! - [`pcapng`]: a recording's capture as a file for wireshark and tcpdump.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weirgate_measure::{judge, measure};
//! use weirgate_report::{Findings, Run, terminal};
//!
//! let text = weirgate_testing::read("experiments/adsl/3.2.toml");
//! let (experiment, _) = weirgate_experiment::parse(&text);
//! let experiment = experiment.expect("a file of this project");
//! // A model of the line stands in for the laboratory.
//! let recording = weirgate_testing::line::run(&experiment, "modem-only", false);
//! let figures = measure(&experiment, &recording)?;
//! let arms = BTreeMap::from([("modem-only".to_owned(), figures.clone())]);
//! let parameters = BTreeMap::new();
//! let findings = Findings {
//!     experiment: &experiment,
//!     seed: 1,
//!     seeds: 1,
//!     intervals: &BTreeMap::new(),
//!     runs: &[Run { figures: &figures, recording: Some(&recording), parameters: &parameters }],
//!     verdicts: &judge(&experiment, &arms, &BTreeMap::new()),
//!     calculated: &BTreeMap::new(),
//!     tried: &[],
//!     policies: &BTreeMap::new(),
//! };
//! let text = terminal(&findings);
//! assert!(text.starts_with("adsl-3.2: One download and two uploads"));
//! assert!(text.contains("184 ms, expected at most 185 ms (-0.5 %)"));
//! # Ok::<(), weirgate_measure::MeasureError>(())
//! ```

mod capture;
mod format;
pub mod html;
mod markup;
mod rows;
pub mod svg;
mod terminal;
mod words;

pub use capture::{CaptureError, pcapng};
pub use terminal::{missed, terminal};
pub use words::try_summary;

use std::collections::BTreeMap;
use weirgate_experiment::{Experiment, Recording};
use weirgate_measure::predict::Prediction;
use weirgate_measure::repeat::Intervals;
use weirgate_measure::{ArmFigures, JudgedExpectation};

/// One arm that ran.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its figures.
    pub figures: &'a ArmFigures,
    /// Its recording; `None` for a calculation.
    pub recording: Option<&'a Recording>,
    /// The values of its sweep parameters, empty without a sweep.
    pub parameters: &'a BTreeMap<String, String>,
}

/// One value that a sweep tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The arm.
    pub arm: String,
    /// The parameter's value.
    pub value: String,
    /// The figure that the sweep compares.
    pub figure: Option<f64>,
}

/// One experiment with its results.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The seed of the runs, or of the first run if there are several.
    pub seed: u64,
    /// The number of runs, with consecutive seeds, of which the figures are means.
    pub seeds: u16,
    /// For several runs, half the width of 95 % confidence intervals.
    pub intervals: &'a Intervals,
    /// The arms that ran, in the order in which they are shown.
    pub runs: &'a [Run<'a>],
    /// The verdicts on the expectations.
    pub verdicts: &'a [JudgedExpectation],
    /// Calculated figures by arm.
    pub calculated: &'a BTreeMap<String, Vec<Prediction>>,
    /// The values that sweeps tried.
    pub tried: &'a [Tried],
    /// Texts of the policies, by the path written in the experiment.
    pub policies: &'a BTreeMap<String, String>,
}

impl Findings<'_> {
    /// Returns the numbers of kept and of all expectations.
    pub fn score(&self) -> (usize, usize) {
        let kept = self
            .verdicts
            .iter()
            .filter(|verdict| verdict.kept())
            .count();
        (kept, self.verdicts.len())
    }

    /// Returns a note on the figures, if there are several runs.
    fn repeated(&self) -> Option<String> {
        (self.seeds > 1).then(|| {
            format!(
                "Means over {} runs, with seeds from {} on; after ± half the width of the 95 % \
                 confidence interval. Of a largest or smallest figure that of all runs.",
                self.seeds, self.seed
            )
        })
    }

    /// Returns the kernel of the runs.
    fn kernel(&self) -> Option<&str> {
        self.runs
            .iter()
            .find_map(|run| Some(run.recording?.kernel.as_str()))
    }
}
