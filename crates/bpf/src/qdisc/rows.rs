// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy's tree on a device: the engine, with rows that a state numbers.
//!
//! A node's row has the minor number of the node's handle, as does the row of its lists of
//! children. A node therefore keeps its row, queue and counters as long as its name, regardless
//! of changes around it.

use crate::error::BpfError;
use crate::layout::engine_config;
use crate::programs::tcx;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::engine::{Engine, EngineSetup, Leaves, config};
use crate::qdisc::link::{link_of, wire_of};
use crate::qdisc::load;
use crate::qdisc::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weirgate_aqm::{EngineSize, Link, NodeCounts, NodeRow, NodeRule};
use weirgate_state::{HostAddress, Origin, Rows, RowsNode, RowsRole};
use weirgate_units::{Arrange as _, Handle, Inserted as _, Rate, Span};
use zerocopy::IntoBytes as _;

/// The pin of the program that applies ECN marks.
const MARKER: &str = "marks";

/// The pin of the program that determines a packet's host.
const TELLER: &str = "hosts";

/// The sizes of the maps: a row for each possible number, and leaves and packets for links of 10
/// Gbit/s.
const SIZE: EngineSize = EngineSize {
    nodes: Rows::LAST as u32,
    inner: Rows::LAST as u32,
    queues: 8_192,
    slots: 32_768,
    limit_bytes: 32 << 20,
    hosts: 8_192,
};

/// The header fields that identify a host: those that identify a flow, so that each flow gets
/// the same rate (`AQM_CONNECTION`, aqm/include/aqm.h).
const BY_FLOW: u32 = 31;

/// The tree of one device. It is unloaded when this is dropped, unless it is pinned.
#[derive(Debug)]
pub struct RowTree {
    engine: Engine,
}

/// A node of a tree with its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCounts {
    /// The handle.
    pub id: Handle,
    /// The guaranteed rate on the wire, which precedes any sharing of the parent's excess.
    pub guarantee: Rate,
    /// The maximum rate: its own ceiling, or the rate of the link.
    pub ceiling: Rate,
    /// Its counters and backlog.
    pub counts: NodeCounts,
}

impl RowTree {
    /// The prefix of the names of qdisc kinds.
    pub const KIND: &'static str = "weir_r";

    /// Returns the qdisc kind for an attach point. Each device has its own kind. The name
    /// includes the namespace, because kinds are global, but device indices are not.
    #[must_use]
    pub fn kind(point: AttachPoint) -> String {
        let words = [point.netns, u64::from(point.ifindex)];
        let bytes = words.into_iter().flat_map(u64::to_be_bytes);
        format!("{}{:08x}", Self::KIND, weirgate_units::fnv1a_32(bytes))
    }

    /// Loads an empty tree for a device.
    pub(crate) fn load(point: AttachPoint) -> Result<Self, BpfError> {
        let engine = Engine::load_as(&Self::kind(point), SIZE, 1)?;
        Ok(Self { engine })
    }

    /// Opens the tree of an attach point for reading, if it is pinned.
    ///
    /// # Errors
    ///
    /// Returns an error if its pins cannot be opened.
    pub fn at(point: AttachPoint) -> Result<Option<Self>, BpfError> {
        Self::pinned(point, &Self::folder(Path::new(Store::ROWS_FOLDER), point))
    }

    /// Returns the folder for the pins of an attach point, below the common folder `all`.
    pub(crate) fn folder(all: &Path, point: AttachPoint) -> PathBuf {
        all.join(format!("{}-{}", point.netns, point.ifindex))
    }

