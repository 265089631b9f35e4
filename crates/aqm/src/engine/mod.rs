// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine (`aqm/host/engine.h`) on this machine: one scheduler for a tree of nodes of any
//! shape, with up to eight levels.
//!
//! A [`NodeRule`] is stored in the row of its node, and the scheduler reads it at the next
//! visit. A change therefore costs one store, at any time. This host makes the scheduler visit
//! the node immediately.

mod audit;
mod cap;
mod ffi;
mod line;
mod mirror;
mod node;

use crate::ffi::{Link, Packet};
use crate::queue::{Action, Verdict, verdict};
use ffi::{Arrays, Codel, Fork, Host, Node, NodeConfig, RawDeparture, Rule};
use node::config;
use std::ffi::c_void;
use std::sync::Arc;

pub use line::{EngineLine, MEMBERS, ROUND_NS};
pub use mirror::{EngineMirror, EngineRecord, EngineTaken};
pub use node::{
    CREDIT_NS, EngineError, EngineSize, IDLE_CREDIT_NS, LEAST_QUANTUM, NodeCounts, NodeRow,
    NodeRule, SLOW_TICKS, TICK_NS, late_ns,
};

/// The result of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineArrival<T> {
    /// The arriving packet, if it was dropped.
    pub refused: Option<T>,
    /// Packets of the same leaf that were evicted for it.
    pub evicted: Vec<T>,
}

/// The result of a request for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineDeparture<T> {
    /// The packet to send, with its leaf and verdict.
    pub sent: Option<(u32, Verdict, Packet, T)>,
    /// Packets that were dropped before that, with their leaves.
    pub dropped: Vec<(u32, T)>,
    /// If no packet is sent, when to ask again; `None` if nothing is queued.
    pub opens_ns: Option<u64>,
}

/// An engine with its packets; each carries a `T` for the caller. The caller supplies the time,
/// which must not decrease.
#[derive(Debug)]
pub struct Engine<T> {
    /// `struct native_engine`, and its rows; `u64` for the alignment that C needs.
    memory: Vec<u64>,
    nodes: Vec<Node>,
    forks: Vec<Fork>,
    queues: Vec<u64>,
    slots: Vec<u64>,
    hosts: Vec<Host>,
    rule: Rule,
    size: EngineSize,
    /// The value in each slot.
    items: Vec<Option<T>>,
    /// For each node, how many rows name it as their parent.
    children: Vec<u32>,
    free_forks: Vec<u32>,
    /// Removed nodes that may still have packets.
    removed: Vec<u32>,
    /// Rows that were used before and are free; rows from `fresh` on were never used.
    free: Vec<u32>,
    fresh: u32,
    /// The time of the last call.
    now_ns: u64,
    /// The shared line, if any, whose memory the engine uses.
    line: Option<Arc<EngineLine>>,
}

/// The row of the root.
const ROOT: u32 = 1;

/// The largest number of iterations of one departure. Each sends or drops a packet, or finds an
/// empty leaf.
const ROUNDS: usize = 1 << 20;

impl<T> Engine<T> {
    /// Makes an engine that consists of a root with the ceiling `link.rate_bytes_s`.
    pub fn new(link: &Link, size: EngineSize) -> Self {
        let mut whole = Self::empty(link, size);
        whole.nodes[ROOT as usize].config = NodeConfig {
            ceiling_bytes_s: link.rate_bytes_s,
            live: ffi::NODE,
            fork: 1,
            ..NodeConfig::default()
        };
        whole
    }

    /// Makes an engine without any nodes.
    fn empty(link: &Link, size: EngineSize) -> Self {
        let [engine, queue, slot, _] = ffi::sizes();
        let words = |bytes: usize, rows: u32| vec![0; (bytes * (rows as usize + 1)).div_ceil(8)];
        let mut whole = Self {
            memory: vec![0; engine.div_ceil(8)],
            nodes: vec![Node::default(); (size.nodes + size.hosts) as usize + 1],
            forks: vec![Fork::default(); size.inner as usize + 1],
            queues: words(queue, size.queues),
            slots: words(slot, size.slots),
            hosts: vec![Host::default(); size.hosts as usize + 1],
            rule: Rule {
                link: *link,
                codel: Codel {
                    target_ns: 5_000_000,
                    interval_ns: 100_000_000,
                    ce_threshold_ns: 0,
                    mtu_bytes: u64::from(link.mtu_bytes),
                },
                limit_bytes: size.limit_bytes,
                root: ROOT,
                other: 0,
                lent: size.nodes,
                arriving: 0,
            },
            size,
            items: (0..=size.slots).map(|_| None).collect(),
            children: vec![0; size.nodes as usize + 1],
            free_forks: (2..=size.inner).rev().collect(),
            removed: Vec::new(),
            free: Vec::new(),
            fresh: ROOT + 1,
            now_ns: 0,
            line: None,
        };
        whole.setup();
        whole
    }

