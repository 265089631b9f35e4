// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discipline in the kernel.

use crate::error::BpfError;
use crate::instance::{self, Instance};
use crate::place::Place;
use crate::{log, programs};
use libbpf_rs::{ErrorExt, Link, MapCore, MapFlags, MapHandle, ObjectBuilder};
use std::path::Path;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings};

/// A kind of qdisc that this process put into the kernel. When it is dropped
/// unpinned, the kind is gone once no device has such a qdisc any more.
#[derive(Debug)]
pub struct Qdisc {
    discipline: Discipline,
    maps: Maps,
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
}

/// Names of maps and of the link, in the program and as pins.
const SETTINGS: &str = "settings";
const INSTANCES: &str = "instances";
const CHANGES: &str = "changes";
const LINK: &str = "link";
const OPS: &str = "qdisc";

impl Qdisc {
    /// Loads a discipline and registers its kind. Needs root, and a kernel with
    /// `CONFIG_NET_SCH_BPF`.
    pub fn load(discipline: Discipline) -> Result<Self, BpfError> {
        let object = programs::named(discipline.name())
            .ok_or(BpfError::NoProgram(discipline.name()))?;
        let (loaded, log) = log::recorded(|| {
            let mut object = ObjectBuilder::default()
                .name(discipline.name())?
                .open_memory(object)?
                .load()?;
            let mut maps = Vec::new();
            for name in [SETTINGS, INSTANCES, CHANGES] {
                let map = object.maps().find(|map| map.name() == name);
                let map = map.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT));
                maps.push(MapHandle::try_from(&map.context(name)?)?);
            }
            let ops = object.maps_mut().find(|map| map.name() == OPS);
            let mut ops = ops.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))?;
            let link = ops.attach_struct_ops().context("registering the qdisc")?;
            Ok((maps, link))
        });
        let (maps, link) = loaded.map_err(|source: libbpf_rs::Error| BpfError::Refused {
            kind: kind(discipline),
            source,
            log,
        })?;
        Self::assemble(discipline, maps, link)
    }

    /// One that a process pinned in `folder`.
    pub fn pinned(discipline: Discipline, folder: &Path) -> Result<Self, BpfError> {
        let open = |name| {
            let path = folder.join(name);
            MapHandle::from_pinned_path(&path).map_err(|source| BpfError::Pin {
                path,
                doing: "opened",
                source,
            })
        };
        let maps = vec![open(SETTINGS)?, open(INSTANCES)?, open(CHANGES)?];
        let path = folder.join(LINK);
        let link = Link::open(&path).map_err(|source| BpfError::Pin {
            path,
            doing: "opened",
            source,
        })?;
        Self::assemble(discipline, maps, link)
    }

    fn assemble(discipline: Discipline, maps: Vec<MapHandle>, link: Link) -> Result<Self, BpfError> {
        let mut maps = maps.into_iter();
        let mut next = |map, expected| {
            let handle = maps.next().ok_or(BpfError::NoProgram(discipline.name()))?;
            if handle.value_size() != expected {
                return Err(BpfError::Layout {
                    kind: kind(discipline),
                    map,
                    found: handle.value_size(),
                    expected,
                });
            }
            Ok(handle)
        };
        let maps = Maps {
            settings: next(SETTINGS, settings_bytes(discipline) as u32)?,
            instances: next(INSTANCES, instance::bytes(discipline) as u32)?,
            changes: next(CHANGES, 4)?,
        };
        Ok(Self {
            discipline,
            maps,
            link,
        })
    }

    /// Keeps the kind beyond this process: pins in `folder`, which must be in
    /// a BPF file system and exist.
    pub fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        let failed = |path: &Path, source| BpfError::Pin {
            path: path.to_owned(),
            doing: "made",
            source,
        };
        let maps = &mut self.maps;
        for (name, map) in [
            (SETTINGS, &mut maps.settings),
            (INSTANCES, &mut maps.instances),
            (CHANGES, &mut maps.changes),
        ] {
            let path = folder.join(name);
            map.pin(&path).map_err(|source| failed(&path, source))?;
        }
        let path = folder.join(LINK);
        self.link.pin(&path).map_err(|source| failed(&path, source))
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
        for (number, instance) in self.numbered()? {
            if instance.place() == place {
                self.raise(number)?;
            }
        }
        Ok(())
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

    /// Tells an instance that its settings are new.
    fn raise(&self, number: u32) -> Result<(), BpfError> {
        let key = number.to_ne_bytes();
        let changes = &self.maps.changes;
        let count = changes
            .lookup(&key, MapFlags::ANY)
            .map_err(self.failed(CHANGES, "read"))?
            .and_then(|count| count.try_into().ok())
            .map_or(0, u32::from_ne_bytes);
        changes
            .update(&key, &count.wrapping_add(1).to_ne_bytes(), MapFlags::ANY)
            .map_err(self.failed(CHANGES, "written"))
    }

    fn failed(
        &self,
        map: &'static str,
        doing: &'static str,
    ) -> impl Fn(libbpf_rs::Error) -> BpfError + use<> {
        let kind = self.kind();
        move |source| BpfError::Map {
            kind: kind.clone(),
            map,
            doing,
            source,
        }
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
    let link = &setup.link;
    let mut bytes = link.rate_bytes_s.to_ne_bytes().to_vec();
    for word in [
        link.mtu_bytes,
        link.overhead_bytes.cast_unsigned(),
        link.mpu_bytes,
        link.framing,
        link.queue_packets,
        link.room_packets,
    ] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(setup.gate_bytes_s.to_ne_bytes());
    for value in setup.settings.values() {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
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
        }
    }

    #[test]
    fn every_discipline_has_a_program() {
        for discipline in Discipline::all() {
            assert!(programs::named(discipline.name()).is_some(), "{discipline:?}");
        }
    }
}