    /// Opens the tree that [`Self::pin`] pinned in a folder; `None` if there is none.
    pub(crate) fn pinned(point: AttachPoint, folder: &Path) -> Result<Option<Self>, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(None);
        }
        let engine = Engine::pinned(&Self::kind(point), folder)?;
        Ok(Some(Self { engine }))
    }

    /// Pins the tree in `folder`, which must exist in a BPF file system, so that it outlives
    /// this process.
    pub(crate) fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        self.engine.pin(folder, &mut Vec::new())
    }

    /// Removes these pins, also if a process died before it had made all of them.
    pub(crate) fn unpin(folder: &Path) -> Result<(), BpfError> {
        for program in [MARKER, TELLER] {
            load::remove(&folder.join(program), |path| std::fs::remove_file(path))?;
        }
        load::unpin(folder, &Engine::pins())
    }

    /// Starts or stops ECN marks at its attach point, beyond the lifetime of this process. The
    /// attach point must be in the network namespace of this thread.
    pub(crate) fn mark(
        &self,
        point: AttachPoint,
        folder: &Path,
        marks: bool,
    ) -> Result<(), BpfError> {
        if marks == self.marks(point, folder)? {
            return Ok(());
        }
        let path = folder.join(MARKER);
        load::remove(&path, |path| std::fs::remove_file(path))?;
        if marks {
            let marked = self.engine.mark(point).and_then(|own| own.pin(&path));
            return marked.or_else(|error| self.engine.unmark(point).and(Err(error)));
        }
        self.engine.unmark(point)
    }

    /// Starts or stops telling hosts apart at its attach point, by this address of packets.
    pub(crate) fn tell_hosts(
        &self,
        point: AttachPoint,
        folder: &Path,
        hosts: Option<HostAddress>,
    ) -> Result<(), BpfError> {
        if hosts == self.hosts(point, folder)? {
            return Ok(());
        }
        let path = folder.join(TELLER);
        load::remove(&path, |path| std::fs::remove_file(path))?;
        let Some(hosts) = hosts else {
            return self.engine.tell_no_hosts();
        };
        let arriving = hosts == HostAddress::Destination;
        let teller = self.engine.tell_hosts(point, arriving);
        let pinned = teller.and_then(|own| own.pin(&path));
        pinned.or_else(|error| self.engine.tell_no_hosts().and(Err(error)))
    }

    /// Returns the address by which hosts are told apart; `None` if they are not.
    pub(crate) fn hosts(
        &self,
        point: AttachPoint,
        folder: &Path,
    ) -> Result<Option<HostAddress>, BpfError> {
        let arriving = self.engine.hosts_reported()?;
        let on = tcx::is_on(&folder.join(TELLER), point.ifindex);
        Ok(arriving.filter(|_| on).map(|arriving| {
            if arriving {
                HostAddress::Destination
            } else {
                HostAddress::Source
            }
        }))
    }

    /// Returns whether ECN marks are applied at its attach point.
    pub(crate) fn marks(&self, point: AttachPoint, folder: &Path) -> Result<bool, BpfError> {
        let counted = self.engine.marks().count(point)?.is_some();
        Ok(counted && tcx::is_on(&folder.join(MARKER), point.ifindex))
    }

    /// Configures the tree. Packets stay queued, except in removed leaves. Nodes are added
    /// before others are removed, and parents before children, so that a packet always finds a
    /// path to the root.
    ///
    /// # Errors
    ///
    /// Returns an error if a map cannot be written, or if a node has an invalid number.
    pub fn set(&self, rows: &Rows) -> Result<(), BpfError> {
        let gate = rows.gate.as_bytes_per_second();
        let mut wanted = vec![(u32::from(Rows::LINK), link(gate))];
        let mut nodes: Vec<&RowsNode> = rows.nodes.iter().collect();
        let parents: BTreeMap<Handle, Option<Handle>> =
            nodes.iter().map(|node| (node.id, node.parent)).inserted();
        nodes.arrange_by_key(|node| (node.role, levels(&parents, node.parent), node.id));
        wanted.extend(nodes.iter().map(|node| (row(node.id), node_row(node))));
        for (id, row) in &wanted {
            if *id == 0 || *id > SIZE.nodes || !self.engine.has_rows_of(row) {
                return Err(BpfError::Classes(format!("{id} is no row, or names none")));
            }
        }
        let setup = EngineSetup {
            link: Link {
                rate_bytes_s: gate,
                mtu_bytes: rows.mtu,
                ..link_of(rows.wire)
            },
            root: u32::from(Rows::LINK),
            other: row(rows.other),
            host_parts: BY_FLOW,
        };
        let leaves = Leaves {
            interval_ns: rows.interval.as_nanos(),
            first: u32::from(rows.other.major) << 16,
            acks: rows.acks,
            ..Leaves::default()
        };
        let mut changed = BTreeSet::new();
        for (id, row) in &wanted {
            let is = self.engine.config(*id);
            if is.is_none_or(|is| is.as_bytes() != config(row).as_bytes()) {
                self.engine.put(*id, row);
                changed.insert(*id);
            }
        }
        self.engine.say(&setup, &leaves)?;
        let kept: BTreeSet<u32> = wanted.iter().map(|(id, _)| *id).inserted();
        for id in (1..=SIZE.nodes).filter(|id| !kept.contains(id)) {
            if self
                .engine
                .config(id)
                .is_some_and(|config| config.live != 0)
            {
                self.engine.end(id);
            }
        }
        // A change without a request is found when the node next sends a packet. Nodes also wait
        // for their caps, which come first.
        for (id, row) in &wanted {
            if changed.contains(id) || changed.contains(&row.rule.cap) {
                self.engine.look(*id);
            }
        }
        Ok(())
    }

    /// Returns the configuration of the tree; `None` if no plan could have produced it. `marks`
    /// and `hosts` are added to it.
    pub(crate) fn rows(
        &self,
        marks: bool,
        hosts: Option<HostAddress>,
    ) -> Result<Option<Rows>, BpfError> {
        let (setup, leaves) = self.engine.setup()?;
        let major = (leaves.first >> 16) as u16;
        let link = self.engine.config(u32::from(Rows::LINK));
        let Some((link, wire)) = link.filter(|link| link.live != 0).zip(wire_of(&setup.link))
        else {
            return Ok(None);
        };
        let rows = (u32::from(Rows::LINK) + 1..=SIZE.nodes)
            .filter_map(|id| Some((id, self.engine.config(id)?)))
            .filter(|(_, config)| config.live != 0)
            .map(|(id, config)| node(major, id, &config));
        Ok(Some(Rows {
            gate: Rate::bytes_per_second(link.ceiling_bytes_s),
            wire,
            mtu: setup.link.mtu_bytes,
            other: Handle::new(major, setup.other as u16),
            interval: Span::from_nanos(leaves.interval_ns),
            marks,
            acks: leaves.acks,
            hosts,
            nodes: rows.collect(),
        }))
    }

    /// Returns the rate of the link and the counters of each node; `None` if no plan could have
    /// produced the tree.
    ///
    /// # Errors
    ///
    /// Returns an error if a map cannot be read.
    pub fn counts(&self) -> Result<Option<(Rate, Vec<RowCounts>)>, BpfError> {
        let Some(rows) = self.rows(false, None)? else {
            return Ok(None);
        };
        let nodes = rows.nodes.iter().filter(|node| node.role != RowsRole::Cap);
        let counts = nodes.filter_map(|node| {
            let mut counts = self.engine.counts(row(node.id))?;
            // Its parent counts the backlog of the hosts' leaves.
            let beside = node.parent.filter(|_| node.hosts);
            if let Some(beside) = beside.and_then(|id| self.engine.counts(row(id))) {
                counts.packets += beside.packets;
                counts.bytes += beside.bytes;
            }
            Some(RowCounts {
                id: node.id,
                guarantee: node.guarantee,
                ceiling: node.ceiling.unwrap_or(rows.gate),
                counts,
            })
        });
        Ok(Some((rows.gate, counts.collect())))
    }
}

