// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic conditioner of a device, for what enters or what leaves
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

/// Its file, and the program in it.
const FILE: &str = "condition";
const NAME: &str = "condition";

/// Its maps: the settings of conditioners, what they counted, where a device's begin
/// in both, and what was decided, with its bytes where that is recorded.
const SETTINGS: &str = "settings";
const INSTANCES: &str = "instances";
const FIRSTS: &str = "places";
const RECORDS: &str = "records";
const RECORDED: u32 = 1 << 20;
/// The device by which a program that no device has is run on a frame: the
/// loopback device (`bpf_prog_test_run_skb()`, net/bpf/test_run.c).
const LOOPBACK: u32 = 1;

/// What one conditioner has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConditionCount {
    /// Its name.
    pub name: String,
    /// Packets found green, yellow and red.
    pub packets: [u64; 3],
    /// Their bytes, of IP packets.
    pub bytes: [u64; 3],
    /// Packets that should have got a code point, and in which no place for it
    /// was found.
    pub unmarked: u64,
}

/// A decision of the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionRecord {
    /// When, by the monotonic clock.
    pub now_ns: u64,
    /// Which conditioner, by its place.
    pub rule: u32,
    /// Bytes of the IP packet.
    pub bytes: u32,
    /// The colour that it brought.
    pub brings: Colour,
    /// The colour that it got.
    pub colour: Colour,
}

/// The program, loaded by this process, with room for this many devices. Dropping this unloads it,
/// unless a device has it by then.
#[derive(Debug)]
pub struct Condition {
    program: PacketPrograms,
    /// Devices that have conditioners, and devices that have room.
    devices: u32,
    room: u32,
}

/// A loaded program's maps, by which it is configured and read for one device.
#[derive(Debug)]
pub struct ConditionMaps {
    settings: Map<u32, condition_rule>,
    instances: Map<u32, condition_state>,
    /// Where the device's conditioners begin in both.
    first: u32,
}

impl Condition {
    /// Loads it with room for this many devices. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(room: u32) -> Result<Self, BpfError> {
        Self::load_as(room, false)
    }

    /// Loads it for frames that [`Condition::run`] gives it.
    pub fn load_alone(rules: &[Conditioner]) -> Result<Self, BpfError> {
        let mut program = Self::load_as(1, false)?;
        program.add(LOOPBACK, rules)?;
        Ok(program)
    }

    /// The same with a record of every decision, for [`Condition::recorded`].
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

    /// Whether another device has room.
    pub const fn has_room(&self) -> bool {
        self.devices < self.room
    }

    /// Gives the device of this number these conditioners. It can have the program
    /// then.
    ///
    /// # Errors
    ///
    /// Occurs where no further device has room, or the map cannot hold a conditioner.
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

    /// The program, for a filter of a device that has conditioners.
    pub fn attachable(&self) -> Result<OwnedFd, BpfError> {
        self.program.program(NAME)
    }

    /// What tells it of the frames that [`Condition::run`] gives it.
    pub fn maps(&self) -> Result<ConditionMaps, BpfError> {
        ConditionMaps::of(LOOPBACK, |name: &str| self.program.handle(name))
    }

    /// Runs it once on an Ethernet frame of this class: whether it lets the
    /// packet go, and the frame afterwards.
    pub fn run(&self, frame: &[u8], class: u32) -> Result<(bool, Vec<u8>), BpfError> {
        self.run_given(frame, class, (0, 0))
    }

    /// The same for a frame into which this many segments of this many bytes were merged.
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

    /// Calls `take` with each record of a decision so far, and forgets them.
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
    /// Those of the loaded program of this number, for the device of that one;
    /// `None` where there is no such program, it is none of this kind, or it has no
    /// conditioners of the device.
    pub fn of_program(id: u32, device: u32) -> Option<Self> {
        Self::of(device, maps_of(id)?).ok()
    }

    /// Gives what the loaded program of this number has for one device to another: the
    /// device came back under another number.
    ///
    /// # Errors
    ///
    /// Occurs where there is no such program, or it has nothing for the first.
    pub fn readdress(id: u32, before: u32, after: u32) -> Result<(), BpfError> {
        let gone = || BpfError::NoProgram(FILE);
        let firsts: Map<u32, u32> = Map::find(NAME, FIRSTS, &mut maps_of(id).ok_or_else(gone)?)?;
        let first = firsts.get(&before)?.ok_or_else(gone)?;
        // There may be room for no more than there are.
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

    /// Sets the conditioners, in the order in which they are tested. One that is unchanged at its
    /// position keeps its meter and its counts; any other starts again.
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

    /// The conditioners, in their order; `None` where [`ConditionMaps::set`] could
    /// not have written one.
    pub fn rules(&self) -> Result<Option<Vec<Conditioner>>, BpfError> {
        let rules = self.used()?;
        Ok(rules.iter().map(|(_, one)| rule::decode(one)).collect())
    }

    /// What each has done, in their order.
    pub fn counts(&self) -> Result<Vec<ConditionCount>, BpfError> {
        let count = |(key, rule): (u32, condition_rule)| {
            let state = self.instances.get_or_zero(&key)?;
            let mut count = ConditionCount {
                name: rule::name(&rule),
                ..ConditionCount::default()
            };
            // Where no packet came since, the counts are an earlier one's.
            if state.version == rule.version {
                count.packets = state.packets;
                count.bytes = state.bytes;
                count.unmarked = state.unmarked;
            }
            Ok(count)
        };
        self.used()?.into_iter().map(count).collect()
    }

    /// Those before the first unused one.
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

/// The conditioners of one of a device's hooks, which its row in `state` names.
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
