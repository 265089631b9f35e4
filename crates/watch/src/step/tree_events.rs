// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events: changes of the trees from one look to the next.

use crate::legend::Legend;
use crate::look::link::{LineNow, gate};
use std::collections::BTreeMap;
use weirgate_kernel::DeviceOverview;
use weirgate_units::Inserted as _;

/// The parts of a tree whose changes are events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Tree {
    root: Option<String>,
    /// The rate of the gate.
    gate: Option<u64>,
    classes: BTreeMap<String, (u64, u64)>,
}

/// The number of looks after a change of the gate during which changes of its classes are part
/// of it.
const FOLLOW: u8 = 2;
/// While `[track]` follows the line, only changes of at least a twentieth since the last event
/// are reported; the history has the rate itself.
const PART: u64 = 20;

/// The trees at the previous look.
#[derive(Default)]
pub(crate) struct Trees {
    before: Option<BTreeMap<String, Tree>>,
    /// Devices whose gate changed, and for how many more looks their classes may follow.
    gates: BTreeMap<String, u8>,
    /// The gate rates that were last reported, or the initial ones.
    reported: BTreeMap<String, u64>,
    blind: bool,
}

impl Trees {
    /// Returns the events since the previous look: kind and text.
    pub(crate) fn step(
        &mut self,
        devices: &[DeviceOverview],
        legend: &Legend,
        lines: &[LineNow],
    ) -> Vec<(&'static str, String)> {
        let now: BTreeMap<String, Tree> = devices
            .iter()
            .map(|one| (one.name.clone(), tree(one)))
            .inserted();
        let mut events = Vec::new();
        if let Some(before) = self.before.take() {
            for (device, tree) in &now {
                match before.get(device) {
                    None => events.push(("device", format!("{device} is there"))),
                    Some(old) => {
                        self.gate(device, (old, tree), legend, lines, &mut events);
                        let following = self.gates.contains_key(device);
                        changed(device, (old, tree), legend, following, &mut events);
                    }
                }
            }
            let gone = before.keys().filter(|device| !now.contains_key(*device));
            events.extend(gone.map(|device| ("device", format!("{device} is gone"))));
        }
        self.before = Some(now);
        let blind = lines.iter().any(|line| line.blind);
        if blind != self.blind {
            let text = if blind {
                "[track]: nobody answers; the line is taken to have its least rate"
            } else {
                "[track]: somebody answers again"
            };
            events.push(("track", text.to_owned()));
        }
        self.blind = blind;
        events
    }

