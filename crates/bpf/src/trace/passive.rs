// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of passing packets (`bpf/passive/passive.bpf.c`): waits in a device's queue, round
//! trips, and the traffic of hosts.

use crate::error::BpfError;
use crate::layout::{
    DEVICE_HOSTS, OF_BEYOND, OF_BYTES, OF_HERE, OF_WAIT, passive_device, passive_host,
    passive_host_key, passive_spread_key, passive_totals, spread,
};
use crate::maps::Map;
use crate::programs::packet::{PacketPrograms, address};
use crate::qdisc::attach_point::own_namespace;
use crate::trace::spread::Spread;
use libbpf_rs::Link;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weirgate_units::Inserted as _;
use zerocopy::IntoBytes;

/// The file, and what errors call its programs.
const FILE: &str = "passive";

/// Devices that can be looked at, at most.
pub const PASSIVE_DEVICES: usize = crate::layout::PASSIVE_DEVICES as usize;

/// What is wanted of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassiveDevice {
    /// Its number.
    pub ifindex: u32,
    /// The number of the device whose arriving packets it delays, for an IFB;
    /// else its own.
    pub line: u32,
    /// Whether hosts are distinguished: on the inside, before addresses are
    /// translated.
    pub hosts: bool,
}

/// What a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassiveQuantity {
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

impl PassiveQuantity {
    const ALL: [Self; 4] = [Self::Wait, Self::Beyond, Self::Here, Self::Bytes];

    /// As the program calls it.
    fn number(self) -> u32 {
        match self {
            Self::Wait => OF_WAIT,
            Self::Beyond => OF_BEYOND,
            Self::Here => OF_HERE,
            Self::Bytes => OF_BYTES,
        }
    }
}

/// What a [`Spread`] is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadOf {
    /// The device.
    pub ifindex: u32,
    /// The packet's priority: a class's number, where one was given. Of
    /// [`PassiveQuantity::Here`] that of the IFB where the segment passed one, else that of
    /// its answer.
    pub priority: u32,
    /// What was timed.
    pub quantity: PassiveQuantity,
}

/// A host's counters, which only grow, and restart after the host was forgotten.
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
            devices.iter().take(PASSIVE_DEVICES).copied().inserted();
        if wanted == self.devices {
            return Ok(());
        }
        let map: Map<u32, passive_device> = self.programs.map("devices")?;
        let stay: BTreeSet<u32> = wanted.iter().map(|device| device.ifindex).inserted();
        for before in &self.devices {
            if !stay.contains(&before.ifindex) {
                map.remove(&before.ifindex)?;
            }
        }
        // A device that is made again has another number: what is known of the
        // one before would take up room for ever.
        let gone = |of: &SpreadOf| !stay.contains(&of.ifindex);
        let gone: Vec<SpreadOf> = self.spreads()?.into_keys().filter(gone).collect();
        self.forget(&gone)?;
        for device in &wanted {
            let value = passive_device {
                line: device.line,
                what: if device.hosts { DEVICE_HOSTS } else { 0 },
            };
            map.put(&device.ifindex, &value)?;
        }
        self.devices = wanted;
        Ok(())
    }

    /// The times of every device and class so far.
    pub fn spreads(&self) -> Result<BTreeMap<SpreadOf, Spread>, BpfError> {
        let named = |(key, spread): (passive_spread_key, spread)| {
            let of = SpreadOf {
                ifindex: key.ifindex,
                priority: key.priority,
                quantity: PassiveQuantity::ALL
                    .into_iter()
                    .find(|one| one.number() == key.of)?,
            };
            Some((of, Spread::from(&spread)))
        };
        let all = self.spread_map()?.entries()?;
        Ok(all.into_iter().filter_map(named).inserted())
    }

    /// Gives the room of these times to others.
    pub fn forget(&self, gone: &[SpreadOf]) -> Result<(), BpfError> {
        let map = self.spread_map()?;
        gone.iter().try_for_each(|one| {
            map.remove(&passive_spread_key {
                ifindex: one.ifindex,
                priority: one.priority,
                of: one.quantity.number(),
            })
        })
    }

    /// The hosts of every device that tells them apart: the 4,096 that were
    /// heard of last.
    pub fn hosts(&self) -> Result<BTreeMap<(u32, IpAddr), Host>, BpfError> {
        let map: Map<passive_host_key, passive_host> = self.programs.map("hosts")?;
        let named = |(key, host): (passive_host_key, passive_host)| {
            let version = u8::try_from(key.version).ok()?;
            let address = address(version, key.address.as_bytes())?;
            Some(((key.ifindex, address), Host::from(host)))
        };
        Ok(map.entries()?.into_iter().filter_map(named).inserted())
    }

    /// Packets that left a queue and could not be timed, because they were not
    /// seen to come or were cut into segments there; and times for which there
    /// was no room: in all, they only grow.
    pub fn untimed(&self) -> Result<(u64, u64), BpfError> {
        let map: Map<u32, passive_totals> = self.programs.map("totals")?;
        let totals = map.first()?;
        Ok((totals.untimed, totals.left_out))
    }

    fn spread_map(&self) -> Result<Map<passive_spread_key, spread>, BpfError> {
        self.programs.map("spreads")
    }
}

impl From<passive_host> for Host {
    fn from(host: passive_host) -> Self {
        Self {
            sent_bytes: host.sent_bytes,
            sent_packets: host.sent_packets,
            received_bytes: host.received_bytes,
            received_packets: host.received_packets,
            beyond_count: host.beyond_count,
            beyond_ns: host.beyond_ns,
            here_count: host.here_count,
            here_ns: host.here_ns,
            dropped: host.dropped,
            marked: host.marked,
            timed: host.timed,
            waited_ns: host.waited_ns,
        }
    }
}
