// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flows are, and what inside hosts do, by the readings of the connection table.

use crate::legend::Legend;
use crate::object::{Number, Object, Sort};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use weirgate_behaviour::{Alarm, Alert, Attempt, Counted, Flows, Hosts, Kind, Turn};
use weirgate_kernel::{Carried, Connection, ConnectionTable, Subnet, Tuple};
use weirgate_units::Inserted as _;

/// An alert for an inside host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostAlert {
    /// The host.
    pub host: IpAddr,
    /// `address-scan`, `port-scan`, `connection-storm`, `mail-storm` or `packet-storm`.
    pub alert: &'static str,
    /// The seconds since it began.
    pub seconds: u64,
    /// What the host does, in words.
    pub text: String,
}

/// The judges of flows and hosts.
pub(crate) struct Behaviour {
    begin: Option<Instant>,
    pub(super) flows: Flows<Tuple>,
    hosts: Hosts,
    /// The answered connections that the inside opened, and how many packets each received.
    arrived: BTreeMap<Tuple, u64>,
    pub(crate) alerts: Arc<Vec<HostAlert>>,
    /// Kind and text.
    pub(crate) events: Vec<(&'static str, String)>,
    /// The flows for which there was advice.
    pub(super) advised: BTreeSet<Tuple>,
}

impl Default for Behaviour {
    fn default() -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self {
            begin: None,
            flows: Flows::default(),
            hosts: Hosts::new(seed),
            arrived: BTreeMap::new(),
            alerts: Arc::default(),
            events: Vec::new(),
            advised: BTreeSet::new(),
        }
    }
}

impl Behaviour {
    /// Takes a reading of the connection table.
    pub(crate) fn take(
        &mut self,
        table: &ConnectionTable,
        subnets: &[Subnet],
        legend: &Legend,
        now: Instant,
    ) {
        let begin = *self.begin.get_or_insert(now);
        let ms = now.saturating_duration_since(begin).as_millis() as u64;
        let carried = table.first.iter().filter_map(|one| {
            let (there, back) = one.carried?;
            Some((one.original, [counted(there), counted(back)]))
        });
        self.flows.take(ms, carried);
        let inside = Inside::of(legend, subnets);
        let opened = |one: &&Connection| {
            let Tuple {
                source,
                destination,
                ..
            } = one.original;
            inside.has(source) && !inside.has(destination) && !inside.has(one.reply.source)
        };
        let own: Vec<&Connection> = table.first.iter().filter(opened).collect();
        let complete = table.count.all == table.first.len() as u64;
        let alive = self.arrives(&own);
        let attempts = own.iter().map(|one| attempt(one));
        let turns = self.hosts.take(ms, attempts, complete, alive);
        let texts = turns.into_iter().map(|turn| match turn {
            Turn::Begins(alarm) => format!("{} {}", alarm.host, text(&alarm)),
            Turn::Ends(host, alert, lasted) => {
                let seconds = lasted / 1000;
                format!("{host} no longer {}, after {seconds} s", alert.text())
            }
        });
        self.events.extend(texts.map(|text| ("alert", text)));
        let now = |alarm: Alarm| HostAlert {
            host: alarm.host,
            alert: alarm.alert.word(),
            seconds: ms.saturating_sub(alarm.since) / 1000,
            text: text(&alarm),
        };
        self.alerts = Arc::new(self.hosts.alarms().map(now).collect());
    }

    /// Returns whether a packet arrived, since the previous reading, of a connection that the
    /// inside opened. Forged packets from the outside belong to no such connection.
    fn arrives(&mut self, own: &[&Connection]) -> bool {
        let answered = own.iter().filter(|one| one.answered);
        let packets = |one: &Connection| one.carried.map_or(0, |(_, back)| back.packets);
        let now: BTreeMap<Tuple, u64> = answered.map(|one| (one.original, packets(one))).inserted();
        let before = std::mem::replace(&mut self.arrived, now);
        let mut now = self.arrived.iter();
        now.any(|(key, packets)| before.get(key).is_none_or(|before| packets > before))
    }

    /// Returns the word for the kind of a flow.
    pub(crate) fn kind(&self, original: &Tuple) -> Option<&'static str> {
        self.flows.kind(original).map(Kind::word)
    }

    /// Returns how many flows of each kind and alerts there are; nothing before a reading.
    pub(crate) fn objects(&self) -> Vec<Object> {
        if self.begin.is_none() {
            return Vec::new();
        }
        let object = |sort, label, word: &str, number, count| Object {
            sort,
            identity: String::new(),
            begins: false,
            labels: vec![(label, word.to_owned())],
            numbers: vec![(number, count as u64)],
        };
        let kinds = Kind::ALL.into_iter().map(|kind| {
            let all = self.flows.recognised();
            let count = all.filter(|(_, other)| *other == kind).count();
            let number = Number::FlowKindConnections;
            object(Sort::FlowKind, "kind", kind.word(), number, count)
        });
        let alerts = Alert::ALL.into_iter().map(|alert| {
            let all = self.alerts.iter();
            let count = all.filter(|one| one.alert == alert.word()).count();
            object(
                Sort::Alert,
                "alert",
                alert.word(),
                Number::AlertHosts,
                count,
            )
        });
        kinds.chain(alerts).collect()
    }
}

/// The addresses on the inside: those of subnets at devices other than the links'. Without a link,
/// no address is known to be inside.
struct Inside<'a>(Vec<&'a Subnet>);

impl<'a> Inside<'a> {
    fn of(legend: &Legend, subnets: &'a [Subnet]) -> Self {
        let links: Vec<&str> = legend
            .links
            .iter()
            .filter(|link| link.0 == "up")
            .map(|link| &*link.1)
            .collect();
        let others = |one: &&Subnet| {
            !links.is_empty() && !links.contains(&&*one.device) && !one.own.is_loopback()
        };
        Self(subnets.iter().filter(others).collect())
    }

    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|subnet| subnet.contains(address))
    }
}

fn counted(carried: Carried) -> Counted {
    Counted {
        packets: carried.packets,
        bytes: carried.bytes,
    }
}

fn attempt(one: &Connection) -> Attempt {
    let original = one.original;
    Attempt {
        host: original.source,
        host_port: original.source_port,
        remote: original.destination,
        port: original.destination_port,
        protocol: original.protocol,
        answered: one.answered,
        sent: one
            .carried
            .map(|(there, _)| counted(there))
            .unwrap_or_default(),
    }
}

/// Returns what a host does.
fn text(alarm: &Alarm) -> String {
    let what = alarm.alert.text();
    match (alarm.port, alarm.remote) {
        (_, Some(remote)) => format!("{what}, of {remote}"),
        (Some((protocol, port)), None) => {
            let protocol = super::connections::protocol(protocol);
            format!("{what}, mostly at {protocol} {port}")
        }
        (None, None) => what.to_owned(),
    }
}

#[cfg(test)]
mod tests;
