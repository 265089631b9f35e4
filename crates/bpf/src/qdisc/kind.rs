// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code of all kinds of BPF qdisc.

use crate::error::BpfError;
use crate::maps::{Map, Named, Value};
use crate::programs::tcx::Attached;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::load::pin;
use crate::qdisc::marks::{self, Marks};
use crate::qdisc::recorder::{Recorder, Source};
use libbpf_rs::{Link, MapHandle};
use std::fmt::Debug;
use std::path::Path;

/// Names of maps, in programs and as pins.
pub(crate) const SETTINGS: &str = "settings";
pub(crate) const INSTANCES: &str = "instances";
pub(crate) const CHANGES: &str = "changes";
pub(crate) const RECORDERS: &str = "recorders";

/// A kind of qdisc that this process put into the kernel. When it is dropped unpinned, the kind is
/// removed once no device has such a qdisc.
#[derive(Debug)]
pub struct Kind<H: Host> {
    name: String,
    pub(crate) host: H,
    settings: Map<AttachPoint, H::Settings>,
    instances: Map<u32, H::Hosted>,
    /// How often the settings of an instance have changed.
    changes: Map<u32, u32>,
    /// Descriptors of rings.
    recorders: Map<u32, i32>,
    marks: Marks,
    link: Link,
}

/// What kinds of qdisc differ in.
pub trait Host: Debug {
    /// How a qdisc is to work.
    type Setup;
    /// The same as the map has it.
    type Settings: Value + Debug;
    /// A qdisc as it was when it was read.
    type Instance;
    /// The same as the map has it.
    type Hosted: Hosted + Debug;

    /// What the map is to have, in place of what was set before.
    ///
    /// # Errors
    ///
    /// Occurs where the kind cannot work so.
    fn encode(
        &self,
        setup: &Self::Setup,
        before: Option<&Self::Settings>,
    ) -> Result<Self::Settings, BpfError>;

    /// What the map has, read; `None` where [`Host::encode`] could not have made it.
    fn decode(&self, settings: &Self::Settings) -> Option<Self::Setup>;

    /// The qdisc of this number.
    ///
    /// # Errors
    ///
    /// Occurs where a map cannot be read.
    fn instance(&self, number: u32, hosted: Self::Hosted) -> Result<Self::Instance, BpfError>;

    /// Whether an instance is of this kind: kinds may share their maps.
    fn is_own(&self, _: &Self::Hosted) -> bool {
        true
    }

    /// The maps that only this kind has.
    fn maps(&mut self) -> Vec<Named<'_>> {
        Vec::new()
    }
}

/// An instance in a map.
pub trait Hosted: Value {
    /// Where it is; `None` where no qdisc uses it.
    fn point(&self) -> Option<AttachPoint>;
}

/// The names of all maps of a kind that has these of its own, in the order in which
/// they are loaded and opened.
pub(crate) fn maps(own: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let common = [SETTINGS, INSTANCES, CHANGES, RECORDERS];
    let own = own.into_iter();
    own.chain(common).chain(marks::MAPS).collect()
}

impl<H: Host> Kind<H> {
    /// The kind of this name. `tails` is how many bytes settings and instances have
    /// beyond the least.
    pub(crate) fn assemble(
        name: &str,
        host: H,
        tails: (usize, usize),
        mut maps: impl Iterator<Item = MapHandle>,
        link: Link,
    ) -> Result<Self, BpfError> {
        Ok(Self {
            name: name.to_owned(),
            host,
            settings: Map::with_tail(name, SETTINGS, tails.0, maps.next())?,
            instances: Map::with_tail(name, INSTANCES, tails.1, maps.next())?,
            changes: Map::of(name, CHANGES, maps.next())?,
            recorders: Map::of(name, RECORDERS, maps.next())?,
            marks: Marks::of(name, &mut maps)?,
            link,
        })
    }

