// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shaper with classes: one gate of the link's rate, and any discipline of
//! the kit as the queue of each class (`bpf/qdisc/shaper.bpf.c`).

mod kit;
mod settings;

use crate::error::BpfError;
use crate::layout::{SHAPER_CLASSES, shaper_hosted, shaper_settings};
use crate::maps::{Map, Named, Tailed};
use crate::qdisc::attach_point::Place;
use crate::qdisc::instance::Instance;
use crate::qdisc::kind::{self, Host, Hosted, Kind};
use crate::qdisc::load::{load, open};
use crate::qdisc::recorder::Recorder;
use libbpf_rs::{Link, MapHandle};
use std::path::Path;
use std::sync::LazyLock;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings, ShaperRule};

/// The most classes of a shaper.
pub const CLASSES: usize = SHAPER_CLASSES as usize;

/// A class of traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its place behind the gate. Packets whose `skb->priority` is its `classid` are
    /// its own.
    pub rule: ShaperRule,
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
    /// One to eight classes. Those of [`Shaper::setup`] are in the kernel's order,
    /// which is that of [`Shaper::instances`]. Where one went, that order may have
    /// a class 0, which no packet names.
    pub classes: Vec<Class>,
    /// The place in `classes` of the one for packets that name none.
    pub other: usize,
}

impl Classes {
    /// Whether any of them marks packets.
    pub fn mark(&self) -> bool {
        self.classes.iter().any(|class| class.settings.marks())
    }
}

/// The shaper's kind of qdisc.
pub type Shaper = Kind<Queues>;

/// The maps of classes' queues: one for each discipline, by its number.
#[derive(Debug)]
pub struct Queues(Vec<(Discipline, Map<u32, Tailed<()>>)>);

/// A shaper on a device, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShaperInstance {
    /// Where it is.
    pub place: Place,
    /// The queue of each class.
    pub classes: Vec<Instance>,
}

/// The names of maps that hold classes' queues (`QUEUES_MAP`,
/// bpf/qdisc/shaper_maps.h), in the order of [`Discipline::all`].
fn queue_maps() -> impl Iterator<Item = &'static str> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let all = Discipline::all().into_iter();
        all.map(|one| format!("queues_{}", one.name())).collect()
    });
    NAMES.iter().map(String::as_str)
}

/// All maps, in the order in which they are loaded and opened.
pub(crate) fn maps() -> Vec<&'static str> {
    kind::maps(queue_maps())
}

impl Shaper {
    /// The kind's name for netlink and tc.
    pub const KIND: &'static str = "weir_shaper";

    /// Loads the shaper and registers its kind.
    pub fn load() -> Result<Self, BpfError> {
        let (maps, link) = load("shaper", Self::KIND, &maps())?;
        Self::of(maps, link)
    }

    /// One that a process pinned in `folder`.
    pub fn pinned(folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = open(folder, &maps())?;
        Self::of(maps, link)
    }

    fn of(maps: Vec<MapHandle>, link: Link) -> Result<Self, BpfError> {
        let mut maps = maps.into_iter();
        let queues = Discipline::all().into_iter().zip(queue_maps());
        let map = |(discipline, name): (Discipline, _)| {
            let size = discipline.layout().size;
            let map = Map::with_tail(Self::KIND, name, size, maps.next())?;
            Ok((discipline, map))
        };
        let queues: Result<_, BpfError> = queues.map(map).collect();
        Self::assemble(Self::KIND, Queues(queues?), (0, 0), maps, link)
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
        let (Some(number), Some(setup)) = (self.number(place)?, self.setup(place)?) else {
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
        before: Option<&Classes>,
    ) -> Result<shaper_settings, BpfError> {
        settings::encode(&settings::arranged(before, setup))
    }

    fn decode(&self, settings: &shaper_settings) -> Option<Classes> {
        settings::decode(settings)
    }

    fn instance(&self, number: u32, hosted: shaper_hosted) -> Result<ShaperInstance, BpfError> {
        let place = hosted.place;
        let mut classes = Vec::new();
        let kinds = (0_u32..).zip(hosted.kinds);
        for (class, kind) in kinds.take(hosted.shaper.classes as usize) {
            if let Some((discipline, map)) = self.0.get(kind as usize) {
                let queue = map.get(&(number * SHAPER_CLASSES + class))?;
                classes.extend(queue.map(|queue| Instance::new(*discipline, place, queue.tail)));
            }
        }
        Ok(ShaperInstance { place, classes })
    }

    fn maps(&mut self) -> Vec<Named<'_>> {
        self.0.iter_mut().map(|(_, map)| map.handle()).collect()
    }
}

impl Hosted for shaper_hosted {
    fn place(&self) -> Option<Place> {
        (self.used != 0).then_some(self.place)
    }
}
