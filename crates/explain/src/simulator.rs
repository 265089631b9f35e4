// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router with tables, and packets that pass it one after the other.

use crate::count::Counting;
use crate::fragments::Fragments;
use crate::meter::Meters;
use crate::packet::Packet;
use crate::run::{Context, Pass, Run, Unknown};
use crate::track::{Tracked, Tracker};
use crate::tuple::Tuple;
use std::collections::BTreeMap;
use weirgate_signatures::{SeenFlows, Signature};
use weirgate_state::{
    Count, DeviceName, Effect, Field, Hook, HookPrograms, Match, Meter, Payload, Table,
};
use weirgate_units::Inserted as _;

/// The length of an Ethernet header, which a packet already has at the egress of a device
/// (`__dev_queue_xmit`, net/core/dev.c).
const ETHERNET_HEADER: usize = 14;

/// The devices between which the router carries a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices {
    /// The device through which it arrives; `None` for the router's own packets.
    pub arrives: Option<DeviceName>,
    /// The device through which it leaves; `None` for packets to the router itself.
    pub leaves: Option<DeviceName>,
}

/// The result for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// The results of the chains that it passed, in order.
    pub passes: Vec<Pass>,
    /// The result of connection tracking, before the chain at postrouting.
    pub connection: Option<Summary>,
    /// True if it waits for other fragments: connection tracking reassembles packets before their
    /// class is decided.
    pub waits: bool,
    /// The signature that was found in its flow's payload so far, if payloads are inspected.
    pub payload: Option<Signature>,
    /// The packet as it leaves.
    pub packet: Packet,
}

/// A connection as rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its number among the connections of the sequence; `None` for packets without one.
    pub id: Option<u32>,
    /// The state bits of the packet.
    pub state: u32,
    /// Whether this is its first packet.
    pub first: bool,
    /// Its mark, after the rules.
    pub mark: u32,
    /// Its bytes, including this packet.
    pub bytes: u64,
    /// Its packets, including this one.
    pub packets: u64,
}

/// A router with tables.
#[derive(Debug)]
pub struct Simulator {
    tables: Vec<Table>,
    tracker: Tracker,
    meters: Meters,
    fragments: Fragments,
    counters: BTreeMap<(bool, String), u64>,
    tracks: bool,
    counting: Counting,
    /// The bits of the connection's mark that arriving packets get, by device.
    restores: BTreeMap<DeviceName, u32>,
    /// The payload classifiers by device; each learns separately.
    looks: BTreeMap<DeviceName, (Payload, SeenFlows)>,
}

impl Simulator {
    /// Creates a router with these tables and no connections yet.
    ///
    /// Connections are tracked if a rule needs them, or if [`Simulator::tracking`] says that
    /// something else does.
    #[must_use]
    pub fn new(tables: &[Table]) -> Self {
        Self {
            tables: tables.to_vec(),
            tracker: Tracker::default(),
            meters: Meters::new(tables),
            fragments: Fragments::default(),
            counters: BTreeMap::new(),
            tracks: tables.iter().any(asks_for_connections),
            counting: Counting::default(),
            restores: BTreeMap::new(),
            looks: BTreeMap::new(),
        }
    }

    /// Adds these programs at the hooks of devices.
    #[must_use]
    pub fn with_hooks(mut self, hooks: &BTreeMap<DeviceName, HookPrograms>) -> Self {
        let masks = hooks
            .iter()
            .filter_map(|(name, place)| Some((name.clone(), place.restore?)));
        self.restores = masks.inserted();
        let looks = hooks.iter().filter_map(|(name, place)| {
            let looks = (place.payload?, SeenFlows::default());
            Some((name.clone(), looks))
        });
        self.looks = looks.inserted();
        self
    }

