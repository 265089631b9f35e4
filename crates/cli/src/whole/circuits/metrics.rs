// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits metrics`: counters as OpenMetrics, of every site and of the
//! circuits that sent most.

use super::live;
use super::show::{Tree, called, delay_ms};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weirgate_bpf::CircuitsNode;
use weirgate_circuits::rows::Label;
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::Circuits;
use weirgate_units::Arrange as _;

/// The most circuits that may be asked for: each is ten series.
const MOST: usize = 1_000;

/// The levels of a tree, with the link and the circuits.
const LEVELS: usize = 8;

/// What a node has had and has, with all below it.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    circuits: u64,
    dropped: u64,
    marked: u64,
    queued_packets: u64,
    queued_bytes: u64,
}

/// A number that nodes have.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    of: fn(&CircuitsNode, &Sums) -> Option<f64>,
}

/// Every number. What is a sum over the circuits that are there falls when one goes, so
/// it is a gauge.
const FAMILIES: &[Family] = &[
    Family {
        name: "sent_bytes",
        kind: "counter",
        unit: "bytes",
        help: "Bytes of the frames that were sent.",
        of: |node, _| Some(node.counts.sent_wire_bytes as f64),
    },
    Family {
        name: "sent_packets",
        kind: "counter",
        unit: "packets",
        help: "Packets that were sent.",
        of: |node, _| Some(node.counts.sent_packets as f64),
    },
    Family {
        name: "dropped_packets",
        kind: "gauge",
        unit: "packets",
        help: "Packets that the circuits which are there have dropped.",
        of: |_, sums| Some(sums.dropped as f64),
    },
    Family {
        name: "marked_packets",
        kind: "gauge",
        unit: "packets",
        help: "Packets that the circuits which are there have marked with ECN.",
        of: |_, sums| Some(sums.marked as f64),
    },
    Family {
        name: "queued_packets",
        kind: "gauge",
        unit: "packets",
        help: "Packets that wait.",
        of: |_, sums| Some(sums.queued_packets as f64),
    },
    Family {
        name: "queued_bytes",
        kind: "gauge",
        unit: "bytes",
        help: "Bytes that wait.",
        of: |_, sums| Some(sums.queued_bytes as f64),
    },
    Family {
        name: "ceiling_bits",
        kind: "gauge",
        unit: "bits",
        help: "What it never exceeds, in bits a second; 0 for nothing.",
        of: |node, _| Some(node.ceiling_bytes_s as f64 * 8.0),
    },
    Family {
        name: "delay_seconds",
        kind: "gauge",
        unit: "seconds",
        help: "How long what waits takes at the node's own ceiling.",
        of: |node, sums| delay_ms(node.ceiling_bytes_s, sums.queued_bytes).map(|ms| ms / 1e3),
    },
    Family {
        name: "circuits",
        kind: "gauge",
        unit: "",
        help: "Circuits below it.",
        of: |node, sums| {
            let is_circuit = matches!(node.label, Label::Circuit(_) | Label::Others);
            (!is_circuit).then_some(sums.circuits as f64)
        },
    },
];

/// `weirgate circuits metrics`.
pub(super) fn metrics(state: &Path, devices: &[String], top: usize) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = live::here(state)?;
        let circuits = Circuits::open(&folders, &kernel).map_err(live::refused)?;
        let mut lines: Vec<Vec<String>> = vec![Vec::new(); FAMILIES.len()];
        for name in devices {
            let name = live::device(name)?;
            let tree = Tree::of(&circuits.tree(&name).await.map_err(live::refused)?)?;
            let sums = sums(&tree);
            for node in shown(&tree, top.min(MOST)) {
                let labels = labels(name.as_str(), &tree, node);
                let own = sums.get(&node.id).copied().unwrap_or_default();
                for (family, lines) in FAMILIES.iter().zip(&mut lines) {
                    if let Some(value) = (family.of)(node, &own) {
                        let end = if family.kind == "counter" {
                            "_total"
                        } else {
                            ""
                        };
                        let name = family.name;
                        lines.push(format!("weirgate_circuits_{name}{end}{{{labels}}} {value}"));
                    }
                }
            }
        }
        let mut text = String::new();
        for (family, lines) in FAMILIES.iter().zip(lines) {
            let Family {
                name,
                kind,
                unit,
                help,
                ..
            } = family;
            let _ = writeln!(text, "# TYPE weirgate_circuits_{name} {kind}");
            if !unit.is_empty() {
                let _ = writeln!(text, "# UNIT weirgate_circuits_{name} {unit}");
            }
            let _ = writeln!(text, "# HELP weirgate_circuits_{name} {help}");
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
        }
        text.push_str("# EOF\n");
        output::lines(&text)?;
        Ok(Status::Done)
    })
}

/// The link, the sites, others, and the circuits that sent most.
fn shown(tree: &Tree, top: usize) -> Vec<&CircuitsNode> {
    let is_circuit = |node: &&CircuitsNode| matches!(node.label, Label::Circuit(_));
    let (mut circuits, mut all): (Vec<_>, Vec<_>) = tree.nodes.values().partition(is_circuit);
    let by_bytes = |node: &&CircuitsNode| (Reverse(node.counts.sent_wire_bytes), node.id);
    if circuits.len() > top {
        circuits.select_nth_unstable_by_key(top, by_bytes);
        circuits.truncate(top);
    }
    circuits.arrange_by_key(by_bytes);
    all.append(&mut circuits);
    all
}

/// What each node has with all below it.
fn sums(tree: &Tree) -> BTreeMap<u32, Sums> {
    let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
    for node in tree.nodes.values() {
        if !matches!(node.label, Label::Circuit(_) | Label::Others) {
            continue;
        }
        let counts = node.counts;
        let above = |id: &u32| tree.nodes.get(id).map(|node| node.parent);
        for id in std::iter::successors(Some(node.id), above).take(LEVELS) {
            let sum = sums.entry(id).or_default();
            sum.circuits += u64::from(matches!(node.label, Label::Circuit(_)));
            sum.dropped += u64::from(counts.drops);
            sum.marked += u64::from(counts.marks);
            sum.queued_packets += u64::from(counts.packets);
            sum.queued_bytes += u64::from(counts.bytes);
        }
    }
    sums
}

/// The labels of a node.
fn labels(device: &str, tree: &Tree, node: &CircuitsNode) -> String {
    let site = match &node.label {
        Label::Circuit(_) => tree.above(node).unwrap_or_default(),
        other => called(other),
    };
    let mut text = format!("device=\"{}\",site=\"{}\"", quoted(device), quoted(site));
    if let Label::Circuit(id) = &node.label {
        let _ = write!(text, ",circuit=\"{}\"", quoted(id));
    }
    text
}

/// A label's value (OpenMetrics 1.0, `escaped-string`).
fn quoted(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