    /// Returns one event for a link whose rate changed, and includes the changes of its classes.
    fn gate(
        &mut self,
        device: &str,
        (old, new): (&Tree, &Tree),
        legend: &Legend,
        lines: &[LineNow],
        events: &mut Vec<(&'static str, String)>,
    ) {
        if let Some(looks) = self.gates.get_mut(device) {
            *looks -= 1;
        }
        self.gates.retain(|_, looks| *looks > 0);
        let (Some(before), Some(now)) = (old.gate, new.gate) else {
            self.reported.remove(device);
            return;
        };
        if before == now {
            return;
        }
        self.gates.insert(device.to_owned(), FOLLOW);
        let reported = self.reported.entry(device.to_owned()).or_insert(before);
        let mut own = legend.links.iter().filter(|link| link.1 == device);
        let tracked =
            own.find_map(|link| lines.iter().find(|one| one.is_of(legend, &link.0, device)));
        if tracked.is_some() && now.abs_diff(*reported) < *reported / PART {
            return;
        }
        let why = tracked.map_or_else(String::new, |line| format!(" ([track]: {})", line.reason));
        let text = format!(
            "{device}: the link has {} kbit/s, before {}{why}",
            now / 1000,
            *reported / 1000
        );
        *reported = now;
        events.push(("rate", text));
    }
}

fn tree(device: &DeviceOverview) -> Tree {
    let mut qdiscs = device.counters.qdiscs.iter();
    let root = qdiscs.find(|qdisc| qdisc.parent.is_none() && qdisc.handle.major != 0);
    let rates = device.rates.iter();
    Tree {
        root: root.map(|qdisc| qdisc.kind.clone()),
        gate: gate(device),
        classes: rates
            .map(|(handle, (rate, ceil))| {
                let bits = (rate.as_bits_per_second(), ceil.as_bits_per_second());
                (handle.to_string(), bits)
            })
            .inserted(),
    }
}

fn changed(
    device: &str,
    (old, new): (&Tree, &Tree),
    legend: &Legend,
    following: bool,
    events: &mut Vec<(&'static str, String)>,
) {
    let name = |device: &str, class: &str| legend.name(device, class);
    if old.root != new.root {
        let words = |root: &Option<String>| {
            root.clone()
                .unwrap_or_else(|| String::from("no queue control"))
        };
        let text = format!(
            "{device}: {}, before {}",
            words(&new.root),
            words(&old.root)
        );
        events.push(("tree", text));
    }
    for (class, rates) in &new.classes {
        match old.classes.get(class) {
            None => events.push((
                "class",
                format!("{device}: class {} is there", name(device, class)),
            )),
            Some(before) if before != rates && !following => {
                let kbit = |(rate, ceil): &(u64, u64)| {
                    format!("{} to {} kbit/s", rate / 1000, ceil / 1000)
                };
                let text = format!(
                    "{device}: class {} has {}, before {}",
                    name(device, class),
                    kbit(rates),
                    kbit(before)
                );
                events.push(("rate", text));
            }
            Some(_) => {}
        }
    }
    let gone = old
        .classes
        .keys()
        .filter(|class| !new.classes.contains_key(*class));
    for class in gone {
        events.push((
            "class",
            format!("{device}: class {} is gone", name(device, class)),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_kernel::{Counters, DeviceCounters, Traffic};
    use weirgate_units::{Handle, Rate};

    fn device(root: &str, classes: &[(u16, u64)]) -> DeviceOverview {
        let qdisc = Counters {
            handle: Handle::new(1, 0),
            parent: None,
            kind: root.to_owned(),
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            requeues: 0,
            backlog_bytes: 0,
            queued_packets: 0,
            marks: None,
            borrowed: None,
            inside: weirgate_kernel::Inside::default(),
            tins: Vec::new(),
        };
        let rate = |kbit: u64| (Rate::kbit(kbit), Rate::kbit(2 * kbit));
        DeviceOverview {
            index: 2,
            name: String::from("wan"),
            up: true,
            received: Traffic::default(),
            sent: Traffic::default(),
            counters: DeviceCounters {
                qdiscs: vec![qdisc],
                classes: Vec::new(),
            },
            rates: classes
                .iter()
                .map(|(minor, kbit)| (Handle::new(2, *minor), rate(*kbit)))
                .collect(),
            cake: None,
        }
    }

    #[test]
    fn trees_classes_and_rates_that_change_are_events() {
        let mut trees = Trees::default();
        let legend = Legend::default();
        let mut step = |devices: &[DeviceOverview]| trees.step(devices, &legend, &[]);
        // Nothing is reported at the first look.
        assert_eq!(step(&[device("htb", &[(1, 100)])]), []);
        assert_eq!(step(&[device("htb", &[(1, 100)])]), []);
        let found = step(&[device("htb", &[(1, 200), (2, 50)])]);
        let found: Vec<String> = found
            .into_iter()
            .map(|(kind, text)| format!("{kind}: {text}"))
            .collect();
        assert_eq!(
            found,
            [
                "rate: wan: class 2:1 has 200 to 400 kbit/s, before 100 to 200 kbit/s",
                "class: wan: class 2:2 is there",
            ]
        );
        let found = step(&[device("fq_codel", &[])]);
        assert_eq!(
            found[0],
            ("tree", String::from("wan: fq_codel, before htb"))
        );
        assert_eq!(found.len(), 3);
        assert_eq!(step(&[]), [("device", String::from("wan is gone"))]);
    }

    #[test]
    fn a_link_that_changes_is_one_event_and_small_steps_of_tracking_are_none() {
        let legend = Legend {
            links: vec![(String::from("up"), String::from("wan"), 1_000_000)],
            ..Legend::default()
        };
        let at = |kbit: u64| {
            let mut device = device("htb", &[(1, kbit / 4), (2, kbit / 8)]);
            let gate = (Rate::kbit(kbit), Rate::kbit(kbit));
            device.rates.insert(Handle::new(1, 1), gate);
            [device]
        };
        let line = |blind| LineNow {
            device: String::new(),
            direction: String::from("up"),
            rate: 900_000,
            floor: 100_000,
            ceiling: 1_000_000,
            reason: String::from("delay"),
            blind,
        };
        let mut trees = Trees::default();
        assert_eq!(trees.step(&at(1000), &legend, &[]), []);
        let one = "wan: the link has 900 kbit/s, before 1000";
        assert_eq!(
            trees.step(&at(900), &legend, &[]),
            [("rate", one.to_owned())]
        );
        let lines = [line(false)];
        let mut step = |kbit| trees.step(&at(kbit), &legend, &lines);
        assert_eq!(step(880), []);
        assert_eq!(step(860), []);
        let two = "wan: the link has 840 kbit/s, before 900 ([track]: delay)";
        assert_eq!(step(840), [("rate", two.to_owned())]);
        let found = trees.step(&at(840), &legend, &[line(true)]);
        assert_eq!(found[0].0, "track");
        assert_eq!(trees.step(&at(840), &legend, &[line(true)]), []);
        assert_eq!(trees.step(&at(840), &legend, &lines).len(), 1);
    }
}
