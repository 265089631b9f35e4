// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discipline in the kernel.

use crate::error::BpfError;
use crate::maps::{failed, sized};
use crate::programs::tcx::Attached;
use crate::qdisc::attach_point::Place;
use crate::qdisc::instance::{self, Instance};
use crate::qdisc::kind::{
    CHANGES, INSTANCES, RECORDERS, SETTINGS, decode_link, encode_link, load, load_object, open,
    pin, raise,
};
use crate::qdisc::marks::{self, Marks};
use crate::qdisc::recorder::{Recorder, Source};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use std::path::Path;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings};

/// A kind of qdisc that this process put into the kernel. When it is dropped
/// unpinned, the kind is gone once no device has such a qdisc any more.
#[derive(Debug)]
pub struct Qdisc {
    discipline: Discipline,
    maps: Maps,
    marks: Marks,
    link: Link,
}

/// How a qdisc at one place is to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its parameters.
    pub settings: Settings,
    /// The link; what is 0 is taken from the device.
    pub link: LinkFacts,
    /// The rate that it holds packets back to, in bytes a second on the wire;
    /// 0 where the device itself takes no more than it can send.
    pub gate_bytes_s: u64,
}

/// Its maps, which outlive programs as long as someone holds them.
#[derive(Debug)]
struct Maps {
    settings: MapHandle,
    instances: MapHandle,
    changes: MapHandle,
    recorders: MapHandle,
}

/// All of them, in the order in which they are loaded and opened.
pub(crate) fn maps() -> Vec<&'static str> {
    [SETTINGS, INSTANCES, CHANGES, RECORDERS]
        .into_iter()
        .chain(marks::MAPS)
        .collect()
}

impl Qdisc {
    /// Loads a discipline and registers its kind. Needs root, and a kernel with
    /// `CONFIG_NET_SCH_BPF`.
    pub fn load(discipline: Discipline) -> Result<Self, BpfError> {
        let (name, kind) = (discipline.name(), kind(discipline));
        let (maps, link) = match discipline.program() {
            Some(own) => load_object(name, own, &kind, &maps())?,
            None => load(name, &kind, &maps())?,
        };
        Self::assemble(discipline, maps, link)
    }

    /// One that a process pinned in `folder`.
    pub fn pinned(discipline: Discipline, folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = open(folder, &maps())?;
        Self::assemble(discipline, maps, link)
    }

    fn assemble(
        discipline: Discipline,
        maps: Vec<MapHandle>,
        link: Link,
    ) -> Result<Self, BpfError> {
        let kind = kind(discipline);
        let mut maps = maps.into_iter();
        let own = Maps {
            settings: sized(&kind, SETTINGS, settings_bytes(discipline), maps.next())?,
            instances: sized(&kind, INSTANCES, instance::bytes(discipline), maps.next())?,
            changes: sized(&kind, CHANGES, 4, maps.next())?,
            recorders: sized(&kind, RECORDERS, 4, maps.next())?,
        };
        let own_marks = Marks::of(&kind, &mut maps)?;
        Ok(Self {
            discipline,
            marks: own_marks,
            maps: own,
            link,
        })
    }

