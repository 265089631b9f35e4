// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of the connection table: the number of connections by service and class, and the
//! flows with the most traffic.

use crate::look::behaviour::Behaviour;
use crate::object::{Number, Object, Sort};
use crate::sorter::{Sorted, Sorter};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use weirgate_kernel::{Connection, ConnectionCount, ConnectionTable, Subnet, Tuple};
use weirgate_units::{Arrange as _, Inserted as _};

/// The largest number of services with metrics; the others are summed up.
const MOST_SERVICES: usize = 32;
/// The number of readings without a connection after which a service loses its slot.
const SILENT: u32 = 60;
/// The number of flows that are shown.
const MOST_FLOWS: usize = 20;
/// How many connections are classified for each look since the previous reading. A connection is
/// classified again after OLD readings, because its class may depend on bytes or time.
pub(crate) const SORTED: usize = 40;
const OLD: u32 = 30;

/// A flow with much traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// `tcp`, `udp`, or the number of another protocol.
    pub protocol: String,
    /// The address of the inside end; without a policy, that of the opener.
    pub host: IpAddr,
    /// Its port.
    pub host_port: u16,
    /// The address of the other end.
    pub remote: IpAddr,
    /// Its port.
    pub remote_port: u16,
    /// The upstream class.
    pub up_class: Option<String>,
    /// The downstream class.
    pub down_class: Option<String>,
    /// The rate from the host in bits per second of IP packets.
    pub up: u64,
    /// The rate to the host in bits per second of IP packets.
    pub down: u64,
    /// What it is by the sizes and rates of its packets: `call`, `real-time`, `terminal` or `bulk`;
    /// `None` while that is undecided.
    pub kind: Option<&'static str>,
}

struct Known {
    sorted: Option<Sorted>,
    /// The number of readings since its class was determined.
    age: u32,
    /// The properties by which it was classified.
    by: (u32, bool),
}

/// The connections at the previous reading.
#[derive(Default)]
pub(crate) struct Connections {
    seats: BTreeMap<(u8, u16), u32>,
    known: BTreeMap<Tuple, Known>,
    /// The position in the table from which the next reading classifies connections. It
    /// continues after the last one, so that no connection waits for ever.
    next: usize,
    /// The number of connections that have not been classified yet.
    unsorted: u64,
    before: BTreeMap<Tuple, (u64, u64)>,
    read: Option<Instant>,
    pub(crate) objects: Vec<Object>,
    /// The number of connections of each direction and class.
    pub(crate) classes: BTreeMap<(&'static str, String), u64>,
    pub(crate) flows: Arc<Vec<Flow>>,
    /// What flows are, and what hosts do.
    pub(crate) behaviour: Behaviour,
}

impl Connections {
    /// Processes the current table. `limit` is the largest size of the table, and `room` is how
    /// many connections may be classified.
    pub(crate) fn take(
        &mut self,
        table: &ConnectionTable,
        subnets: &[Subnet],
        (sorter, room): (&Sorter, usize),
        limit: Option<u64>,
        now: Instant,
    ) {
        let all = &table.first[..];
        self.sort(all, subnets, sorter, room);
        // Connections that are only counted have no class.
        let beyond = table.count.all.saturating_sub(all.len() as u64);
        self.unsorted += beyond;
        let mut numbers = vec![
            (Number::ConnectionsTracked, table.count.all),
            (Number::ConnectionsUnanswered, table.count.unanswered),
            (Number::ConnectionsMarked, table.count.marked),
        ];
        numbers.extend(limit.map(|limit| (Number::ConnectionsLimit, limit)));
        if sorter.0.is_some() {
            numbers.push((Number::ConnectionsUnsorted, self.unsorted));
        }
        self.objects = vec![Object {
            sort: Sort::Connections,
            identity: String::new(),
            begins: false,
            labels: Vec::new(),
            numbers,
        }];
        self.services(table);
        if beyond == 0 {
            self.flows(all, now);
        } else {
            // With an incomplete table, these would not be the largest flows.
            self.before.clear();
            self.read = None;
            self.flows = Arc::default();
        }
    }

    fn services(&mut self, table: &ConnectionTable) {
        let pair = |count: &ConnectionCount| (count.all, count.unanswered);
        let known = table.services.iter();
        let mut services: BTreeMap<(u8, u16), (u64, u64)> =
            known.map(|(key, count)| (*key, pair(count))).inserted();
        for (key, silent) in &mut self.seats {
            *silent = if services.contains_key(key) {
                0
            } else {
                *silent + 1
            };
        }
        self.seats.retain(|_, silent| *silent < SILENT);
        let mut new: Vec<_> = services
            .iter()
            .filter(|(key, _)| !self.seats.contains_key(*key))
            .collect();
        new.arrange_by_key(|(key, (count, _))| (std::cmp::Reverse(*count), **key));
        let room = MOST_SERVICES.saturating_sub(self.seats.len());
        self.seats
            .extend(new.into_iter().take(room).map(|(key, _)| (*key, 0)));
        let object = |protocol: String, port: String, (count, unanswered): (u64, u64)| Object {
            sort: Sort::Service,
            identity: String::new(),
            begins: false,
            labels: vec![("protocol", protocol), ("port", port)],
            numbers: vec![
                (Number::ServiceConnections, count),
                (Number::ServiceUnanswered, unanswered),
            ],
        };
        for key in self.seats.keys() {
            let sum = services.remove(key).unwrap_or_default();
            self.objects
                .push(object(protocol(key.0), key.1.to_string(), sum));
        }
        let rest = services.values();
        let rest = rest.fold(pair(&table.others), |sum, one| {
            (sum.0 + one.0, sum.1 + one.1)
        });
        if rest.0 > 0 {
            let other = String::from("other");
            self.objects.push(object(other, String::new(), rest));
        }
    }

