// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metrics, a file for each kind of subject, and the loop over all windows of a recording.

mod average;
mod change;
mod connection;
pub(crate) mod flow;
mod gap;
pub(crate) mod line;
mod order;
pub(crate) mod probe;
pub(crate) mod processor;
pub(crate) mod queue;
mod tcp;
mod tracked;
mod voice;

use crate::activity::clipped;
use crate::error::MeasureError;
use crate::figures::{ArmFigures, Figures};
use crate::run::Run;
use crate::window::{Window, windows};
use std::collections::BTreeMap;
use weirgate_experiment::{Experiment, Recording};

/// Computes the figures of one arm, for the whole run and for every phase.
///
/// # Errors
///
/// Fails if the recording contradicts the experiment or itself.
pub fn measure(experiment: &Experiment, recording: &Recording) -> Result<ArmFigures, MeasureError> {
    let run = Run::new(experiment, recording)?;
    let mut metrics = BTreeMap::new();
    for window in windows(experiment, recording) {
        let mut figures = Figures {
            phase: window.phase,
            metrics: &mut metrics,
        };
        self::figures(&run, &window, &mut figures);
    }
    Ok(ArmFigures {
        arm: recording.arm.clone(),
        metrics,
    })
}

/// Stores all figures of one window.
fn figures(run: &Run, window: &Window, figures: &mut Figures) {
    probe::figures(run, window, figures);
    line::figures(run, window, figures);
    gap::of_line(run, window, figures);
    queue::figures(run, window, figures);
    average::figures(run, window, figures);
    processor::figures(run.recording, window, figures);
    for subject in &run.subjects {
        let active = clipped(&subject.active, window.start_ns, window.end_ns);
        if active.is_empty() {
            continue;
        }
        flow::figures(run, subject, &active, figures);
        gap::of_flow(run, subject, &active, figures);
        voice::figures(run, subject, &active, figures);
        tcp::figures(run, subject, window, figures);
        order::figures(run, subject, window, figures);
        connection::figures(run, subject, window, figures);
    }
    flow::fairness(run, window, figures);
    tracked::figures(run.recording, figures);
    change::figures(run, figures);
}