    /// Keeps the kind beyond this process: pins in `folder`, which must be in
    /// a BPF file system and exist.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        let maps = &mut self.maps;
        let mut all = vec![
            (SETTINGS, &mut maps.settings),
            (INSTANCES, &mut maps.instances),
            (CHANGES, &mut maps.changes),
            (RECORDERS, &mut maps.recorders),
        ];
        all.extend(self.marks.named());
        pin(folder, &mut all, &mut self.link)
    }

    /// Which discipline it is.
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// The kind's name for netlink and tc.
    pub fn kind(&self) -> String {
        kind(self.discipline)
    }

    /// States how the qdisc at a place is to work: the one that is there, from
    /// its next packet on and without loss of any, or one still to come.
    pub fn set(&self, place: Place, setup: &Setup) -> Result<(), BpfError> {
        if setup.settings.discipline() != self.discipline {
            return Err(BpfError::Other {
                kind: self.kind(),
                given: setup.settings.discipline().name(),
            });
        }
        self.maps
            .settings
            .update(&place.to_bytes(), &encode(setup), MapFlags::ANY)
            .map_err(self.failed(SETTINGS, "written"))?;
        self.raise_at(place)
    }

    /// Lets the qdisc at a place mark packets, which needs a program at egress
    /// of its device; the device is in the network namespace of this thread.
    /// Marks end with what is given back. Without it disciplines are told that
    /// nothing can be marked.
    pub fn mark(&self, place: Place) -> Result<Attached, BpfError> {
        let marker = self.marks.attach(place)?;
        self.raise_at(place)?;
        Ok(marker)
    }

    /// The qdisc at a place marks no longer.
    pub fn unmark(&self, place: Place) -> Result<(), BpfError> {
        self.marks.forget(place)?;
        self.raise_at(place)
    }

    /// What became of marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// What was set for a place; `None` where nothing was.
    pub fn setup(&self, place: Place) -> Result<Option<Setup>, BpfError> {
        let bytes = self
            .maps
            .settings
            .lookup(&place.to_bytes(), MapFlags::ANY)
            .map_err(self.failed(SETTINGS, "read"))?;
        Ok(bytes.and_then(|bytes| decode(self.discipline, &bytes)))
    }

    /// Every place for which something was set.
    pub fn places(&self) -> Vec<Place> {
        let keys = self.maps.settings.keys();
        keys.map(|key| Place::from_bytes(&key)).collect()
    }

    /// Back to defaults and what the device says; nothing to do where nothing
    /// was set.
    pub fn unset(&self, place: Place) -> Result<(), BpfError> {
        match self.maps.settings.delete(&place.to_bytes()) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.map_err(self.failed(SETTINGS, "written")),
        }
    }

    /// Every qdisc of this kind that is on a device now.
    pub fn instances(&self) -> Result<Vec<Instance>, BpfError> {
        let numbered = self.numbered()?;
        Ok(numbered.into_iter().map(|(_, instance)| instance).collect())
    }

    /// The one at a place.
    pub fn instance(&self, place: Place) -> Result<Option<Instance>, BpfError> {
        let all = self.instances()?;
        Ok(all.into_iter().find(|one| one.place() == place))
    }

    /// Begins to record what happens at a place, into a ring of `bytes`, a
    /// power of two and a multiple of the page size. Takes effect with the next
    /// packet that comes there; `None` where there is no such qdisc. A recorder
    /// takes the place of one that is there already.
    pub fn record(&self, place: Place, bytes: u32) -> Result<Option<Recorder<'_>>, BpfError> {
        let found = self.numbered()?;
        let Some((number, _)) = found.into_iter().find(|(_, one)| one.place() == place) else {
            return Ok(None);
        };
        let source = Source {
            kind: self.kind(),
            recorders: &self.maps.recorders,
            changes: &self.maps.changes,
            ring: number,
            number,
        };
        Recorder::begin(source, bytes).map(Some)
    }

    fn numbered(&self) -> Result<Vec<(u32, Instance)>, BpfError> {
        let mut all = Vec::new();
        for number in 0..self.maps.instances.max_entries() {
            let memory = self
                .maps
                .instances
                .lookup(&number.to_ne_bytes(), MapFlags::ANY)
                .map_err(self.failed(INSTANCES, "read"))?;
            let instance = memory.and_then(|memory| Instance::read(self.discipline, memory));
            all.extend(instance.map(|instance| (number, instance)));
        }
        Ok(all)
    }

    /// Tells the instance at a place, if there is one, that its settings are
    /// new.
    fn raise_at(&self, place: Place) -> Result<(), BpfError> {
        for (number, instance) in self.numbered()? {
            if instance.place() == place {
                self.raise(number)?;
            }
        }
        Ok(())
    }

    /// Tells an instance that its settings are new.
    pub(crate) fn raise(&self, number: u32) -> Result<(), BpfError> {
        raise(&self.kind(), &self.maps.changes, number)
    }

    pub(crate) fn failed(
        &self,
        map: &'static str,
        doing: &'static str,
    ) -> impl Fn(libbpf_rs::Error) -> BpfError + use<> {
        failed(&self.kind(), map, doing)
    }
}

fn kind(discipline: Discipline) -> String {
    format!("weir_{}", discipline.name())
}

/// Bytes of `struct aqm_settings`.
fn settings_bytes(discipline: Discipline) -> usize {
    size_of::<LinkFacts>() + 8 + 8 * discipline.params().len()
}

/// `struct aqm_settings`.
fn encode(setup: &Setup) -> Vec<u8> {
    let mut bytes = encode_link(&setup.link);
    bytes.extend(setup.gate_bytes_s.to_ne_bytes());
    for value in setup.settings.values() {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

/// `struct aqm_settings`, read.
fn decode(discipline: Discipline, bytes: &[u8]) -> Option<Setup> {
    let rest = bytes.get(size_of::<LinkFacts>()..)?;
    let words: Vec<u64> = rest
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    let (gate, values) = words.split_first()?;
    Some(Setup {
        settings: Settings::from_values(discipline, values)?,
        link: decode_link(bytes)?,
        gate_bytes_s: *gate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_size_that_the_program_has() {
        for discipline in Discipline::all() {
            let setup = Setup {
                settings: Settings::new(discipline),
                link: LinkFacts::default(),
                gate_bytes_s: 1,
            };
            assert_eq!(encode(&setup).len(), settings_bytes(discipline));
            assert_eq!(decode(discipline, &encode(&setup)), Some(setup));
        }
    }

    #[test]
    fn every_discipline_has_a_program() {
        for discipline in Discipline::all() {
            assert!(
                crate::programs::named(discipline.name()).is_some(),
                "{discipline:?}"
            );
        }
    }
}
