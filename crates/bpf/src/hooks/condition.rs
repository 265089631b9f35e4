// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic conditioners of a device, for arriving or for leaving packets
//! (`bpf/inbound/condition.bpf.c`).

mod rule;

use super::attach::{Attach, FoundFilter, Loader};
use crate::error::BpfError;
use crate::layout::{CONDITIONERS, condition_record, condition_rule, condition_state};
use crate::maps::{Find, Map, drain};
use crate::programs::packet::{Given, PacketPrograms, maps_of};
use std::os::fd::OwnedFd;
use weirgate_aqm::Colour;
use weirgate_state::{
    ClsactHook, Conditioner, Conditioning, EgressConditioners, InHooks, IngressConditioners,
};
use zerocopy::{FromBytes, FromZeros};

/// The object file and its program.
const FILE: &str = "condition";
const NAME: &str = "condition";

/// The maps: the settings of conditioners, their state, the index of a device's first
/// conditioner in both, and a ring buffer of decisions with its size.
const SETTINGS: &str = "settings";
const INSTANCES: &str = "instances";
const FIRSTS: &str = "places";
const RECORDS: &str = "records";
const RECORDED: u32 = 1 << 20;
/// The device index that a test run of an unattached program sees: that of the loopback device
/// (`bpf_prog_test_run_skb()`, net/bpf/test_run.c).
const LOOPBACK: u32 = 1;

/// The counters of one conditioner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConditionCount {
    /// Its name.
    pub name: String,
    /// Packets found green, yellow and red.
    pub packets: [u64; 3],
    /// Their bytes, counted as IP packets.
    pub bytes: [u64; 3],
    /// Packets that should have got a code point but have no field for it.
    pub unmarked: u64,
}

/// A decision of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionRecord {
    /// The time on the monotonic clock.
    pub now_ns: u64,
    /// The index of the conditioner.
    pub rule: u32,
    /// Bytes of the IP packet.
    pub bytes: u32,
    /// The colour of the packet before.
    pub brings: Colour,
    /// The colour that the meter assigned.
    pub colour: Colour,
}

/// The loaded program, with room for a number of devices. It is unloaded when this is dropped,
/// unless it is attached to a device.
#[derive(Debug)]
pub struct Condition {
    program: PacketPrograms,
    /// The number of devices with conditioners, and the largest number of these devices.
    devices: u32,
    room: u32,
}

/// The maps of a loaded program, through which it is configured and read for one device.
#[derive(Debug)]
pub struct ConditionMaps {
    settings: Map<u32, condition_rule>,
    instances: Map<u32, condition_state>,
    /// The index of the device's first conditioner in both maps.
    first: u32,
}

