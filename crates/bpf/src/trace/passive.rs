// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures passing packets (`bpf/passive/passive.bpf.c`): waiting times in a device's queue,
//! round trips, and the traffic of hosts.

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

/// The object file, and the name of its programs in errors.
const FILE: &str = "passive";

/// The largest number of devices that can be measured at the same time.
pub const PASSIVE_DEVICES: usize = crate::layout::PASSIVE_DEVICES as usize;

/// A device to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassiveDevice {
    /// The index of the device.
    pub ifindex: u32,
    /// For an IFB, the index of the device whose arriving packets it delays; otherwise its own
    /// index.
    pub line: u32,
    /// Whether hosts are counted separately; useful on the inside, before address translation.
    pub hosts: bool,
}

/// The quantity that a [`Spread`] contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassiveQuantity {
    /// The time from when a device receives a packet to when the packet leaves its queue.
    Wait,
    /// The time from when a TCP segment is passed to the device to when its acknowledgement
    /// arrives there.
    Beyond,
    /// The time from when a TCP segment arrives at the device to when its acknowledgement is
    /// passed to the device.
    Here,
    /// The IP bytes of the packets whose waiting time was measured.
    Bytes,
}

impl PassiveQuantity {
    const ALL: [Self; 4] = [Self::Wait, Self::Beyond, Self::Here, Self::Bytes];

    /// Returns the number of the quantity in the program.
    fn number(self) -> u32 {
        match self {
            Self::Wait => OF_WAIT,
            Self::Beyond => OF_BEYOND,
            Self::Here => OF_HERE,
            Self::Bytes => OF_BYTES,
        }
    }
}

/// The key of a [`Spread`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadOf {
    /// The index of the device.
    pub ifindex: u32,
    /// The packet's priority, which is the class identifier if one was set. For
    /// [`PassiveQuantity::Here`] it is the priority at the IFB if the segment passed one;
    /// otherwise it is that of the acknowledgement.
    pub priority: u32,
    /// The quantity.
    pub quantity: PassiveQuantity,
}

/// The counters of a host. They only increase, and restart at zero if the host was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Host {
    /// IP bytes that it has sent.
    pub sent_bytes: u64,
    /// Packets that it has sent.
    pub sent_packets: u64,
    /// IP bytes sent to it.
    pub received_bytes: u64,
    /// Packets sent to it.
    pub received_packets: u64,
    /// The number of round trips between this machine and the host's remote ends.
    pub beyond_count: u64,
    /// The sum of these round trips in nanoseconds.
    pub beyond_ns: u64,
    /// The number of round trips between this machine and the host.
    pub here_count: u64,
    /// The sum of these round trips in nanoseconds.
    pub here_ns: u64,
    /// Packets to it that were dropped in the device's queue.
    pub dropped: u64,
    /// Packets to it that were marked there (CE), except by programs that run before the queue.
    pub marked: u64,
    /// Packets to it that left the queue and were timed.
    pub timed: u64,
    /// The sum of their waiting times in nanoseconds.
    pub waited_ns: u64,
}

/// A running measurement, which ends when this is dropped. It cannot change packets.
#[derive(Debug)]
pub struct Passive {
    programs: PacketPrograms,
    _links: Vec<Link>,
    devices: BTreeSet<PassiveDevice>,
}

impl Passive {
    /// Starts a measurement in the network namespace of this thread, at no device yet. Needs
    /// CAP_BPF, CAP_PERFMON and the kernel's BTF.
    pub fn open() -> Result<Self, BpfError> {
        let namespace = own_namespace().map_err(BpfError::Namespace)?;
        let (programs, links) = PacketPrograms::observe(FILE, &namespace.to_ne_bytes())?;
        Ok(Self {
            programs,
            _links: links,
            devices: BTreeSet::new(),
        })
    }

    /// Selects these devices, but at most the first [`PASSIVE_DEVICES`].
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
        // A device that is created again gets another index, so histograms of the old index must
        // be deleted.
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

    /// Returns the histograms of every device and class so far.
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

    /// Deletes histograms, to make room for others.
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

    /// Returns the counters of hosts at every device that distinguishes them, for the 4,096
    /// hosts seen last.
    pub fn hosts(&self) -> Result<BTreeMap<(u32, IpAddr), Host>, BpfError> {
        let map: Map<passive_host_key, passive_host> = self.programs.map("hosts")?;
        let named = |(key, host): (passive_host_key, passive_host)| {
            let version = u8::try_from(key.version).ok()?;
            let address = address(version, key.address.as_bytes())?;
            Some(((key.ifindex, address), Host::from(host)))
        };
        Ok(map.entries()?.into_iter().filter_map(named).inserted())
    }

    /// Returns two counters that only increase. The first is of packets that could not be timed
    /// when they left a queue: their arrival was not seen, or they were segmented there. The
    /// second is of times for which there was no room.
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
