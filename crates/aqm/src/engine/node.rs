// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of nodes, and their counters.

use super::ffi::{self, NodeConfig};

/// The least quantum: less counts as this (`ENGINE_LEAST_QUANTUM`).
pub const LEAST_QUANTUM: u32 = 256;

/// A tick of the wheel, in nanoseconds: what waits for a time comes out so much later at
/// most (`ENGINE_TICK_SHIFT`), or [`late_ns`]. A ceiling makes up for two.
pub const TICK_NS: u64 = 1 << 15;

/// Nodes wait for every so manieth tick alone (`ENGINE_SLOW_TICKS`), whose ceiling takes
/// at least twice as long for a full packet.
pub const SLOW_TICKS: u64 = 4;

/// How much later than its ceiling lets it a node goes on at most, in nanoseconds, where it
/// has no cap (`engine_wait`). `full` are the bytes of a full packet on the wire.
pub fn late_ns(full: u64, ceiling_bytes_s: u64) -> u64 {
    let slow = full * 1_000_000_000 / (2 * SLOW_TICKS * TICK_NS);
    if ceiling_bytes_s <= slow {
        SLOW_TICKS * TICK_NS
    } else {
        TICK_NS
    }
}

/// How far a guarantee may fall behind, in nanoseconds, beside its burst and two full
/// packets
/// (`ENGINE_CREDIT_NS`).
pub const CREDIT_NS: u64 = 1_000_000_000;

/// What a node keeps of that at least while it has nothing to send: this, or its burst
/// and a full packet at its guarantee (`ENGINE_IDLE_CREDIT_NS`).
pub const IDLE_CREDIT_NS: u64 = 2_000_000;

/// The configuration of a node. Rates and quanta are bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeRule {
    /// What it, with everything below it, never exceeds, a second; 0 for nothing.
    pub ceiling_bytes_s: u64,
    /// What it has before others of its parent have any excess, a second; 0 for
    /// nothing.
    pub guarantee_bytes_s: u64,
    /// What it may send above its ceiling after it had less: the depth of a token bucket,
    /// besides a full packet.
    pub ceiling_burst_bytes: u32,
    /// 0, the most urgent, to 7. A larger number counts as 7.
    pub priority: u16,
    /// Its share among equals: bytes of a turn, from [`LEAST_QUANTUM`] to 2^20. A
    /// turn that is no shorter than a full packet costs least.
    pub quantum: u32,
    /// Bytes queued at most, of a leaf; 0 for what there is room for.
    pub limit_bytes: u32,
    /// CoDel's target, of a leaf, in nanoseconds; 0 for the usual 5 ms.
    pub target_ns: u32,
    /// The number of a cap ([`NodeRow::is_cap`]), whose ceiling holds for it, and for all
    /// others that name it, together; 0 for none.
    pub cap: u32,
    /// What its guarantee has for packets that come at once, besides a full one.
    pub burst_bytes: u32,
    /// Of a leaf: whether each host that sends has a leaf of its own beside it, of which
    /// the configuration is the same but for the guarantee.
    pub hosts: bool,
}

/// How many rows an engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSize {
    /// Nodes of the tree, with the root.
    pub nodes: u32,
    /// Of those, nodes with children.
    pub inner: u32,
    /// Leaves that may have packets at a time.
    pub queues: u32,
    /// Packets.
    pub slots: u32,
    /// Their bytes, as the device counts them.
    pub limit_bytes: u64,
    /// Hosts that may have a leaf of their own, in rows behind those of `nodes`.
    pub hosts: u32,
}

/// Why the tree was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A number that is no node's.
    #[error("there is no such node")]
    NoNode,
    /// The parent is a leaf, or no node.
    #[error("the parent is no node that has children")]
    NoParent,
    /// The parent would be below its own child.
    #[error("the parent is the node itself, or below it")]
    BelowItself,
    /// There would be more than eight levels.
    #[error("the tree would have more than {} levels", ffi::LEVELS)]
    TooDeep,
    /// A node with children, some of which may have been removed and still have
    /// packets.
    #[error("the node has children, or packets of children that were removed")]
    HasChildren,
    /// The root, which stays.
    #[error("the root stays where it is")]
    Root,
    /// No row is free.
    #[error("all rows are in use")]
    Full,
}

/// A node, or a cap: its place in the tree, and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRow {
    /// The number of its parent; 0 for the root.
    pub parent: u32,
    /// Of a node with children, the number of the row for their lists, which no
    /// other node has; 0 for a leaf.
    pub fork: u32,
    /// What it may have.
    pub rule: NodeRule,
}

impl NodeRow {
    /// Whether it is a cap: a ceiling that nodes share by its number. It has neither a
    /// parent nor children, and of its rule only the ceiling counts.
    pub fn is_cap(&self) -> bool {
        self.parent == 0 && self.fork == 0
    }

    /// What its row says that it is (`live` of `struct engine_config`).
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

/// What a node has had and has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounts {
    /// Packets sent, from it or from below it.
    pub sent_packets: u64,
    /// Their bytes on the wire.
    pub sent_wire_bytes: u64,
    /// Packets queued, of a leaf.
    pub packets: u32,
    /// Their bytes, as the device counts them.
    pub bytes: u32,
    /// Packets dropped, of a leaf.
    pub drops: u32,
    /// Packets marked, of a leaf.
    pub marks: u32,
}

/// What the row of a node says.
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
