// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What later sections of a file may refer to, collected as it is read.

use super::{codes, field};
use crate::{Node, Phase, Topology, Traffic, TrafficKind};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use weirgate_document::{Reader, Span as Place, Value};
use weirgate_units::Span;

/// Packets that a run may record; each takes about 100 bytes in the guest.
const MOST_PACKETS: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(super) struct Scope {
    hosts: u16,
    servers: u16,
    /// False where the topology could not be read: nothing is known to be
    /// absent then.
    built: bool,
    line_bits_per_second: u64,
    phases: Vec<(Phase, Place)>,
    /// Names of traffic and probes, which share one space.
    pub(super) names: BTreeSet<String>,
    pub(super) flows: BTreeSet<String>,
    pub(super) probes: BTreeSet<String>,
    pub(super) classes: BTreeSet<String>,
    pub(super) arms: BTreeSet<String>,
    /// Arms whose line is the kernel's netem.
    pub(super) netem: BTreeSet<String>,
    pub(super) figures: BTreeSet<String>,
    /// Ports taken at nodes, by whom.
    ports: BTreeMap<(Node, Transport, u16), String>,
    /// Packets that traffic of a fixed rate sends.
    packets: u64,
}

/// Ports of TCP and UDP are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Scope {
    pub(super) fn new(topology: Option<&Topology>) -> Self {
        let rate = |topology: &Topology| {
            let (up, down) = (topology.line.up.rate, topology.line.down.rate);
            up.as_bits_per_second()
                .saturating_add(down.as_bits_per_second())
        };
        Self {
            hosts: topology.map_or(0, |topology| topology.hosts),
            servers: topology.map_or(0, |topology| topology.servers),
            built: topology.is_some(),
            line_bits_per_second: topology.map_or(0, rate),
            ..Self::default()
        }
    }

    pub(super) fn phase(&mut self, phase: &Phase, table: &Reader<'_, '_>) {
        self.phases.push((phase.clone(), field::head(table)));
    }

    pub(super) fn phases(&self) -> impl Iterator<Item = (&Phase, &Place)> {
        self.phases.iter().map(|(phase, place)| (phase, place))
    }

    pub(super) fn phase_named(&self, name: &str) -> Option<&Phase> {
        let mut phases = self.phases.iter().map(|entry| &entry.0);
        phases.find(|phase| phase.name == name)
    }

    pub(super) fn duration(&self) -> Span {
        let ends = self.phases.iter().map(|entry| entry.0.end);
        ends.max().unwrap_or_default()
    }

    /// A required node that the topology has.
    pub(super) fn node(&self, table: &mut Reader<'_, '_>, key: &'static str) -> Option<Node> {
        let text = if table.has(key) {
            table.text(key)?
        } else {
            table.missing(key, "name a place: host1, gateway, provider, server1")?
        };
        self.node_of(table, &text)
    }

    /// The node that a text names, if the topology has it.
    pub(super) fn node_of(&self, table: &Reader<'_, '_>, text: &Value<String>) -> Option<Node> {
        let problems = table.problems();
        let node = match Node::from_str(&text.value) {
            Ok(node) => node,
            Err(error) => {
                let hint = format!("{}; numbers begin at 1", self.nodes());
                problems.error(codes::NODE, text.span.clone(), error.to_string(), hint);
                return None;
            }
        };
        let exists = match node {
            Node::Host(number) => number <= self.hosts,
            Node::Server(number) => number <= self.servers,
            Node::Gateway | Node::Provider => true,
        };
        if self.built && !exists {
            let message = format!("there is no `{node}`");
            problems.error(codes::NODE, text.span.clone(), message, self.nodes());
            return None;
        }
        Some(node)
    }

    fn nodes(&self) -> String {
        let several = |word: &str, count: u16| match count {
            0 | 1 => format!("{word}1"),
            count => format!("{word}1 to {word}{count}"),
        };
        format!(
            "the topology has {}, gateway, provider, {}",
            several("host", self.hosts),
            several("server", self.servers)
        )
    }

    /// Takes `count` ports from `port` on at a node for `owner`.
    pub(super) fn take_port(
        &mut self,
        table: &Reader<'_, '_>,
        owner: &str,
        node: Node,
        transport: Transport,
        port: u16,
    ) {
        let key = (node, transport, port);
        if let Some(other) = self.ports.get(&key) {
            let message = format!("`{owner}` uses port {port} at {node}, as `{other}` does");
            let hint = "give it another port, or leave `port` out";
            table
                .problems()
                .error(codes::PORT, field::head(table), message, hint);
        } else {
            self.ports.insert(key, owner.to_owned());
        }
    }

    /// Adds what one traffic entry sends at a fixed rate.
    pub(super) fn add_load(&mut self, table: &Reader<'_, '_>, traffic: &Traffic) {
        let per_run = |interval: Span, (start, stop): (Span, Span)| {
            let time = (stop - start).as_nanos();
            time / interval.as_nanos().max(1) + 1
        };
        let each = |interval| {
            let runs = traffic.runs.iter();
            runs.map(|run| per_run(interval, *run))
                .fold(0, u64::saturating_add)
        };
        let packets = match &traffic.kind {
            TrafficKind::Udp {
                interval, packets, ..
            } => each(*interval).min(packets.unwrap_or(u64::MAX)),
            TrafficKind::Voice { interval, .. } => each(*interval).saturating_mul(2),
            TrafficKind::ShortFlows { mean_gap, .. } => each(*mean_gap).saturating_mul(10),
            TrafficKind::Tcp(_) | TrafficKind::Requests { .. } => 0,
        };
        self.add_packets(table, packets.saturating_mul(u64::from(traffic.count)));
    }

    pub(super) fn add_packets(&mut self, table: &Reader<'_, '_>, packets: u64) {
        let before = self.packets;
        self.packets = before.saturating_add(packets);
        // Said once, at the entry that goes over.
        if before <= MOST_PACKETS && self.packets > MOST_PACKETS {
            let message = format!("from here on the run sends more than {MOST_PACKETS} packets");
            let hint = "shorten the time, or make intervals longer";
            table
                .problems()
                .error(codes::LIMIT, field::head(table), message, hint);
        }
    }

    /// A line that could carry more than can be recorded needs shorter runs.
    pub(super) fn check_load(&self, root: &Reader<'_, '_>) {
        let bytes = u128::from(self.line_bits_per_second) * u128::from(self.duration().as_nanos())
            / 8_000_000_000;
        // Bulk fills lines with packets of about 1500 bytes.
        if bytes / 1500 > u128::from(MOST_PACKETS) {
            let message = format!(
                "this line carries more than {MOST_PACKETS} full packets in {}",
                self.duration()
            );
            let hint = "end the phases earlier or make the line slower";
            root.problems()
                .error(codes::LIMIT, field::TOP, message, hint);
        }
    }
}