    /// Returns the row of the root.
    pub fn root(&self) -> u32 {
        ROOT
    }

    fn raw(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }

    /// Passes the rule and the addresses of the rows to C.
    fn setup(&mut self) {
        let rows = Arrays {
            nodes: self.nodes.as_mut_ptr(),
            forks: self.forks.as_mut_ptr(),
            queues: self.queues.as_mut_ptr(),
            slots: self.slots.as_mut_ptr(),
            hosts: self.hosts.as_mut_ptr(),
            node_rows: self.nodes.len() as u64,
            fork_rows: self.forks.len() as u64,
            queue_rows: u64::from(self.size.queues) + 1,
            slot_rows: u64::from(self.size.slots) + 1,
            host_rows: self.hosts.len() as u64,
        };
        // SAFETY: the memory is an engine's, and the vectors have the configured numbers of
        // rows. None of them is ever reallocated.
        unsafe { ffi::aqm_engine_setup(self.raw(), &raw const self.rule, &raw const rows) };
    }

    /// Adds a node below `parent`: a leaf, or an inner node that can have children. Returns its
    /// row number, which does not change.
    pub fn add(&mut self, parent: u32, inner: bool, rule: &NodeRule) -> Result<u32, EngineError> {
        self.may_have_children(parent)?;
        if self.depth(parent) >= ffi::LEVELS {
            return Err(EngineError::TooDeep);
        }
        self.reclaim();
        if inner && self.free_forks.is_empty() {
            return Err(EngineError::Full);
        }
        let id = self.free_row().ok_or(EngineError::Full)?;
        let fork = if inner {
            self.free_forks.pop().unwrap_or(0)
        } else {
            0
        };
        self.nodes[id as usize] = Node {
            config: config(parent, fork, rule),
            // The row may still be in the timer wheel because of its former node.
            wheel: self.nodes[id as usize].wheel,
            wheel_next: self.nodes[id as usize].wheel_next,
            wheel_prev: self.nodes[id as usize].wheel_prev,
            ..Node::default()
        };
        self.children[parent as usize] += 1;
        Ok(id)
    }

    /// Changes the rule of a node, or the ceiling of a cap. Backlog and counters stay.
    pub fn change(&mut self, id: u32, rule: &NodeRule) -> Result<(), EngineError> {
        self.live(id)?;
        let own = &mut self.nodes[id as usize].config;
        *own = config(own.parent, own.fork, rule);
        let is_cap = own.live == ffi::CAP;
        self.look(id);
        if is_cap {
            self.look_at_members(id);
        }
        Ok(())
    }

    /// Moves a node, with everything below it, below another parent.
    pub fn reparent(&mut self, id: u32, parent: u32) -> Result<(), EngineError> {
        self.live(id)?;
        if id == ROOT {
            return Err(EngineError::Root);
        }
        if self.nodes[id as usize].config.live == ffi::CAP {
            return Err(EngineError::NoNode);
        }
        self.may_have_children(parent)?;
        if self.path(parent).any(|above| above == id) {
            return Err(EngineError::BelowItself);
        }
        if self.depth(parent) + self.height(id) > ffi::LEVELS {
            return Err(EngineError::TooDeep);
        }
        let old = self.nodes[id as usize].config.parent;
        self.children[old as usize] -= 1;
        self.children[parent as usize] += 1;
        self.nodes[id as usize].config.parent = parent;
        self.look(id);
        Ok(())
    }

    /// Moves several nodes at once, given as pairs of node and parent. Like a new list in the
    /// kernel, the engine notices the change only when packets depart.
    pub fn rearrange(&mut self, parents: &[(u32, u32)]) -> Result<(), EngineError> {
        for (id, parent) in parents {
            self.live(*id)?;
            if *id == ROOT {
                return Err(EngineError::Root);
            }
            if self.nodes[*id as usize].config.live == ffi::CAP {
                return Err(EngineError::NoNode);
            }
            self.may_have_children(*parent)?;
        }
        let before: Vec<NodeConfig> = self.nodes.iter().map(|node| node.config).collect();
        for (id, parent) in parents {
            self.nodes[*id as usize].config.parent = *parent;
        }
        let most = ffi::LEVELS as usize;
        let is_deep = |id: u32| self.path(id).nth(most).is_some();
        if (ROOT..self.fresh).any(is_deep) {
            for (node, config) in self.nodes.iter_mut().zip(before) {
                node.config = config;
            }
            return Err(EngineError::TooDeep);
        }
        for (id, parent) in parents {
            self.children[before[*id as usize].parent as usize] -= 1;
            self.children[*parent as usize] += 1;
        }
        Ok(())
    }

