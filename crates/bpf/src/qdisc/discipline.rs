// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines as kinds of BPF qdisc.

use crate::error::BpfError;
use crate::layout::{aqm_hosted_head, aqm_settings_head};
use crate::maps::Tailed;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::instance::Instance;
use crate::qdisc::kind::{self, Host, Hosted, Kind};
use crate::qdisc::load::{load, load_object, open};
use crate::qdisc::recorder::Recorder;
use libbpf_rs::{Link, MapHandle};
use std::path::Path;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings};

/// The qdisc kind of a discipline.
pub type Qdisc = Kind<Discipline>;

/// The configuration of the qdisc at an attach point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The parameters of the discipline.
    pub settings: Settings,
    /// The link; fields that are 0 are taken from the device.
    pub link: LinkFacts,
    /// The rate of the shaper in bytes a second on the wire. 0 means no shaping: the device
    /// itself exerts back-pressure.
    pub gate_bytes_s: u64,
}

impl Qdisc {
    /// Loads a discipline and registers its qdisc kind. Needs root and a kernel with
    /// `CONFIG_NET_SCH_BPF`.
    pub fn load(discipline: Discipline) -> Result<Self, BpfError> {
        let (name, kind) = (discipline.name(), kind_name(discipline));
        let (maps, link) = match discipline.program() {
            Some(own) => load_object(name, own, &kind, &maps())?,
            None => load(name, &kind, &maps())?,
        };
        Self::of(discipline, maps, link)
    }

    /// Opens the kind that a process pinned in `folder`.
    pub fn pinned(discipline: Discipline, folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = open(folder, &maps())?;
        Self::of(discipline, maps, link)
    }

    fn of(discipline: Discipline, maps: Vec<MapHandle>, link: Link) -> Result<Self, BpfError> {
        let layout = discipline.layout();
        let tails = (layout.params.len(), layout.size);
        Self::assemble(
            &kind_name(discipline),
            discipline,
            tails,
            maps.into_iter(),
            link,
        )
    }

    /// Returns the discipline.
    pub fn discipline(&self) -> Discipline {
        self.host
    }

    /// Starts recording at an attach point into a ring buffer of `bytes`, which must be a power
    /// of two and a multiple of the page size. Recording starts with the next packet and
    /// replaces an earlier recorder. Returns `None` if the attach point has no such qdisc.
    pub fn record(&self, point: AttachPoint, bytes: u32) -> Result<Option<Recorder<'_>>, BpfError> {
        let number = self.number(point)?;
        let record = |number| self.recorder(number, number, bytes);
        number.map(record).transpose()
    }
}

impl Host for Discipline {
    type Setup = Setup;
    type Settings = Tailed<aqm_settings_head>;
    type Instance = Instance;
    type Hosted = Tailed<aqm_hosted_head>;

    fn encode(
        &self,
        setup: &Setup,
        _: Option<&Self::Settings>,
    ) -> Result<Self::Settings, BpfError> {
        let given = setup.settings.discipline();
        if given != *self {
            return Err(BpfError::Other {
                kind: kind_name(*self),
                given: given.name(),
            });
        }
        Ok(Tailed {
            head: aqm_settings_head {
                link: setup.link,
                gate_bytes_s: setup.gate_bytes_s,
            },
            tail: setup.settings.values().to_vec(),
        })
    }

    fn decode(&self, settings: &Self::Settings) -> Option<Setup> {
        Some(Setup {
            settings: Settings::from_values(*self, &settings.tail)?,
            link: settings.head.link,
            gate_bytes_s: settings.head.gate_bytes_s,
        })
    }

    fn instance(&self, _: u32, hosted: Self::Hosted) -> Result<Instance, BpfError> {
        Ok(Instance::new(*self, hosted.head.point, hosted.tail))
    }
}

impl Hosted for Tailed<aqm_hosted_head> {
    fn point(&self) -> Option<AttachPoint> {
        (self.head.used != 0).then_some(self.head.point)
    }
}

/// Returns all maps, in the order in which they are loaded and opened.
pub(crate) fn maps() -> Vec<&'static str> {
    kind::maps([])
}

fn kind_name(discipline: Discipline) -> String {
    format!("weir_{}", discipline.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Value;

    #[test]
    fn the_map_holds_all_of_it() {
        for discipline in Discipline::all() {
            let setup = Setup {
                settings: Settings::new(discipline),
                link: LinkFacts {
                    overhead_bytes: -4,
                    ..LinkFacts::default()
                },
                gate_bytes_s: 1,
            };
            let settings = discipline.encode(&setup, None).expect("settings");
            let read = Value::read(&settings.bytes()).expect("its own bytes");
            assert_eq!(discipline.decode(&read), Some(setup));
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
