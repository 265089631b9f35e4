// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What packets tell that pass by (`bpf/passive/passive.bpf.c`): waits in a
//! device's queue, round trips, and what hosts send and receive.

use crate::error::BpfError;
use crate::programs::packet::PacketPrograms;
use crate::qdisc::attach_point::own_namespace;
use crate::qdisc::kind::{failed, sized};
use crate::trace::spread::{SPREAD_BYTES, Spread};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The file, and what errors call its programs.
const FILE: &str = "passive";

/// Its maps, with the bytes of their values.
const DEVICES: &str = "devices";
const SPREADS: &str = "spreads";
const HOSTS: &str = "hosts";
const TOTALS: &str = "totals";
const HOST_BYTES: usize = 96;

/// `DEVICE_HOSTS`.
const WITH_HOSTS: u32 = 1;

/// Devices that can be looked at, at most.
pub const PASSIVE_DEVICES: usize = 64;

/// What is wanted of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassiveDevice {
    /// Its number.
    pub ifindex: u32,
    /// The number of the device whose arriving packets it delays, for an IFB;
    /// else its own.
    pub line: u32,
    /// Whether hosts are told apart: on the inside, before addresses are
    /// translated.
    pub hosts: bool,
}

/// What a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From when a device gets a packet to when the packet leaves its queue.
    Wait,
    /// From when a TCP segment is given to the device to when its answer
    /// arrives there.
    Beyond,
    /// From when a TCP segment arrives at the device to when its answer is given
    /// to it.
    Here,
    /// No time: the IP bytes of the packets whose wait was timed.
    Bytes,
}

impl Way {
    const ALL: [Self; 4] = [Self::Wait, Self::Beyond, Self::Here, Self::Bytes];

    /// As the program calls it (`OF_WAIT` and the others).
    fn number(self) -> u32 {
        match self {
            Self::Wait => 0,
            Self::Beyond => 1,
            Self::Here => 2,
            Self::Bytes => 3,
        }
    }
}

/// What a [`Spread`] is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadOf {
    /// The device.
    pub ifindex: u32,
    /// The packet's priority: a class's number, where one was given. Of
    /// [`Way::Here`] that of the IFB where the segment passed one, else that of
    /// its answer.
    pub priority: u32,
    /// What was timed.
    pub way: Way,
}

/// A host: counters that only grow, and begin anew where it was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Host {
    /// IP bytes that it sent.
    pub sent_bytes: u64,
    /// Its packets.
    pub sent_packets: u64,
    /// IP bytes that it was sent.
    pub received_bytes: u64,
    /// Packets that it was sent.
    pub received_packets: u64,
    /// Round trips between here and those with whom it talks.
    pub beyond_count: u64,
    /// Their sum in ns.
    pub beyond_ns: u64,
    /// Round trips between here and the host.
    pub here_count: u64,
    /// Their sum in ns.
    pub here_ns: u64,
    /// Packets to it that were dropped in the device's queue.
    pub dropped: u64,
    /// Packets to it that were marked there (ECN's CE), but by programs that do so
    /// before the queue.
    pub marked: u64,
    /// Packets to it that left the queue.
    pub timed: u64,
    /// Their waits there, added up, in ns.
    pub waited_ns: u64,
}

/// Looks on until it is dropped. Nothing that it does can change a packet.
#[derive(Debug)]
pub struct Passive {
    programs: PacketPrograms,
    _links: Vec<Link>,
    devices: BTreeSet<PassiveDevice>,
}

impl Passive {
    /// Begins to look at this thread's network namespace; at no device yet.
    /// Needs CAP_BPF and CAP_PERFMON, and the kernel's type information.
    pub fn open() -> Result<Self, BpfError> {
        let namespace = own_namespace().map_err(BpfError::Namespace)?;
        let programs = PacketPrograms::load(FILE, FILE, Some(&namespace.to_ne_bytes()))?;
        let links = programs.attach()?;
        Ok(Self {
            programs,
            _links: links,
            devices: BTreeSet::new(),
        })
    }

    /// From now on looks at these devices, the first [`PASSIVE_DEVICES`] of
    /// them.
    pub fn watch(&mut self, devices: &[PassiveDevice]) -> Result<(), BpfError> {
        let wanted: BTreeSet<PassiveDevice> =
            devices.iter().take(PASSIVE_DEVICES).copied().collect();
        if wanted == self.devices {
            return Ok(());
        }
        let map = self.map(DEVICES, 8)?;
        let kept: BTreeSet<u32> = wanted.iter().map(|device| device.ifindex).collect();
        for gone in self
            .devices
            .iter()
            .filter(|one| !kept.contains(&one.ifindex))
        {
            map.delete(&gone.ifindex.to_ne_bytes())
                .map_err(failed(FILE, DEVICES, "written"))?;
        }
        // A device that is made again has another number: what is known of the
        // one before would take up room for ever.
        let gone = |of: &SpreadOf| !kept.contains(&of.ifindex);
        let gone: Vec<SpreadOf> = self.spreads()?.into_keys().filter(gone).collect();
        self.forget(&gone)?;
        for device in &wanted {
            let what = if device.hosts { WITH_HOSTS } else { 0 };
            let value = [device.line, what].map(u32::to_ne_bytes);
            map.update(
                &device.ifindex.to_ne_bytes(),
                value.as_flattened(),
                MapFlags::ANY,
            )
            .map_err(failed(FILE, DEVICES, "written"))?;
        }
        self.devices = wanted;
        Ok(())
    }

