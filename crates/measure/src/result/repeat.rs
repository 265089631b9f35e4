// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines runs with different seeds into one result: means with their confidence intervals.
//!
//! A figure of the result is the mean over the runs that have it, but the largest of a `max` and
//! the smallest of a `min`. A promise is judged only if each run has its figure, and a least `max`
//! or a most `min` has to be kept in each run. The interval is that of Student's t at 95 %: half its width is `t s /
//! sqrt(n)`, with `s` the standard deviation of the n runs. If an expectation compares two arms,
//! both have the same arrivals in each run. Its interval is therefore that of the differences, run
//! by run.

use crate::result::judge::{figures_for, keeps, promised};
use crate::stats::mean;
use crate::{ArmFigures, JudgedExpectation, Judgement};
use std::collections::BTreeMap;
use weirgate_experiment::{Metric, Promise, Statistic};

/// Half the width of a 95 % interval by arm and metric.
pub type Intervals = BTreeMap<String, BTreeMap<String, f64>>;

/// Figures of all arms of one run.
type Arms = BTreeMap<String, ArmFigures>;

/// Returns means and their intervals. Runs without an arm are left out of its means.
#[must_use]
pub fn combine(runs: &[Arms]) -> (Arms, Intervals) {
    let mut values: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for figures in runs.iter().flat_map(BTreeMap::values) {
        for (metric, value) in &figures.metrics {
            let key = (figures.arm.as_str(), metric.as_str());
            values.entry(key).or_default().push(*value);
        }
    }
    let mut arms = Arms::new();
    let mut intervals = Intervals::new();
    for ((arm, metric), values) in values {
        if extreme_of(metric).is_none()
            && let Some(half) = half_width(&values)
        {
            let own = intervals.entry(arm.to_owned()).or_default();
            own.insert(metric.to_owned(), rounded(half));
        }
        let value = figure(metric, &values);
        let figures = arms.entry(arm.to_owned()).or_insert_with(|| ArmFigures {
            arm: arm.to_owned(),
            metrics: BTreeMap::new(),
        });
        figures
            .metrics
            .extend(value.map(|value| (metric.to_owned(), value)));
    }
    (arms, intervals)
}

/// Combines a figure of several runs: the largest of a `max`, the smallest of a `min`, otherwise
/// the mean. Returns `None` if no run has it.
#[must_use]
pub fn figure(metric: &str, values: &[f64]) -> Option<f64> {
    match extreme_of(metric) {
        Some(pick) => values.iter().copied().reduce(pick),
        None => mean(values).map(rounded),
    }
}

/// Returns how a metric's values are combined, if not by their mean.
fn extreme_of(metric: &str) -> Option<fn(f64, f64) -> f64> {
    match metric.parse::<Metric>().ok()?.statistic {
        Statistic::Max => Some(f64::max),
        Statistic::Min => Some(f64::min),
        _ => None,
    }
}

/// Corrects a verdict on combined figures by the single runs. A run that lacks the figure, or what
/// the promise is calculated from, may be the one that breaks it: then there is no verdict. Of a
/// `max` that is promised to be at least a value, and of a `min` at most one, the worst run counts.
pub fn judge_each(verdict: &mut JudgedExpectation, runs: &[Arms]) {
    if verdict.measured.is_none() {
        return;
    }
    let expectation = &verdict.expectation;
    let figure = |arms: &Arms| {
        let figures = arms.get(&expectation.arm)?;
        let metrics = figures_for(expectation, figures, arms);
        expectation.promise_for(&metrics).ok()?;
        figures.metrics.get(&expectation.metric).copied()
    };
    let values: Vec<f64> = runs.iter().filter_map(figure).collect();
    if values.len() < runs.len() {
        let why = format!("only {} of {} runs have it", values.len(), runs.len());
        verdict.judgement = Judgement::NoData(why);
        return;
    }
    let metric = expectation.metric.parse::<Metric>().ok();
    let worst = match (metric.map(|metric| metric.statistic), verdict.promise) {
        (Some(Statistic::Max), Some(Promise::AtLeast(_))) => f64::min,
        (Some(Statistic::Min), Some(Promise::AtMost(_))) => f64::max,
        _ => return,
    };
    verdict.measured = values.into_iter().reduce(worst);
    if let (Some(promise), Some(measured)) = (verdict.promise, verdict.measured) {
        verdict.judgement = if keeps(promise, measured) {
            Judgement::Kept
        } else {
            Judgement::Broken
        };
    }
}

/// Returns half the width of the 95 % interval of the difference between figure and promised
/// number, run by run; `None` for fewer than two runs that have both.
#[must_use]
pub fn margin(verdict: &JudgedExpectation, runs: &[Arms]) -> Option<f64> {
    let expectation = &verdict.expectation;
    let one = |arms: &Arms| {
        let figures = arms.get(&expectation.arm)?;
        let measured = figures.metrics.get(&expectation.metric)?;
        let metrics = figures_for(expectation, figures, arms);
        let promise = expectation.promise_for(&metrics).ok()?;
        Some(measured - promised(promise))
    };
    let differences: Vec<f64> = runs.iter().filter_map(one).collect();
    half_width(&differences).map(rounded)
}

/// Returns `t s / sqrt(n)`; `None` for fewer than two numbers.
#[must_use]
pub fn half_width(values: &[f64]) -> Option<f64> {
    let count = values.len();
    let mean = mean(values).filter(|_| count > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1) as f64).sqrt();
    Some(student(count - 1) * deviation / (count as f64).sqrt())
}

