// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A provider's circuits in the terminal. It shows the link of each device, the sites that use
//! most, and the busiest of the circuits that sent most.

use crate::policy::show::human;
use crate::whole::top::format::{bits, cut, ms, of};
use std::cmp::Reverse;
use weirgate_units::Arrange as _;
use weirgate_watch::{Change, Number, Sort, Step};

/// Returns the lines for all devices with circuits, with at most `most` sites and `most` circuits.
pub fn circuits(step: &Step, most: usize) -> Vec<String> {
    let mut all: Vec<&Change> = of(step, Sort::Circuits).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let is_circuit = |one: &Change| !one.object.label("circuit").is_empty();
    // The link comes first: apart from circuits, nothing sends more.
    all.arrange_by_key(|one| {
        let sent = one.value(Number::CircuitsSentBytes).unwrap_or(0);
        (is_circuit(one), Reverse(sent))
    });
    let mut lines = vec![format!(
        "{:<34} {:>11} {:>11} {:>5} {:>8} {:>6}",
        "circuits", "rate", "ceiling", "use", "delay ms", "waits"
    )];
    for wanted in [false, true] {
        let some = all.iter().filter(|one| is_circuit(one) == wanted);
        lines.extend(some.take(most).map(|one| line(one, step)));
    }
    lines
}

fn line(one: &Change, step: &Step) -> String {
    let label = |name| one.object.label(name);
    let name = match label("circuit") {
        "" => format!("{} {}", label("device"), label("site")),
        circuit => format!("{} circuit {circuit}", label("device")),
    };
    let rate = one.value(Number::CircuitsSentBytes);
    let rate = rate.map(|sent| bits(sent, step.interval));
    let ceiling = one.value(Number::CircuitsCeiling);
    let ceiling = ceiling.filter(|most| *most > 0).map(|most| most as f64);
    let used = rate
        .zip(ceiling)
        .map(|(rate, most)| format!("{:.0}%", rate / most * 100.0));
    let dash = || String::from("-");
    format!(
        "{:<34} {:>11} {:>11} {:>5} {:>8} {:>6}",
        cut(&name, 34),
        rate.map_or_else(dash, human),
        ceiling.map_or_else(dash, human),
        used.unwrap_or_else(dash),
        ms(one.value(Number::CircuitsDelay)),
        one.value(Number::CircuitsQueuedPackets).unwrap_or(0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weirgate_watch::Object;

    fn change(site: &str, circuit: &str, sent: i64, ceiling: i64) -> Change {
        let labels = [("device", "access0"), ("site", site), ("circuit", circuit)];
        let labels = labels.into_iter().filter(|label| !label.1.is_empty());
        Change {
            object: Object {
                sort: Sort::Circuits,
                identity: String::new(),
                begins: false,
                labels: labels
                    .map(|(name, value)| (name, value.to_owned()))
                    .collect(),
                numbers: Vec::new(),
            },
            values: vec![
                (Number::CircuitsSentBytes, sent),
                (Number::CircuitsCeiling, ceiling),
                (Number::CircuitsDelay, 12_500),
            ],
            verdict: None,
        }
    }

    #[test]
    fn the_busiest_stand_first_and_fit_the_terminal() {
        let step = Step {
            time: 0,
            interval: 500,
            changes: vec![
                change("AP_1", "", 10, 8_000),
                change("AP_2", "", 250, 8_000),
                change("others", "", 0, 0),
                change("the link", "", 260, 80_000),
                change("AP_1", "1041", 10, 800),
                change("AP_2", &"\u{1b}[2J1042".repeat(9), 250, 8_000),
            ],
            flows: Arc::default(),
            alerts: Arc::default(),
            links: Vec::new(),
        };
        let lines = circuits(&step, 2);
        assert_eq!(lines.len(), 1 + 2 + 2, "{lines:#?}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{lines:#?}"
        );
        assert!(
            lines.iter().all(|line| !line.contains('\u{1b}')),
            "{lines:#?}"
        );
        assert!(lines[1].starts_with("access0 the link "), "{lines:#?}");
        assert!(lines[2].starts_with("access0 AP_2 "), "{lines:#?}");
        // 250 bytes in half a second.
        assert!(
            lines[2].contains(" 4.0 kbit ") && lines[2].contains(" 50%"),
            "{lines:#?}"
        );
        assert!(lines[2].contains(" 12.5 "), "{lines:#?}");
        assert!(lines[4].starts_with("access0 circuit 1041 "), "{lines:#?}");
        assert_eq!(
            circuits(
                &Step {
                    changes: Vec::new(),
                    ..step
                },
                2
            ),
            [""; 0]
        );
    }
}
