// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that polices arriving packets by a virtual queue. Any discipline that supports
//! virtual queues can make its decisions (`bpf/ingress/ingress.bpf.h`).

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::layout::{filter_flow, filter_measured, filter_settings_head, filter_state_head};
use crate::maps::{Find, Map, Named, Tailed, drain};
use crate::programs::packet::{Given, PacketPrograms, maps_of, words};
use crate::programs::{self, Object};
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::instance::Instance;
use crate::qdisc::kind::{CHANGES, INSTANCES, SETTINGS, raise};
use crate::qdisc::link::{link_of, settings, settings_of, wire_of};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings, VirtualQueue};
use weirgate_state::{HookProgram as _, VirtualQueueFilter};
use weirgate_units::Rate;
use zerocopy::IntoBytes;

/// The discipline that policies use.
const HOLD: &str = "meredt";

/// The name of the program in each object file.
const NAME: &str = "inbound";

/// The map of measurements.
const MEASURED: &str = "measured";

/// The map of flows, if the discipline tracks any, and the ring buffer of decisions.
const FLOWS: &str = "flows";
const RECORDS: &str = "records";

/// The settings of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterSetup {
    /// The link, whose rate is the limit.
    pub link: LinkFacts,
    /// The header fields that identify a flow: the sum of 1 (source address), 2 (destination
    /// address), 4 (source port), 8 (destination port) and 16 (protocol).
    pub parts: u64,
    /// The discipline and its parameters. There is only one band, as [`VirtualQueue::in_force`]
    /// explains.
    pub settings: Settings,
}

/// The loaded filter. It is unloaded when this is dropped, unless it is attached to a device.
#[derive(Debug)]
pub struct Filter {
    discipline: Discipline,
    programs: PacketPrograms,
}

/// The maps of a loaded filter, through which it is configured and read.
#[derive(Debug)]
pub struct FilterMaps {
    discipline: Discipline,
    settings: Map<u32, Tailed<filter_settings_head>>,
    instances: Map<u32, Tailed<filter_state_head>>,
    changes: Map<u32, u32>,
    measured: Map<u32, filter_measured>,
    flows: Option<Map<u32, filter_flow>>,
}

/// The state of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterState {
    /// The discipline of the virtual queue.
    pub instance: Instance,
    /// Packets that passed without a decision, because other processors used the state for too
    /// long. The virtual queue counts their bytes.
    pub missed: u64,
    /// Packets without a flow, which are counted and accepted.
    pub other: u64,
    /// The whole state, to compare it with that of another host.
    pub bytes: Vec<u8>,
}

/// A flow in the filter's map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterFlow {
    /// The source address; unspecified if sources do not identify flows.
    pub source: IpAddr,
    /// The destination address; unspecified if destinations do not identify flows.
    pub destination: IpAddr,
    /// The source port; 0 for none.
    pub source_port: u16,
    /// The destination port; 0 for none.
    pub destination_port: u16,
    /// The IP protocol; 0 if protocols do not identify flows.
    pub protocol: u8,
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes, as the device counts them.
    pub bytes: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// Packets that were dropped.
    pub drops: u64,
    /// The time of the last packet on the monotonic clock.
    pub seen_ns: u64,
}

impl Filter {
    /// Loads the filter. Needs CAP_BPF and CAP_NET_ADMIN, but not the kernel's BTF. `seed` is
    /// the key of the flow hash and should be secret.
    pub fn load(setup: &FilterSetup, seed: u32) -> Result<Self, BpfError> {
        Self::load_as(setup, seed, false)
    }

    /// Loads the filter, and records every decision for [`Filter::recorded`].
    pub fn load_recording(setup: &FilterSetup, seed: u32) -> Result<Self, BpfError> {
        Self::load_as(setup, seed, true)
    }

    fn load_as(setup: &FilterSetup, seed: u32, recording: bool) -> Result<Self, BpfError> {
        let constants = [seed, u32::from(recording)].map(u32::to_ne_bytes);
        let constants = Some(constants.as_flattened());
        let discipline = setup.settings.discipline();
        let name = discipline.name();
        let own = discipline.ingress_program().map(Object::from);
        let object = own
            .or_else(|| programs::ingress(name))
            .ok_or(BpfError::NoProgram(name))?;
        let filter = Self {
            discipline,
            programs: PacketPrograms::load_object(name, NAME, &object, constants, &[])?,
        };
        filter.maps()?.set(setup)?;
        Ok(filter)
    }

