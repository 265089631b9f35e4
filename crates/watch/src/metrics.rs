// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenMetrics 1.0 text.

use crate::differ::Change;
use crate::object::{METRICS, Width};
use std::fmt::Write as _;

/// All numbers of the last look. How many there are is bounded by what is looked
/// at; `left_out` says how many rows of the history lack a value for want of
/// room.
pub fn openmetrics(
    changes: &[Change],
    history: &weirgate_history::Status,
    failing: bool,
) -> String {
    let mut text = String::new();
    for (place, metric) in METRICS.iter().enumerate() {
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
                .find(|(number, _)| *number as usize == place)
            else {
                continue;
            };
            if !begun {
                let kind = if counter { "counter" } else { "gauge" };
                let _ = writeln!(text, "# TYPE {family} {kind}");
                let unit = ["bytes", "packets", "seconds"];
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
    let own = [
        (
            "weirgate_history_series",
            "Series that the history has now.",
            history.series as u64,
        ),
        (
            "weirgate_history_lost",
            "Rows and events that the history lost since the start.",
            history.lost,
        ),
        (
            "weirgate_history_left_out",
            "Values that the history had no room for since the start.",
            history.refused,
        ),
        (
            "weirgate_history_failing",
            "1 while the history's file cannot be written.",
            u64::from(failing),
        ),
    ];
    for (name, help, value) in own {
        let _ = write!(
            text,
            "# TYPE {name} gauge\n# HELP {name} {help}\n{name} {value}\n"
        );
    }
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Number, Object, Sort};

    #[test]
    fn hostile_names_stay_within_their_quotes() {
        let change = Change {
            object: Object {
                sort: Sort::Probe,
                identity: String::new(),
                labels: vec![("probe", String::from("a\"} 1\n# EOF\\\u{1b}[2J"))],
                numbers: vec![(Number::ProbeRtt, 1500), (Number::ProbeSent, 3)],
            },
            values: Vec::new(),
            promise: None,
        };
        let text = openmetrics(&[change], &weirgate_history::Status::default(), false);
        let name = "{probe=\"a\\\"} 1\\n# EOF\\\\\u{fffd}[2J\"}";
        assert!(
            text.contains(&format!("\nweirgate_probe_sent_total{name} 3\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!("\nweirgate_probe_rtt_seconds{name} 0.0015\n")),
            "{text}"
        );
        assert!(text.ends_with("\n# EOF\n"));
        assert_eq!(text.matches("\n# EOF").count(), 1);
    }
}