    fn look(&mut self, id: u32) {
        // SAFETY: the memory is an engine's, set up with its rows.
        unsafe { ffi::aqm_engine_look(self.raw(), id, self.now_ns) };
    }

    /// Removes a node. The backlog of a leaf is dropped when its turn comes.
    pub fn remove(&mut self, id: u32) -> Result<(), EngineError> {
        self.live(id)?;
        if id == ROOT {
            return Err(EngineError::Root);
        }
        self.reclaim();
        if self.children[id as usize] > 0 {
            return Err(EngineError::HasChildren);
        }
        self.nodes[id as usize].config.live = 0;
        self.removed.push(id);
        self.look(id);
        Ok(())
    }

    /// Enqueues a packet into a leaf at `packet.arrived_ns`; `packet.flow` is its flow, and
    /// `host` its host. A number that is not a leaf refuses it. If the leaf distinguishes hosts,
    /// 0 means an unknown host.
    pub fn arrive(&mut self, leaf: u32, packet: &Packet, host: u32, item: T) -> EngineArrival<T> {
        let mut arrival = EngineArrival {
            refused: None,
            evicted: Vec::new(),
        };
        self.now_ns = packet.arrived_ns;
        let raw = self.raw();
        // SAFETY: the memory is an engine's, set up with its rows.
        let leaf = unsafe { ffi::aqm_engine_leaf_of(raw, leaf, host) };
        let mut room = 0;
        for _ in 0..=ffi::EVICT_MOST {
            // SAFETY: the memory is an engine's, set up with its rows.
            room = unsafe { ffi::aqm_engine_admit(raw, leaf, packet.len) };
            if room != ffi::EVICT {
                break;
            }
            // SAFETY: as above.
            let slot = unsafe { ffi::aqm_engine_evict(raw, leaf) };
            arrival.evicted.extend(self.items[slot as usize].take());
        }
        let slot = match room {
            // SAFETY: as above.
            0 => unsafe { ffi::aqm_engine_arrive(raw, leaf, packet, host) },
            ffi::EVICT | ffi::REFUSE => 0,
            other => unreachable!("C answers {other}"),
        };
        if slot == 0 {
            arrival.refused = Some(item);
        } else {
            self.items[slot as usize] = Some(item);
        }
        arrival
    }

    /// Requests a packet at a time.
    pub fn depart(&mut self, now_ns: u64) -> EngineDeparture<T> {
        let mut departure = EngineDeparture {
            sent: None,
            dropped: Vec::new(),
            opens_ns: None,
        };
        self.now_ns = now_ns;
        let raw = self.raw();
        for _ in 0..ROUNDS {
            let mut own = RawDeparture::default();
            // SAFETY: the memory is an engine's, set up with its rows.
            unsafe { ffi::aqm_engine_depart(raw, now_ns, &raw mut own) };
            if own.leaf == 0 {
                departure.opens_ns = (own.opens_ns != u64::MAX).then_some(own.opens_ns);
                break;
            }
            let Some(item) = self.items[own.slot as usize].take() else {
                continue;
            };
            let leaf = self.named(own.leaf);
            let verdict = verdict(own.verdict);
            if verdict.action == Action::Drop {
                departure.dropped.push((leaf, item));
                continue;
            }
            departure.sent = Some((leaf, verdict, self.packet(own.slot), item));
            break;
        }
        departure
    }

    /// Returns the configured leaf to which a leaf belongs: itself, or for a host's leaf the one
    /// beside it.
    fn named(&self, leaf: u32) -> u32 {
        let host = leaf.checked_sub(self.size.nodes).filter(|row| *row > 0);
        host.map_or(leaf, |row| self.hosts[row as usize].leaf)
    }

    /// Iterates over the hosts' leaves beside a leaf, with their rows.
    fn beside(&self, leaf: u32) -> impl Iterator<Item = (u32, &Node)> {
        let lent = self.size.nodes + 1..;
        let rows = lent.zip(self.hosts.iter().skip(1));
        let own = rows.filter(move |(_, host)| host.leaf == leaf);
        own.map(|(id, _)| (id, &self.nodes[id as usize]))
    }

