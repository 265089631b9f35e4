// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections that the gateway tracked at the end of the run.

use crate::figures::Figures;
use weirgate_experiment::{Quantity, Recording, Statistic, Tracked};

/// Stores `tracked` for the whole run; the recording has no values at the end of a phase. It is
/// absent in an arm without connection tracking.
pub(crate) fn figures(recording: &Recording, figures: &mut Figures) {
    let Some(tracked) = recording.tracked.as_ref() else {
        return;
    };
    if figures.phase.is_some() {
        return;
    }
    let mut put = |kind: &str, of_kind: fn(&Tracked) -> bool| {
        let count = tracked.iter().filter(|tracked| of_kind(tracked)).count();
        figures.put(Quantity::Tracked, kind, Statistic::Only, Some(count as f64));
    };
    put("all", |_| true);
    put("answered", |tracked| tracked.answered);
    put("unanswered", |tracked| !tracked.answered);
    put("kept", |tracked| tracked.mark != 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn connections_are_counted_by_kind_at_the_end_only() {
        let connection = |answered, mark| Tracked {
            protocol: 6,
            port: 4662,
            answered,
            mark,
        };
        let recording = Recording {
            tracked: Some(vec![
                connection(true, 0),
                connection(false, 0x1_0000),
                connection(false, 0),
            ]),
            ..Recording::default()
        };
        let mut metrics = BTreeMap::new();
        for phase in [None, Some("evening")] {
            let metrics = &mut metrics;
            figures(&recording, &mut Figures { phase, metrics });
        }
        let counts: Vec<(&str, f64)> = metrics
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        let expected = [
            ("tracked.all.connections", 3.0),
            ("tracked.answered.connections", 1.0),
            ("tracked.kept.connections", 1.0),
            ("tracked.unanswered.connections", 2.0),
        ];
        assert_eq!(counts, expected);
    }
}
