// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shaper with classes: one gate of the link's rate, and any discipline of
//! the kit as the queue of each class (`bpf/qdisc/shaper.bpf.c`).

mod layout;

use crate::error::BpfError;
use crate::maps::{failed, sized};
use crate::programs::tcx::Attached;
use crate::qdisc::attach_point::Place;
use crate::qdisc::instance::Instance;
use crate::qdisc::kind::{CHANGES, INSTANCES, RECORDERS, SETTINGS, load, open, pin, raise};
use crate::qdisc::marks::{self, Marks};
use crate::qdisc::recorder::{Recorder, Source};
use layout::{decode, encode, word};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use std::path::Path;
use std::sync::LazyLock;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings};

/// The most classes of a shaper (`SHAPER_CLASSES`).
pub const CLASSES: usize = 8;

/// The kind's name for netlink and tc.
const KIND: &str = "weir_shaper";

/// Bytes of `struct class_settings`: the rule, the kind, parameters.
const CLASS_BYTES: usize = RULE_BYTES + 8 + 8 * MOST_PARAMS;

/// Bytes of `struct shaper_rule`, and the words before its last.
const RULE_BYTES: usize = 40;
const RULE_WORDS: usize = RULE_BYTES / 8 - 1;

/// Parameters that a class has room for (`MOST_PARAMS`).
const MOST_PARAMS: usize = 32;

/// Bytes of `struct shaper_settings`.
const SETTINGS_BYTES: usize = size_of::<LinkFacts>() + 16 + CLASSES * CLASS_BYTES;

/// Offsets in `struct shaper_hosted`, and its size.
const COUNT_AT: usize = 88;
const KINDS_AT: usize = 1152;
const PLACE_AT: usize = KINDS_AT + 8 * CLASSES;
const USED_AT: usize = PLACE_AT + crate::qdisc::attach_point::BYTES;
const HOSTED_BYTES: usize = USED_AT + 16 + crate::qdisc::instance::LINE_BYTES + 8 * CLASSES + 16;

/// A class of traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Packets whose `skb->priority` is this are the class's own.
    pub classid: u32,
    /// What it has before others get any excess, in bytes a second on the wire;
    /// 0 for nothing.
    pub guarantee_bytes_s: u64,
    /// What it never exceeds, in bytes a second on the wire; 0 for the link.
    pub ceiling_bytes_s: u64,
    /// How far it may fall behind its guarantee and still get it, in
    /// nanoseconds; 0 for two packets.
    pub credit_ns: u64,
    /// Its share of the excess among classes of the same priority, from 1.
    pub weight: u64,
    /// 0, the most urgent, to 7.
    pub priority: u32,
    /// Its queue.
    pub settings: Settings,
}

/// How a shaper is to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// The link; what is 0 is taken from the device.
    pub link: LinkFacts,
    /// The rate of the gate, in bytes a second on the wire.
    pub gate_bytes_s: u64,
    /// One to eight classes.
    pub classes: Vec<Class>,
    /// The place in `classes` of the one for packets that name none.
    pub other: usize,
}

/// The kind of qdisc, loaded.
#[derive(Debug)]
pub struct Shaper {
    settings: MapHandle,
    instances: MapHandle,
    changes: MapHandle,
    recorders: MapHandle,
    /// One for each discipline, in the order of [`Discipline::all`].
    queues: Vec<(Discipline, MapHandle)>,
    marks: Marks,
    link: Link,
}

/// A shaper on a device, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShaperInstance {
    /// Where it is.
    pub place: Place,
    /// The queue of each class.
    pub classes: Vec<Instance>,
}

/// The maps that hold classes' queues (`QUEUES_MAP`, bpf/qdisc/shaper_maps.h), in
/// the order of [`Discipline::all`].
fn queue_maps() -> impl Iterator<Item = &'static str> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let all = Discipline::all().into_iter();
        all.map(|one| format!("queues_{}", one.name())).collect()
    });
    NAMES.iter().map(String::as_str)
}

