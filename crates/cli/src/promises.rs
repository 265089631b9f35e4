// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weirgate check` states about an arm's policy, beside what was measured.
//!
//! Every run under a policy thereby tests the bounds that are printed for it.

use weirgate_compile::{FullQueue, check_report};
use weirgate_experiment::{Expectation, Metric, Promise, Quantity, Statistic};
use weirgate_measure::ArmFigures;
use weirgate_units::Span;

/// Adds the figures `bound.CLASS-up.max_ms` (a full queue),
/// `promise.CLASS-up.max_ms` (traffic within its guarantee and burst) and
/// `lone.CLASS-up.max_ms` (a packet with none of its class before it) for every
/// class and direction, and returns the expectation that no packet waited longer than
/// the bound, wherever waits were measured.
pub fn of(arm: &str, policy: &str, figures: &mut ArmFigures) -> Vec<Expectation> {
    let Some(policy) = weirgate_policy::parse(policy).0 else {
        return Vec::new();
    };
    let mut expectations = Vec::new();
    for direction in check_report(&policy).directions {
        for class in direction.classes {
            let subject = format!("{}-{}", class.name, direction.direction);
            let name = |quantity: Quantity, subject: &str| {
                Metric::new(quantity, subject, Statistic::Max).to_string()
            };
            let milliseconds = |span: Span| (span.as_millis_f64() * 1e3).ceil() / 1e3;
            let lone = name(Quantity::Lone, &subject);
            figures.metrics.insert(lone, milliseconds(class.lone.wait));
            if let Ok(within) = &class.within {
                let metric = name(Quantity::Promise, &subject);
                figures.metrics.insert(metric, milliseconds(within.wait));
            }
            let FullQueue::Bound(bound) = &class.full else {
                continue;
            };
            let bound = milliseconds(bound.wait);
            figures
                .metrics
                .insert(name(Quantity::Bound, &subject), bound);
            let metric = name(Quantity::Sojourn, &subject);
            if figures.metrics.contains_key(&metric) {
                expectations.push(Expectation {
                    arm: arm.to_owned(),
                    metric,
                    promise: Promise::AtMost(bound),
                    formula: None,
                    source: "weirgate check: the longest wait in a full queue".to_owned(),
                });
            }
        }
    }
    expectations
}