    /// Returns the descriptor of the program, for a filter in `direct-action` mode (cls_bpf).
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        self.programs.program(NAME)
    }

    /// Returns its maps.
    pub fn maps(&self) -> Result<FilterMaps, BpfError> {
        FilterMaps::of(self.discipline, |name: &str| self.programs.handle(name))
    }

    /// Runs the filter once on an Ethernet frame. Returns whether it accepts the packet, and the
    /// frame after the run.
    pub fn run(&self, frame: &[u8]) -> Result<(bool, Vec<u8>), BpfError> {
        let ran = self.programs.run(NAME, frame, 0)?;
        Ok((!ran.dropped, ran.frame))
    }

    /// Runs the filter on a packet into which segments were merged: their number, and the
    /// payload bytes of each.
    pub fn run_merged(
        &self,
        frame: &[u8],
        merged: (u32, u32),
    ) -> Result<(bool, Vec<u8>), BpfError> {
        let given = Given {
            merged,
            ..Given::default()
        };
        let ran = self.programs.run_as(NAME, frame, given)?;
        Ok((!ran.dropped, ran.frame))
    }

    /// Passes each recorded decision to `take` and removes it.
    pub fn recorded(&self, take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        let map = self.programs.handle(RECORDS);
        let map = map.ok_or(BpfError::NoProgram(NAME))?;
        drain(NAME, RECORDS, &map, take)
    }

    /// Returns the discipline of a policy's filter.
    ///
    /// # Panics
    ///
    /// Never panics: the kit contains this discipline.
    pub fn of_policies() -> Discipline {
        Discipline::named(HOLD).expect("one of the kit")
    }
}