pub(crate) fn maps() -> Vec<&'static str> {
    [SETTINGS, INSTANCES, CHANGES, RECORDERS]
        .into_iter()
        .chain(queue_maps())
        .chain(marks::MAPS)
        .collect()
}

impl Shaper {
    /// The kind's name for netlink and tc.
    pub const KIND: &'static str = KIND;

    /// Loads the shaper and registers its kind.
    pub fn load() -> Result<Self, BpfError> {
        let (maps, link) = load("shaper", KIND, &maps())?;
        Self::assemble(maps, link)
    }

    /// One that a process pinned in `folder`.
    pub fn pinned(folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = open(folder, &maps())?;
        Self::assemble(maps, link)
    }

    fn assemble(maps: Vec<MapHandle>, link: Link) -> Result<Self, BpfError> {
        let mut maps = maps.into_iter();
        let settings = sized(KIND, SETTINGS, SETTINGS_BYTES, maps.next())?;
        let instances = sized(KIND, INSTANCES, HOSTED_BYTES, maps.next())?;
        let changes = sized(KIND, CHANGES, 4, maps.next())?;
        let recorders = sized(KIND, RECORDERS, 4, maps.next())?;
        let mut queues = Vec::new();
        for (discipline, name) in Discipline::all().into_iter().zip(queue_maps()) {
            let map = sized(KIND, name, discipline.layout().size, maps.next())?;
            queues.push((discipline, map));
        }
        let marks = Marks::of(KIND, &mut maps)?;
        Ok(Self {
            settings,
            instances,
            changes,
            recorders,
            queues,
            marks,
            link,
        })
    }

