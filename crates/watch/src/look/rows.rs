// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes of the engine of rows. The kernel sees one qdisc without classes; the counters of the
//! nodes are in the maps of its program, which root may read.

use crate::legend::Legend;
use crate::look::device::class_object;
use crate::look::link::GATE;
use crate::object::{Number, Object};
use weirgate_aqm::NodeCounts;
use weirgate_bpf::{AttachPoint, RowCounts, RowTree};
use weirgate_kernel::DeviceOverview;
use weirgate_units::Rate;

/// Adds the nodes of a device's tree, and their rates to the device. Does nothing if the device
/// has no tree, or its maps cannot be read.
pub(crate) fn look(device: &mut DeviceOverview, legend: &Legend, objects: &mut Vec<Object>) {
    let mut qdiscs = device.counters.qdiscs.iter();
    if !qdiscs.any(|qdisc| qdisc.parent.is_none() && qdisc.kind.starts_with(RowTree::KIND)) {
        return;
    }
    let Some((gate, nodes)) = read(device.index) else {
        return;
    };
    device.rates.insert(GATE, (gate, gate));
    for node in nodes {
        device.rates.insert(node.id, (node.guarantee, node.ceiling));
        objects.push(class_object(device, node.id, legend, numbers(&node.counts)));
    }
}

fn read(ifindex: u32) -> Option<(Rate, Vec<RowCounts>)> {
    let tree = RowTree::at(AttachPoint::root(ifindex).ok()?).ok()??;
    tree.counts().ok()?
}

/// Returns the metrics of a node. Sent bytes are those on the wire, queued bytes those that the
/// device counts.
fn numbers(counts: &NodeCounts) -> Vec<(Number, u64)> {
    vec![
        (Number::ClassSentBytes, counts.sent_wire_bytes),
        (Number::ClassSentPackets, counts.sent_packets),
        (Number::ClassBacklogBytes, counts.bytes.into()),
        (Number::ClassBacklogPackets, counts.packets.into()),
        (Number::ClassDrops, counts.drops.into()),
        (Number::ClassMarks, counts.marks.into()),
    ]
}
