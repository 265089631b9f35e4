// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The idle processor time of the laboratory's machine.

use crate::figures::Figures;
use crate::window::Window;
use weirgate_experiment::{Quantity, Recording, Statistic};

/// The subject of `spare`.
pub(crate) const PROCESSOR: &str = "processor";

/// Stores `spare`, between the first and the last sample of the window.
pub(crate) fn figures(recording: &Recording, window: &Window, figures: &mut Figures) {
    let mut own = recording
        .idle
        .iter()
        .filter(|sample| window.contains(sample.at_ns));
    let (first, last) = (own.next(), own.next_back());
    let ratio = first.zip(last).map(|(first, last)| {
        let time_ns = last.at_ns.saturating_sub(first.at_ns);
        last.idle_ns.saturating_sub(first.idle_ns) as f64 / time_ns as f64
    });
    figures.put(Quantity::Spare, PROCESSOR, Statistic::Only, ratio);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use weirgate_experiment::IdleSample;

    #[test]
    fn a_window_has_the_samples_in_it() {
        let sample = |(at_ns, idle_ns)| IdleSample { at_ns, idle_ns };
        let recording = Recording {
            idle: [(0, 0), (10, 5), (20, 6), (30, 6)].map(sample).to_vec(),
            ..Recording::default()
        };
        let ratio = |start_ns, end_ns| {
            let window = Window {
                phase: None,
                begin_ns: start_ns,
                start_ns,
                end_ns,
            };
            let mut metrics = BTreeMap::new();
            let figures = &mut Figures {
                phase: None,
                metrics: &mut metrics,
            };
            super::figures(&recording, &window, figures);
            metrics.get("spare.processor.ratio").copied()
        };
        assert_eq!(ratio(0, 31), Some(0.2));
        assert_eq!(ratio(5, 25), Some(0.1));
        assert_eq!(ratio(20, 31), Some(0.0));
        // One sample is not enough.
        assert_eq!(ratio(5, 15), None);
    }
}