impl Condition {
    /// Loads the program with room for this many devices. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(room: u32) -> Result<Self, BpfError> {
        Self::load_as(room, false)
    }

    /// Loads the program with these conditioners, for use with [`Condition::run`] only.
    pub fn load_alone(rules: &[Conditioner]) -> Result<Self, BpfError> {
        let mut program = Self::load_as(1, false)?;
        program.add(LOOPBACK, rules)?;
        Ok(program)
    }

    /// Loads the program as [`Condition::load_alone`] does, and records every decision for
    /// [`Condition::recorded`].
    pub fn load_recording(rules: &[Conditioner]) -> Result<Self, BpfError> {
        let mut program = Self::load_as(1, true)?;
        program.add(LOOPBACK, rules)?;
        Ok(program)
    }

    fn load_as(room: u32, recording: bool) -> Result<Self, BpfError> {
        let constants = u32::from(recording).to_ne_bytes();
        let all = room.saturating_mul(CONDITIONERS);
        let mut sizes = vec![(FIRSTS, room), (SETTINGS, all), (INSTANCES, all)];
        sizes.extend(recording.then_some((RECORDS, RECORDED)));
        Ok(Self {
            program: PacketPrograms::load_sized(FILE, NAME, Some(&constants), &sizes)?,
            devices: 0,
            room,
        })
    }

    /// Returns whether there is room for another device.
    pub const fn has_room(&self) -> bool {
        self.devices < self.room
    }

    /// Sets the conditioners of the device with this index, to which the program can then be
    /// attached.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for another device, or if the map cannot hold a
    /// conditioner.
    pub fn add(&mut self, device: u32, rules: &[Conditioner]) -> Result<(), BpfError> {
        if !self.has_room() {
            return Err(BpfError::Classes(format!(
                "conditioners of {} devices have room",
                self.room
            )));
        }
        let first = self.devices * CONDITIONERS;
        self.devices += 1;
        ConditionMaps::at(first, &mut |name: &str| self.program.handle(name))?.set(rules)?;
        let firsts: Map<u32, u32> = self.program.map(FIRSTS)?;
        firsts.put(&device, &first)
    }

    /// Returns the descriptor of the program, for a filter of a device with conditioners.
    pub fn attachable(&self) -> Result<OwnedFd, BpfError> {
        self.program.program(NAME)
    }

    /// Returns the maps for frames that [`Condition::run`] passes to the program.
    pub fn maps(&self) -> Result<ConditionMaps, BpfError> {
        ConditionMaps::of(LOOPBACK, |name: &str| self.program.handle(name))
    }

    /// Runs the program once on an Ethernet frame of this class. Returns whether it accepts the
    /// packet, and the frame after the run.
    pub fn run(&self, frame: &[u8], class: u32) -> Result<(bool, Vec<u8>), BpfError> {
        self.run_given(frame, class, (0, 0))
    }

    /// Runs the program on a frame into which segments were merged: their number, and the
    /// payload bytes of each.
    pub fn run_merged(
        &self,
        frame: &[u8],
        merged: (u32, u32),
    ) -> Result<(bool, Vec<u8>), BpfError> {
        self.run_given(frame, 0, merged)
    }

    fn run_given(
        &self,
        frame: &[u8],
        priority: u32,
        merged: (u32, u32),
    ) -> Result<(bool, Vec<u8>), BpfError> {
        let given = Given {
            priority,
            merged,
            ..Given::default()
        };
        let ran = self.program.run_as(NAME, frame, given)?;
        Ok((!ran.dropped, ran.frame))
    }

    /// Passes each recorded decision to `take` and removes it.
    pub fn recorded(&self, mut take: impl FnMut(ConditionRecord)) -> Result<(), BpfError> {
        let map = self.program.handle(RECORDS);
        let map = map.ok_or(BpfError::NoProgram(FILE))?;
        drain(NAME, RECORDS, &map, |bytes| {
            if let Ok((record, _)) = condition_record::read_from_prefix(bytes) {
                take(ConditionRecord {
                    now_ns: record.now_ns,
                    rule: record.rule,
                    bytes: record.bytes,
                    brings: colour(record.brings),
                    colour: colour(record.colour),
                });
            }
        })
    }
}

impl ConditionMaps {
    /// Opens the maps of the loaded program with this identifier, for one device. Returns `None`
    /// if there is no such program, if it is of another kind, or if it has no conditioners of
    /// the device.
    pub fn of_program(id: u32, device: u32) -> Option<Self> {
        Self::of(device, maps_of(id)?).ok()
    }

    /// Transfers the conditioners of one device to another index in the loaded program with this
    /// identifier, because the device was created again.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such program, or if it has no conditioners of the first
    /// device.
    pub fn readdress(id: u32, before: u32, after: u32) -> Result<(), BpfError> {
        let gone = || BpfError::NoProgram(FILE);
        let firsts: Map<u32, u32> = Map::find(NAME, FIRSTS, &mut maps_of(id).ok_or_else(gone)?)?;
        let first = firsts.get(&before)?.ok_or_else(gone)?;
        // Remove the old entry first, because the map may be full.
        firsts.remove(&before)?;
        firsts.put(&after, &first)
    }

    fn of(device: u32, mut find: impl Find) -> Result<Self, BpfError> {
        let firsts: Map<u32, u32> = Map::find(NAME, FIRSTS, &mut find)?;
        let first = firsts.get(&device)?;
        Self::at(first.ok_or(BpfError::NoProgram(FILE))?, &mut find)
    }

    fn at(first: u32, find: &mut impl Find) -> Result<Self, BpfError> {
        Ok(Self {
            settings: Map::find(NAME, SETTINGS, find)?,
            instances: Map::find(NAME, INSTANCES, find)?,
            first,
        })
    }

