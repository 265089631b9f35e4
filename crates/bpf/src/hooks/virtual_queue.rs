// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that holds what arrives to a rate by a virtual queue, on which any
//! discipline decides that can (`bpf/ingress/ingress.bpf.h`).

use crate::error::BpfError;
use crate::maps::{failed, sized};
use crate::programs;
use crate::programs::packet::{Given, PacketPrograms, maps_of};
use crate::qdisc::attach_point::Place;
use crate::qdisc::instance::Instance;
use crate::qdisc::kind::{CHANGES, INSTANCES, SETTINGS, decode_link, encode_link, raise};
use crate::qdisc::link::{link_of, settings_of, wire_of};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings, VirtualQueue};
use weirgate_state::{KitSetting, VirtualQueueFilter};
use weirgate_units::Rate;

/// The discipline of a policy's filter.
const HOLD: &str = "meredt";

/// The program in each file.
const NAME: &str = "inbound";

/// The map of flows, where the discipline knows any, and that of what was
/// decided.
const FLOWS: &str = "flows";
const RECORDS: &str = "records";

/// Bytes of `struct filter_settings` before the parameters.
const PARAMS_AT: usize = size_of::<LinkFacts>() + 8;

/// Bytes of `struct filter_state` before the virtual queue, and where in it
/// what is.
const QUEUE_AT: usize = 40;
const MISSED_AT: usize = 8;
const OTHER_AT: usize = 16;

/// Bytes of `struct filter_flow`, and where in it what is.
const FLOW_BYTES: usize = 88;
const PORTS_AT: usize = 32;
const PROTOCOL_AT: usize = 36;
const VERSION_AT: usize = 37;
const COUNTS_AT: usize = 48;

/// How the filter is to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterSetup {
    /// The link; its rate is what arriving packets are held to.
    pub link: LinkFacts,
    /// Which parts of a packet make its flow: a sum of 1 (source address), 2
    /// (destination address), 4 (source port), 8 (destination port) and 16
    /// (protocol).
    pub parts: u64,
    /// The discipline and its parameters; of several bands there is one, as
    /// [`VirtualQueue::in_force`] says.
    pub settings: Settings,
}

/// The filter, loaded by this process. It is gone when this is dropped, unless
/// a device has it by then.
#[derive(Debug)]
pub struct Filter {
    discipline: Discipline,
    programs: PacketPrograms,
}

/// A loaded filter's maps, by which it is told and read.
#[derive(Debug)]
pub struct FilterMaps {
    discipline: Discipline,
    settings: MapHandle,
    instances: MapHandle,
    changes: MapHandle,
    flows: Option<MapHandle>,
}

/// What the filter has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterState {
    /// The virtual queue's discipline.
    pub instance: Instance,
    /// Packets let go because several processors were at it for too long.
    pub missed: u64,
    /// Packets of no flow, which are counted and let go.
    pub other: u64,
    /// The whole state, to compare with another host's.
    pub bytes: Vec<u8>,
}

/// A flow that the filter knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterFlow {
    /// Who sends; unspecified where sources do not tell flows apart.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Source port; 0 for none.
    pub source_port: u16,
    /// Destination port; 0 for none.
    pub destination_port: u16,
    /// IP protocol; 0 where protocols do not tell flows apart.
    pub protocol: u8,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes, as the device counts.
    pub bytes: u64,
    /// Packets of these that were marked.
    pub marks: u64,
    /// Packets that were dropped.
    pub drops: u64,
    /// When the last one came, by the monotonic clock.
    pub seen_ns: u64,
}

impl Filter {
    /// Loads the filter. Needs CAP_BPF and CAP_NET_ADMIN, and no type
    /// information of the kernel. `seed` is what flows are hashed with, and
    /// should be known to nobody.
    pub fn load(setup: &FilterSetup, seed: u32) -> Result<Self, BpfError> {
        Self::load_as(setup, seed, false)
    }

    /// The same with a record of every decision, for [`Filter::recorded`].
    pub fn load_recording(setup: &FilterSetup, seed: u32) -> Result<Self, BpfError> {
        Self::load_as(setup, seed, true)
    }

    fn load_as(setup: &FilterSetup, seed: u32, recording: bool) -> Result<Self, BpfError> {
        let constants = [seed, u32::from(recording)].map(u32::to_ne_bytes);
        let constants = Some(constants.as_flattened());
        let discipline = setup.settings.discipline();
        let of_kit = || programs::ingress(discipline.name());
        let own = discipline.ingress_program();
        let own = own.map(|object| (discipline.name(), object));
        let (file, object) = own
            .or_else(of_kit)
            .ok_or(BpfError::NoProgram(discipline.name()))?;
        let filter = Self {
            discipline,
            programs: PacketPrograms::load_object(file, NAME, object, constants, &[])?,
        };
        filter.maps()?.set(setup)?;
        Ok(filter)
    }

