// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lqos_overrides.json` of LibreQoS: changes to devices, circuits and sites, which take
//! precedence over the other files.
//!
//! Overrides are read before the other files. They change each line of a device as it is read,
//! so that no line has to be kept. Sites are changed at the end. An override without a target is
//! only a warning: LibreQoS ignores it too. Its scheduler copies some overrides into the other
//! files, so a removed circuit can leave one behind.

mod devices;
mod fields;
mod read;
mod sites;

pub(crate) use read::{is_overrides, read};

use crate::codes::{ABSENT, TWICE};
use crate::files::joined::join;
use crate::files::located::{FileSpan, Mistakes};
use crate::files::raw::{Collected, PlacedKey, RawCircuit};
use crate::hash::Known;
use fields::{Of, Rates};
use sites::SiteChange;

/// A change to the lines of a circuit or a device.
#[derive(Debug)]
struct Change {
    /// The kind of target, its identifier, and the span of that.
    of: Of,
    id: String,
    at: FileSpan,
    what: What,
    /// Whether it has changed anything yet.
    used: bool,
}

#[derive(Debug)]
enum What {
    /// New rates, with their columns.
    Rates(Rates),
    /// Removes the circuit or the device.
    Remove,
    /// Moves it below another site.
    Parent(String, FileSpan),
}

/// A device that replaces one with the same identifier, or is added.
#[derive(Debug)]
struct Device {
    id: String,
    at: FileSpan,
    /// The circuit with its keys; `None` once the device has been placed.
    circuit: Option<(RawCircuit<'static>, Vec<PlacedKey>)>,
}

/// All overrides, in the order of files and lines.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    devices: Vec<Device>,
    /// The index of each device by identifier.
    by_device: Known<String, usize>,
    changes: Vec<Change>,
    /// Indices of changes, by the identifier of a circuit and of a device.
    by_id: [Known<String, Vec<usize>>; 2],
    sites: Vec<SiteChange>,
}

impl Overrides {
    /// Adds a device. A second one with the same identifier is an error.
    fn add_device(
        &mut self,
        id: &str,
        circuit: (RawCircuit<'static>, Vec<PlacedKey>),
        at: FileSpan,
        mistakes: &Mistakes<'_>,
    ) {
        let first = self.by_device.get(id).and_then(|at| self.devices.get(*at));
        if let Some(first) = first {
            let first = mistakes.named(&first.at);
            let message = format!("the device `{id}` is there twice, first in {first}");
            mistakes.error(TWICE, &at, message, "leave out one of them");
            return;
        }
        self.by_device.insert(id.to_owned(), self.devices.len());
        self.devices.push(Device {
            id: id.to_owned(),
            at,
            circuit: Some(circuit),
        });
    }

    /// Adds a change. Two changes of the same kind to one target are an error. LibreQoS takes
    /// the last one in a file, but across files the result depends on the file names.
    fn add_change(&mut self, change: Change, mistakes: &Mistakes<'_>) {
        let places = &mut self.by_id[change.of as usize];
        let places = places.entry(change.id.clone()).or_default();
        let same = |at: &&usize| {
            let other = self.changes.get(**at).map(|other| &other.what);
            other.is_some_and(|other| {
                std::mem::discriminant(other) == std::mem::discriminant(&change.what)
            })
        };
        if let Some(first) = places
            .iter()
            .find(same)
            .and_then(|at| self.changes.get(*at))
        {
            let message = format!(
                "the {} `{}` has this adjustment twice, see {}",
                change.of.word(),
                change.id,
                mistakes.named(&first.at)
            );
            mistakes.error(TWICE, &change.at, message, "leave out one of them");
            return;
        }
        places.push(self.changes.len());
        self.changes.push(change);
    }

    /// Applies the overrides to the line of a device and its keys; returns `false` if the device
    /// is removed.
    pub(crate) fn device(
        &mut self,
        id: &str,
        own: &mut RawCircuit<'_>,
        keys: &mut Vec<PlacedKey>,
    ) -> bool {
        let place = self.by_device.get(id).copied();
        let place = place.and_then(|place| self.devices.get_mut(place));
        if let Some(other) = place.and_then(|place| place.circuit.take()) {
            (*own, *keys) = other;
        }
        self.change(id, own)
    }

    /// Applies the changes to a device and its circuit in order; returns `false` if the device
    /// is removed.
    fn change(&mut self, device: &str, own: &mut RawCircuit<'_>) -> bool {
        if self.changes.is_empty() {
            return true;
        }
        let [circuits, devices] = &self.by_id;
        let places = [circuits.get(&*own.id), devices.get(device)];
        let mut places: Vec<usize> = places.into_iter().flatten().flatten().copied().collect();
        places.sort_unstable();
        let mut stays = true;
        for place in places {
            let Some(change) = self.changes.get_mut(place) else {
                continue;
            };
            change.used = true;
            match &change.what {
                What::Rates(rates) => {
                    for (number, rate, at) in rates {
                        own.rates.replace(*number, *rate, at);
                    }
                }
                What::Remove => stays = false,
                What::Parent(name, at) => {
                    own.parent = name.clone().into();
                    own.parent_at = at.clone();
                }
            }
        }
        stays
    }

    /// Warns about changes whose target does not exist.
    fn tell_absent(&self, mistakes: &Mistakes<'_>) {
        for change in self.changes.iter().filter(|change| !change.used) {
            let message = format!("there is no {} `{}`", change.of.word(), change.id);
            mistakes.warning(ABSENT, &change.at, message, HINT);
        }
    }
}

/// The hint for an override without a target.
const HINT: &str = "nothing is changed by it; leave it out";

/// Adds the remaining devices and changes the sites, after all files have been read.
pub(crate) fn finish(mut overrides: Overrides, mistakes: &Mistakes<'_>, all: &mut Collected<'_>) {
    for device in std::mem::take(&mut overrides.devices) {
        if let Some((mut own, mut keys)) = device.circuit
            && overrides.change(&device.id, &mut own)
        {
            join(own, &mut keys, &device.at, mistakes, all);
        }
    }
    overrides.tell_absent(mistakes);
    sites::change(overrides.sites, &mut all.sites, mistakes);
}