    /// Sets the conditioners in the order of evaluation. One that is unchanged at its index
    /// keeps its meter and counters; any other restarts.
    pub fn set(&self, rules: &[Conditioner]) -> Result<(), BpfError> {
        if rules.len() > CONDITIONERS as usize {
            return Err(BpfError::Classes(format!(
                "{} conditioners; {CONDITIONERS} have room",
                rules.len()
            )));
        }
        for (key, index) in self.keys().zip(0..) {
            let wanted = rules.get(index).map(rule::encode).transpose()?;
            let wanted = wanted.unwrap_or_else(condition_rule::new_zeroed);
            let there = self.settings.get_or_zero(&key)?;
            if !rule::same(&wanted, &there) {
                let version = there.version.wrapping_add(1).max(1);
                self.settings
                    .put(&key, &condition_rule { version, ..wanted })?;
            }
        }
        Ok(())
    }

    /// Returns the conditioners in order; `None` if [`ConditionMaps::set`] cannot have written
    /// one of them.
    pub fn rules(&self) -> Result<Option<Vec<Conditioner>>, BpfError> {
        let rules = self.used()?;
        Ok(rules.iter().map(|(_, one)| rule::decode(one)).collect())
    }

    /// Returns the counters of each conditioner, in order.
    pub fn counts(&self) -> Result<Vec<ConditionCount>, BpfError> {
        let count = |(key, rule): (u32, condition_rule)| {
            let state = self.instances.get_or_zero(&key)?;
            let mut count = ConditionCount {
                name: rule::name(&rule),
                ..ConditionCount::default()
            };
            // Without a packet since the last change, the counters are those of an earlier
            // conditioner.
            if state.version == rule.version {
                count.packets = state.packets;
                count.bytes = state.bytes;
                count.unmarked = state.unmarked;
            }
            Ok(count)
        };
        self.used()?.into_iter().map(count).collect()
    }

    /// Returns the conditioners up to the first unused entry.
    fn used(&self) -> Result<Vec<(u32, condition_rule)>, BpfError> {
        let mut used = Vec::new();
        for key in self.keys() {
            let rule = self.settings.get_or_zero(&key)?;
            if rule.used == 0 {
                break;
            }
            used.push((key, rule));
        }
        Ok(used)
    }

    fn keys(&self) -> impl Iterator<Item = u32> {
        self.first..self.first.saturating_add(CONDITIONERS)
    }
}

/// Marks the conditioners of one hook, whose settings `state` has under this type.
trait OfHook: InHooks<Settings = Conditioning> {}

impl OfHook for IngressConditioners {}
impl OfHook for EgressConditioners {}

impl<T: OfHook> Attach for T {
    fn load(
        settings: &Conditioning,
        device: u32,
        loader: &mut Loader,
    ) -> Result<Vec<OwnedFd>, BpfError> {
        let egress = T::ROW
            .filters
            .iter()
            .any(|filter| filter.hook == ClsactHook::Egress);
        let program = loader.conditioners(egress, &settings.conditioners, device)?;
        Ok(vec![program])
    }

    fn update(settings: &Conditioning, id: u32, device: u32) -> Result<(), BpfError> {
        update(settings, id, device)
    }

    fn read(found: &[FoundFilter], device: u32) -> Option<Conditioning> {
        read(found, device)
    }

    fn readdress(id: u32, before: u32, after: u32) -> Result<(), BpfError> {
        ConditionMaps::readdress(id, before, after)
    }
}

fn update(settings: &Conditioning, id: u32, device: u32) -> Result<(), BpfError> {
    let maps = ConditionMaps::of_program(id, device);
    let maps = maps.ok_or(BpfError::NoProgram(FILE))?;
    maps.set(&settings.conditioners)
}

fn read(found: &[FoundFilter], device: u32) -> Option<Conditioning> {
    let maps = ConditionMaps::of_program(found.first()?.id, device)?;
    let conditioners = maps.rules().ok()??;
    Some(Conditioning { conditioners })
}

fn colour(number: u32) -> Colour {
    match number {
        0 => Colour::Green,
        1 => Colour::Yellow,
        _ => Colour::Red,
    }
}