    /// Keeps the kind beyond this process: pins in `folder`, which must be in
    /// a BPF file system and exist.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        let mut maps = vec![
            (SETTINGS, &mut self.settings),
            (INSTANCES, &mut self.instances),
            (CHANGES, &mut self.changes),
            (RECORDERS, &mut self.recorders),
        ];
        let own = self.queues.iter_mut().map(|(_, map)| map);
        maps.extend(queue_maps().zip(own));
        maps.extend(self.marks.named());
        pin(folder, &mut maps, &mut self.link)
    }

    /// The kind's name for netlink and tc.
    pub fn kind(&self) -> &'static str {
        KIND
    }

    /// States how the shaper at a place is to work: the one that is there, from
    /// its next packet on, or one still to come. A class that goes, or gets
    /// another discipline, loses what it had queued; nothing else is lost.
    pub fn set(&self, place: Place, classes: &Classes) -> Result<(), BpfError> {
        let there = self.setup(place)?;
        let bytes = encode(&arranged(there.as_ref(), classes))?;
        self.settings
            .update(&place.to_bytes(), &bytes, MapFlags::ANY)
            .map_err(failed(KIND, SETTINGS, "written"))?;
        self.raise_at(place)
    }

    /// Lets the classes of the shaper at a place mark packets, as
    /// [`Qdisc::mark`](crate::Qdisc::mark) does.
    pub fn mark(&self, place: Place) -> Result<Attached, BpfError> {
        let marker = self.marks.attach(place)?;
        self.raise_at(place)?;
        Ok(marker)
    }

    /// The shaper at a place marks no longer.
    pub fn unmark(&self, place: Place) -> Result<(), BpfError> {
        self.marks.forget(place)?;
        self.raise_at(place)
    }

    /// What became of marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Tells the shaper at a place, if there is one, that its settings are new.
    fn raise_at(&self, place: Place) -> Result<(), BpfError> {
        for (number, memory) in self.hosted()? {
            if Place::from_bytes(&memory[PLACE_AT..]) == place {
                raise(KIND, &self.changes, number)?;
            }
        }
        Ok(())
    }

    /// What was set for a place; `None` where nothing was. Classes are in the
    /// order of the kernel's, which is that of [`Shaper::instances`], and where
    /// one went that order may have a class 0 that no packet names.
    pub fn setup(&self, place: Place) -> Result<Option<Classes>, BpfError> {
        let bytes = self
            .settings
            .lookup(&place.to_bytes(), MapFlags::ANY)
            .map_err(failed(KIND, SETTINGS, "read"))?;
        Ok(bytes.and_then(|bytes| decode(&bytes)))
    }

    /// Every place for which something was set.
    pub fn places(&self) -> Vec<Place> {
        let keys = self.settings.keys();
        keys.map(|key| Place::from_bytes(&key)).collect()
    }

    /// Back to one class with the device's own rate, for a shaper to come.
    pub fn unset(&self, place: Place) -> Result<(), BpfError> {
        match self.settings.delete(&place.to_bytes()) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed(KIND, SETTINGS, "written")),
        }
    }

    /// Every shaper that is on a device now.
    pub fn instances(&self) -> Result<Vec<ShaperInstance>, BpfError> {
        let mut all = Vec::new();
        for (number, memory) in self.hosted()? {
            let place = Place::from_bytes(&memory[PLACE_AT..]);
            let count = word(&memory[COUNT_AT..]) as u32 as usize;
            let mut classes = Vec::new();
            for class in 0..count.min(CLASSES) {
                let kind = word(&memory[KINDS_AT + 8 * class..]);
                if let Some((discipline, map)) = self.queues.get(kind as usize) {
                    let key = number * CLASSES as u32 + class as u32;
                    let queue = map
                        .lookup(&key.to_ne_bytes(), MapFlags::ANY)
                        .map_err(failed(KIND, "queues", "read"))?;
                    let instance = |memory| Instance::of_class(*discipline, place, memory);
                    classes.extend(queue.map(instance));
                }
            }
            all.push(ShaperInstance { place, classes });
        }
        Ok(all)
    }

    /// The one at a place.
    pub fn instance(&self, place: Place) -> Result<Option<ShaperInstance>, BpfError> {
        Ok(self.instances()?.into_iter().find(|one| one.place == place))
    }

    /// Begins to record what happens in a class of the shaper at a place, as
    /// [`Qdisc::record`](crate::Qdisc::record) does; and which discipline it
    /// has. `None` where there is no such shaper or class. A class that gets
    /// another discipline, or goes, is recorded no further.
    pub fn record(
        &self,
        place: Place,
        classid: u32,
        bytes: u32,
    ) -> Result<Option<(Discipline, Recorder<'_>)>, BpfError> {
        let mut hosted = self.hosted()?.into_iter();
        let found = hosted.find(|(_, it)| Place::from_bytes(&it[PLACE_AT..]) == place);
        let (Some((number, _)), Some(setup)) = (found, self.setup(place)?) else {
            return Ok(None);
        };
        let mut classes = setup.classes.iter().zip(0_u32..);
        let Some((class, at)) = classes.find(|(class, _)| class.classid == classid) else {
            return Ok(None);
        };
        let source = Source {
            kind: KIND.to_owned(),
            recorders: &self.recorders,
            changes: &self.changes,
            ring: number * CLASSES as u32 + at,
            number,
        };
        let recorder = Recorder::begin(source, bytes)?;
        Ok(Some((class.settings.discipline(), recorder)))
    }

    /// Shapers in use, by number.
    fn hosted(&self) -> Result<Vec<(u32, Vec<u8>)>, BpfError> {
        let mut all = Vec::new();
        for number in 0..self.instances.max_entries() {
            let memory = self
                .instances
                .lookup(&number.to_ne_bytes(), MapFlags::ANY)
                .map_err(failed(KIND, INSTANCES, "read"))?;
            let used = memory.filter(|memory| memory[USED_AT..USED_AT + 4] != [0; 4]);
            all.extend(used.map(|memory| (number, memory)));
        }
        Ok(all)
    }
}

