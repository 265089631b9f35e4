// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of passing packets: waits by class, TCP round trips by class and host, and the
//! traffic from and to each host.

use crate::legend::Legend;
use crate::object::{Number, Object, Sort};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;
use weirgate_bpf::{
    BpfError, Host, PASSIVE_DEVICES, Passive, PassiveDevice, PassiveQuantity, Spread, SpreadOf,
};
use weirgate_kernel::DeviceOverview;
use weirgate_units::{Arrange as _, Handle, Inserted as _};

/// The largest number of hosts with metrics, so that a flood of new hosts adds no series.
const MOST_HOSTS: usize = 512;
/// The number of looks without a packet after which a host loses its slot.
const SILENT: u32 = 600;

/// The upper quantile of times, in thousandths.
const HIGH: u64 = 950;

/// The measurements of passing packets, with the previous look.
pub(crate) struct PacketStats {
    passive: Passive,
    spreads: BTreeMap<SpreadOf, Spread>,
    /// Times that belong to no existing class, and for how many looks they have not changed.
    unclaimed: BTreeMap<SpreadOf, u32>,
    untimed: Untimed,
    hosts: BTreeMap<(u32, IpAddr), Seat>,
    /// The hosts that were known at the previous look.
    known: BTreeSet<(u32, IpAddr)>,
    /// The time of the previous look.
    looked: Option<Instant>,
}

/// What could not be measured since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Untimed {
    /// Packets that left a queue, but whose arrival was not seen.
    pub(crate) packets: u64,
    /// Times for which there was no room.
    pub(crate) left_out: u64,
}

/// The queue of a host's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Queue {
    /// Whether its marks are visible: they are made in the queue, not before it.
    marks: bool,
    /// The time since the previous look in nanoseconds.
    passed: u64,
}

/// A host with metrics.
struct Seat {
    last: Host,
    silent: u32,
    /// Whether it was unknown at the previous look.
    new: bool,
}

impl PacketStats {
    /// Starts measuring in the network namespace of this thread. Needs CAP_BPF and CAP_PERFMON.
    pub(crate) fn open() -> Result<Self, BpfError> {
        Ok(Self {
            passive: Passive::open()?,
            spreads: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            untimed: Untimed::default(),
            hosts: BTreeMap::new(),
            known: BTreeSet::new(),
            looked: None,
        })
    }

    /// Adds the changes since the previous look: metrics of classes, and hosts.
    pub(crate) fn look(
        &mut self,
        devices: &[DeviceOverview],
        shaped: impl Fn(&DeviceOverview) -> bool,
        legend: &Legend,
        objects: &mut Vec<Object>,
    ) -> Result<(), BpfError> {
        self.passive.watch(&wanted(devices, &shaped, legend))?;
        let now = Instant::now();
        let passed = self.looked.replace(now).map(|before| now - before);
        let spreads = self.passive.spreads()?;
        let numbers: BTreeMap<&str, u32> = devices
            .iter()
            .map(|device| (&*device.name, device.index))
            .inserted();
        let before = std::mem::take(&mut self.spreads);
        let mut claimed = BTreeSet::new();
        for object in objects.iter_mut().filter(|one| one.sort == Sort::Class) {
            let handle: Option<Handle> = object.label("handle").parse().ok();
            let Some((handle, ifindex)) = handle.zip(numbers.get(object.label("device"))) else {
                continue;
            };
            let of = |quantity| SpreadOf {
                ifindex: *ifindex,
                priority: u32::from(handle.major) << 16 | u32::from(handle.minor),
                quantity,
            };
            class(&mut object.numbers, &spreads, &before, of);
            let own = of(PassiveQuantity::Wait);
            claimed.insert((own.ifindex, own.priority));
        }
        self.unclaimed = unclaimed(&spreads, &before, &claimed, &self.unclaimed);
        let old = self.unclaimed.iter().filter(|(_, looks)| **looks >= SILENT);
        let old: Vec<SpreadOf> = old.map(|(of, _)| *of).collect();
        self.passive.forget(&old)?;
        self.spreads = spreads;
        let (packets, left_out) = self.passive.untimed()?;
        self.untimed = Untimed { packets, left_out };
        let names: BTreeMap<u32, &str> = numbers
            .iter()
            .map(|(name, index)| (*index, *name))
            .inserted();
        // The queue is known if packets to hosts are shaped on the inside device.
        let queues: BTreeMap<u32, Queue> = devices
            .iter()
            .filter(|device| shaped(device))
            .filter_map(|device| {
                let passed = u64::try_from(passed?.as_nanos()).ok()?;
                let marks = !of_the_kit(device);
                Some((device.index, Queue { marks, passed }))
            })
            .inserted();
        let mut hosts = self.passive.hosts()?;
        hosts.retain(|(_, address), _| is_one_host(*address));
        self.seat(&hosts);
        for ((ifindex, address), seat) in &mut self.hosts {
            let device = names.get(ifindex).copied().unwrap_or_default();
            let now = hosts.get(&(*ifindex, *address)).copied();
            let now = now.unwrap_or_default();
            let queue = queues.get(ifindex).copied();
            let mut object = host(device, *address, &now, &seat.last, queue);
            object.begins = std::mem::take(&mut seat.new);
            objects.push(object);
            seat.last = now;
        }
        self.known = hosts.into_keys().inserted();
        Ok(())
    }

