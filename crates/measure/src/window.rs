// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time intervals of metrics.

use weirgate_experiment::{Experiment, Recording};

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A measured interval in nanoseconds since the start of traffic, from `start_ns` to just before
/// `end_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window<'a> {
    /// The phase's name; `None` for the whole run.
    pub phase: Option<&'a str>,
    /// When the phase began, before the settling time.
    pub begin_ns: u64,
    /// When measuring begins.
    pub start_ns: u64,
    /// When measuring ends.
    pub end_ns: u64,
}

impl Window<'_> {
    /// Returns whether a time lies within the window.
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }

    /// Returns the window's length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns how much of an interval lies within the window.
    pub(crate) fn overlap_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        end_ns
            .min(self.end_ns)
            .saturating_sub(start_ns.max(self.start_ns))
    }
}

/// Returns the whole run, then every phase that the recording covers to its end and that is longer
/// than the settling time.
pub fn windows<'a>(experiment: &'a Experiment, recording: &Recording) -> Vec<Window<'a>> {
    let whole = Window {
        phase: None,
        begin_ns: 0,
        start_ns: 0,
        end_ns: recording.duration_ns,
    };
    let phases = experiment.phases.iter().map(|phase| Window {
        phase: Some(&phase.name),
        begin_ns: phase.start.as_nanos(),
        start_ns: (phase.start + experiment.settle).as_nanos(),
        end_ns: phase.end.as_nanos(),
    });
    std::iter::once(whole)
        .chain(phases)
        .filter(|window| window.length_ns() > 0 && window.end_ns <= recording.duration_ns)
        .collect()
}
