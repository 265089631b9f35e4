// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lqos_overrides.json` of LibreQoS: what is to be changed of devices, circuits and sites,
//! whatever the other files say.
//!
//! They are read before the other files. Each line of a device is then changed as it comes,
//! so that none is kept by itself, and sites are changed at the end. An override of what is not
//! there is a warning. LibreQoS passes over it, and its scheduler writes some overrides into the
//! other files, where nothing of a circuit that is removed is left then.

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

/// A change of lines.
#[derive(Debug)]
struct Change {
    /// What it is of, by its identifier, and where that stands.
    of: Of,
    id: String,
    at: FileSpan,
    what: What,
    /// Something is changed by it.
    used: bool,
}

#[derive(Debug)]
enum What {
    /// Rates in the place of others, in the order of columns.
    Rates(Rates),
    /// The circuit or the device is left out.
    Remove,
    /// Another site above it.
    Parent(String, FileSpan),
}

/// A device that is put in the place of one with the same identifier, or beside the others.
#[derive(Debug)]
struct Device {
    id: String,
    at: FileSpan,
    /// With its keys; `None` once it stands in its place.
    circuit: Option<(RawCircuit<'static>, Vec<PlacedKey>)>,
}

/// All overrides, in the order of files and lines.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    devices: Vec<Device>,
    /// Their places, by identifier.
    by_device: Known<String, usize>,
    changes: Vec<Change>,
    /// Their places, by identifiers of circuits and of devices.
    by_id: [Known<String, Vec<usize>>; 2],
    sites: Vec<SiteChange>,
}

impl Overrides {
    /// Takes a device. A second one with its identifier is a mistake.
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

    /// Takes a change. Of two that change the same, LibreQoS takes the last of one file, and
    /// which it takes of several depends on their names: a mistake.
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
                "the {} `{}` is adjusted twice so, first in {}",
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

    /// Makes a device's line, with its keys, what it is to be; `false` where it is left out.
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

    /// Makes the changes of a device and of its circuit, in their order; `false` where it is
    /// left out.
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

    /// Tells what is not in the list.
    fn tell_absent(&self, mistakes: &Mistakes<'_>) {
        for change in self.changes.iter().filter(|change| !change.used) {
            let message = format!("there is no {} `{}`", change.of.word(), change.id);
            mistakes.warning(ABSENT, &change.at, message, HINT);
        }
    }
}

/// What to do with an override of what is not there.
const HINT: &str = "nothing is changed by it; leave it out";

/// Adds the devices that are in no other file, and changes sites, when all files are read.
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