    /// Returns what could not be measured so far.
    pub(crate) fn untimed(&self) -> Untimed {
        self.untimed
    }

    /// Assigns slots to hosts: a host keeps its slot while it has traffic.
    fn seat(&mut self, known: &BTreeMap<(u32, IpAddr), Host>) {
        for (key, seat) in &mut self.hosts {
            let now = known.get(key);
            let packets = |host: &Host| host.sent_packets + host.received_packets;
            let quiet = now.is_none_or(|now| packets(now) == packets(&seat.last));
            seat.silent = if quiet { seat.silent + 1 } else { 0 };
        }
        self.hosts.retain(|key, _| known.contains_key(key));
        let mut new: Vec<_> = known
            .iter()
            .filter(|(key, _)| !self.hosts.contains_key(*key))
            .collect();
        // Hosts with the most traffic come first.
        new.arrange_by_key(|(_, host)| std::cmp::Reverse(host.sent_bytes + host.received_bytes));
        for (key, host) in new {
            if self.hosts.len() >= MOST_HOSTS {
                let longest = self.hosts.iter().max_by_key(|(_, seat)| seat.silent);
                let Some((gone, _)) = longest.filter(|(_, seat)| seat.silent >= SILENT) else {
                    return;
                };
                let gone = *gone;
                self.hosts.remove(&gone);
            }
            let new = !self.known.contains(key);
            let seat = Seat {
                last: if new { Host::default() } else { *host },
                silent: 0,
                new,
            };
            self.hosts.insert(*key, seat);
        }
    }
}

/// Returns whether an address belongs to a single host, and is not a multicast or broadcast
/// address.
fn is_one_host(address: IpAddr) -> bool {
    let everyone = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !everyone && !address.is_multicast() && !address.is_unspecified()
}

/// Returns the times that belong to no class, with the number of looks without a change. They
/// are of removed classes, and of priorities that name no class.
fn unclaimed(
    spreads: &BTreeMap<SpreadOf, Spread>,
    before: &BTreeMap<SpreadOf, Spread>,
    claimed: &BTreeSet<(u32, u32)>,
    looks: &BTreeMap<SpreadOf, u32>,
) -> BTreeMap<SpreadOf, u32> {
    let free = |of: &SpreadOf| !claimed.contains(&(of.ifindex, of.priority));
    let quiet = |of: &SpreadOf, now: &Spread| {
        let last = before.get(of);
        last.is_some_and(|last| last.count == now.count)
    };
    let free = spreads.iter().filter(|(of, _)| free(of));
    free.map(|(of, now)| {
        let so_far = looks.get(of).copied().unwrap_or(0);
        (*of, if quiet(of, now) { so_far + 1 } else { 0 })
    })
    .inserted()
}

/// Returns the devices to measure: those of the policy's links and the inside ones; without a
/// policy, those that are shaped.
fn wanted(
    devices: &[DeviceOverview],
    shaped: &impl Fn(&DeviceOverview) -> bool,
    legend: &Legend,
) -> Vec<PassiveDevice> {
    let number = |name: &str| {
        let found = devices.iter().find(|device| device.name == name);
        found.map(|device| device.index)
    };
    let mut wanted: BTreeMap<u32, PassiveDevice> = BTreeMap::new();
    if legend.links.is_empty() {
        for device in devices.iter().filter(|device| shaped(device)) {
            wanted.insert(device.index, one(device.index, device.index, false));
        }
    }
    // The directions of a policy are adjacent, upstream first.
    let mut up = None;
    for (direction, device, _) in &legend.links {
        if direction == "up" {
            up = Some(device);
        }
        let inside = legend.inside.contains(device);
        // Downstream and not an inside device: an IFB, which delays packets that arrived
        // outside.
        let line = up.filter(|_| direction == "down" && !inside);
        let line = line.unwrap_or(device);
        if let Some((ifindex, line)) = number(device).zip(number(line)) {
            wanted.insert(ifindex, one(ifindex, line, inside));
        }
    }
    for ifindex in legend.inside.iter().filter_map(|name| number(name)) {
        wanted.insert(ifindex, one(ifindex, ifindex, true));
    }
    wanted.into_values().take(PASSIVE_DEVICES).collect()
}

