// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code shared by all kinds of BPF qdisc.

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

/// The names of maps, in programs and as pins.
pub(crate) const SETTINGS: &str = "settings";
pub(crate) const INSTANCES: &str = "instances";
pub(crate) const CHANGES: &str = "changes";
pub(crate) const RECORDERS: &str = "recorders";

/// A qdisc kind that this process registered. If it is dropped without being pinned, the kernel
/// removes the kind once no device uses it.
#[derive(Debug)]
pub struct Kind<H: Host> {
    name: String,
    pub(crate) host: H,
    settings: Map<AttachPoint, H::Settings>,
    instances: Map<u32, H::Hosted>,
    /// The number of changes of each instance's settings.
    changes: Map<u32, u32>,
    /// Descriptors of ring buffers.
    recorders: Map<u32, i32>,
    marks: Marks,
    link: Link,
}

/// The differences between kinds of qdisc.
pub trait Host: Debug {
    /// The configuration of a qdisc.
    type Setup;
    /// The configuration in the form of the map.
    type Settings: Value + Debug;
    /// A copy of a qdisc's state.
    type Instance;
    /// That state in the form of the map.
    type Hosted: Hosted + Debug;

    /// Converts a configuration to the form of the map, based on the former value.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind cannot implement the configuration.
    fn encode(
        &self,
        setup: &Self::Setup,
        before: Option<&Self::Settings>,
    ) -> Result<Self::Settings, BpfError>;

    /// Converts a value of the map. Returns `None` if [`Host::encode`] cannot have produced it.
    fn decode(&self, settings: &Self::Settings) -> Option<Self::Setup>;

    /// Returns a copy of the qdisc with this number.
    ///
    /// # Errors
    ///
    /// Returns an error if a map cannot be read.
    fn instance(&self, number: u32, hosted: Self::Hosted) -> Result<Self::Instance, BpfError>;

    /// Returns whether an instance belongs to this kind: kinds may share maps.
    fn is_own(&self, _: &Self::Hosted) -> bool {
        true
    }

    /// Returns the maps that only this kind has.
    fn maps(&mut self) -> Vec<Named<'_>> {
        Vec::new()
    }
}

/// An instance in a map.
pub trait Hosted: Value {
    /// Returns the attach point; `None` if no qdisc uses the instance.
    fn point(&self) -> Option<AttachPoint>;
}

/// Returns the names of all maps of a kind, with `own` first, in the order in which they are
/// loaded and opened.
pub(crate) fn maps(own: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let common = [SETTINGS, INSTANCES, CHANGES, RECORDERS];
    let own = own.into_iter();
    own.chain(common).chain(marks::MAPS).collect()
}

impl<H: Host> Kind<H> {
    /// Makes the kind of this name from its parts. `tails` are the additional bytes of settings
    /// and instances beyond their fixed part.
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

    /// Pins the kind in `folder`, which must exist in a BPF file system, so that it outlives
    /// this process.
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

    /// Returns the name of the kind for netlink and tc.
    pub fn kind(&self) -> &str {
        &self.name
    }

    /// Configures the qdisc at an attach point: an existing one from its next packet on, or a
    /// future one. Only packets of a class that is removed or gets another discipline are lost.
    pub fn set(&self, point: AttachPoint, setup: &H::Setup) -> Result<(), BpfError> {
        self.prepare(point, setup)?;
        self.raise_at(point)
    }

    /// Configures a future qdisc without disturbing the one that it replaces.
    pub fn prepare(&self, point: AttachPoint, setup: &H::Setup) -> Result<(), BpfError> {
        let before = self.settings.get(&point)?;
        let settings = self.host.encode(setup, before.as_ref())?;
        self.settings.put(&point, &settings)
    }

    /// Returns the configuration for an attach point, if there is one.
    pub fn setup(&self, point: AttachPoint) -> Result<Option<H::Setup>, BpfError> {
        let settings = self.settings.get(&point)?;
        Ok(settings.and_then(|settings| self.host.decode(&settings)))
    }

    /// Returns all attach points that are configured.
    pub fn points(&self) -> Vec<AttachPoint> {
        self.settings.keys().collect()
    }

    /// Removes the configuration of an attach point, if any, so that defaults and the device's
    /// properties apply.
    pub fn unset(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.settings.remove(&point)
    }

    /// Lets the qdisc at an attach point mark packets, by a program at egress of its device. The
    /// device must be in the network namespace of this thread. Dropping the returned value ends
    /// marking; without it, disciplines are told that no packet can be marked.
    pub fn mark(&self, point: AttachPoint) -> Result<Attached, BpfError> {
        let marker = self.marks.attach(point)?;
        self.raise_at(point)?;
        Ok(marker)
    }

    /// Stops marking at an attach point.
    pub fn unmark(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.marks.forget(point)?;
        self.raise_at(point)
    }

    /// Returns the maps with the counts of marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns every qdisc of this kind that is on a device now.
    pub fn instances(&self) -> Result<Vec<H::Instance>, BpfError> {
        let own = self.numbered()?.into_iter();
        let own = own.filter(|(_, hosted)| self.host.is_own(hosted));
        let read = |(number, hosted)| self.host.instance(number, hosted);
        own.map(read).collect()
    }

    /// Returns the qdisc at an attach point.
    pub fn instance(&self, point: AttachPoint) -> Result<Option<H::Instance>, BpfError> {
        let found = self.at(point)?.into_iter().next();
        let read = |(number, hosted)| self.host.instance(number, hosted);
        found.map(read).transpose()
    }

    /// Returns whether a device has or is configured to have a qdisc that uses these maps.
    pub fn is_used(&self) -> Result<bool, BpfError> {
        Ok(!self.points().is_empty() || !self.numbered()?.is_empty())
    }

    /// Returns whether a device has a qdisc of exactly this kind.
    pub(crate) fn is_of_a_device(&self) -> Result<bool, BpfError> {
        let mut used = self.numbered()?.into_iter();
        Ok(used.any(|(_, hosted)| self.host.is_own(&hosted)))
    }

    /// Returns the number of the qdisc at an attach point.
    pub(crate) fn number(&self, point: AttachPoint) -> Result<Option<u32>, BpfError> {
        Ok(self.at(point)?.first().map(|(number, _)| *number))
    }

    /// Starts recording qdisc `number` into a ring buffer of `bytes`, stored at index `ring`.
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

    /// Returns the instances in use with their numbers.
    fn numbered(&self) -> Result<Vec<(u32, H::Hosted)>, BpfError> {
        let mut all = Vec::new();
        for number in 0..self.instances.capacity() {
            let hosted = self.instances.get(&number)?;
            let used = hosted.filter(|hosted| hosted.point().is_some());
            all.extend(used.map(|hosted| (number, hosted)));
        }
        Ok(all)
    }

    /// Returns the instances at an attach point. There are two while one replaces the other.
    fn at(&self, point: AttachPoint) -> Result<Vec<(u32, H::Hosted)>, BpfError> {
        let mut all = self.numbered()?;
        all.retain(|(_, hosted)| hosted.point() == Some(point));
        Ok(all)
    }

    /// Notifies the qdisc at an attach point, if any, of new settings.
    fn raise_at(&self, point: AttachPoint) -> Result<(), BpfError> {
        let mut all = self.at(point)?.into_iter();
        all.try_for_each(|(number, _)| raise(&self.changes, number))
    }
}

/// Notifies an instance of new settings.
pub(crate) fn raise(changes: &Map<u32, u32>, number: u32) -> Result<(), BpfError> {
    let count = changes.get_or_zero(&number)?;
    changes.put(&number, &count.wrapping_add(1))
}
