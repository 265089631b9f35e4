// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shaper with classes: one rate limit for the link, and a discipline of the kit as the
//! queue of each class (`bpf/qdisc/shaper.bpf.c`).

mod kit;
pub(crate) mod own;
mod settings;

use crate::error::BpfError;
use crate::layout::{SHAPER_CLASSES, shaper_hosted, shaper_settings};
use crate::maps::{Map, Named, Tailed};
use crate::programs;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::instance::Instance;
use crate::qdisc::kind::{self, Host, Hosted, Kind};
use crate::qdisc::load::{Shared, load_sharing, open};
use crate::qdisc::recorder::Recorder;
use libbpf_rs::{Link, MapHandle};
use std::iter;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use weirgate_aqm::{Discipline, Link as LinkFacts, SLOT_BYTES, Settings, ShaperRule};
use weirgate_state::{CakeAckFilter, Kit, KitProgram};

/// The object file of the program.
const FILE: &str = "shaper";

/// The map of the queued packets of all classes.
const PACKETS: &str = "packets";

/// The size of its values: a slot and the kernel's pointer (`struct queued_skb`).
const PACKET_BYTES: usize = SLOT_BYTES + size_of::<u64>();

/// The largest number of classes of a shaper.
pub const CLASSES: usize = SHAPER_CLASSES as usize;

/// A traffic class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its rates and priority. A packet belongs to the class if its `skb->priority` equals
    /// `classid`.
    pub rule: ShaperRule,
    /// The discipline of its queue, with parameters.
    pub settings: Settings,
}

/// The configuration of a shaper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// The link; fields that are 0 are taken from the device.
    pub link: LinkFacts,
    /// The rate of the shaper in bytes a second on the wire.
    pub gate_bytes_s: u64,
    /// Which acknowledgements that wait are dropped, in all classes.
    pub acks: CakeAckFilter,
    /// One to eight classes. [`Shaper::setup`] returns them in the kernel's order, which is also
    /// that of [`Shaper::instances`]. A removed class can leave an entry with class identifier
    /// 0, which no packet matches.
    pub classes: Vec<Class>,
    /// The index in `classes` of the default class.
    pub other: usize,
}

impl Classes {
    /// Returns whether any class applies ECN marks.
    pub fn mark(&self) -> bool {
        self.classes.iter().any(|class| class.settings.marks())
    }
}

/// The qdisc kind of the shaper.
pub type Shaper = Kind<Queues>;

/// The maps with the queues of classes: the packets, one map for each discipline of the kit, and
/// one for a user's discipline.
#[derive(Debug)]
pub struct Queues {
    /// Only programs use its contents: a replacement continues with the same backlog.
    packets: Map<u32, Tailed<()>>,
    maps: Vec<(Discipline, Map<u32, Tailed<()>>)>,
    own: Option<Discipline>,
}

/// A copy of the state of a shaper on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShaperInstance {
    /// The attach point.
    pub point: AttachPoint,
    /// The queue of each class.
    pub classes: Vec<Instance>,
}

/// Returns the names of the maps with the queues of classes (`QUEUES_MAP`,
/// bpf/qdisc/shaper/maps.h), in the order of [`Discipline::all`].
fn queue_maps() -> impl Iterator<Item = &'static str> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let all = Discipline::all().into_iter();
        all.map(|one| format!("queues_{}", one.name())).collect()
    });
    NAMES.iter().map(String::as_str)
}

/// Returns the name of the map for a user's discipline.
fn own_queue_map(own: Discipline) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let name = format!("queues_{}", own.name());
    let Ok(mut names) = NAMES.lock() else {
        return "queues";
    };
    if let Some(known) = names.iter().find(|known| **known == name) {
        return known;
    }
    let name: &'static str = name.leak();
    names.push(name);
    name
}

/// Returns all maps of the program, with `own` in addition to the disciplines of the kit, in the
/// order in which they are loaded and opened.
pub(crate) fn maps(own: Option<Discipline>) -> Vec<&'static str> {
    let queues = queue_maps().chain(own.map(own_queue_map));
    kind::maps(iter::once(PACKETS).chain(queues))
}

/// Returns the qdisc kind of the program that includes `own`.
pub(crate) fn kind_of(own: Option<Discipline>) -> String {
    own.map_or_else(|| Shaper::KIND.to_owned(), |own| program_of(own).kind)
}

/// Returns that program in the form of a state.
fn program_of(own: Discipline) -> KitProgram {
    KitProgram::new(own.name(), own.shaper_number())
}

impl Shaper {
    /// The name of the kind for netlink and tc.
    pub const KIND: &'static str = Kit::KIND;

    /// Returns whether a qdisc kind is a shaper, with or without a user's discipline.
    pub fn is_kind(kind: &str) -> bool {
        Kit::is_kind(kind)
    }

