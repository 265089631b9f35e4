// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine (`aqm/host/engine.h`) on this machine: one scheduler for a tree of
//! nodes of any shape, eight levels deep.
//!
//! A [`NodeRule`] is stored in the row of its node, and the scheduler reads it
//! when it next looks there. So a change costs a store, at any time. This host has
//! it look at once.

mod audit;
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

/// What an arrival led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineArrival<T> {
    /// The packet that came, where it was dropped.
    pub refused: Option<T>,
    /// Packets of the same leaf that had to make room for it.
    pub evicted: Vec<T>,
}

/// What an opportunity to send led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineDeparture<T> {
    /// The leaf, the packet to send, and how.
    pub sent: Option<(u32, Verdict, Packet, T)>,
    /// Packets that were dropped on the way to it, with their leaves.
    pub dropped: Vec<(u32, T)>,
    /// Where none is sent: when to ask again; `None` where nothing is queued.
    pub opens_ns: Option<u64>,
}

/// An engine with its packets, each of which is a `T` to its owner. The caller
/// keeps time, which must not go backwards.
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
    /// What lies in each slot.
    items: Vec<Option<T>>,
    /// Of each node, rows that name it as their parent.
    children: Vec<u32>,
    free_forks: Vec<u32>,
    /// Nodes that were removed, and may still have packets.
    removed: Vec<u32>,
    /// Rows that nodes had, and those from `fresh` on that none had.
    free: Vec<u32>,
    fresh: u32,
    /// When it was last asked anything.
    now_ns: u64,
    /// The line that it shares, whose memory the engine uses.
    line: Option<Arc<EngineLine>>,
}

/// The first row, which is the root's.
const ROOT: u32 = 1;

/// The most rounds of one departure: each sends, drops or finds a leaf empty.
const ROUNDS: usize = 1 << 20;

impl<T> Engine<T> {
    /// An engine with a root that holds to `link.rate_bytes_s`, and nothing below
    /// it.
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

    /// An engine without rows that say anything.
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

    /// The root.
    pub fn root(&self) -> u32 {
        ROOT
    }

    fn raw(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }

    /// Says the rule, and where the rows are.
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
        // SAFETY: the memory is an engine's, and there are as many rows of each
        // kind as is configured. None of the vectors ever grows.
        unsafe { ffi::aqm_engine_setup(self.raw(), &raw const self.rule, &raw const rows) };
    }

    /// Adds a node below `parent`: a leaf, or one that can have children. Returns
    /// its number, which stays its own until it is removed.
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
            // It may still wait in the wheel for what it was before.
            wheel: self.nodes[id as usize].wheel,
            wheel_next: self.nodes[id as usize].wheel_next,
            wheel_prev: self.nodes[id as usize].wheel_prev,
            ..Node::default()
        };
        self.children[parent as usize] += 1;
        Ok(id)
    }

    /// Adds a cap: a ceiling for the nodes whose rules name it. Returns its number.
    pub fn cap(&mut self, ceiling_bytes_s: u64) -> Result<u32, EngineError> {
        self.reclaim();
        let id = self.free_row().ok_or(EngineError::Full)?;
        let rule = NodeRule {
            ceiling_bytes_s,
            ..NodeRule::default()
        };
        let row = &mut self.nodes[id as usize];
        *row = Node {
            config: config(0, 0, &rule),
            wheel: row.wheel,
            wheel_next: row.wheel_next,
            wheel_prev: row.wheel_prev,
            ..Node::default()
        };
        // Of row 0, which is none.
        self.children[0] += 1;
        Ok(id)
    }

    /// Gives a node another rule, or a cap another ceiling. What it has queued and had
    /// stays.
    pub fn change(&mut self, id: u32, rule: &NodeRule) -> Result<(), EngineError> {
        self.live(id)?;
        let own = &mut self.nodes[id as usize].config;
        *own = config(own.parent, own.fork, rule);
        self.look(id);
        Ok(())
    }

    /// Puts a node, with everything below it, below another parent.
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

    /// Puts several nodes below other parents at once: pairs of a node and its parent. As
    /// with a list that is exchanged, the engine finds that when packets go.
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

    /// Removes a node. What a leaf has queued is dropped when its turn comes.
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

    /// A packet of a leaf comes, of a flow (`packet.flow`) of a host, at
    /// `packet.arrived_ns`. A number that is no leaf's refuses it. Where the leaf tells
    /// hosts apart, 0 is a host that is not known.
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

    /// The host asks for a packet.
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

    /// The leaf that packets name which lie in one: itself, or that beside which a host
    /// has it.
    fn named(&self, leaf: u32) -> u32 {
        let host = leaf.checked_sub(self.size.nodes).filter(|row| *row > 0);
        host.map_or(leaf, |row| self.hosts[row as usize].leaf)
    }

    /// The leaves that hosts have beside one, each with the number of its row.
    fn beside(&self, leaf: u32) -> impl Iterator<Item = (u32, &Node)> {
        let lent = self.size.nodes + 1..;
        let rows = lent.zip(self.hosts.iter().skip(1));
        let own = rows.filter(move |(_, host)| host.leaf == leaf);
        own.map(|(id, _)| (id, &self.nodes[id as usize]))
    }

    /// What is known of the packet in a slot.
    fn packet(&mut self, slot: u32) -> Packet {
        let mut packet = Packet::default();
        // SAFETY: the memory is an engine's, and it named the slot.
        unsafe { ffi::aqm_engine_packet(self.raw(), slot, &raw mut packet) };
        packet
    }

    /// What a node has had and has; `None` where there is no such node.
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

    /// Packets queued in all leaves.
    pub fn packets(&self) -> u64 {
        self.totals()[1]
    }

    /// Hosts that have a leaf of their own, and those of them that have packets.
    pub fn hosts(&self) -> (u64, usize) {
        let lent = self.nodes.iter().skip(self.size.nodes as usize + 1);
        (self.totals()[4], lent.filter(|it| it.packets > 0).count())
    }

    /// Bytes queued, slots and queues in use, packets refused for want of a leaf, rows of
    /// hosts in use.
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

    /// A node and those above it, up to the root.
    fn path(&self, id: u32) -> impl Iterator<Item = u32> {
        let above = |id: &u32| Some(self.nodes[*id as usize].config.parent).filter(|it| *it != 0);
        std::iter::successors(Some(id), above)
    }

    /// Levels from the root down to a node, both counted.
    fn depth(&self, id: u32) -> u32 {
        self.path(id).count() as u32
    }

    /// Levels from a node down, itself counted.
    fn height(&self, id: u32) -> u32 {
        let own = self.depth(id);
        let below = (ROOT..self.fresh).filter(|it| self.path(*it).any(|above| above == id));
        below.map(|it| self.depth(it) - own + 1).max().unwrap_or(1)
    }

    /// Whether nothing holds a row any more.
    fn at_rest(&self, id: u32) -> bool {
        let node = &self.nodes[id as usize];
        let rests = node.state == ffi::IDLE && node.packets == 0;
        node.config.live == 0 && rests && self.beside(id).all(|(_, it)| it.packets == 0)
    }

    /// Lets go of the places of all that was removed and has nothing left. A node
    /// goes after its children.
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

    /// A row that no node has.
    fn free_row(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let new = (self.fresh <= self.size.nodes).then_some(self.fresh)?;
            self.fresh += 1;
            Some(new)
        })
    }
}