fn one(ifindex: u32, line: u32, hosts: bool) -> PassiveDevice {
    PassiveDevice {
        ifindex,
        line,
        hosts,
    }
}

/// Adds the metrics of a class: sums, and values since the previous look.
fn class(
    numbers: &mut Vec<(Number, u64)>,
    spreads: &BTreeMap<SpreadOf, Spread>,
    before: &BTreeMap<SpreadOf, Spread>,
    of: impl Fn(PassiveQuantity) -> SpreadOf,
) {
    let nothing = Spread::default();
    let since = |quantity| {
        let all = spreads.get(&of(quantity))?;
        Some(all.since(before.get(&of(quantity)).unwrap_or(&nothing)))
    };
    // Report zero too, so that the first packets count as a change.
    let waits = spreads.get(&of(PassiveQuantity::Wait)).unwrap_or(&nothing);
    numbers.push((Number::ClassTimed, waits.count));
    numbers.push((Number::ClassWaited, waits.sum_ns / 1000));
    let bytes = spreads.get(&of(PassiveQuantity::Bytes)).unwrap_or(&nothing);
    numbers.push((Number::ClassIpBytes, bytes.sum_ns));
    let gauges = [
        (
            PassiveQuantity::Wait,
            Number::ClassMeanWait,
            Number::ClassHighWait,
        ),
        (
            PassiveQuantity::Beyond,
            Number::ClassBeyond,
            Number::ClassHighBeyond,
        ),
        (
            PassiveQuantity::Here,
            Number::ClassHere,
            Number::ClassHighHere,
        ),
    ];
    for (quantity, mean, high) in gauges {
        let Some(found) = since(quantity) else {
            continue;
        };
        numbers.extend(found.mean_ns().map(|ns| (mean, ns / 1000)));
        numbers.extend(found.at_most_ns(HIGH).map(|ns| (high, ns / 1000)));
    }
}

/// Returns whether weirgate's own disciplines shape on a device. A program applies their marks
/// before the queue.
fn of_the_kit(device: &DeviceOverview) -> bool {
    let mut kinds = device.counters.qdiscs.iter().map(|qdisc| &*qdisc.kind);
    kinds.any(|kind| kind.starts_with("weir"))
}

