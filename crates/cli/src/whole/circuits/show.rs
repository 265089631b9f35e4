// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits show`.

use super::{files, live};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weirgate_bpf::{CircuitTree, CircuitsNode};
use weirgate_circuits::rows::Label;
use weirgate_circuits::{Key, KeyKind};
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_document::did_you_mean;
use weirgate_keep::Circuits;
use weirgate_units::{Inserted as _, Rate};
use weirgate_watch::{called, delay_ms, node_json};

/// The most names to compare with an unknown one for a suggestion.
const COMPARED: usize = 2_000;

/// Returns how long the backlog of the node takes at its own ceiling, in milliseconds.
fn own_delay_ms(node: &CircuitsNode) -> Option<f64> {
    delay_ms(node.ceiling_bytes_s, node.counts.bytes.into())
}

fn rate(bytes_s: u64) -> String {
    match bytes_s {
        0 => "none".to_owned(),
        rate => Rate::bytes_per_second(rate).to_string(),
    }
}

/// Returns the keys of a kind as text.
fn texts(keys: &[Key], kind: KeyKind) -> Vec<String> {
    let own = keys.iter().filter(|key| key.kind() == kind);
    own.map(Key::to_string).collect()
}

/// All nodes by their rows, and the number of circuits directly below each.
struct Tree {
    nodes: BTreeMap<u32, CircuitsNode>,
    circuits: BTreeMap<u32, u64>,
}

impl Tree {
    fn of(tree: &CircuitTree) -> Result<Self, Failure> {
        let nodes: BTreeMap<u32, CircuitsNode> = tree
            .nodes()
            .map_err(failed)?
            .map(|node| (node.id, node))
            .inserted();
        let mut circuits = BTreeMap::new();
        for node in nodes.values() {
            if matches!(node.label, Label::Circuit(_)) {
                *circuits.entry(node.parent).or_insert(0) += 1;
            }
        }
        Ok(Self { nodes, circuits })
    }

    /// Returns the name of the node's parent, or `None` for the link.
    fn above(&self, node: &CircuitsNode) -> Option<&str> {
        let parent = self.nodes.get(&node.parent)?;
        Some(called(&parent.label))
    }

    fn title(&self, node: &CircuitsNode) -> String {
        let own = match &node.label {
            Label::Site(name) => format!("site {name}"),
            Label::Circuit(id) => format!("circuit {id}"),
            fixed => called(fixed).to_owned(),
        };
        match self.above(node) {
            Some(above) => format!("{own} below {above}"),
            None => own,
        }
    }

    fn json(&self, node: &CircuitsNode, keys: Option<&[Key]>) -> Value {
        let circuits = self.circuits.get(&node.id).copied().unwrap_or(0);
        json(node, self.above(node), circuits, keys)
    }

    fn text(&self, node: &CircuitsNode) -> String {
        let counts = node.counts;
        let mut text = format!(
            "{}: at most {}, guaranteed {}; sent {} packets, {} bytes",
            self.title(node),
            rate(node.ceiling_bytes_s),
            rate(node.guarantee_bytes_s),
            counts.sent_packets,
            counts.sent_wire_bytes,
        );
        if matches!(node.label, Label::Circuit(_) | Label::Others) {
            let _ = write!(
                text,
                "; {} dropped, {} marked; {} packets queued, {} bytes",
                counts.drops, counts.marks, counts.packets, counts.bytes
            );
            if let Some(delay) = own_delay_ms(node) {
                let _ = write!(text, ", which take {delay:.1} ms");
            }
        } else {
            let right = self.circuits.get(&node.id).copied().unwrap_or(0);
            let _ = write!(text, "; {right} circuits right below it");
        }
        text
    }
}

/// Returns a node as JSON: its parent, the number of circuits directly below it, and its keys.
pub(super) fn json(
    node: &CircuitsNode,
    above: Option<&str>,
    circuits: u64,
    keys: Option<&[Key]>,
) -> Value {
    let mut value = node_json(node, above);
    if matches!(node.label, Label::Link | Label::Site(_)) {
        value["circuits"] = circuits.into();
    }
    for kind in KeyKind::ALL {
        if let Some(keys) = keys {
            value[files::field(kind)] = texts(keys, kind).into();
        }
    }
    value
}

/// `weirgate circuits show`.
pub(super) fn show(state: &Path, name: &str, wanted: Option<&str>, as_json: bool) -> Outcome {
    in_runtime(async {
        let name = live::device(name)?;
        let (folders, kernel) = live::here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(live::refused)?;
        let kernel_tree = circuits.tree(&name).await.map_err(live::refused)?;
        let tree = Tree::of(&kernel_tree)?;
        let used = circuits.used(&name);
        let Some(wanted) = wanted else {
            let nodes = tree.nodes.values();
            let nodes: Vec<_> = nodes
                .filter(|node| !matches!(node.label, Label::Circuit(_)))
                .collect();
            if as_json {
                let all: Vec<Value> = nodes.iter().map(|node| tree.json(node, None)).collect();
                output::data(&format!("{}\n", Value::from(all)))?;
            } else {
                let all: Vec<String> = nodes.iter().map(|node| tree.text(node)).collect();
                output::lines(&format!("{}\n", all.join("\n")))?;
            }
            return Ok(Status::Done);
        };
        let named = |node: &&CircuitsNode| match &node.label {
            Label::Site(own) | Label::Circuit(own) => own == wanted,
            Label::Link | Label::Others => false,
        };
        let found: Vec<&CircuitsNode> = tree.nodes.values().filter(named).collect();
        if found.is_empty() {
            let some = tree.nodes.values().take(COMPARED);
            let hint = did_you_mean(wanted, some.map(|node| called(&node.label)), || {
                "the list in force has neither".to_owned()
            });
            return Err(wrong(format!(
                "there is no circuit and no site `{wanted}`; {hint}"
            )));
        }
        let mut values = Vec::new();
        let table = kernel_tree.table().map_err(failed)?;
        for node in found {
            let own = table.iter().filter(|(_, row)| *row == node.id);
            let keys: Vec<Key> = own.map(|(key, _)| *key).collect();
            let used = match &node.label {
                Label::Circuit(id) => used.bytes_now(id),
                _ => None,
            };
            if as_json {
                let mut value = tree.json(node, Some(&keys));
                if let Some(used) = used {
                    value["used_bytes"] = used.into();
                }
                values.push(value);
            } else {
                let mut text = tree.text(node);
                if let Some(used) = used {
                    let _ = write!(text, "\nof this month's quota: {used} bytes used");
                }
                for kind in KeyKind::ALL {
                    let own = texts(&keys, kind);
                    if !own.is_empty() {
                        let _ = write!(text, "\n{}: {}", kind.name(), own.join(", "));
                    }
                }
                output::lines(&format!("{text}\n"))?;
            }
        }
        if as_json {
            output::data(&format!("{}\n", Value::from(values)))?;
        }
        Ok(Status::Done)
    })
}