impl FilterMaps {
    /// Opens the maps of a policy's program with this identifier. Returns `None` if there is no
    /// such program, or if it is of another kind.
    pub fn of_program(id: u32) -> Result<Option<Self>, BpfError> {
        let Some(mut take) = maps_of(id) else {
            return Ok(None);
        };
        match Self::of(Filter::of_policies(), &mut take) {
            Err(BpfError::Layout { found: 0, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(crate) fn of(discipline: Discipline, mut find: impl Find) -> Result<Self, BpfError> {
        let params = discipline.layout().params.len();
        let queue = VirtualQueue::layout(discipline).0;
        Ok(Self {
            discipline,
            settings: Map::with_tail(NAME, SETTINGS, params, find(SETTINGS))?,
            instances: Map::with_tail(NAME, INSTANCES, queue, find(INSTANCES))?,
            changes: Map::find(NAME, CHANGES, &mut find)?,
            measured: Map::find(NAME, MEASURED, &mut find)?,
            flows: find(FLOWS)
                .map(|flows| Map::of(NAME, FLOWS, Some(flows)))
                .transpose()?,
        })
    }

    /// The names of the maps. Not every program has the last one.
    pub(crate) const NAMES: [&str; 5] = [SETTINGS, INSTANCES, CHANGES, MEASURED, FLOWS];

    /// Returns the existing maps with their names, to pin them.
    pub(crate) fn named(&mut self) -> impl Iterator<Item = Named<'_>> {
        let all = [
            self.settings.handle(),
            self.instances.handle(),
            self.changes.handle(),
            self.measured.handle(),
        ];
        all.into_iter().chain(self.flows.as_mut().map(Map::handle))
    }

    /// Returns the discipline.
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// Changes the settings, from the next packet on. The state stays.
    pub fn set(&self, setup: &FilterSetup) -> Result<(), BpfError> {
        if setup.settings.discipline() != self.discipline {
            return Err(BpfError::Other {
                kind: NAME.to_owned(),
                given: setup.settings.discipline().name(),
            });
        }
        let settings = VirtualQueue::in_force(&setup.settings);
        self.settings.set_first(&Tailed {
            head: filter_settings_head {
                link: setup.link,
                parts: setup.parts,
            },
            tail: settings.values().to_vec(),
        })?;
        raise(&self.changes, 0)
    }

    /// Reports how long a packet now waits at the far end of the line. From the next packet on,
    /// that is the virtual queue, until arrivals and time change it. ICMP packets of `peer`, who
    /// answers the probes, are never dropped from then on.
    pub fn measure(&self, waits: Duration, peer: IpAddr) -> Result<(), BpfError> {
        let last = self.measured.first()?;
        self.measured.set_first(&filter_measured {
            number: last.number.wrapping_add(1).max(1),
            waits_ns: u64::try_from(waits.as_nanos()).unwrap_or(u64::MAX),
            peer: words(peer),
        })?;
        raise(&self.changes, 0)
    }

    /// Returns the number of measurements, and what the last one was; `None` if there was none.
    pub fn measured(&self) -> Result<Option<(u64, Duration)>, BpfError> {
        let last = self.measured.first()?;
        let measured = (last.number, Duration::from_nanos(last.waits_ns));
        Ok((last.number != 0).then_some(measured))
    }

    /// Returns the settings.
    pub fn setup(&self) -> Result<Option<FilterSetup>, BpfError> {
        let Tailed { head, tail } = self.settings.first()?;
        let settings = Settings::from_values(self.discipline, &tail);
        Ok(settings.map(|settings| FilterSetup {
            link: head.link,
            parts: head.parts,
            settings,
        }))
    }

    /// Returns the state.
    pub fn state(&self) -> Result<FilterState, BpfError> {
        let Tailed { head, tail } = self.instances.first()?;
        let (_, own) = VirtualQueue::layout(self.discipline);
        let nowhere = AttachPoint {
            netns: 0,
            ifindex: 0,
            queue: 0,
        };
        let memory = tail.get(own / 8..).unwrap_or_default().to_vec();
        Ok(FilterState {
            instance: Instance::new(self.discipline, nowhere, memory),
            missed: head.missed,
            other: head.other,
            bytes: tail.as_bytes().to_vec(),
        })
    }

    /// Returns the known flows, in no particular order; none if the discipline does not track
    /// flows.
    pub fn flows(&self) -> Result<Vec<FilterFlow>, BpfError> {
        let flows = self.flows.as_ref().map(Map::entries).transpose()?;
        let flows = flows.into_iter().flatten();
        Ok(flows.filter_map(|(_, flow)| flow.known()).collect())
    }
}

fn setup(filter: &VirtualQueueFilter) -> Result<FilterSetup, BpfError> {
    let settings = settings(Filter::of_policies(), &filter.settings);
    Ok(FilterSetup {
        link: LinkFacts {
            rate_bytes_s: filter.rate.as_bytes_per_second(),
            mtu_bytes: filter.mtu,
            ..link_of(filter.wire)
        },
        parts: u64::from(filter.parts),
        settings: settings.map_err(|error| BpfError::Classes(error.to_string()))?,
    })
}

fn filter(setup: &FilterSetup) -> Option<VirtualQueueFilter> {
    Some(VirtualQueueFilter {
        rate: Rate::bytes_per_second(setup.link.rate_bytes_s),
        wire: wire_of(&setup.link)?,
        mtu: setup.link.mtu_bytes,
        parts: u8::try_from(setup.parts).ok()?,
        settings: settings_of(&setup.settings),
    })
}

impl filter_flow {
    /// Converts an entry; `None` if it is free.
    fn known(&self) -> Option<FilterFlow> {
        let (source, destination) = self.tuple.ends()?;
        (self.seen_ns != 0).then(|| FilterFlow {
            source: source.ip(),
            destination: destination.ip(),
            source_port: source.port(),
            destination_port: destination.port(),
            protocol: self.tuple.protocol,
            packets: self.packets,
            bytes: self.bytes,
            marks: self.marks,
            drops: self.drops,
            seen_ns: self.seen_ns,
        })
    }
}

impl Attach for VirtualQueueFilter {
    fn load(settings: &Self, _: u32, _: &mut Loader) -> Result<Vec<OwnedFd>, BpfError> {
        // Seed the flow hash with the random keys of the standard library's maps, so that
        // outsiders cannot predict collisions.
        let seed = RandomState::new().build_hasher().finish() as u32;
        Ok(vec![Filter::load(&setup(settings)?, seed)?.program()?])
    }

    fn update(settings: &Self, id: u32, _: u32) -> Result<(), BpfError> {
        let maps = FilterMaps::of_program(id)?;
        let maps = maps.ok_or(BpfError::NoProgram(Self::ROW.object))?;
        maps.set(&setup(settings)?)
    }

    /// Returns `None` if [`Attach::update`] cannot have made the settings.
    fn read(found: &[FoundFilter], _: u32) -> Option<Self> {
        let maps = FilterMaps::of_program(found.first()?.id).ok()??;
        filter(&maps.setup().ok()??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{CakeFraming, KitSetting, KitWire};

    #[test]
    fn the_map_holds_all_of_it() {
        let explicit = |name: &str, value| KitSetting {
            name: name.to_owned(),
            value,
            usual: false,
        };
        let wanted = VirtualQueueFilter {
            rate: Rate::kbit(1940),
            wire: KitWire {
                overhead: 14,
                mpu: 0,
                framing: CakeFraming::Atm,
            },
            mtu: 1514,
            parts: 31,
            settings: vec![explicit("min_bytes", 3392), explicit("mark", 2)],
        };
        let same = |one: &VirtualQueueFilter, other: &VirtualQueueFilter| {
            VirtualQueueFilter::same(one, other)
        };
        let back = filter(&setup(&wanted).unwrap()).unwrap();
        assert!(same(&wanted, &back));
        let mut other = wanted.clone();
        other.settings.pop();
        assert!(!same(&other, &back));
        other.settings = vec![explicit("no_such", 1)];
        assert!(setup(&other).is_err());
    }

    #[test]
    fn every_discipline_has_a_program_or_a_reason() {
        for discipline in Discipline::all() {
            let program = programs::ingress(discipline.name());
            let refusal = VirtualQueue::refusal(discipline);
            assert_eq!(program.is_none(), refusal.is_some(), "{discipline:?}");
        }
    }
}
