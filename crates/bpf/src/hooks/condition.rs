// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic conditioner of a device, for what enters or what leaves
//! (`bpf/inbound/condition.bpf.c`).

use crate::error::BpfError;
use crate::programs;
use crate::programs::packet::{Given, PacketPrograms, half, maps_of, word};
use crate::qdisc::kind::{INSTANCES, SETTINGS, failed, sized};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use weirgate_aqm::{Colour, MeterKind};

/// Its file, and the program in it.
const FILE: &str = "condition";
const NAME: &str = "condition";

/// The map of what was decided, and its bytes where that is recorded.
const RECORDS: &str = "records";
const RECORDED: u32 = 1 << 20;
/// The map of where a device's conditioners begin.
const PLACES: &str = "places";
/// The device by which a program that no device has is run on a frame: the
/// loopback device (`bpf_prog_test_run_skb()`, net/bpf/test_run.c).
const LOOPBACK: u32 = 1;

/// Conditioners of a device and a way, classes and nets of one of each side, and
/// bytes of a name.
pub const CONDITIONERS: usize = 32;
/// See [`CONDITIONERS`].
pub const CONDITION_CLASSES: usize = 8;
/// See [`CONDITIONERS`].
pub const CONDITION_NETS: usize = 8;
/// Ranges of ports of each side.
pub const CONDITION_PORTS: usize = 8;
/// See [`CONDITIONERS`].
pub const CONDITION_NAME: usize = 31;

/// Bytes of `struct condition_net`, and of `struct condition_rule` before what.
const NET: usize = 40;
const CODES_AT: usize = MeterKind::BYTES;
const USED_AT: usize = CODES_AT + 24;
const VERSION_AT: usize = USED_AT + 4;
const METERED_AT: usize = VERSION_AT + 4;
const ACTION_AT: usize = METERED_AT + 4;
const CODE_AT: usize = ACTION_AT + 12;
const CLASSES_AT: usize = CODE_AT + 12;
const SOURCE_AT: usize = CLASSES_AT + 4 + 4 * CONDITION_CLASSES;
const DESTINATION_AT: usize = SOURCE_AT + CONDITION_NETS * NET;
const NAME_AT: usize = DESTINATION_AT + CONDITION_NETS * NET;
const ASKS_AT: usize = NAME_AT + CONDITION_NAME + 1;
const SMALLEST_AT: usize = ASKS_AT + 4;
const PROTOCOLS_AT: usize = SMALLEST_AT + 4;
const SOURCE_PORTS_AT: usize = PROTOCOLS_AT + 256 / 8;
const DESTINATION_PORTS_AT: usize = SOURCE_PORTS_AT + 4 * CONDITION_PORTS;
const RULE: usize = DESTINATION_PORTS_AT + 4 * CONDITION_PORTS;

/// `enum condition_asks`.
const ASKS_PROTOCOL: u32 = 1;
const ASKS_PORT: u32 = 2;

/// Bytes of `struct condition_state`, and where in it what is.
const STATE: usize = 136;
const STATE_VERSION_AT: usize = 4;
const PACKETS_AT: usize = 72;
const BYTES_AT: usize = 96;
const UNMARKED_AT: usize = 120;
const MISSED_AT: usize = 128;

/// What is done with packets of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionAction {
    /// Nothing.
    Pass,
    /// They get this code point, 0 to 63.
    Mark(u8),
    /// They end here.
    Drop,
}

