// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots as SVG: real text, no script, light and dark.
//!
//! Each function draws one plot of an experiment's results, or returns `None` if there is nothing
//! to draw. A [`Drawing`] is a file ([`Drawing::standalone`]) or a part of an HTML page
//! ([`Drawing::inline`]), which defines the colours. Arms are small multiples on one scale, so that
//! they can be compared at a glance. Phases are shaded. Series are labelled at their ends, in the
//! colours of Okabe and Ito, which colour-blind readers can distinguish.

mod axis;
mod canvas;
mod compare;
mod panel;
mod sequence;
mod spread;
mod time;

pub use canvas::Drawing;
pub use compare::comparison;
pub use sequence::time_sequence;
pub use spread::{distribution, histogram};
pub use time::{latency, outstanding, queues, smoothed, throughput};

use crate::Findings;
use weirgate_experiment::{Direction, Experiment, Fate, Recording};
use weirgate_measure::Window;

/// Colours and strokes. The page's style sheet has the same variables.
pub(crate) const STYLE: &str = include_str!("style.css");

/// Returns the phase with the largest mean round trip of the first probe, in the first arm that has
/// one.
pub(crate) fn focus<'a>(findings: &Findings<'a>) -> Option<&'a str> {
    let probe = &findings.experiment.probes.first()?.name;
    let mean = |phase: &str| {
        let name = format!("{phase}.rtt.{probe}.mean_ms");
        findings
            .runs
            .iter()
            .find_map(|run| run.figures.metrics.get(&name).copied())
    };
    let phases = findings.experiment.phases.iter();
    phases
        .filter_map(|phase| Some((phase.name.as_str(), mean(&phase.name)?)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(phase, _)| phase)
}

/// Returns the measured window of a phase.
fn window_of<'a>(
    experiment: &'a Experiment,
    recording: &Recording,
    phase: Option<&str>,
) -> Option<Window<'a>> {
    let windows = weirgate_measure::windows(experiment, recording);
    windows.into_iter().find(|window| window.phase == phase)
}

/// Returns whether the line transmitted anything in that direction.
fn transmitted(recording: &Recording, direction: Direction) -> bool {
    let sent = |fate| matches!(fate, Fate::Sent { .. });
    recording
        .line
        .iter()
        .any(|packet| packet.direction == direction && sent(packet.fate))
}