    /// Keeps the kind beyond this process: pins in `folder`, which must be in
    /// a BPF file system and exist.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        let mut maps = self.host.maps();
        maps.extend([
            self.settings.handle(),
            self.instances.handle(),
            self.changes.handle(),
            self.recorders.handle(),
        ]);
        maps.extend(self.marks.named());
        pin(folder, &mut maps, &mut self.link)
    }

    /// The kind's name for netlink and tc.
    pub fn kind(&self) -> &str {
        &self.name
    }

    /// States how the qdisc at an attach point is to work: the one that is there, from
    /// its next packet on, or one still to come. No packet is lost, but those of a
    /// class that goes or gets another discipline.
    pub fn set(&self, point: AttachPoint, setup: &H::Setup) -> Result<(), BpfError> {
        self.prepare(point, setup)?;
        self.raise_at(point)
    }

    /// The same of a qdisc still to come, where another stands: that one goes on as it is.
    pub fn prepare(&self, point: AttachPoint, setup: &H::Setup) -> Result<(), BpfError> {
        let before = self.settings.get(&point)?;
        let settings = self.host.encode(setup, before.as_ref())?;
        self.settings.put(&point, &settings)
    }

    /// What was set for an attach point; `None` where nothing was.
    pub fn setup(&self, point: AttachPoint) -> Result<Option<H::Setup>, BpfError> {
        let settings = self.settings.get(&point)?;
        Ok(settings.and_then(|settings| self.host.decode(&settings)))
    }

    /// Every attach point for which something was set.
    pub fn points(&self) -> Vec<AttachPoint> {
        self.settings.keys().collect()
    }

    /// Back to defaults and what the device says; nothing to do where nothing
    /// was set.
    pub fn unset(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.settings.remove(&point)
    }

    /// Lets the qdisc at an attach point mark packets, which needs a program at egress
    /// of its device; the device is in the network namespace of this thread.
    /// Dropping the returned value ends marks. Without marks, disciplines learn that nothing can be
    /// marked.
    pub fn mark(&self, point: AttachPoint) -> Result<Attached, BpfError> {
        let marker = self.marks.attach(point)?;
        self.raise_at(point)?;
        Ok(marker)
    }

    /// The qdisc at an attach point marks no longer.
    pub fn unmark(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.marks.forget(point)?;
        self.raise_at(point)
    }

    /// What became of marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Every qdisc of this kind that is on a device now.
    pub fn instances(&self) -> Result<Vec<H::Instance>, BpfError> {
        let own = self.numbered()?.into_iter();
        let own = own.filter(|(_, hosted)| self.host.is_own(hosted));
        let read = |(number, hosted)| self.host.instance(number, hosted);
        own.map(read).collect()
    }

    /// The one at an attach point.
    pub fn instance(&self, point: AttachPoint) -> Result<Option<H::Instance>, BpfError> {
        let found = self.at(point)?.into_iter().next();
        let read = |(number, hosted)| self.host.instance(number, hosted);
        found.map(read).transpose()
    }

    /// Whether a device has such a qdisc, or is meant to.
    pub fn is_used(&self) -> Result<bool, BpfError> {
        Ok(!self.points().is_empty() || !self.numbered()?.is_empty())
    }

    /// Whether a device has a qdisc of this very kind.
    pub(crate) fn is_of_a_device(&self) -> Result<bool, BpfError> {
        let mut used = self.numbered()?.into_iter();
        Ok(used.any(|(_, hosted)| self.host.is_own(&hosted)))
    }

    /// The number of the qdisc at an attach point.
    pub(crate) fn number(&self, point: AttachPoint) -> Result<Option<u32>, BpfError> {
        Ok(self.at(point)?.first().map(|(number, _)| *number))
    }

    /// Begins to record the qdisc of a number into a ring of `bytes`, which has a
    /// number of its own.
    pub(crate) fn recorder(
        &self,
        number: u32,
        ring: u32,
        bytes: u32,
    ) -> Result<Recorder<'_>, BpfError> {
        let source = Source {
            recorders: &self.recorders,
            changes: &self.changes,
            ring,
            number,
        };
        Recorder::begin(source, bytes)
    }

    /// Those that are in use, by number.
    fn numbered(&self) -> Result<Vec<(u32, H::Hosted)>, BpfError> {
        let mut all = Vec::new();
        for number in 0..self.instances.capacity() {
            let hosted = self.instances.get(&number)?;
            let used = hosted.filter(|hosted| hosted.point().is_some());
            all.extend(used.map(|hosted| (number, hosted)));
        }
        Ok(all)
    }

    /// Those at an attach point: while one takes another's place, there are two.
    fn at(&self, point: AttachPoint) -> Result<Vec<(u32, H::Hosted)>, BpfError> {
        let mut all = self.numbered()?;
        all.retain(|(_, hosted)| hosted.point() == Some(point));
        Ok(all)
    }

    /// Tells the qdisc at an attach point, if there is one, that its settings are new.
    fn raise_at(&self, point: AttachPoint) -> Result<(), BpfError> {
        let mut all = self.at(point)?.into_iter();
        all.try_for_each(|(number, _)| raise(&self.changes, number))
    }
}

/// Tells an instance that its settings are new.
pub(crate) fn raise(changes: &Map<u32, u32>, number: u32) -> Result<(), BpfError> {
    let count = changes.get_or_zero(&number)?;
    changes.put(&number, &count.wrapping_add(1))
}
