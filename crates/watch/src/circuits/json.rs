// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts nodes to names and JSON.

use serde_json::{Value, json};
use weirgate_bpf::CircuitsNode;
use weirgate_circuits::rows::Label;

/// Returns the name of a node.
pub fn called(label: &Label) -> &str {
    match label {
        Label::Link => Label::LINK_NAME,
        Label::Others => Label::OTHERS_NAME,
        Label::Site(name) => name,
        Label::Circuit(id) => id,
    }
}

fn word(label: &Label) -> &'static str {
    match label {
        Label::Link => "link",
        Label::Others => "others",
        Label::Site(_) => "site",
        Label::Circuit(_) => "circuit",
    }
}

/// Returns how long the backlog takes at the node's own ceiling, in milliseconds.
pub fn delay_ms(ceiling_bytes_s: u64, queued_bytes: u64) -> Option<f64> {
    (ceiling_bytes_s > 0).then(|| queued_bytes as f64 / ceiling_bytes_s as f64 * 1e3)
}

/// Converts a node with its parent to JSON.
pub fn node_json(node: &CircuitsNode, above: Option<&str>) -> Value {
    let counts = node.counts;
    let mut value = json!({
        "kind": word(&node.label),
        "name": called(&node.label),
        "below": above,
        "ceiling_bit_s": node.ceiling_bytes_s * 8,
        "guarantee_bit_s": node.guarantee_bytes_s * 8,
        "sent_packets": counts.sent_packets,
        "sent_bytes": counts.sent_wire_bytes,
    });
    if matches!(node.label, Label::Circuit(_) | Label::Others) {
        value["queued_packets"] = counts.packets.into();
        value["queued_bytes"] = counts.bytes.into();
        value["delay_ms"] = delay_ms(node.ceiling_bytes_s, counts.bytes.into()).into();
        value["dropped"] = counts.drops.into();
        value["marked"] = counts.marks.into();
    }
    if matches!(node.label, Label::Circuit(_) | Label::Site(_)) {
        value["queue"] = node.queue.into();
    }
    value
}