/// Returns the 97.5 % point of Student's t for `freedom` degrees of freedom, to three decimals. It
/// uses a table, and beyond it the Cornish-Fisher expansion of the quantile (Abramowitz and Stegun
/// 26.7.5), whose error is below 0.001 there.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    if let Some(value) = freedom.checked_sub(1).and_then(|at| TABLE.get(at)) {
        return *value;
    }
    // The 97.5 % point of the normal distribution.
    let z = 1.959_964_f64;
    let n = freedom as f64;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}

/// Rounds a mean or an interval to 6 decimals.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded == 0.0 { 0.0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge;
    use crate::sample;
    use weirgate_experiment::{Arm, Expectation, Promise};

    fn arms(figures: &[(&str, &str, f64)]) -> Arms {
        let mut arms = Arms::new();
        for (arm, metric, value) in figures {
            let own = arms.entry((*arm).to_owned()).or_insert_with(|| ArmFigures {
                arm: (*arm).to_owned(),
                metrics: BTreeMap::new(),
            });
            own.metrics.insert((*metric).to_owned(), *value);
        }
        arms
    }

    #[test]
    fn intervals_are_students() {
        // Mean 3, deviation 1.5811, t(4) 2.776: 2.776 * 1.5811 / sqrt(5).
        let half = half_width(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((half - 1.963).abs() < 0.001, "{half}");
        assert_eq!(half_width(&[1.0]), None);
        assert_eq!(half_width(&[]), None);
        for (freedom, value) in [(11, 2.201), (19, 2.093), (30, 2.042), (120, 1.980)] {
            assert!((student(freedom) - value).abs() < 0.001, "{freedom}");
        }
    }

    #[test]
    fn runs_become_means_and_extremes_stay() {
        let names = ["response.mice.mean_s", "rtt.p.max_ms", "rtt.p.min_ms"];
        let run = |value: f64| arms(&names.map(|name| ("a", name, value)));
        let (combined, intervals) = combine(&[run(1.0), run(2.0), run(6.0)]);
        let metrics = &combined["a"].metrics;
        assert_eq!(names.map(|name| metrics[name]), [3.0, 6.0, 1.0]);
        let own: Vec<&String> = intervals["a"].keys().collect();
        assert_eq!(own, ["response.mice.mean_s"]);
    }

    /// Returns the judgement of runs whose figures are these.
    fn judgement(name: &str, promise: Promise, runs: &[Option<f64>]) -> Judgement {
        let mut experiment = sample::experiment(&[("p", 0, 10)]);
        experiment.arms = vec![Arm::named("a")];
        experiment.expectations = vec![Expectation::new("a", name, promise, "")];
        let one = |value: &Option<f64>| {
            let mut arms = arms(&[("a", "util.up.mean_ratio", 1.0)]);
            if let (Some(value), Some(own)) = (value, arms.get_mut("a")) {
                own.metrics.insert(name.to_owned(), *value);
            }
            arms
        };
        let runs: Vec<Arms> = runs.iter().map(one).collect();
        let mut verdicts = judge(&experiment, &combine(&runs).0, &BTreeMap::new());
        judge_each(&mut verdicts[0], &runs);
        verdicts.remove(0).judgement
    }

    #[test]
    fn a_figure_that_one_run_lacks_keeps_nothing() {
        let most = Promise::AtMost(1.0);
        let name = "response.mice.mean_s";
        assert_eq!(judgement(name, most, &[Some(0.0); 3]), Judgement::Kept);
        let lacking = judgement(name, most, &[Some(0.0), None, Some(0.0)]);
        assert!(matches!(lacking, Judgement::NoData(_)), "{lacking:?}");
    }

    #[test]
    fn the_worst_run_counts_for_an_extreme() {
        let runs = [Some(5.0), Some(1.0), Some(5.0)];
        let (max, min) = ("rtt.p.max_ms", "rtt.p.min_ms");
        assert_eq!(
            judgement(max, Promise::AtLeast(2.0), &runs),
            Judgement::Broken
        );
        assert_eq!(
            judgement(max, Promise::AtLeast(1.0), &runs),
            Judgement::Kept
        );
        assert_eq!(
            judgement(min, Promise::AtMost(2.0), &runs),
            Judgement::Broken
        );
        assert_eq!(judgement(min, Promise::AtMost(5.0), &runs), Judgement::Kept);
    }

    #[test]
    fn a_comparison_of_arms_is_judged_by_differences() {
        let name = "response.mice.mean_s";
        let mut experiment = sample::experiment(&[("p", 0, 10)]);
        experiment.arms = vec![Arm::named("a"), Arm::named("b")];
        experiment.expectations = vec![Expectation {
            formula: Some(format!("1.5 * {name}@b").parse().unwrap()),
            ..Expectation::new("a", name, Promise::AtMost(0.0), "")
        }];
        // The values differ much from run to run, but their ratio is always 1.4.
        let runs: Vec<Arms> = [1.0, 5.0, 30.0]
            .iter()
            .map(|base| arms(&[("a", name, 1.4 * base), ("b", name, *base)]))
            .collect();
        let (combined, intervals) = combine(&runs);
        let verdicts = judge(&experiment, &combined, &BTreeMap::new());
        assert!(verdicts[0].kept(), "{:?}", verdicts[0]);
        assert!((verdicts[0].promised().unwrap() - 18.0).abs() < 1e-6);
        let between = margin(&verdicts[0], &runs).unwrap();
        assert!(between < intervals["a"][name] / 10.0, "{between}");
        let alone: Vec<Arms> = runs
            .iter()
            .map(|run| {
                run.iter()
                    .filter(|(arm, _)| *arm == "a")
                    .map(|(arm, own)| (arm.clone(), own.clone()))
                    .collect()
            })
            .collect();
        let verdicts = judge(&experiment, &combine(&alone).0, &BTreeMap::new());
        assert!(!verdicts[0].kept());
        assert_eq!(margin(&verdicts[0], &alone), None);
    }
}