/// One conditioner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionRule {
    /// Its name, of [`CONDITION_NAME`] bytes at most.
    pub name: String,
    /// What it measures by, and whether that heeds the colours that code points
    /// bring; `None` takes every packet as green.
    pub meter: Option<(MeterKind, bool)>,
    /// The code points that it is about, a bit for each.
    pub codes: u64,
    /// Code points that bring yellow, and those that bring red.
    pub brings: [u64; 2],
    /// What is done with green, yellow and red packets.
    pub actions: [ConditionAction; 3],
    /// Numbers of the classes that it is about; none is all.
    pub classes: Vec<u32>,
    /// Whose packets it is about; none is everybody's.
    pub source: Vec<(IpAddr, u8)>,
    /// To whom.
    pub destination: Vec<(IpAddr, u8)>,
    /// Protocols that the packets carry, in ascending order; none is all.
    pub protocols: Vec<u8>,
    /// Ports from..=to that they come from, none below 1; none is all, and a
    /// packet without readable ports has none of any.
    pub source_ports: Vec<(u16, u16)>,
    /// Ports that they go to.
    pub destination_ports: Vec<(u16, u16)>,
    /// A packet of fewer IP bytes is measured as one of so many; 0 for none.
    pub smallest: u32,
}

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
    /// Packets let go because several processors were at it for too long.
    pub missed: u64,
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

/// The program, loaded by this process, with room for so many devices. It is
/// gone when this is dropped, unless a device has it by then.
#[derive(Debug)]
pub struct Condition {
    program: PacketPrograms,
    /// Devices that have places, and devices that have room.
    placed: u32,
    room: u32,
}

/// A loaded program's maps, by which it is told and read of one device.
#[derive(Debug)]
pub struct ConditionMaps {
    settings: MapHandle,
    instances: MapHandle,
    /// Where the device's conditioners begin in both.
    first: u32,
}

impl Condition {
    /// Loads it with room for so many devices. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load(room: u32) -> Result<Self, BpfError> {
        Self::load_as(room, false)
    }

    /// Loads it for frames that [`Condition::run`] gives it.
    pub fn load_alone(rules: &[ConditionRule]) -> Result<Self, BpfError> {
        let mut program = Self::load_as(1, false)?;
        program.place(LOOPBACK, rules)?;
        Ok(program)
    }

    /// The same with a record of every decision, for [`Condition::recorded`].
    pub fn load_recording(rules: &[ConditionRule]) -> Result<Self, BpfError> {
        let mut program = Self::load_as(1, true)?;
        program.place(LOOPBACK, rules)?;
        Ok(program)
    }

    fn load_as(room: u32, recording: bool) -> Result<Self, BpfError> {
        let constants = u32::from(recording).to_ne_bytes();
        let all = room.saturating_mul(CONDITIONERS as u32);
        let mut sizes = vec![(PLACES, room), (SETTINGS, all), (INSTANCES, all)];
        sizes.extend(recording.then_some((RECORDS, RECORDED)));
        Ok(Self {
            program: PacketPrograms::load_sized(FILE, NAME, Some(&constants), &sizes)?,
            placed: 0,
            room,
        })
    }

    /// Whether another device has room.
    pub const fn has_room(&self) -> bool {
        self.placed < self.room
    }

    /// Gives the device of this number a place with these conditioners. It can
    /// have the program then.
    ///
    /// # Errors
    ///
    /// Occurs where no further device has room, or a rule is none.
    pub fn place(&mut self, device: u32, rules: &[ConditionRule]) -> Result<(), BpfError> {
        if !self.has_room() {
            return Err(BpfError::Classes(format!(
                "conditioners of {} devices have room",
                self.room
            )));
        }
        let first = self.placed * CONDITIONERS as u32;
        self.placed += 1;
        let (settings, instances) = tables(|name| self.program.handle(name))?;
        let maps = ConditionMaps {
            settings,
            instances,
            first,
        };
        maps.set(rules)?;
        let places = places(|name| self.program.handle(name))?;
        places
            .update(&device.to_ne_bytes(), &first.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed(NAME, PLACES, "written"))
    }

    /// The program, for a filter of a device that has a place.
    pub fn attachable(&self) -> Result<OwnedFd, BpfError> {
        self.program.program(NAME)
    }

    /// What tells it of the frames that [`Condition::run`] gives it.
    pub fn maps(&self) -> Result<ConditionMaps, BpfError> {
        ConditionMaps::of(LOOPBACK, |name| self.program.handle(name))
    }

    /// Runs it once on an Ethernet frame of this class: whether it lets the
    /// packet go, and the frame afterwards.
    pub fn run(&self, frame: &[u8], class: u32) -> Result<(bool, Vec<u8>), BpfError> {
        let given = Given {
            priority: class,
            ..Given::default()
        };
        let ran = self.program.run_as(NAME, frame, given)?;
        Ok((!ran.dropped, ran.frame))
    }

    /// Calls `take` with each record of a decision so far, and forgets them.
    pub fn recorded(&self, mut take: impl FnMut(ConditionRecord)) -> Result<(), BpfError> {
        let map = self.program.handle(RECORDS);
        let map = map.ok_or(BpfError::NoProgram(FILE))?;
        let mut ring = libbpf_rs::RingBufferBuilder::new();
        let read = |bytes: &[u8]| {
            take(ConditionRecord {
                now_ns: word(bytes, 0),
                rule: half(bytes, 8),
                bytes: half(bytes, 12),
                brings: colour(half(bytes, 16)),
                colour: colour(half(bytes, 20)),
            });
            0
        };
        ring.add(&map, read)
            .map_err(failed(NAME, RECORDS, "read"))?;
        let ring = ring.build().map_err(failed(NAME, RECORDS, "read"))?;
        ring.consume().map_err(failed(NAME, RECORDS, "read"))
    }

    /// What tells this version of the program from others.
    pub fn digest() -> u32 {
        static DIGEST: OnceLock<u32> = OnceLock::new();
        *DIGEST.get_or_init(|| programs::digest(FILE))
    }
}

