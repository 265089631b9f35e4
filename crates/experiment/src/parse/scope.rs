// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that later sections of a file may refer to, collected while the file is read.

use super::registry::{Field, Own};
use super::{codes, field};
use crate::load::MOST_PACKETS;
use crate::{Line, Node, Phase, Topology, Traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::Span;

#[derive(Debug, Default)]
pub(super) struct Scope {
    hosts: u16,
    servers: u16,
    /// False if the topology could not be read. In this case no node is reported as absent.
    built: bool,
    line: Option<Line>,
    phases: Vec<(Phase, SourceSpan)>,
    /// Names of traffic entries and probes, which must differ from each other.
    pub(super) names: BTreeSet<String>,
    pub(super) flows: BTreeSet<String>,
    /// Parts of traffic entries by flow size.
    pub(super) parts: BTreeSet<String>,
    pub(super) probes: BTreeSet<String>,
    pub(super) classes: BTreeSet<String>,
    /// Groups of traffic entries.
    pub(super) groups: BTreeSet<String>,
    pub(super) arms: BTreeSet<String>,
    /// Arms whose line is the kernel's netem.
    pub(super) netem: BTreeSet<String>,
    /// Number of policy changes in each arm.
    pub(super) changes: BTreeMap<String, usize>,
    pub(super) figures: BTreeSet<String>,
    /// Ports in use at nodes, with the entry that uses them.
    ports: BTreeMap<(Node, Transport, u16), String>,
    /// Number of packets that traffic of a fixed rate sends.
    packets: u64,
    /// Whether any traffic fills the line.
    fills_line: bool,
}

/// The transport of a port: TCP and UDP ports are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Scope {
    /// Returns the number of hosts in the topology.
    pub(super) fn hosts(&self) -> u16 {
        self.hosts
    }

    pub(super) fn new(topology: Option<&Topology>) -> Self {
        Self {
            hosts: topology.map_or(0, |topology| topology.hosts),
            servers: topology.map_or(0, |topology| topology.servers),
            built: topology.is_some(),
            line: topology.map(|topology| topology.line.clone()),
            ..Self::default()
        }
    }

    pub(super) fn phase(&mut self, phase: &Phase, table: &Reader<'_, '_>) {
        self.phases.push((phase.clone(), field::head(table)));
    }

    pub(super) fn phases(&self) -> impl Iterator<Item = (&Phase, &SourceSpan)> {
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

    /// Reads a required node, which the topology must have.
    pub(super) fn node(&self, table: &mut Reader<'_, '_>, of: &Field<Own>) -> Option<Node> {
        if !of.is_there(table) {
            return None;
        }
        let text = table.text(of.name)?;
        self.node_of(table, &text)
    }

    /// Returns the node that a text names, if the topology has it.
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

    /// Reserves `count` consecutive ports at a node for `owner`, beginning at `port`.
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

    /// Adds the packets of one traffic entry.
    pub(super) fn add_load(&mut self, table: &Reader<'_, '_>, traffic: &Traffic) {
        self.fills_line |= traffic.fills_lines();
        self.add_packets(table, traffic.packets());
    }

    pub(super) fn add_packets(&mut self, table: &Reader<'_, '_>, packets: u64) {
        let before = self.packets;
        self.packets = before.saturating_add(packets);
        // Report it only once, at the entry that exceeds the limit.
        if before <= MOST_PACKETS && self.packets > MOST_PACKETS {
            let message = format!("from here on the run sends more than {MOST_PACKETS} packets");
            let hint = "shorten the time, or make intervals longer";
            table
                .problems()
                .error(codes::LIMIT, field::head(table), message, hint);
        }
    }

    /// Reports a line that can carry more packets than a run may record.
    pub(super) fn check_load(&self, root: &Reader<'_, '_>) {
        let Some(line) = self.line.as_ref().filter(|_| self.fills_line) else {
            return;
        };
        let elastic = line.elastic_packets(self.duration());
        // If the other traffic alone exceeds the limit, that is already reported.
        if self.packets <= MOST_PACKETS && elastic.saturating_add(self.packets) > MOST_PACKETS {
            let message = format!(
                "in {} this line carries up to {elastic} packets of TCP with their \
                 acknowledgements; with all others a run may have {MOST_PACKETS}",
                self.duration()
            );
            let hint = "end the phases earlier or make the line slower";
            root.problems()
                .error(codes::LIMIT, field::TOP, message, hint);
        }
    }
}
