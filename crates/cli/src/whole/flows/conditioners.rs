// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate flows --conditioners`: lists the green, yellow and red packets of each conditioner
//! since its start, and its actions.

use serde::Serialize;
use weirgate_bpf::ConditionCount;
use weirgate_console::exit::{Failure, Status};
use weirgate_console::output;
use weirgate_keep::Site;
use weirgate_kernel::Conditioned;
use weirgate_state::{ColourAction, Conditioner, Conditioning, HookPrograms, State};

/// The packets of one colour of a conditioner.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Found {
    packets: u64,
    /// Bytes of IP packets.
    bytes: u64,
    /// The action: `pass`, `drop`, or the code point that the packets get.
    action: String,
}

/// The counters of a conditioner.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Counted {
    device: String,
    /// `enter` or `leave`.
    at: &'static str,
    name: String,
    green: Found,
    yellow: Found,
    red: Found,
    /// The number of packets that could not be marked, because their IP header was not found.
    unmarked: u64,
}

/// Lists the conditioners.
pub async fn run(site: &Site, applied: &State, json: bool) -> Result<Status, Failure> {
    let mut all = Vec::new();
    for (device, place) in &applied.hooks {
        if place.entering.is_none() && place.leaving.is_none() {
            continue;
        }
        let counts = site.kernel.conditioned(device).await;
        let counts = counts.map_err(|error| crate::policy::apply::unread(error.into()))?;
        all.extend(of_device(device.as_str(), place, &counts));
    }
    if all.is_empty() {
        output::note("the applied policy has no `[[conditioner]]`");
    }
    if json {
        output::data(&serde_json::to_string_pretty(&all)?)?;
    } else {
        print(&all)?;
    }
    Ok(Status::Done)
}

fn of_device(device: &str, place: &HookPrograms, counts: &Conditioned) -> Vec<Counted> {
    let directions = [
        ("enter", &place.entering, &counts.entering),
        ("leave", &place.leaving, &counts.leaving),
    ];
    let mut all = Vec::new();
    for (at, wanted, counts) in directions {
        let wanted = wanted.as_deref().map_or(&[][..], own);
        for one in wanted {
            let none = ConditionCount::default();
            let count = counts.iter().find(|count| count.name == one.name);
            let count = count.unwrap_or(&none);
            let found = |colour: usize| Found {
                packets: count.packets[colour],
                bytes: count.bytes[colour],
                action: match one.actions[colour] {
                    ColourAction::Pass => "pass".to_owned(),
                    ColourAction::Drop => "drop".to_owned(),
                    ColourAction::Mark(code) => code.to_string(),
                },
            };
            all.push(Counted {
                device: device.to_owned(),
                at,
                name: one.name.clone(),
                green: found(0),
                yellow: found(1),
                red: found(2),
                unmarked: count.unmarked,
            });
        }
    }
    all
}

fn own(all: &Conditioning) -> &[Conditioner] {
    &all.conditioners
}

fn print(all: &[Counted]) -> Result<(), Failure> {
    output::data(&format!(
        "{:<12} {:<6} {:<20} {:<7} {:>12} {:>14}  action",
        "device", "at", "conditioner", "colour", "packets", "bytes"
    ))?;
    for one in all {
        let colours = [
            ("green", &one.green),
            ("yellow", &one.yellow),
            ("red", &one.red),
        ];
        for (colour, found) in colours {
            output::data(&format!(
                "{:<12} {:<6} {:<20} {colour:<7} {:>12} {:>14}  {}",
                one.device, one.at, one.name, found.packets, found.bytes, found.action
            ))?;
        }
        if one.unmarked > 0 {
            output::note(&format!(
                "{}: {} packets in which no place for the code point was found",
                one.name, one.unmarked
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_with_its_colours() {
        let conditioner = |name: &str| Conditioner {
            name: name.to_owned(),
            classes: Vec::new(),
            source: Vec::new(),
            destination: Vec::new(),
            protocols: Vec::new(),
            source_ports: Vec::new(),
            destination_ports: Vec::new(),
            smallest: 0,
            codes: u64::MAX,
            meter: None,
            aware: false,
            brings: [0, 0],
            actions: [
                "AF11".parse().map(ColourAction::Mark).unwrap_or_default(),
                ColourAction::Pass,
                ColourAction::Drop,
            ],
        };
        let place = HookPrograms {
            leaving: Some(Box::new(Conditioning {
                conditioners: vec![conditioner("gold"), conditioner("new")],
            })),
            ..HookPrograms::default()
        };
        let counts = Conditioned {
            leaving: vec![ConditionCount {
                name: "gold".to_owned(),
                packets: [3, 2, 1],
                bytes: [30, 20, 10],
                ..ConditionCount::default()
            }],
            ..Conditioned::default()
        };
        let all = of_device("wan", &place, &counts);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].at, all[0].green.packets), ("leave", 3));
        assert_eq!((all[0].red.bytes, &*all[0].red.action), (10, "drop"));
        assert_eq!(&*all[0].green.action, "AF11");
        // A conditioner that is not configured yet has counted nothing.
        assert_eq!((&*all[1].name, all[1].green.packets), ("new", 0));
    }
}