    /// The times of every device and class so far.
    pub fn spreads(&self) -> Result<BTreeMap<SpreadOf, Spread>, BpfError> {
        let map = self.map(SPREADS, SPREAD_BYTES)?;
        let mut spreads = BTreeMap::new();
        all(&map, SPREADS, |key, value| {
            let words: Vec<u32> = words(key);
            let (Some(&[ifindex, priority, way]), Some(spread)) =
                (words.first_chunk(), Spread::decode(value))
            else {
                return;
            };
            let Some(way) = Way::ALL.into_iter().find(|one| one.number() == way) else {
                return;
            };
            let of = SpreadOf {
                ifindex,
                priority,
                way,
            };
            spreads.insert(of, spread);
        })?;
        Ok(spreads)
    }

    /// Gives the room of these times to others.
    pub fn forget(&self, gone: &[SpreadOf]) -> Result<(), BpfError> {
        if gone.is_empty() {
            return Ok(());
        }
        let map = self.map(SPREADS, SPREAD_BYTES)?;
        for of in gone {
            let key = [of.ifindex, of.priority, of.way.number()].map(u32::to_ne_bytes);
            match map.delete(key.as_flattened()) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed(FILE, SPREADS, "written")(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The hosts of every device that tells them apart: the 4,096 that were
    /// heard of last.
    pub fn hosts(&self) -> Result<BTreeMap<(u32, IpAddr), Host>, BpfError> {
        let map = self.map(HOSTS, HOST_BYTES)?;
        let mut hosts = BTreeMap::new();
        all(&map, HOSTS, |key, value| {
            let (words, (numbers, _)) = (words(key), value.as_chunks::<8>());
            let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_ne_bytes).collect();
            let (Some(&[ifindex, version]), Some(&numbers)) =
                (words.first_chunk(), numbers.first_chunk::<12>())
            else {
                return;
            };
            let address = match version {
                4 => key
                    .get(8..12)
                    .and_then(|bytes| bytes.first_chunk::<4>())
                    .map(|bytes| IpAddr::V4(Ipv4Addr::from(*bytes))),
                _ => key
                    .get(8..24)
                    .and_then(|bytes| bytes.first_chunk::<16>())
                    .map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes))),
            };
            let [
                sent_bytes,
                sent_packets,
                received_bytes,
                received_packets,
                rest @ ..,
            ] = numbers;
            let [
                beyond_count,
                beyond_ns,
                here_count,
                here_ns,
                dropped,
                marked,
                timed,
                waited_ns,
            ] = rest;
            let host = Host {
                sent_bytes,
                sent_packets,
                received_bytes,
                received_packets,
                beyond_count,
                beyond_ns,
                here_count,
                here_ns,
                dropped,
                marked,
                timed,
                waited_ns,
            };
            hosts.extend(address.map(|address| ((ifindex, address), host)));
        })?;
        Ok(hosts)
    }

    /// Packets that left a queue and could not be timed, because they were not
    /// seen to come or were cut into segments there; and times for which there
    /// was no room: in all, they only grow.
    pub fn untimed(&self) -> Result<(u64, u64), BpfError> {
        let map = self.map(TOTALS, 16)?;
        let value = map
            .lookup(&[0; 4], MapFlags::ANY)
            .map_err(failed(FILE, TOTALS, "read"))?
            .unwrap_or_default();
        let mut numbers = value.as_chunks::<8>().0.iter().copied();
        let mut next = || numbers.next().map_or(0, u64::from_ne_bytes);
        Ok((next(), next()))
    }
}

impl Passive {
    fn map(&self, name: &'static str, bytes: usize) -> Result<MapHandle, BpfError> {
        sized(FILE, name, bytes, self.programs.handle(name))
    }
}

fn words(key: &[u8]) -> Vec<u32> {
    let (words, _) = key.as_chunks::<4>();
    words.iter().copied().map(u32::from_ne_bytes).collect()
}

/// Goes through a map, read in one go: the kernel gives whole buckets, so that a
/// smaller batch is seldom full, which libbpf-rs takes for the last.
fn all(
    map: &MapHandle,
    name: &'static str,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), BpfError> {
    let batches = map
        .lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)
        .map_err(failed(FILE, name, "read"))?;
    for (key, value) in batches {
        each(&key, &value);
    }
    Ok(())
}