    /// Loads a policy's filter and gives the program alone: it is gone when that is
    /// closed, unless a device has it by then.
    pub(crate) fn attachable(filter: &VirtualQueueFilter) -> Result<OwnedFd, BpfError> {
        // Nobody outside may know which flows have one hash: by the random keys of
        // the standard library's maps.
        let seed = RandomState::new().build_hasher().finish() as u32;
        Self::load(&setup(filter)?, seed)?.program()
    }

    /// The program, for a filter that acts by itself (`direct-action` of
    /// cls_bpf).
    pub fn program(&self) -> Result<OwnedFd, BpfError> {
        self.programs.program(NAME)
    }

    /// Its maps.
    pub fn maps(&self) -> Result<FilterMaps, BpfError> {
        FilterMaps::of(self.discipline, |name| self.programs.handle(name))
    }

    /// Runs it once on an Ethernet frame: whether it lets the packet go, and the
    /// frame afterwards.
    pub fn run(&self, frame: &[u8]) -> Result<(bool, Vec<u8>), BpfError> {
        let ran = self.programs.run(NAME, frame, 0)?;
        Ok((!ran.dropped, ran.frame))
    }

    /// The same on a packet that so many segments, each of so many bytes of
    /// payload, were made.
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

    /// Calls `take` with each record of a decision so far, and forgets them.
    pub fn recorded(&self, mut take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        let map = self.programs.handle(RECORDS);
        let map = map.ok_or(BpfError::NoProgram(NAME))?;
        let mut ring = libbpf_rs::RingBufferBuilder::new();
        let read = |bytes: &[u8]| {
            take(bytes);
            0
        };
        ring.add(&map, read)
            .map_err(failed(NAME, RECORDS, "read"))?;
        let ring = ring.build().map_err(failed(NAME, RECORDS, "read"))?;
        ring.consume().map_err(failed(NAME, RECORDS, "read"))
    }

    /// The discipline of a policy's filter.
    ///
    /// # Panics
    ///
    /// Never: the kit has it.
    pub fn of_policies() -> Discipline {
        Discipline::named(HOLD).expect("one of the kit")
    }
}