fn row(id: Handle) -> u32 {
    u32::from(id.minor)
}

/// Returns the number of levels above a node.
fn levels(parents: &BTreeMap<Handle, Option<Handle>>, parent: Option<Handle>) -> usize {
    let above = |id: &Handle| parents.get(id).copied().flatten();
    std::iter::successors(parent, above)
        .take(Rows::LEVELS)
        .count()
}

fn link(gate: u64) -> NodeRow {
    NodeRow {
        parent: 0,
        fork: u32::from(Rows::LINK),
        rule: NodeRule {
            ceiling_bytes_s: gate,
            ..NodeRule::default()
        },
    }
}

fn node_row(node: &RowsNode) -> NodeRow {
    let rule = NodeRule {
        ceiling_bytes_s: node.ceiling.map_or(0, Rate::as_bytes_per_second),
        guarantee_bytes_s: node.guarantee.as_bytes_per_second(),
        priority: node.prio.into(),
        quantum: node.quantum,
        limit_bytes: node.limit,
        target_ns: u32::try_from(node.target.as_nanos()).unwrap_or(u32::MAX),
        cap: node.cap.map_or(0, row),
        burst_bytes: node.burst,
        ceiling_burst_bytes: 0,
        hosts: node.hosts,
    };
    let parent = node.parent.map_or(u32::from(Rows::LINK), row);
    match node.role {
        RowsRole::Cap => NodeRow {
            parent: 0,
            fork: 0,
            rule,
        },
        RowsRole::Inner => NodeRow {
            parent,
            fork: row(node.id),
            rule,
        },
        RowsRole::Leaf => NodeRow {
            parent,
            fork: 0,
            rule,
        },
    }
}