    /// Returns the properties of the packet in a slot.
    fn packet(&mut self, slot: u32) -> Packet {
        let mut packet = Packet::default();
        // SAFETY: the memory is an engine's, and it named the slot.
        unsafe { ffi::aqm_engine_packet(self.raw(), slot, &raw mut packet) };
        packet
    }

    /// Returns the counters and backlog of a node; `None` if there is no such node.
    pub fn counts(&self, id: u32) -> Option<NodeCounts> {
        let node = self
            .nodes
            .get(id as usize)
            .filter(|it| it.config.live != 0)?;
        let own = (node.packets, node.bytes);
        let all =
            |sum: (u32, u32), (_, one): (u32, &Node)| (sum.0 + one.packets, sum.1 + one.bytes);
        let (packets, bytes) = self.beside(id).fold(own, all);
        Some(NodeCounts {
            sent_packets: node.sent_packets,
            sent_wire_bytes: node.sent_wire_bytes,
            packets,
            bytes,
            drops: node.drops,
            marks: node.marks,
        })
    }

    /// Returns the number of packets queued in all leaves.
    pub fn packets(&self) -> u64 {
        self.totals()[1]
    }

    /// Returns how many hosts have their own leaf, and how many of these have packets.
    pub fn hosts(&self) -> (u64, usize) {
        let lent = self.nodes.iter().skip(self.size.nodes as usize + 1);
        (self.totals()[4], lent.filter(|it| it.packets > 0).count())
    }

    /// Returns the bytes queued, the slots and queues in use, the packets refused for lack of a
    /// leaf, and the rows of hosts in use.
    fn totals(&self) -> [u64; 5] {
        let mut totals = [0; 5];
        let raw = self.memory.as_ptr().cast();
        // SAFETY: the memory is an engine's, and C writes five words.
        unsafe { ffi::aqm_engine_counts(raw, totals.as_mut_ptr()) };
        totals
    }

    fn live(&self, id: u32) -> Result<(), EngineError> {
        match self.nodes.get(id as usize) {
            Some(node) if node.config.live != 0 => Ok(()),
            _ => Err(EngineError::NoNode),
        }
    }

    fn may_have_children(&self, id: u32) -> Result<(), EngineError> {
        match self.nodes.get(id as usize) {
            Some(node) if node.config.live != 0 && node.config.fork != 0 => Ok(()),
            _ => Err(EngineError::NoParent),
        }
    }

    /// Iterates over a node and its ancestors, up to the root.
    fn path(&self, id: u32) -> impl Iterator<Item = u32> {
        let above = |id: &u32| Some(self.nodes[*id as usize].config.parent).filter(|it| *it != 0);
        std::iter::successors(Some(id), above)
    }

    /// Returns the number of levels from the root to a node, including both.
    fn depth(&self, id: u32) -> u32 {
        self.path(id).count() as u32
    }

    /// Returns the number of levels from a node down, including it.
    fn height(&self, id: u32) -> u32 {
        let own = self.depth(id);
        let below = (ROOT..self.fresh).filter(|it| self.path(*it).any(|above| above == id));
        below.map(|it| self.depth(it) - own + 1).max().unwrap_or(1)
    }

    /// Returns whether a row can be reused.
    fn at_rest(&self, id: u32) -> bool {
        let node = &self.nodes[id as usize];
        let rests = node.state == ffi::IDLE && node.packets == 0;
        node.config.live == 0 && rests && self.beside(id).all(|(_, it)| it.packets == 0)
    }

    /// Frees the rows of removed nodes that have no packets left. A node is freed only after its
    /// children.
    fn reclaim(&mut self) {
        loop {
            let gone = |id: &u32| self.at_rest(*id) && self.children[*id as usize] == 0;
            let Some(at) = self.removed.iter().position(gone) else {
                break;
            };
            let id = self.removed.swap_remove(at);
            let node = std::mem::take(&mut self.nodes[id as usize].config);
            self.children[node.parent as usize] -= 1;
            if node.fork != 0 {
                self.free_forks.push(node.fork);
            }
            self.free.push(id);
        }
    }

    /// Returns a free row.
    fn free_row(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let new = (self.fresh <= self.size.nodes).then_some(self.fresh)?;
            self.fresh += 1;
            Some(new)
        })
    }
}