    /// Counts connections like a kernel of another version.
    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.counting = counting;
        self
    }

    /// Tracks connections in any case, for example because of NAT.
    #[must_use]
    pub fn tracking(mut self) -> Self {
        self.tracks = true;
        self
    }

    /// Returns whether payloads are inspected that arrive on a device.
    #[must_use]
    pub fn looks_at(&self, device: &DeviceName) -> bool {
        self.looks.contains_key(device)
    }

    /// Returns its tables.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the packets of each counter, by family (true for `netdev`) and name.
    #[must_use]
    pub fn counters(&self) -> &BTreeMap<(bool, String), u64> {
        &self.counters
    }

    /// Switches a chain of [`Hook::Switched`]. Returns how many chains of that name there are.
    pub fn switch(&mut self, chain: &str, on: bool) -> usize {
        let mut found = 0;
        let chains = self.tables.iter_mut().flat_map(|table| &mut table.chains);
        for one in chains.filter(|one| one.name == chain) {
            if let Hook::Switched { on: state } = &mut one.hook {
                *state = on;
                found += 1;
            }
        }
        found
    }

    /// Passes a packet through the router. `now` is in nanoseconds since an arbitrary moment, and
    /// never decreases; `clock` is in seconds since 1970, for schedules.
    pub fn pass(&mut self, packet: Packet, path: &Devices, now: u64, clock: Option<i64>) -> Fate {
        let mut fate = Fate {
            passes: Vec::new(),
            connection: None,
            waits: false,
            payload: None,
            packet,
        };
        let cut_off = self.arrive(&mut fate, path, now);
        self.travel(&mut fate, path, now, clock);
        if let (true, Some(first)) = (cut_off, fate.passes.first_mut()) {
            first.unknown.push(Unknown::Payload);
        }
        fate
    }

    /// Runs the programs at the arrival of a packet, before any table. Returns whether its payload
    /// was too truncated to decide.
    fn arrive(&mut self, fate: &mut Fate, path: &Devices, now: u64) -> bool {
        self.restore(&mut fate.packet, path, now);
        self.look(fate, path)
    }

    fn travel(&mut self, fate: &mut Fate, path: &Devices, now: u64, clock: Option<i64>) {
        let arrives = path.arrives.clone();
        self.hooks(
            fate,
            (now, clock),
            path,
            None,
            |hook| matches!(hook, Hook::Ingress { device, .. } if Some(device) == arrives.as_ref()),
        );
        // Packets that leave through a bridge's port never reach `inet`.
        let here = |hook: &Hook| matches!(hook, Hook::Egress { device } if Some(device) == path.leaves.as_ref());
        let mut chains = self.tables.iter().flat_map(|table| &table.chains);
        if chains.any(|chain| here(&chain.hook)) {
            let unseen = Devices {
                arrives: None,
                leaves: path.leaves.clone(),
            };
            self.hooks(fate, (now, clock), &unseen, None, here);
            return;
        }
        // Rules of `inet` only see whole IP packets.
        let Some(mut headers) = fate.packet.tracked_headers() else {
            return;
        };
        let mut tracked = None;
        if self.tracks {
            if headers.more || headers.fragment != 0 {
                let Some(whole) = self.fragments.take(&fate.packet, &headers, now) else {
                    fate.waits = true;
                    return;
                };
                fate.packet = whole;
                headers = match fate.packet.tracked_headers() {
                    Some(headers) => headers,
                    None => return,
                };
            }
            tracked = Some(self.tracker.take(&fate.packet, Some(headers), now));
        }
        if path.arrives.is_none() {
            let here = |hook: &Hook| *hook == Hook::Output;
            self.hooks(fate, (now, clock), path, tracked, here);
        }
        // Packets to the router itself reach no rule here.
        if let Some(leaves) = &path.leaves {
            self.hooks(
                fate,
                (now, clock),
                path,
                tracked,
                |hook| matches!(hook, Hook::Postrouting { device } if device == leaves),
            );
        }
        fate.connection = tracked.map(|tracked| self.summary(tracked));
    }

    /// Simulates `act_ctinfo` (`tcf_ctinfo_act`, net/sched/act_ctinfo.c): looks the connection up
    /// by the packet's own addresses and ports, and creates none.
    fn restore(&self, packet: &mut Packet, path: &Devices, now: u64) {
        let device = path.arrives.as_ref();
        let Some(mask) = device.and_then(|device| self.restores.get(device)) else {
            return;
        };
        let found = || {
            let headers = packet.tracked_headers()?;
            let tuple = Tuple::of(packet, &headers).filter(|_| headers.fragment == 0)?;
            let id = self.tracker.find(&tuple, now)?;
            Some(self.tracker.get(id)?.mark)
        };
        if let Some(mark) = packet.given.mark.or_else(found) {
            packet.mark = mark & mask;
        }
    }

    /// Simulates the payload classifier, which runs next: it writes the flow's signature into bits
    /// of the mark. Returns whether the payload was too truncated to decide.
    fn look(&mut self, fate: &mut Fate, path: &Devices) -> bool {
        let device = path.arrives.as_ref();
        let Some((payload, watch)) = device.and_then(|device| self.looks.get_mut(device)) else {
            return false;
        };
        let packet = &mut fate.packet;
        let look = watch.see(packet.ethertype, &packet.bytes, packet.length);
        let found = look.found.map_or(0, Signature::number);
        packet.mark = packet.mark & !payload.mask() | found << payload.lowest;
        fate.payload = look.found;
        look.cut_off
    }

    fn hooks(
        &mut self,
        fate: &mut Fate,
        (now, clock): (u64, Option<i64>),
        path: &Devices,
        tracked: Option<Tracked>,
        here: impl Fn(&Hook) -> bool,
    ) {
        let Self {
            tables,
            tracker,
            meters,
            counters,
            counting,
            ..
        } = self;
        for (at, table) in tables.iter().enumerate() {
            for chain in table.chains.iter().filter(|chain| here(&chain.hook)) {
                let context = Context {
                    now,
                    clock,
                    input: path.arrives.as_ref().map(DeviceName::as_str),
                    link_header: match chain.hook {
                        Hook::Egress { .. } => ETHERNET_HEADER,
                        _ => 0,
                    },
                    tracked,
                    counting: *counting,
                    tracker: &mut *tracker,
                    meters: &mut *meters,
                    counters: &mut *counters,
                };
                let pass = Run::base((table, at), chain, &mut fate.packet, context);
                fate.passes.push(pass);
            }
        }
    }

    fn summary(&self, tracked: Tracked) -> Summary {
        let connection = tracked.connection.and_then(|id| self.tracker.get(id));
        Summary {
            id: tracked.connection,
            state: tracked.state,
            first: tracked.first,
            mark: connection.map_or(0, |connection| connection.mark),
            bytes: connection.map_or(0, |connection| connection.bytes),
            packets: connection.map_or(0, |connection| connection.packets),
        }
    }
}

/// Returns whether a table has a rule that looks at connections, which makes the kernel track them.
fn asks_for_connections(table: &Table) -> bool {
    let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
    let marks = |effect: &Effect| matches!(effect, Effect::ConnectionMark { .. });
    let looks = rules().flat_map(|rule| &rule.matches).any(|one| match one {
        Match::Meter(Meter { field, count, .. }) => {
            matches!(count, Count::Connections(_)) || field.needs_connection()
        }
        other => other.field().is_some_and(Field::needs_connection),
    });
    looks || rules().flat_map(|rule| &rule.effects).any(marks)
}
