// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events: what became of the trees from one look to the next.

use std::collections::BTreeMap;
use weirgate_kernel::DeviceOverview;

/// A tree as far as its change is worth an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Tree {
    root: Option<String>,
    classes: BTreeMap<String, (u64, u64)>,
}

/// Remembers the trees of the look before.
#[derive(Default)]
pub(crate) struct Trees {
    before: Option<BTreeMap<String, Tree>>,
}

impl Trees {
    /// What happened since the look before: sort and words.
    pub(crate) fn step(
        &mut self,
        devices: &[DeviceOverview],
        name: impl Fn(&str, &str) -> String,
    ) -> Vec<(&'static str, String)> {
        let now: BTreeMap<String, Tree> = devices
            .iter()
            .map(|one| (one.name.clone(), tree(one)))
            .collect();
        let mut events = Vec::new();
        if let Some(before) = &self.before {
            for (device, tree) in &now {
                match before.get(device) {
                    None => events.push(("device", format!("{device} is there"))),
                    Some(old) => changed(device, old, tree, &name, &mut events),
                }
            }
            let gone = before.keys().filter(|device| !now.contains_key(*device));
            events.extend(gone.map(|device| ("device", format!("{device} is gone"))));
        }
        self.before = Some(now);
        events
    }
}

fn tree(device: &DeviceOverview) -> Tree {
    let mut qdiscs = device.counters.qdiscs.iter();
    let root = qdiscs.find(|qdisc| qdisc.parent.is_none() && qdisc.handle.major != 0);
    let rates = device.rates.iter();
    Tree {
        root: root.map(|qdisc| qdisc.kind.clone()),
        classes: rates
            .map(|(handle, (rate, ceil))| {
                let bits = (rate.as_bits_per_second(), ceil.as_bits_per_second());
                (handle.to_string(), bits)
            })
            .collect(),
    }
}

fn changed(
    device: &str,
    old: &Tree,
    new: &Tree,
    name: impl Fn(&str, &str) -> String,
    events: &mut Vec<(&'static str, String)>,
) {
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
            Some(before) if before != rates => {
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
        }
    }

    #[test]
    fn trees_classes_and_rates_that_change_are_events() {
        let mut trees = Trees::default();
        let mut step =
            |devices: &[DeviceOverview]| trees.step(devices, |_, handle| format!("<{handle}>"));
        // What is there at the first look did not happen.
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
                "rate: wan: class <2:1> has 200 to 400 kbit/s, before 100 to 200 kbit/s",
                "class: wan: class <2:2> is there",
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
}
