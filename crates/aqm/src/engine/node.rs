// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of nodes, and their counters.

use super::ffi::{self, NodeConfig};

/// The smallest quantum; smaller values count as this (`ENGINE_LEAST_QUANTUM`).
pub const LEAST_QUANTUM: u32 = 256;

/// A tick of the timer wheel in nanoseconds (`ENGINE_TICK_SHIFT`). A node leaves the wheel at
/// most this much late, or [`late_ns`]. A ceiling compensates for two ticks.
pub const TICK_NS: u64 = 1 << 15;

/// Slow nodes use only every n-th tick of the wheel (`ENGINE_SLOW_TICKS`): those whose ceiling
/// needs at least twice that time for a full packet.
pub const SLOW_TICKS: u64 = 4;

/// Returns how much later than its ceiling allows a node without a cap may continue, in
/// nanoseconds (`engine_wait`). `full` is the size of a full packet on the wire in bytes.
pub fn late_ns(full: u64, ceiling_bytes_s: u64) -> u64 {
    let slow = full * 1_000_000_000 / (2 * SLOW_TICKS * TICK_NS);
    if ceiling_bytes_s <= slow {
        SLOW_TICKS * TICK_NS
    } else {
        TICK_NS
    }
}

/// How far a guarantee may fall behind in nanoseconds, besides its burst and two full packets
/// (`ENGINE_CREDIT_NS`).
pub const CREDIT_NS: u64 = 1_000_000_000;

/// How much of that an idle node keeps at least, in nanoseconds. If its burst and a full packet
/// take longer at its guarantee, it keeps that time (`ENGINE_IDLE_CREDIT_NS`).
pub const IDLE_CREDIT_NS: u64 = 2_000_000;

/// The configuration of a node. Rates and quanta are in bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeRule {
    /// The maximum rate of the node and everything below it, in bytes a second; 0 for no limit.
    pub ceiling_bytes_s: u64,
    /// The guaranteed rate in bytes a second, which precedes any sharing of the parent's excess;
    /// 0 for none.
    pub guarantee_bytes_s: u64,
    /// Bytes that it may send above its ceiling after it was below it: the depth of a token
    /// bucket, besides a full packet.
    pub ceiling_burst_bytes: u32,
    /// The priority from 0, the most urgent, to 7. Larger numbers count as 7.
    pub priority: u16,
    /// The quantum: bytes of a turn among equals, from [`LEAST_QUANTUM`] to 2^20. At least a
    /// full packet costs the least processor time.
    pub quantum: u32,
    /// The largest backlog of a leaf in bytes; 0 for as much as there is room.
    pub limit_bytes: u32,
    /// CoDel's target of a leaf in nanoseconds; 0 for the default of 5 ms.
    pub target_ns: u32,
    /// The row of a cap ([`NodeRow::is_cap`]), whose ceiling applies to the sum of all nodes
    /// that name it; 0 for none.
    pub cap: u32,
    /// The burst of its guarantee in bytes, besides a full packet.
    pub burst_bytes: u32,
    /// Whether each sending host gets its own leaf beside this leaf. These leaves have the same
    /// configuration, except for the guarantee.
    pub hosts: bool,
}

/// The numbers of an engine's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSize {
    /// Nodes of the tree, including the root.
    pub nodes: u32,
    /// Those of them that have children.
    pub inner: u32,
    /// Leaves that may have a backlog at the same time.
    pub queues: u32,
    /// Packets in the backlog.
    pub slots: u32,
    /// Bytes in the backlog, as the device counts them.
    pub limit_bytes: u64,
    /// Hosts that may have their own leaf, in rows after those of `nodes`.
    pub hosts: u32,
}

/// The reason why the tree was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The number is not that of a node.
    #[error("there is no such node")]
    NoNode,
    /// The parent is a leaf, or does not exist.
    #[error("the parent is no node that has children")]
    NoParent,
    /// The parent would be below its own child.
    #[error("the parent is the node itself, or below it")]
    BelowItself,
    /// The tree would have more than eight levels.
    #[error("the tree would have more than {} levels", ffi::LEVELS)]
    TooDeep,
    /// The node has children. Removed children count while they have packets.
    #[error("the node has children, or packets of children that were removed")]
    HasChildren,
    /// The root cannot be removed or moved.
    #[error("the root stays where it is")]
    Root,
    /// No row is free.
    #[error("all rows are in use")]
    Full,
}

/// The row of a node or a cap: its place in the tree, and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRow {
    /// The row of its parent; 0 for the root.
    pub parent: u32,
    /// For a node with children, the row of their lists, which no other node uses; 0 for a leaf.
    pub fork: u32,
    /// The rates and limits.
    pub rule: NodeRule,
}

impl NodeRow {
    /// Returns whether it is a cap: a ceiling that several nodes share. It has no parent or
    /// children, and only the ceiling of its rule applies.
    pub fn is_cap(&self) -> bool {
        self.parent == 0 && self.fork == 0
    }

    /// Returns the value of `live` for its row (`struct engine_config`).
    pub fn live(&self) -> u32 {
        live(self.parent, self.fork)
    }
}

fn live(parent: u32, fork: u32) -> u32 {
    if parent == 0 && fork == 0 {
        ffi::CAP
    } else {
        ffi::NODE
    }
}

/// The counters and the backlog of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounts {
    /// Packets sent, including those of its descendants.
    pub sent_packets: u64,
    /// Their bytes on the wire.
    pub sent_wire_bytes: u64,
    /// Packets queued (only for leaves).
    pub packets: u32,
    /// Bytes queued, as the device counts them.
    pub bytes: u32,
    /// Packets dropped (only for leaves).
    pub drops: u32,
    /// Packets marked (only for leaves).
    pub marks: u32,
}

/// Returns the contents of a node's row.
pub(super) fn config(parent: u32, fork: u32, rule: &NodeRule) -> NodeConfig {
    NodeConfig {
        ceiling_bytes_s: rule.ceiling_bytes_s,
        guarantee_bytes_s: rule.guarantee_bytes_s,
        live: live(parent, fork),
        parent,
        fork,
        quantum: rule.quantum,
        priority: rule.priority,
        limit_bytes: rule.limit_bytes,
        target_ns: rule.target_ns,
        cap: rule.cap,
        burst_bytes: rule.burst_bytes,
        hosts: rule.hosts.into(),
        ceiling_burst_bytes: rule.ceiling_burst_bytes,
    }
}
