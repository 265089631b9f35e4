// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects figures by name, and rounds them.

use crate::metric::processor::PROCESSOR;
use std::collections::BTreeMap;
use weirgate_experiment::{Experiment, Metric, NoValue, Quantity, Statistic};

/// The figures of one arm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArmFigures {
    /// The arm.
    pub arm: String,
    /// Figures by metric name; a figure without data is absent.
    pub metrics: BTreeMap<String, f64>,
}

/// Below this share of idle processor time, the laboratory's machine itself may delay traffic. The
/// idle time varies within a second.
const SPARE: f64 = 0.05;

impl ArmFigures {
    /// Returns the phases in which the laboratory's machine had next to no idle time. Their figures
    /// may be the machine's and not the line's.
    pub fn overloaded(&self) -> Vec<&str> {
        let spare = Metric::new(Quantity::Spare, PROCESSOR, Statistic::Only).to_string();
        let phases = self.metrics.iter().filter(|(_, value)| **value < SPARE);
        phases
            .filter_map(|(name, _)| name.strip_suffix(&spare)?.strip_suffix('.'))
            .collect()
    }
}

/// Returns the figures of an experiment that is calculated and not run
/// ([`Experiment::is_calculation`]). It has one arm.
pub fn calculate(experiment: &Experiment) -> Result<ArmFigures, NoValue> {
    let metrics = experiment.calculate()?.into_iter();
    Ok(ArmFigures {
        arm: experiment
            .arms
            .first()
            .map(|arm| arm.name.clone())
            .unwrap_or_default(),
        metrics: metrics
            .map(|(name, value)| (name, rounded(value, decimals(""))))
            .collect(),
    })
}

/// Stores the figures of one window.
pub(crate) struct Figures<'a> {
    pub(crate) phase: Option<&'a str>,
    pub(crate) metrics: &'a mut BTreeMap<String, f64>,
}

impl Figures<'_> {
    /// Stores a figure under its name, if it exists and is finite.
    pub(crate) fn put(
        &mut self,
        quantity: Quantity,
        subject: &str,
        statistic: Statistic,
        value: Option<f64>,
    ) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return;
        };
        let mut metric = Metric::new(quantity, subject, statistic);
        if let Some(phase) = self.phase {
            metric = metric.in_phase(phase);
        }
        let value = rounded(value, decimals(metric.unit()));
        self.metrics.insert(metric.to_string(), value);
    }
}

/// Returns how many decimals are kept of a figure with this unit.
fn decimals(unit: &str) -> i32 {
    match unit {
        "ms" | "kbit" | "packets/s" => 3,
        "bytes" => 0,
        _ => 6,
    }
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    let rounded = (value * scale).round() / scale;
    // Minus zero would print as `-0.0`.
    if rounded == 0.0 { 0.0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_has_no_time_to_spare_is_overloaded() {
        let spare = [("spare", 0.01), ("a.spare", 0.2), ("b.spare", 0.04)];
        let named = |(name, value): (&str, f64)| (format!("{name}.processor.ratio"), value);
        let figures = ArmFigures {
            arm: String::new(),
            metrics: spare.map(named).into(),
        };
        assert_eq!(figures.overloaded(), ["b"]);
    }

    #[test]
    fn figures_without_a_number_are_absent() {
        let mut metrics = BTreeMap::new();
        let mut figures = Figures {
            phase: Some("alone"),
            metrics: &mut metrics,
        };
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            figures.put(Quantity::Rtt, "p", Statistic::Mean, value);
        }
        figures.put(Quantity::Rtt, "p", Statistic::Max, Some(1.000_49));
        figures.put(Quantity::Queue, "modem", Statistic::Mean, Some(99.5));
        figures.put(Quantity::Util, "up", Statistic::Only, Some(1.0 / 3.0));
        let names: Vec<(&str, f64)> = metrics.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        assert_eq!(
            names,
            [
                ("alone.queue.modem.mean_bytes", 100.0),
                ("alone.rtt.p.max_ms", 1.0),
                ("alone.util.up.ratio", 0.333_333),
            ]
        );
    }
}