fn host(device: &str, address: IpAddr, now: &Host, last: &Host, queue: Option<Queue>) -> Object {
    let mut numbers = vec![
        (Number::HostSentBytes, now.sent_bytes),
        (Number::HostSentPackets, now.sent_packets),
        (Number::HostReceivedBytes, now.received_bytes),
        (Number::HostReceivedPackets, now.received_packets),
    ];
    let mean = |ns: u64, last_ns: u64, count: u64, last_count: u64| {
        // A host that was evicted and returned has smaller counters.
        let (ns, count) = (ns.checked_sub(last_ns)?, count.checked_sub(last_count)?);
        Some(ns.checked_div(count)? / 1000)
    };
    let beyond = mean(
        now.beyond_ns,
        last.beyond_ns,
        now.beyond_count,
        last.beyond_count,
    );
    let here = mean(now.here_ns, last.here_ns, now.here_count, last.here_count);
    numbers.extend(beyond.map(|us| (Number::HostBeyond, us)));
    numbers.extend(here.map(|us| (Number::HostHere, us)));
    if let Some(queue) = queue {
        numbers.push((Number::HostDrops, now.dropped));
        if queue.marks {
            numbers.push((Number::HostMarks, now.marked));
        }
        let wait = mean(now.waited_ns, last.waited_ns, now.timed, last.timed);
        numbers.extend(wait.map(|us| (Number::HostWait, us)));
        // By Little's law, in thousandths of a packet.
        let waited = now.waited_ns.saturating_sub(last.waited_ns);
        let thousandths = u128::from(waited) * 1000 / u128::from(queue.passed.max(1));
        numbers.push((
            Number::HostBacklog,
            u64::try_from(thousandths).unwrap_or(u64::MAX),
        ));
    }
    Object {
        sort: Sort::Host,
        identity: String::new(),
        begins: false,
        labels: vec![("device", device.to_owned()), ("host", address.to_string())],
        numbers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_kernel::{DeviceCounters, Traffic};

    #[test]
    fn only_times_that_nobody_has_grow_old() {
        let of = |priority| SpreadOf {
            ifindex: 3,
            priority,
            quantity: PassiveQuantity::Wait,
        };
        let counted = |count| {
            let mut spread = Spread::default();
            spread.count = count;
            spread
        };
        let before: BTreeMap<_, _> = [
            (of(1), counted(5)),
            (of(2), counted(5)),
            (of(3), counted(5)),
        ]
        .into();
        let mut now = before.clone();
        now.insert(of(3), counted(6));
        now.insert(of(4), counted(0));
        let claimed = BTreeSet::from([(3, 1)]);
        let looks = BTreeMap::from([(of(1), 9), (of(2), 9), (of(3), 9)]);
        let found = unclaimed(&now, &before, &claimed, &looks);
        assert_eq!(found, BTreeMap::from([(of(2), 10), (of(3), 0), (of(4), 0)]));
    }

    #[test]
    fn every_ifb_is_of_its_own_link() {
        let names = ["a", "ifb-a", "b", "ifb-b"];
        let devices: Vec<DeviceOverview> = (1..).zip(names).map(device).collect();
        let link = |(way, name): (&str, &str)| (way.to_owned(), name.to_owned(), 1_000_000);
        let ways = ["up", "down", "up", "down"];
        let legend = Legend {
            links: ways.into_iter().zip(names).map(link).collect(),
            ..Legend::default()
        };
        let found = wanted(&devices, &|_| true, &legend);
        let lines = found.iter().map(|one| (one.ifindex, one.line));
        assert_eq!(lines.collect::<Vec<_>>(), [(1, 1), (2, 1), (3, 3), (4, 3)]);
    }

    fn device((index, name): (u32, &str)) -> DeviceOverview {
        DeviceOverview {
            index,
            name: name.to_owned(),
            up: true,
            received: Traffic::default(),
            sent: Traffic::default(),
            counters: DeviceCounters {
                qdiscs: Vec::new(),
                classes: Vec::new(),
            },
            rates: BTreeMap::new(),
            cake: None,
        }
    }

    #[test]
    fn groups_are_no_hosts() {
        let is_one = |text: &str| is_one_host(text.parse().expect("an address"));
        assert!(
            ["192.0.2.7", "fe80::1", "2001:db8::7"]
                .into_iter()
                .all(is_one)
        );
        let groups = ["ff02::2", "224.0.0.251", "255.255.255.255", "0.0.0.0", "::"];
        assert!(!groups.into_iter().any(is_one));
    }

    #[test]
    fn a_mean_is_of_what_came_since() {
        let last = Host {
            sent_bytes: 10,
            beyond_count: 2,
            beyond_ns: 8_000_000,
            ..Host::default()
        };
        let now = Host {
            sent_bytes: 30,
            beyond_count: 4,
            beyond_ns: 20_000_000,
            ..last
        };
        let address: IpAddr = "192.0.2.7".parse().expect("an address");
        let object = host("lan", address, &now, &last, None);
        assert_eq!(object.number(Number::HostDrops), None);
        assert_eq!(object.number(Number::HostSentBytes), Some(30));
        assert_eq!(object.number(Number::HostBeyond), Some(6_000));
        assert_eq!(object.number(Number::HostHere), None);
        assert_eq!(object.label("host"), "192.0.2.7");
        // The host was evicted, and returned.
        let object = host("lan", address, &Host::default(), &now, None);
        assert_eq!(object.number(Number::HostBeyond), None);
    }

    #[test]
    fn what_waited_for_a_host_follows_from_the_waits_of_what_left() {
        let last = Host {
            dropped: 1,
            timed: 10,
            waited_ns: 5_000_000_000,
            ..Host::default()
        };
        // 100 packets of 25 ms each in a second: the mean backlog is 2.5 packets.
        let now = Host {
            dropped: 4,
            marked: 2,
            timed: 110,
            waited_ns: 7_500_000_000,
            ..last
        };
        let address: IpAddr = "192.0.2.7".parse().expect("an address");
        let queue = |marks| {
            Some(Queue {
                marks,
                passed: 1_000_000_000,
            })
        };
        let object = host("lan", address, &now, &last, queue(true));
        assert_eq!(object.number(Number::HostDrops), Some(4));
        assert_eq!(object.number(Number::HostMarks), Some(2));
        assert_eq!(object.number(Number::HostWait), Some(25_000));
        assert_eq!(object.number(Number::HostBacklog), Some(2_500));
        let object = host("lan", address, &now, &last, queue(false));
        assert_eq!(object.number(Number::HostMarks), None);
    }
}