impl FilterMaps {
    /// Those of a policy's program of this number; `None` where there is no such
    /// program, or it is none of this kind.
    pub fn of_program(id: u32) -> Result<Option<Self>, BpfError> {
        let Some(mut take) = maps_of(id) else {
            return Ok(None);
        };
        match Self::of(Filter::of_policies(), &mut take) {
            Err(BpfError::Layout { found: 0, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(crate) fn of(
        discipline: Discipline,
        mut map: impl FnMut(&str) -> Option<MapHandle>,
    ) -> Result<Self, BpfError> {
        let mut named = |name, bytes| sized(NAME, name, bytes, map(name));
        let params = discipline.layout().params.len();
        let queue = VirtualQueue::layout(discipline).0;
        Ok(Self {
            discipline,
            settings: named(SETTINGS, PARAMS_AT + params)?,
            instances: named(INSTANCES, QUEUE_AT + queue)?,
            changes: named(CHANGES, 4)?,
            flows: map(FLOWS)
                .map(|flows| sized(NAME, FLOWS, FLOW_BYTES, Some(flows)))
                .transpose()?,
        })
    }

    /// Their names, of which the last is not in every program.
    pub(crate) const NAMES: [&str; 4] = [SETTINGS, INSTANCES, CHANGES, FLOWS];

    /// All that there are by name, to pin.
    pub(crate) fn named(&mut self) -> impl Iterator<Item = (&'static str, &mut MapHandle)> {
        [
            (SETTINGS, &mut self.settings),
            (INSTANCES, &mut self.instances),
            (CHANGES, &mut self.changes),
        ]
        .into_iter()
        .chain(self.flows.as_mut().map(|flows| (FLOWS, flows)))
    }

    /// Which discipline it is.
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// States how the filter is to work, from its next packet on. It forgets
    /// nothing.
    pub fn set(&self, setup: &FilterSetup) -> Result<(), BpfError> {
        if setup.settings.discipline() != self.discipline {
            return Err(BpfError::Other {
                kind: NAME.to_owned(),
                given: setup.settings.discipline().name(),
            });
        }
        let mut bytes = encode_link(&setup.link);
        bytes.extend(setup.parts.to_ne_bytes());
        for value in VirtualQueue::in_force(&setup.settings).values() {
            bytes.extend(value.to_ne_bytes());
        }
        self.settings
            .update(&KEY, &bytes, MapFlags::ANY)
            .map_err(failed(NAME, SETTINGS, "written"))?;
        raise(NAME, &self.changes, 0)
    }

    /// What it was told.
    pub fn setup(&self) -> Result<Option<FilterSetup>, BpfError> {
        let bytes = look(&self.settings, SETTINGS)?;
        let words = bytes.get(PARAMS_AT..).unwrap_or_default().as_chunks::<8>();
        let values: Vec<u64> = words
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        let settings = Settings::from_values(self.discipline, &values);
        Ok(decode_link(&bytes)
            .zip(settings)
            .map(|(link, settings)| FilterSetup {
                link,
                parts: word(&bytes, PARAMS_AT - 8),
                settings,
            }))
    }

    /// Sets a policy's filter anew. It forgets nothing.
    pub(crate) fn set_filter(&self, filter: &VirtualQueueFilter) -> Result<(), BpfError> {
        self.set(&setup(filter)?)
    }

    /// The policy's filter that it is; `None` where [`FilterMaps::set_filter`] could not
    /// have made it.
    pub(crate) fn filter(&self) -> Result<Option<VirtualQueueFilter>, BpfError> {
        Ok(self.setup()?.as_ref().and_then(filter))
    }

    /// What it has done.
    pub fn state(&self) -> Result<FilterState, BpfError> {
        let bytes = look(&self.instances, INSTANCES)?;
        let (_, own) = VirtualQueue::layout(self.discipline);
        let nowhere = Place {
            netns: 0,
            ifindex: 0,
            queue: 0,
        };
        let memory = bytes.get(QUEUE_AT + own..).unwrap_or_default().to_vec();
        Ok(FilterState {
            instance: Instance::of_class(self.discipline, nowhere, memory),
            missed: word(&bytes, MISSED_AT),
            other: word(&bytes, OTHER_AT),
            bytes: bytes.get(QUEUE_AT..).unwrap_or_default().to_vec(),
        })
    }

    /// The flows that it knows, in no order; none where the discipline knows none.
    pub fn flows(&self) -> Result<Vec<FilterFlow>, BpfError> {
        let mut flows = Vec::new();
        let Some(all) = &self.flows else {
            return Ok(flows);
        };
        for key in all.keys() {
            let found = all.lookup(&key, MapFlags::ANY);
            let found = found.map_err(failed(NAME, FLOWS, "read"))?;
            flows.extend(found.as_deref().and_then(flow));
        }
        Ok(flows)
    }
}

fn setup(filter: &VirtualQueueFilter) -> Result<FilterSetup, BpfError> {
    let mut settings = Settings::new(Filter::of_policies());
    for KitSetting { name, value, .. } in &filter.settings {
        let set = settings.set(name, *value);
        set.map_err(|error| BpfError::Classes(error.to_string()))?;
    }
    Ok(FilterSetup {
        link: LinkFacts {
            rate_bytes_s: filter.rate.as_bytes_per_second(),
            mtu_bytes: filter.mtu,
            ..link_of(filter.wire)
        },
        parts: u64::from(filter.parts),
        settings,
    })
}

fn filter(setup: &FilterSetup) -> Option<VirtualQueueFilter> {
    Some(VirtualQueueFilter {
        rate: Rate::bytes_per_second(setup.link.rate_bytes_s),
        wire: wire_of(&setup.link)?,
        mtu: setup.link.mtu_bytes,
        parts: u8::try_from(setup.parts).ok()?,
        settings: settings_of(&setup.settings),
        stale: false,
    })
}

/// The one key of the maps that hold one value.
const KEY: [u8; 4] = [0; 4];

/// The 64-bit word of a value at an offset; 0 behind its end.
fn word(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    u64::from_ne_bytes(eight.copied().unwrap_or_default())
}

fn look(map: &MapHandle, name: &'static str) -> Result<Vec<u8>, BpfError> {
    let found = map.lookup(&KEY, MapFlags::ANY);
    Ok(found
        .map_err(failed(NAME, name, "read"))?
        .unwrap_or_default())
}

/// A flow; `None` where the place is free.
fn flow(bytes: &[u8]) -> Option<FilterFlow> {
    let address = |at: usize| -> Option<IpAddr> {
        Some(match bytes.get(VERSION_AT)? {
            4 => Ipv4Addr::from_octets(*bytes.get(at..)?.first_chunk()?).into(),
            6 => Ipv6Addr::from_octets(*bytes.get(at..)?.first_chunk()?).into(),
            _ => return None,
        })
    };
    let port = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let count = |index: usize| word(bytes, COUNTS_AT + 8 * index);
    (count(4) != 0).then_some(())?;
    Some(FilterFlow {
        source: address(0)?,
        destination: address(16)?,
        source_port: port(PORTS_AT)?,
        destination_port: port(PORTS_AT + 2)?,
        protocol: *bytes.get(PROTOCOL_AT)?,
        packets: count(0),
        bytes: count(1),
        marks: count(2),
        drops: count(3),
        seen_ns: count(4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Attached, CakeFraming, KitWire};

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
            stale: false,
        };
        let same = |one: &VirtualQueueFilter, other: &VirtualQueueFilter| {
            Attached::VirtualQueue(one).same(Attached::VirtualQueue(other))
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