    /// Classifies at most `room` connections. New ones and those with another mark come first,
    /// in the table's order from where the previous reading stopped. Then follow those whose
    /// classification is oldest. Finally counts connections by class.
    fn sort(&mut self, all: &[Connection], subnets: &[Subnet], sorter: &Sorter, mut room: usize) {
        self.classes.clear();
        self.unsorted = 0;
        let mut before = std::mem::take(&mut self.known);
        let Some(sorter) = &sorter.0 else {
            return;
        };
        let found = |one: &Connection| Known {
            sorted: sorter(one, subnets),
            age: 0,
            by: (one.mark, one.answered),
        };
        let begin = self.next.min(all.len());
        let mut old: Vec<(u32, &Connection)> = Vec::new();
        for index in (begin..all.len()).chain(0..begin) {
            let one = &all[index];
            let known = before.remove(&one.original).map(|known| Known {
                age: known.age + 1,
                ..known
            });
            let same = known
                .as_ref()
                .is_some_and(|known| known.by == (one.mark, one.answered));
            let known = match known {
                Some(known) if same => {
                    if known.age >= OLD {
                        old.push((known.age, one));
                    }
                    known
                }
                _ if room > 0 => {
                    room -= 1;
                    if room == 0 {
                        self.next = index + 1;
                    }
                    found(one)
                }
                Some(known) => known,
                None => {
                    self.unsorted += 1;
                    continue;
                }
            };
            self.known.insert(one.original, known);
        }
        old.arrange_by_key(|(age, one)| (std::cmp::Reverse(*age), one.original));
        for (_, one) in old.into_iter().take(room) {
            self.known.insert(one.original, found(one));
        }
        let mut counts: BTreeMap<(&'static str, &str), u64> = BTreeMap::new();
        for sorted in self.known.values().filter_map(|one| one.sorted.as_ref()) {
            for (direction, class) in [("up", &sorted.up), ("down", &sorted.down)] {
                if let Some(class) = class {
                    *counts.entry((direction, class)).or_default() += 1;
                }
            }
        }
        let owned =
            |((direction, class), count): ((_, &str), _)| ((direction, class.to_owned()), count);
        self.classes = counts.into_iter().map(owned).inserted();
    }

    fn flows(&mut self, all: &[Connection], now: Instant) {
        let before = std::mem::take(&mut self.before);
        let passed = self.read.replace(now).map(|read| now - read);
        let mut found: Vec<(u64, u64, &Connection)> = Vec::new();
        for one in all {
            let Some((there, back)) = one.carried else {
                continue;
            };
            let bytes = (there.bytes, back.bytes);
            self.before.insert(one.original, bytes);
            let Some(passed) = passed.filter(|passed| !passed.is_zero()) else {
                continue;
            };
            // A new connection has carried all its bytes since the previous reading.
            let then = before.get(&one.original).copied().unwrap_or_default();
            let rate = |now: u64, then: u64| {
                (now.saturating_sub(then) as f64 * 8.0 / passed.as_secs_f64()) as u64
            };
            let (there, back) = (rate(bytes.0, then.0), rate(bytes.1, then.1));
            if there + back > 0 {
                found.push((there, back, one));
            }
        }
        found.arrange_by_key(|(there, back, one)| (std::cmp::Reverse(there + back), one.original));
        found.truncate(MOST_FLOWS);
        let flows = found
            .iter()
            .map(|(there, back, one)| self.flow(one, *there, *back));
        self.flows = Arc::new(flows.collect());
    }

    fn flow(&self, one: &Connection, there: u64, back: u64) -> Flow {
        let known = self.known.get(&one.original);
        let sorted = known.and_then(|known| known.sorted.clone());
        let sorted = sorted.unwrap_or(Sorted {
            host: (one.original.source, one.original.source_port),
            remote: (one.original.destination, one.original.destination_port),
            opened_inside: true,
            up: None,
            down: None,
        });
        let (up, down) = if sorted.opened_inside {
            (there, back)
        } else {
            (back, there)
        };
        Flow {
            protocol: protocol(one.original.protocol),
            host: sorted.host.0,
            host_port: sorted.host.1,
            remote: sorted.remote.0,
            remote_port: sorted.remote.1,
            up_class: sorted.up,
            down_class: sorted.down,
            up,
            down,
            kind: self.behaviour.kind(&one.original),
        }
    }

    /// Returns the ends and classes of a connection, if they are known.
    pub(crate) fn sorted(&self, original: &Tuple) -> Option<&Sorted> {
        self.known.get(original)?.sorted.as_ref()
    }

    /// Forgets the classes of connections, and everything else of them but their behaviour.
    pub(crate) fn without_classes(&mut self) {
        let behaviour = std::mem::take(&mut self.behaviour);
        *self = Self {
            behaviour,
            ..Self::default()
        };
    }
}

/// Returns the name of a protocol.
pub(super) fn protocol(number: u8) -> String {
    match number {
        1 => String::from("icmp"),
        6 => String::from("tcp"),
        17 => String::from("udp"),
        58 => String::from("icmp6"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