impl ConditionMaps {
    /// Those of the loaded program of this number, for the device of that one;
    /// `None` where there is no such program, it is none of this kind, or the
    /// device has no place there.
    pub fn of_program(id: u32, device: u32) -> Option<Self> {
        Self::of(device, maps_of(id)?).ok()
    }

    fn of(device: u32, mut map: impl FnMut(&str) -> Option<MapHandle>) -> Result<Self, BpfError> {
        let (settings, instances) = tables(&mut map)?;
        let places = places(map)?;
        let found = places.lookup(&device.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(failed(NAME, PLACES, "read"))?;
        Ok(Self {
            settings,
            instances,
            first: found.map_or(Err(BpfError::NoProgram(FILE)), |first| Ok(half(&first, 0)))?,
        })
    }

    /// States the conditioners, in the order in which they are asked. One that
    /// is what it was at its place keeps its meter and its counts; any other
    /// begins anew.
    pub fn set(&self, rules: &[ConditionRule]) -> Result<(), BpfError> {
        if rules.len() > CONDITIONERS {
            return Err(BpfError::Classes(format!(
                "{} conditioners; {CONDITIONERS} have room",
                rules.len()
            )));
        }
        for index in 0..CONDITIONERS {
            let mut bytes = match rules.get(index) {
                Some(rule) => encode(rule)?,
                None => vec![0; RULE],
            };
            let there = self.rule(index)?;
            let version = half(&there, VERSION_AT);
            let mut before = there;
            put(&mut before, VERSION_AT, 0);
            if bytes == before {
                continue;
            }
            put(&mut bytes, VERSION_AT, version.wrapping_add(1).max(1));
            self.settings
                .update(&self.key(index), &bytes, MapFlags::ANY)
                .map_err(failed(NAME, SETTINGS, "written"))?;
        }
        Ok(())
    }

    /// The conditioners, in their order; `None` where nothing that writes them
    /// could have made one.
    pub fn rules(&self) -> Result<Option<Vec<ConditionRule>>, BpfError> {
        let mut rules = Vec::new();
        for index in 0..CONDITIONERS {
            let bytes = self.rule(index)?;
            if half(&bytes, USED_AT) == 0 {
                break;
            }
            match decode(&bytes) {
                Some(rule) => rules.push(rule),
                None => return Ok(None),
            }
        }
        Ok(Some(rules))
    }

    /// What each has done, in their order.
    pub fn counts(&self) -> Result<Vec<ConditionCount>, BpfError> {
        let mut counts = Vec::new();
        for index in 0..CONDITIONERS {
            let rule = self.rule(index)?;
            if half(&rule, USED_AT) == 0 {
                break;
            }
            let found = self.instances.lookup(&self.key(index), MapFlags::ANY);
            let found = found.map_err(failed(NAME, INSTANCES, "read"))?;
            let state = found.unwrap_or_default();
            let mut count = ConditionCount {
                name: name(&rule),
                ..ConditionCount::default()
            };
            // Where no packet came since, the counts are an earlier one's.
            if half(&state, STATE_VERSION_AT) == half(&rule, VERSION_AT) {
                count.packets = std::array::from_fn(|at| word(&state, PACKETS_AT + 8 * at));
                count.bytes = std::array::from_fn(|at| word(&state, BYTES_AT + 8 * at));
                count.unmarked = word(&state, UNMARKED_AT);
                count.missed = word(&state, MISSED_AT);
            }
            counts.push(count);
        }
        Ok(counts)
    }

    fn rule(&self, index: usize) -> Result<Vec<u8>, BpfError> {
        let found = self.settings.lookup(&self.key(index), MapFlags::ANY);
        let found = found.map_err(failed(NAME, SETTINGS, "read"))?;
        Ok(found.unwrap_or_else(|| vec![0; RULE]))
    }

    fn key(&self, index: usize) -> [u8; 4] {
        self.first.saturating_add(index as u32).to_ne_bytes()
    }
}

/// The maps of what all devices' conditioners are told and have counted.
fn tables(
    mut map: impl FnMut(&str) -> Option<MapHandle>,
) -> Result<(MapHandle, MapHandle), BpfError> {
    let mut named = |name, bytes| sized(NAME, name, bytes, map(name));
    Ok((named(SETTINGS, RULE)?, named(INSTANCES, STATE)?))
}

fn places(mut map: impl FnMut(&str) -> Option<MapHandle>) -> Result<MapHandle, BpfError> {
    sized(NAME, PLACES, size_of::<u32>(), map(PLACES))
}

fn colour(number: u32) -> Colour {
    match number {
        0 => Colour::Green,
        1 => Colour::Yellow,
        _ => Colour::Red,
    }
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
}

fn name(rule: &[u8]) -> String {
    let bytes = rule.get(NAME_AT..).unwrap_or_default();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// `struct condition_rule` of version 0.
fn encode(rule: &ConditionRule) -> Result<Vec<u8>, BpfError> {
    let too_many = rule.classes.len() > CONDITION_CLASSES
        || rule.source.len() > CONDITION_NETS
        || rule.destination.len() > CONDITION_NETS
        || rule.source_ports.len() > CONDITION_PORTS
        || rule.destination_ports.len() > CONDITION_PORTS
        || rule.name.len() > CONDITION_NAME;
    if too_many {
        return Err(BpfError::Classes(format!(
            "conditioner `{}` has more classes, nets, ports or bytes of a name than fit",
            rule.name
        )));
    }
    let mut bytes = match rule.meter {
        Some((meter, aware)) => {
            let bytes = meter.encode(aware);
            bytes.map_err(|error| BpfError::Classes(format!("{}: {error}", rule.name)))?
        }
        None => vec![0; MeterKind::BYTES],
    };
    for codes in [rule.codes, rule.brings[0], rule.brings[1]] {
        bytes.extend(codes.to_ne_bytes());
    }
    let (mut actions, mut codes) = ([0_u32; 3], [0_u32; 3]);
    for (at, action) in rule.actions.iter().enumerate() {
        (actions[at], codes[at]) = match action {
            ConditionAction::Pass => (0, 0),
            ConditionAction::Mark(code) => (1, u32::from(*code)),
            ConditionAction::Drop => (2, 0),
        };
    }
    let mut words = vec![1, 0, u32::from(rule.meter.is_some())];
    words.extend(actions);
    words.extend(codes);
    words.push(rule.classes.len() as u32);
    words.extend(&rule.classes);
    for word in words {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.resize(SOURCE_AT, 0);
    for (nets, end) in [(&rule.source, DESTINATION_AT), (&rule.destination, NAME_AT)] {
        for (address, length) in nets {
            encode_net(*address, *length, &mut bytes);
        }
        bytes.resize(end, 0);
    }
    bytes.extend(rule.name.as_bytes());
    bytes.resize(ASKS_AT, 0);
    encode_carried(rule, &mut bytes);
    Ok(bytes)
}

/// What it asks of the transport header, and what it measures at least.
fn encode_carried(rule: &ConditionRule, bytes: &mut Vec<u8>) {
    let protocol = if rule.protocols.is_empty() {
        0
    } else {
        ASKS_PROTOCOL
    };
    let port = if rule.source_ports.is_empty() && rule.destination_ports.is_empty() {
        0
    } else {
        ASKS_PORT
    };
    let mut protocols = [0_u32; 8];
    for number in &rule.protocols {
        protocols[usize::from(number >> 5)] |= 1 << (number & 31);
    }
    for word in [protocol | port, rule.smallest].iter().chain(&protocols) {
        bytes.extend(word.to_ne_bytes());
    }
    let sides = [
        (&rule.source_ports, DESTINATION_PORTS_AT),
        (&rule.destination_ports, RULE),
    ];
    for (ports, end) in sides {
        for (from, to) in ports {
            bytes.extend(from.to_ne_bytes());
            bytes.extend(to.to_ne_bytes());
        }
        bytes.resize(end, 0);
    }
}

fn decode_ports(bytes: &[u8], from: usize) -> Vec<(u16, u16)> {
    let port = |at: usize| {
        let own = bytes.get(at..).and_then(|rest| rest.first_chunk());
        own.map_or(0, |own| u16::from_ne_bytes(*own))
    };
    let places = (0..CONDITION_PORTS).map(|at| from + 4 * at);
    let ports = places.map(|at| (port(at), port(at + 2)));
    ports.take_while(|(from, _)| *from != 0).collect()
}

fn decode_protocols(bytes: &[u8]) -> Vec<u8> {
    let named = |number: &u8| {
        let at = PROTOCOLS_AT + 4 * usize::from(number >> 5);
        half(bytes, at) >> (number & 31) & 1 != 0
    };
    (0..=u8::MAX).filter(named).collect()
}

/// `struct condition_net`.
fn encode_net(address: IpAddr, length: u8, bytes: &mut Vec<u8>) {
    let (octets, version) = match address {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            (octets, 4_u32)
        }
        IpAddr::V6(address) => (address.octets(), 6),
    };
    let most = if version == 4 { 32 } else { 128 };
    let length = u32::from(length).min(most);
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    let own = u128::from_be_bytes(octets) & mask;
    bytes.extend(own.to_be_bytes());
    bytes.extend(mask.to_be_bytes());
    bytes.extend(version.to_ne_bytes());
    bytes.extend(length.to_ne_bytes());
}

fn decode(bytes: &[u8]) -> Option<ConditionRule> {
    let metered = half(bytes, METERED_AT) != 0;
    let meter = metered.then(|| MeterKind::decode(bytes));
    let action = |at: usize| {
        let code = half(bytes, CODE_AT + 4 * at);
        Some(match half(bytes, ACTION_AT + 4 * at) {
            0 => ConditionAction::Pass,
            1 => ConditionAction::Mark(u8::try_from(code).ok()?),
            2 => ConditionAction::Drop,
            _ => return None,
        })
    };
    let classes = half(bytes, CLASSES_AT) as usize;
    if classes > CONDITION_CLASSES {
        return None;
    }
    let nets = |from: usize| -> Option<Vec<(IpAddr, u8)>> {
        (0..CONDITION_NETS)
            .map(|at| from + at * NET)
            .take_while(|at| half(bytes, at + 32) != 0)
            .map(|at| {
                let own = bytes.get(at..at + 16)?;
                let address: IpAddr = match half(bytes, at + 32) {
                    4 => Ipv4Addr::from_octets(*own.first_chunk()?).into(),
                    6 => Ipv6Addr::from_octets(*own.first_chunk()?).into(),
                    _ => return None,
                };
                Some((address, u8::try_from(half(bytes, at + 36)).ok()?))
            })
            .collect()
    };
    Some(ConditionRule {
        name: name(bytes),
        meter: match meter {
            Some(found) => Some(found?),
            None => None,
        },
        codes: word(bytes, CODES_AT),
        brings: [word(bytes, CODES_AT + 8), word(bytes, CODES_AT + 16)],
        actions: [action(0)?, action(1)?, action(2)?],
        classes: (0..classes)
            .map(|at| half(bytes, CLASSES_AT + 4 + 4 * at))
            .collect(),
        source: nets(SOURCE_AT)?,
        destination: nets(DESTINATION_AT)?,
        protocols: decode_protocols(bytes),
        source_ports: decode_ports(bytes, SOURCE_PORTS_AT),
        destination_ports: decode_ports(bytes, DESTINATION_PORTS_AT),
        smallest: half(bytes, SMALLEST_AT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> ConditionRule {
        ConditionRule {
            name: "gold".to_owned(),
            meter: Some((
                MeterKind::SingleRate {
                    rate: 125_000,
                    burst: 3_000,
                    excess: 6_000,
                },
                true,
            )),
            codes: 0x15 << 10,
            brings: [1 << 12, 1 << 14],
            actions: [
                ConditionAction::Mark(10),
                ConditionAction::Pass,
                ConditionAction::Drop,
            ],
            classes: vec![0x2_0011, 0x2_0012],
            source: vec![
                ("192.0.2.0".parse().unwrap(), 25),
                ("2001:db8::".parse().unwrap(), 33),
            ],
            destination: vec![("0.0.0.0".parse().unwrap(), 0)],
            protocols: vec![0, 6, 17, 132, 255],
            source_ports: vec![(1, 65_535)],
            destination_ports: vec![(5_060, 5_061), (80, 80)],
            smallest: 200,
        }
    }

    #[test]
    fn bytes_hold_all_of_it() {
        let full = rule();
        let bytes = encode(&full).unwrap();
        assert_eq!(bytes.len(), RULE);
        assert_eq!(decode(&bytes), Some(full.clone()));
        let bare = ConditionRule {
            meter: None,
            classes: Vec::new(),
            source: Vec::new(),
            destination: Vec::new(),
            protocols: Vec::new(),
            source_ports: Vec::new(),
            destination_ports: Vec::new(),
            smallest: 0,
            name: "n".repeat(CONDITION_NAME),
            ..full.clone()
        };
        let bytes = encode(&bare).unwrap();
        assert_eq!(decode(&bytes), Some(bare));
        for at in 0..RULE {
            let mut spoiled = bytes.clone();
            spoiled[at] ^= 0xff;
            let _ = decode(&spoiled);
            let _ = decode(&bytes[..at]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let wrong = [
            ConditionRule {
                name: "n".repeat(CONDITION_NAME + 1),
                ..rule()
            },
            ConditionRule {
                classes: vec![1; CONDITION_CLASSES + 1],
                ..rule()
            },
            ConditionRule {
                source: vec![("192.0.2.1".parse().unwrap(), 32); CONDITION_NETS + 1],
                ..rule()
            },
            ConditionRule {
                source_ports: vec![(1, 1); CONDITION_PORTS + 1],
                ..rule()
            },
            ConditionRule {
                meter: Some((MeterKind::Bucket { rate: 0, burst: 1 }, false)),
                ..rule()
            },
        ];
        for one in wrong {
            assert!(encode(&one).is_err(), "{one:?}");
        }
    }
}
