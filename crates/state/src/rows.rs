// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of rows as a root (`bpf/qdisc/engine.bpf.c`): a tree of nodes below one
//! gate, and ceilings that several of them share. It takes no options: its whole
//! configuration goes through maps.

use crate::{KitWire, Origin};
use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Span};

/// The tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// The gate's rate, on the wire.
    pub gate: Rate,
    /// What a packet costs there.
    pub wire: KitWire,
    /// Bytes of the largest packet, as the device counts.
    pub mtu: u32,
    /// The leaf of packets whose `skb->priority` names none.
    pub other: Handle,
    /// CoDel's interval in all leaves.
    pub interval: Span,
    /// Whether ECN marks of leaves are made, by a program at the device's egress. Without
    /// it their packets are dropped.
    #[serde(default)]
    pub marks: bool,
    /// Which address of a packet is the inside host's, where any leaf tells hosts apart.
    #[serde(default)]
    pub hosts: Option<HostAddress>,
    /// Every node, by id. All ids have the major number of `other`.
    pub nodes: Vec<RowsNode>,
}

impl Rows {
    /// How the kind is called here. In the kernel each device has one of its own.
    pub const KIND: &'static str = "weir_engine";
    /// The last row, and thus the largest minor number of a node.
    pub const LAST: u16 = 0x7fff;
    /// The row of the link itself, whose minor number no node has.
    pub const LINK: u16 = 1;
    /// Levels of a tree, with the link (`ENGINE_LEVELS`, aqm/host/engine.h).
    pub const LEVELS: usize = 8;
}

/// One of a packet's addresses, before or behind translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostAddress {
    /// Packets leave by the link.
    Source,
    /// They have come from it.
    Destination,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RowsRole {
    /// A ceiling that the nodes have together that name it. It is in no tree.
    Cap,
    /// It has nodes below it.
    Inner,
    /// It has packets: those whose `skb->priority` is its id.
    Leaf,
}

/// A node. What does not matter for its role is zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsNode {
    /// Its number; the minor one is that of its row.
    pub id: Handle,
    /// What it is.
    pub role: RowsRole,
    /// The node above; `None` is the link.
    pub parent: Option<Handle>,
    /// What it has before others of its parent get any excess, on the wire; 0 for
    /// nothing.
    pub guarantee: Rate,
    /// What the guarantee has for packets that come at once, besides a full one: wire
    /// bytes.
    #[serde(default)]
    pub burst: u32,
    /// What it never exceeds with everything below it; `None` is what is above.
    pub ceiling: Option<Rate>,
    /// The cap whose ceiling holds for it too.
    pub cap: Option<Handle>,
    /// 0 (first) to 7.
    pub prio: u8,
    /// Its share among equals: wire bytes of a turn.
    pub quantum: u32,
    /// CoDel's target, of a leaf.
    pub target: Span,
    /// Bytes that a leaf holds at most, as the device counts.
    pub limit: u32,
    /// Of a leaf: whether each host that sends has a leaf of its own beside it, with
    /// the same configuration.
    #[serde(default)]
    pub hosts: bool,
    /// Which policy line wants it.
    pub origin: Origin,
}
