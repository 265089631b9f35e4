// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metrics, a file for each kind of thing that they measure.

mod average;
mod change;
mod connection;
pub(crate) mod flow;
mod gap;
pub(crate) mod line;
mod order;
pub(crate) mod probe;
pub(crate) mod queue;
mod tcp;
mod tracked;

use crate::activity::clipped;
use crate::figures::Figures;
use crate::run::Run;
use crate::window::Window;

/// All figures of one window.
pub(crate) fn figures(run: &Run, window: &Window, figures: &mut Figures) {
    probe::figures(run, window, figures);
    line::figures(run, window, figures);
    gap::of_line(run, window, figures);
    queue::figures(run, window, figures);
    average::figures(run, window, figures);
    for subject in &run.subjects {
        let active = clipped(&subject.active, window.start_ns, window.end_ns);
        if active.is_empty() {
            continue;
        }
        flow::figures(run, subject, &active, figures);
        gap::of_flow(run, subject, &active, figures);
        tcp::figures(run, subject, window, figures);
        order::figures(run, subject, window, figures);
        connection::figures(run, subject, window, figures);
    }
    flow::fairness(run, window, figures);
    tracked::figures(run.recording, figures);
    change::figures(run, figures);
}