/// The same classes, each where it is already: its queue is there. Others take
/// places that are free; one that stays free before the last is a class that
/// has no number.
fn arranged(there: Option<&Classes>, wanted: &Classes) -> Classes {
    let at = |id: u32| {
        let classes = there.map_or(&[][..], |there| &there.classes);
        classes.iter().position(|class| class.classid == id)
    };
    let mut places: Vec<Option<&Class>> = vec![None; CLASSES.max(wanted.classes.len())];
    let (known, new): (Vec<&Class>, Vec<&Class>) = wanted
        .classes
        .iter()
        .partition(|class| at(class.classid).is_some());
    for class in known {
        if let Some(place) = at(class.classid) {
            places[place] = Some(class);
        }
    }
    for class in new {
        if let Some(free) = places.iter_mut().find(|place| place.is_none()) {
            *free = Some(class);
        }
    }
    let last = places.iter().rposition(Option::is_some).unwrap_or(0);
    places.truncate(last + 1);
    let none = || {
        Some(Class {
            classid: 0,
            guarantee_bytes_s: 0,
            ceiling_bytes_s: 0,
            credit_ns: 0,
            weight: 1,
            priority: 0,
            settings: Settings::new(*Discipline::all().first()?),
        })
    };
    let other = wanted.classes.get(wanted.other).map(|class| class.classid);
    let classes: Vec<Class> = places
        .into_iter()
        .filter_map(|place| place.cloned().or_else(none))
        .collect();
    let other = classes
        .iter()
        .position(|class| Some(class.classid) == other);
    Classes {
        other: other.unwrap_or(wanted.other),
        classes,
        ..wanted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_map() {
        let class = |(number, discipline): (u32, _)| Class {
            classid: 0x1_0010 + number,
            guarantee_bytes_s: 7 << 33,
            ceiling_bytes_s: 9,
            weight: 3,
            credit_ns: 11,
            priority: 5,
            settings: Settings::new(discipline),
        };
        let setup = Classes {
            link: LinkFacts {
                rate_bytes_s: 64_000,
                overhead_bytes: -4,
                framing: 1,
                ..LinkFacts::default()
            },
            gate_bytes_s: 63_000,
            classes: Vec::new(),
            other: 0,
        };
        let disciplines = Discipline::all();
        for some in disciplines.chunks(CLASSES) {
            let setup = Classes {
                classes: (0..).zip(some.iter().copied()).map(class).collect(),
                other: some.len() - 1,
                ..setup.clone()
            };
            assert_eq!(decode(&encode(&setup).expect("settings")), Some(setup));
        }
    }

    #[test]
    fn a_class_stays_where_its_queue_is() {
        let classes = |ids: &[u32], other| Classes {
            link: LinkFacts::default(),
            gate_bytes_s: 1,
            classes: ids
                .iter()
                .map(|id| Class {
                    classid: *id,
                    guarantee_bytes_s: 0,
                    ceiling_bytes_s: 0,
                    credit_ns: 0,
                    weight: 1,
                    priority: 0,
                    settings: Settings::new(Discipline::all()[0]),
                })
                .collect(),
            other,
        };
        let ids = |all: &Classes| -> Vec<u32> { all.classes.iter().map(|it| it.classid).collect() };
        let there = classes(&[7, 8, 9], 0);
        let next = arranged(Some(&there), &classes(&[9, 5, 7], 1));
        assert_eq!((ids(&next), next.other), (vec![7, 5, 9], 1));
        // A hole that nobody fills, and a class that fills it later.
        let next = arranged(Some(&there), &classes(&[9], 0));
        assert_eq!((ids(&next), next.other), (vec![0, 0, 9], 2));
        let next = arranged(Some(&next), &classes(&[9, 4], 0));
        assert_eq!((ids(&next), next.other), (vec![4, 0, 9], 2));
        assert_eq!(ids(&arranged(None, &there)), [7, 8, 9]);
    }

    #[test]
    fn every_discipline_has_room_for_its_parameters() {
        for discipline in Discipline::all() {
            assert!(discipline.params().len() <= MOST_PARAMS, "{discipline:?}");
        }
    }
}
