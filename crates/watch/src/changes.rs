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