fn node(major: u16, id: u32, config: &engine_config) -> RowsNode {
    let named = |row: u32| (row != 0).then(|| Handle::new(major, row as u16));
    let role = match (config.parent, config.fork) {
        (0, 0) => RowsRole::Cap,
        (_, 0) => RowsRole::Leaf,
        _ => RowsRole::Inner,
    };
    let ceiling = Rate::bytes_per_second(config.ceiling_bytes_s);
    RowsNode {
        id: Handle::new(major, id as u16),
        role,
        parent: named(config.parent).filter(|parent| parent.minor != Rows::LINK),
        guarantee: Rate::bytes_per_second(config.guarantee_bytes_s),
        ceiling: (config.ceiling_bytes_s != 0).then_some(ceiling),
        cap: named(config.cap),
        prio: config.priority.min(7) as u8,
        quantum: config.quantum,
        burst: config.burst_bytes,
        target: Span::from_nanos(config.target_ns.into()),
        limit: config.limit_bytes,
        hosts: config.hosts != 0,
        origin: Origin::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_all_of_a_node() {
        let id = |minor| Handle::new(2, minor);
        let all = |role, parent: Option<u16>| RowsNode {
            id: id(0x4a6b),
            role,
            parent: parent.map(id),
            guarantee: Rate::kbit(100),
            ceiling: Some(Rate::kbit(300)),
            cap: Some(id(0x77)),
            prio: 3,
            quantum: 1_696,
            burst: 3_392,
            target: Span::from_millis(26),
            limit: 40_000,
            hosts: role == RowsRole::Leaf,
            origin: Origin::default(),
        };
        let nodes = [
            all(RowsRole::Leaf, None),
            all(RowsRole::Leaf, Some(0x55)),
            all(RowsRole::Inner, Some(0x55)),
            all(RowsRole::Cap, None),
        ];
        for wanted in nodes {
            assert_eq!(node(2, row(wanted.id), &config(&node_row(&wanted))), wanted);
        }
    }

    #[test]
    fn parents_come_before_their_children() {
        let id = |minor| Handle::new(2, minor);
        let parents = BTreeMap::from([(id(16), None), (id(17), Some(id(16)))]);
        assert_eq!(levels(&parents, None), 0);
        assert_eq!(levels(&parents, Some(id(17))), 2);
        // A cycle, which no plan makes, does not loop for ever.
        let circle = BTreeMap::from([(id(16), Some(id(16)))]);
        assert_eq!(levels(&circle, Some(id(16))), Rows::LEVELS);
    }
}
