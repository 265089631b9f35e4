// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The best of several values for one parameter.

use crate::ArmFigures;
use weirgate_experiment::Sweep;

/// Returns the index of the run with the lowest value of the sweep's figure, the first of equal
/// ones. Runs without that figure are left out; returns `None` if no run has it.
pub fn best(sweep: &Sweep, runs: &[ArmFigures]) -> Option<usize> {
    let figures = runs.iter().enumerate();
    figures
        .filter_map(|(index, run)| Some((index, *run.metrics.get(&sweep.best)?)))
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_figure_wins_and_a_missing_one_never() {
        let sweep = Sweep {
            parameter: "rate".into(),
            values: vec![],
            best: "rtt.p.p99_ms".into(),
        };
        let run = |value: Option<f64>| ArmFigures {
            arm: "cake".into(),
            metrics: value
                .map(|value| ("rtt.p.p99_ms".to_owned(), value))
                .into_iter()
                .collect(),
        };
        assert_eq!(
            best(
                &sweep,
                &[run(None), run(Some(3.0)), run(Some(2.0)), run(Some(2.0))]
            ),
            Some(2)
        );
        assert_eq!(best(&sweep, &[run(None)]), None);
        assert_eq!(best(&sweep, &[]), None);
    }
}
