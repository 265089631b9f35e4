// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of rows as a root qdisc (`bpf/qdisc/engine.bpf.c`): a tree of nodes below one gate,
//! and ceilings that several of them share. It takes no options: its whole configuration is in
//! maps.

use crate::{CakeAckFilter, KitWire, Origin};
use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Span};

/// The tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// The gate's rate, on the wire.
    pub gate: Rate,
    /// The overhead of a packet on the wire.
    pub wire: KitWire,
    /// The size of the largest packet in bytes, as the device counts.
    pub mtu: u32,
    /// The leaf for packets whose `skb->priority` names none.
    pub other: Handle,
    /// CoDel's interval in all leaves.
    pub interval: Span,
    /// Whether ECN marks are made, by a program at the device's egress. Without it, packets are
    /// dropped instead.
    #[serde(default)]
    pub marks: bool,
    /// Which acknowledgements that wait are dropped, in all classes.
    #[serde(default)]
    pub acks: CakeAckFilter,
    /// Which address of a packet is that of the inside host, if any leaf distinguishes hosts.
    #[serde(default)]
    pub hosts: Option<HostAddress>,
    /// All nodes, by id. All ids have the major number of `other`.
    pub nodes: Vec<RowsNode>,
}

impl Rows {
    /// The kind's name in weirgate. In the kernel, each device has a kind of its own.
    pub const KIND: &'static str = "weir_engine";
    /// The last row, which is the largest minor number of a node.
    pub const LAST: u16 = 0x7fff;
    /// The row of the link itself; no node has this minor number.
    pub const LINK: u16 = 1;
    /// The levels of a tree, including the link (`ENGINE_LEVELS`, aqm/host/engine.h).
    pub const LEVELS: usize = 8;
}

/// The address of a packet that belongs to the inside host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostAddress {
    /// The source address, for packets that leave by the link.
    Source,
    /// The destination address, for packets that have arrived from it.
    Destination,
}

/// The role of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RowsRole {
    /// A ceiling for the sum of the nodes that name it. It is not part of the tree.
    Cap,
    /// A node with nodes below it.
    Inner,
    /// A node with packets: those whose `skb->priority` is its id.
    Leaf,
}

/// A node. Fields that do not apply to its role are zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsNode {
    /// Its id; the minor number is that of its row.
    pub id: Handle,
    /// What it is.
    pub role: RowsRole,
    /// The node above; `None` is the link.
    pub parent: Option<Handle>,
    /// The rate that it gets before others of its parent get any excess, on the wire; 0 for none.
    pub guarantee: Rate,
    /// The burst of the guarantee beyond one full packet, in wire bytes.
    #[serde(default)]
    pub burst: u32,
    /// The rate that it never exceeds, including everything below it; `None` is that of the parent.
    pub ceiling: Option<Rate>,
    /// The cap whose ceiling applies to it too.
    pub cap: Option<Handle>,
    /// Its priority, from 0 (first) to 7.
    pub prio: u8,
    /// Its quantum among nodes of equal priority, in wire bytes.
    pub quantum: u32,
    /// For a leaf: CoDel's target.
    pub target: Span,
    /// For a leaf: the maximum number of queued bytes, as the device counts.
    pub limit: u32,
    /// For a leaf: whether each sending host has a leaf of its own, with the same configuration.
    #[serde(default)]
    pub hosts: bool,
    /// The policy line that requires it.
    pub origin: Origin,
}
