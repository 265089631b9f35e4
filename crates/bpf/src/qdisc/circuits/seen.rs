// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes in the memory that is shared with the kernel.

use crate::layout::circuits_label;
use crate::qdisc::engine::{Mapped, Nodes};
use weirgate_aqm::NodeCounts;
use weirgate_circuits::rows::{Label, LabelText, Room};

/// A node, as it is in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitsNode {
    /// The number of its row.
    pub id: u32,
    /// What it is.
    pub label: Label,
    /// The queue of the device that has it, from 0 on; of the link and of others the first.
    pub queue: u32,
    /// The row of the node above it; 0 for the link.
    pub parent: u32,
    /// What it never exceeds, in bytes a second; 0 for nothing.
    pub ceiling_bytes_s: u64,
    /// What it is guaranteed; 0 for nothing.
    pub guarantee_bytes_s: u64,
    /// What it has had and has.
    pub counts: NodeCounts,
}

/// A node without its label, which takes another look into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitsRow {
    /// The row of the node above it; 0 for the link.
    pub parent: u32,
    /// What it never exceeds, in bytes a second; 0 for nothing.
    pub ceiling_bytes_s: u64,
    /// What it is guaranteed; 0 for nothing.
    pub guarantee_bytes_s: u64,
    /// What it has had and has.
    pub counts: NodeCounts,
}

/// Where nodes and their labels are read.
#[derive(Clone, Copy)]
pub(super) struct Seen<'m> {
    pub(super) nodes: &'m Nodes,
    pub(super) labels: &'m Mapped<circuits_label>,
    pub(super) room: Room,
}

impl Seen<'_> {
    /// A node that is there, by the number of its row. The rows of the link, and those of
    /// others, count as one each.
    pub(super) fn row(self, id: u32) -> Option<CircuitsRow> {
        let (parent, ceiling_bytes_s, guarantee_bytes_s) = self.nodes.rule(id)?;
        let mut counts = self.nodes.counts(id)?;
        if id == Room::LINK || id == self.room.others(0) {
            for more in 1..self.room.queues {
                counts = sum(counts, self.nodes.counts(id + more)?);
            }
        }
        let is_below_link = self.room.is_root(parent);
        Some(CircuitsRow {
            parent: if is_below_link { Room::LINK } else { parent },
            ceiling_bytes_s,
            guarantee_bytes_s,
            counts,
        })
    }

    /// The same, and what it is called.
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

/// What both have.
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

/// Whose a row is, and of which queue.
pub(super) fn label(labels: &Mapped<circuits_label>, id: u32) -> Option<(Label, u32)> {
    let label = raw(labels, id)?;
    Some((LabelText(label.text).read()?, label.queue))
}

/// What is written of a row.
pub(super) fn raw(labels: &Mapped<circuits_label>, id: u32) -> Option<circuits_label> {
    let label = labels.at(id as usize)?;
    #[expect(unsafe_code, reason = "the memory is the kernel's too")]
    // SAFETY: the row is in the mapping, and any bytes are a label.
    let label = unsafe { label.read_volatile() };
    Some(label)
}
