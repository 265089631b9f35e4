// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads nodes in the memory that is shared with the kernel.

use crate::layout::circuits_label;
use crate::qdisc::engine::{Mapped, Nodes};
use weirgate_aqm::NodeCounts;
use weirgate_circuits::rows::{Label, LabelText, RowLayout};

/// A node with its label, configuration and counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitsNode {
    /// The row number.
    pub id: u32,
    /// The label.
    pub label: Label,
    /// The device's queue that contains it, counted from 0; for the link and the default leaf,
    /// the first.
    pub queue: u32,
    /// The row of its parent; 0 for the link.
    pub parent: u32,
    /// Its maximum rate in bytes a second; 0 for no limit.
    pub ceiling_bytes_s: u64,
    /// Its guaranteed rate in bytes a second; 0 for none.
    pub guarantee_bytes_s: u64,
    /// Its counters and backlog.
    pub counts: NodeCounts,
}

/// A node without its label, which is in another map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitsRow {
    /// The row of its parent; 0 for the link.
    pub parent: u32,
    /// Its maximum rate in bytes a second; 0 for no limit.
    pub ceiling_bytes_s: u64,
    /// Its guaranteed rate in bytes a second; 0 for none.
    pub guarantee_bytes_s: u64,
    /// Its counters and backlog.
    pub counts: NodeCounts,
}

/// The memory with the nodes and their labels.
#[derive(Clone, Copy)]
pub(super) struct Seen<'m> {
    pub(super) nodes: &'m Nodes,
    pub(super) labels: &'m Mapped<circuits_label>,
    pub(super) layout: RowLayout,
}

impl Seen<'_> {
    /// Returns a live node. The first root and the first default leaf include the counters of
    /// all queues.
    pub(super) fn row(self, id: u32) -> Option<CircuitsRow> {
        let (parent, ceiling_bytes_s, guarantee_bytes_s) = self.nodes.rule(id)?;
        let mut counts = self.nodes.counts(id)?;
        if id == RowLayout::LINK || id == self.layout.others(0) {
            for more in 1..self.layout.queues {
                counts = sum(counts, self.nodes.counts(id + more)?);
            }
        }
        let is_below_link = self.layout.is_root(parent);
        Some(CircuitsRow {
            parent: if is_below_link {
                RowLayout::LINK
            } else {
                parent
            },
            ceiling_bytes_s,
            guarantee_bytes_s,
            counts,
        })
    }

    /// Returns a live node with its label.
    pub(super) fn node(self, id: u32) -> Option<CircuitsNode> {
        let row = self.row(id)?;
        let (label, queue) = label(self.labels, id)?;
        Some(CircuitsNode {
            id,
            label,
            queue,
            parent: row.parent,
            ceiling_bytes_s: row.ceiling_bytes_s,
            guarantee_bytes_s: row.guarantee_bytes_s,
            counts: row.counts,
        })
    }
}

/// Adds the counters of two nodes.
fn sum(one: NodeCounts, other: NodeCounts) -> NodeCounts {
    NodeCounts {
        sent_packets: one.sent_packets + other.sent_packets,
        sent_wire_bytes: one.sent_wire_bytes + other.sent_wire_bytes,
        packets: one.packets.wrapping_add(other.packets),
        bytes: one.bytes.wrapping_add(other.bytes),
        drops: one.drops.wrapping_add(other.drops),
        marks: one.marks.wrapping_add(other.marks),
    }
}

/// Returns the label and the queue of a row.
pub(super) fn label(labels: &Mapped<circuits_label>, id: u32) -> Option<(Label, u32)> {
    let label = raw(labels, id)?;
    Some((LabelText(label.text).read()?, label.queue))
}

/// Returns the label of a row in its raw form.
pub(super) fn raw(labels: &Mapped<circuits_label>, id: u32) -> Option<circuits_label> {
    let label = labels.at(id as usize)?;
    #[expect(unsafe_code, reason = "the memory is the kernel's too")]
    // SAFETY: the row is in the mapping, and any bytes are a label.
    let label = unsafe { label.read_volatile() };
    Some(label)
}
