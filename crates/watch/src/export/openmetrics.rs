// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenMetrics 1.0 text.

use crate::object::{METRICS, Width, label_text};
use crate::step::diff::Change;
use std::fmt::Write as _;

/// A metric of this program itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The full name, without `_total`.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// Whether it is a counter.
    pub counter: bool,
    /// Its values by labels.
    pub values: Vec<(Vec<(&'static str, String)>, u64)>,
}

impl Own {
    /// Makes a metric with a single value without labels.
    pub(crate) fn one(name: &'static str, help: &'static str, counter: bool, value: u64) -> Self {
        Self {
            name,
            help,
            counter,
            values: vec![(Vec::new(), value)],
        }
    }
}

/// Returns all metrics of the last look, and those of this program itself. The number of
/// observed objects bounds its size.
pub fn openmetrics(changes: &[Change], own: &[Own]) -> String {
    let mut text = String::new();
    for (index, metric) in METRICS.iter().enumerate() {
        let family = format!("weirgate_{}_{}", metric.sort.word(), metric.name);
        let counter = metric.width != Width::Gauge;
        let mut begun = false;
        for change in changes
            .iter()
            .filter(|change| change.object.sort == metric.sort)
        {
            let numbers = change.object.numbers.iter();
            let Some((_, value)) = numbers
                .clone()
                .find(|(number, _)| *number as usize == index)
            else {
                continue;
            };
            if !begun {
                let kind = if counter { "counter" } else { "gauge" };
                let _ = writeln!(text, "# TYPE {family} {kind}");
                let unit = ["bits", "bytes", "packets", "seconds"];
                if let Some(unit) = unit.iter().find(|unit| family.ends_with(*unit)) {
                    let _ = writeln!(text, "# UNIT {family} {unit}");
                }
                let _ = writeln!(text, "# HELP {family} {}", metric.help);
                begun = true;
            }
            let total = if counter { "_total" } else { "" };
            let labels = change.object.label_text();
            if metric.divisor == 1 {
                let _ = writeln!(text, "{family}{total}{labels} {value}");
            } else {
                let value = *value as f64 / f64::from(metric.divisor);
                let _ = writeln!(text, "{family}{total}{labels} {value}");
            }
        }
    }
    for one in own {
        let kind = if one.counter { "counter" } else { "gauge" };
        let total = if one.counter { "_total" } else { "" };
        let name = one.name;
        let _ = write!(text, "# TYPE {name} {kind}\n# HELP {name} {}\n", one.help);
        for (labels, value) in &one.values {
            let _ = writeln!(text, "{name}{total}{} {value}", label_text(labels));
        }
    }
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Number, Object, Sort};

    /// The dashboard and the alert rules refer only to existing metrics.
    #[test]
    fn what_dashboards_ask_for_is_there() {
        let own = [include_str!("../serve/shared.rs"), include_str!("push.rs")];
        for file in [
            include_str!("../../../../packaging/monitoring/grafana.json"),
            include_str!("../../../../packaging/monitoring/alerts.yaml"),
        ] {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let words = file.split(|one: char| !letter(one));
            let names = words.filter(|word| word.starts_with("weirgate_"));
            let mut count = 0;
            for name in names {
                let known = METRICS.iter().any(|metric| {
                    let total = if metric.width == Width::Gauge {
                        ""
                    } else {
                        "_total"
                    };
                    format!("weirgate_{}_{}{total}", metric.sort.word(), metric.name) == name
                });
                let quoted = format!("\"{}\"", name.trim_end_matches("_total"));
                assert!(
                    known || own.iter().any(|text| text.contains(&quoted)),
                    "{name}"
                );
                count += 1;
            }
            assert!(count > 5);
        }
    }

    #[test]
    fn hostile_names_stay_within_their_quotes() {
        let change = Change {
            object: Object {
                sort: Sort::Probe,
                identity: String::new(),
                begins: false,
                labels: vec![("probe", String::from("a\"} 1\n# EOF\\\u{1b}[2J"))],
                numbers: vec![(Number::ProbeRtt, 1500), (Number::ProbeSent, 3)],
            },
            values: Vec::new(),
            verdict: None,
        };
        let text = openmetrics(&[change], &[Own::one("weirgate_x", "y", true, 3)]);
        let name = "{probe=\"a\\\"} 1\\n# EOF\\\\\u{fffd}[2J\"}";
        assert!(
            text.contains(&format!("\nweirgate_probe_sent_total{name} 3\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!("\nweirgate_probe_rtt_seconds{name} 0.0015\n")),
            "{text}"
        );
        assert!(text.ends_with("\nweirgate_x_total 3\n# EOF\n"), "{text}");
        assert_eq!(text.matches("\n# EOF").count(), 1);
    }
}