    /// Loads the shaper and registers its kind.
    pub fn load() -> Result<Self, BpfError> {
        Self::load_with(None, &Vec::new())
    }

    /// Loads the shaper with a user's discipline, and with maps that another program of the
    /// shaper already has.
    pub fn load_with(own: Option<Discipline>, shared: &Shared) -> Result<Self, BpfError> {
        let kind = kind_of(own);
        let of_kit;
        let object = if let Some(own) = own {
            let program = own.shaper_program();
            program.ok_or(BpfError::NoProgram(own.name()))?
        } else {
            of_kit = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
            &*of_kit
        };
        let kinds = (Self::KIND, kind.as_str());
        let (maps, link) = load_sharing(FILE, object, kinds, &maps(own), shared)?;
        Self::of(own, maps, link)
    }

    /// Opens the shaper that a process pinned in `folder`, with `own` in addition to the
    /// disciplines of the kit.
    pub fn pinned(own: Option<Discipline>, folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = open(folder, &maps(own))?;
        Self::of(own, maps, link)
    }

    fn of(own: Option<Discipline>, maps: Vec<MapHandle>, link: Link) -> Result<Self, BpfError> {
        let kind = kind_of(own);
        let mut maps = maps.into_iter();
        let packets = Map::with_tail(&kind, PACKETS, PACKET_BYTES, maps.next())?;
        let queues = Discipline::all().into_iter().zip(queue_maps());
        let queues = queues.chain(own.map(|own| (own, own_queue_map(own))));
        let map = |(discipline, name): (Discipline, _)| {
            let size = discipline.layout().size;
            let map = Map::with_tail(&kind, name, size, maps.next())?;
            Ok((discipline, map))
        };
        let queues: Result<_, BpfError> = queues.map(map).collect();
        let queues = Queues {
            packets,
            maps: queues?,
            own,
        };
        Self::assemble(&kind, queues, (0, 0), maps, link)
    }

    /// Returns the user's discipline that the program includes.
    pub fn own(&self) -> Option<Discipline> {
        self.host.own
    }

    /// Starts recording a class of the shaper at an attach point, as
    /// [`Qdisc::record`](crate::Qdisc::record) does; also returns the class's discipline.
    /// Returns `None` if there is no such shaper or class. Recording stops if the class gets
    /// another discipline or is removed.
    pub fn record(
        &self,
        point: AttachPoint,
        classid: u32,
        bytes: u32,
    ) -> Result<Option<(Discipline, Recorder<'_>)>, BpfError> {
        let (Some(number), Some(setup)) = (self.number(point)?, self.setup(point)?) else {
            return Ok(None);
        };
        let mut classes = setup.classes.iter().zip(0_u32..);
        let Some((class, at)) = classes.find(|(class, _)| class.rule.classid == classid) else {
            return Ok(None);
        };
        let recorder = self.recorder(number, number * SHAPER_CLASSES + at, bytes)?;
        Ok(Some((class.settings.discipline(), recorder)))
    }
}

impl Host for Queues {
    type Setup = Classes;
    type Settings = shaper_settings;
    type Instance = ShaperInstance;
    type Hosted = shaper_hosted;

    fn encode(
        &self,
        setup: &Classes,
        before: Option<&shaper_settings>,
    ) -> Result<shaper_settings, BpfError> {
        let there = before.map_or_else(Vec::new, settings::ids);
        settings::encode(&settings::arranged(&there, setup), self.own)
    }

    fn decode(&self, settings: &shaper_settings) -> Option<Classes> {
        settings::decode(settings, self.own)
    }

    fn instance(&self, number: u32, hosted: shaper_hosted) -> Result<ShaperInstance, BpfError> {
        let point = hosted.point;
        let mut classes = Vec::new();
        let kinds = (0_u32..).zip(hosted.kinds);
        for (class, kind) in kinds.take(hosted.shaper.classes as usize) {
            let mut maps = self.maps.iter().zip(0_u64..);
            let found = maps.find(|((one, _), at)| {
                kind == if Some(*one) == self.own {
                    one.leaf_number()
                } else {
                    *at
                }
            });
            if let Some(((discipline, map), _)) = found {
                let queue = map.get(&(number * SHAPER_CLASSES + class))?;
                classes.extend(queue.map(|queue| Instance::new(*discipline, point, queue.tail)));
            }
        }
        Ok(ShaperInstance { point, classes })
    }

    fn is_own(&self, hosted: &shaper_hosted) -> bool {
        hosted.program == self.own.map_or(0, Discipline::shaper_number)
    }

    fn maps(&mut self) -> Vec<Named<'_>> {
        let queues = self.maps.iter_mut().map(|(_, map)| map.handle());
        iter::once(self.packets.handle()).chain(queues).collect()
    }
}

impl Hosted for shaper_hosted {
    fn point(&self) -> Option<AttachPoint> {
        (self.used != 0).then_some(self.point)
    }
}
