// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advice: an interactive flow is in a class in which its packets may wait long, while another
//! class promises less.

use crate::legend::{ClassLegend, Legend};
use crate::look::connections::Connections;
use crate::sorter::Sorted;
use weirgate_behaviour::Kind;

/// The longest wait, in microseconds, in a class that is good for a call or a game: ITU-T G.114
/// wants at most 150 ms from mouth to ear.
const GOOD: u64 = 150_000;

/// Adds an event for a flow that has none yet: at most one for each reading, and for each flow.
pub(super) fn advise(connections: &mut Connections, legend: &Legend) {
    let behaviour = &connections.behaviour;
    let found = behaviour.flows.recognised().find_map(|(key, kind)| {
        if behaviour.advised.contains(key) {
            return None;
        }
        let sorted = connections.sorted(key)?;
        Some((*key, advice(kind, sorted, legend)?))
    });
    let behaviour = &mut connections.behaviour;
    let flows = &behaviour.flows;
    behaviour.advised.retain(|key| flows.kind(key).is_some());
    if let Some((key, text)) = found {
        behaviour.advised.insert(key);
        behaviour.events.push(("advice", text));
    }
}

/// Returns the advice for a flow of this kind; `None` if its classes are good, or if no class is
/// better. Terminals get none, because other programs look like them.
fn advice(kind: Kind, sorted: &Sorted, legend: &Legend) -> Option<String> {
    let name = match kind {
        Kind::Call => "a call",
        Kind::RealTime => "a game or other real-time traffic",
        Kind::Terminal | Kind::Bulk => return None,
    };
    [("up", &sorted.up), ("down", &sorted.down)]
        .into_iter()
        .find_map(|(direction, class)| {
            let class = class.as_deref()?;
            let of_direction = |one: &&ClassLegend| one.direction == direction;
            let mut own = legend.classes.iter().filter(of_direction);
            let mut own = own.by_ref().filter(|one| one.name == class);
            // With several links it is not known on which device the flow's class is.
            let (Some(own), None) = (own.next(), own.next()) else {
                return None;
            };
            let others = legend.classes.iter().filter(of_direction);
            let others = others.filter(|one| one.device == own.device);
            let bounded = others.filter_map(|one| Some((one.bound?, one)));
            let (bound, better) = bounded.min_by_key(|(bound, _)| *bound)?;
            if bound > GOOD || own.bound.is_some_and(|own| own <= GOOD) {
                return None;
            }
            let wait = own.bound.map_or_else(
                || String::from("for which no bound is known"),
                |bound| format!("where a packet may wait {} ms", bound / 1000),
            );
            Some(format!(
                "{name} of {} with {} is in {}, {wait}; {} promises {} ms",
                sorted.host.0,
                sorted.remote.0,
                legend.class_name(&own.device, direction, class),
                legend.class_name(&better.device, direction, &better.name),
                bound / 1000
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Handle;

    fn class(name: &str, minor: u16, bound: Option<u64>) -> ClassLegend {
        ClassLegend {
            device: String::from("wan"),
            direction: String::from("up"),
            name: name.to_owned(),
            handle: Handle::new(2, minor),
            guaranteed: 100_000,
            maximum: 1_000_000,
            bound,
            objective: None,
        }
    }

    #[test]
    fn only_a_flow_that_may_wait_long_gets_advice() {
        let sorted = |class: &str| Sorted {
            host: ([10, 0, 0, 2].into(), 40_000),
            remote: ([192, 0, 2, 1].into(), 5_004),
            opened_inside: true,
            up: Some(class.to_owned()),
            down: None,
        };
        let mut legend = Legend {
            classes: vec![
                class("voice", 1, Some(40_000)),
                class("rest", 2, Some(800_000)),
                class("scraps", 3, None),
            ],
            ..Legend::default()
        };
        assert_eq!(
            advice(Kind::Call, &sorted("rest"), &legend).as_deref(),
            Some(
                "a call of 10.0.0.2 with 192.0.2.1 is in up rest, where a packet may wait 800 ms; \
                 up voice promises 40 ms"
            )
        );
        let text = advice(Kind::RealTime, &sorted("scraps"), &legend).expect("advice");
        assert!(text.contains("no bound is known"), "{text}");
        for (kind, class) in [
            (Kind::Call, "voice"),
            (Kind::Bulk, "rest"),
            (Kind::Terminal, "rest"),
            (Kind::Call, "unknown"),
        ] {
            assert_eq!(advice(kind, &sorted(class), &legend), None);
        }
        // No class is better.
        legend.classes.remove(0);
        assert_eq!(advice(Kind::Call, &sorted("rest"), &legend), None);
    }
}
