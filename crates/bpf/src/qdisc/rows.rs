// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy's tree on a device: the engine, with rows that a state numbers.
//!
//! A row has the minor number of its node, and so has the row of its children's lists.
//! So a node keeps its row, its queue and its counters for as long as it has its name,
//! whatever comes and goes around it.

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

/// The pin of the program that makes marks.
const MARKER: &str = "marks";

/// The pin of the program that tells whose host a packet is.
const TELLER: &str = "hosts";

/// How much there is room for. Rows are as many as there are numbers; what has packets
/// at a time, and packets, are for links of 10 Gbit/s.
const SIZE: EngineSize = EngineSize {
    nodes: Rows::LAST as u32,
    inner: Rows::LAST as u32,
    queues: 8_192,
    slots: 32_768,
    limit_bytes: 32 << 20,
    hosts: 8_192,
};

/// What of a packet's headers makes its host in a leaf: all that makes its flow, so
/// that each flow has as much as another (`AQM_CONNECTION`, aqm/include/aqm.h).
const BY_FLOW: u32 = 31;

/// The tree of one device, loaded until this is dropped, unless it is pinned.
#[derive(Debug)]
pub struct RowTree {
    engine: Engine,
}

/// A node of a tree, and what it has had and has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCounts {
    /// Its number.
    pub id: Handle,
    /// What it has before others of its parent get any excess, on the wire.
    pub guarantee: Rate,
    /// What it never exceeds: its own ceiling, or the gate's rate.
    pub ceiling: Rate,
    /// What it has had and has.
    pub counts: NodeCounts,
}

impl RowTree {
    /// What the names of the kinds begin with.
    pub const KIND: &'static str = "weir_r";

    /// The kind of the qdisc of an attach point. Each device has one of its own: kinds are the
    /// whole machine's, and numbers of devices a namespace's.
    #[must_use]
    pub fn kind(point: AttachPoint) -> String {
        let words = [point.netns, u64::from(point.ifindex)];
        let bytes = words.into_iter().flat_map(u64::to_be_bytes);
        format!("{}{:08x}", Self::KIND, weirgate_units::fnv1a_32(bytes))
    }

    /// Loads it for a device. It has no rows.
    pub(crate) fn load(point: AttachPoint) -> Result<Self, BpfError> {
        let engine = Engine::load_as(&Self::kind(point), SIZE, 1)?;
        Ok(Self { engine })
    }

    /// The tree of an attach point, where it is pinned, to look at.
    ///
    /// # Errors
    ///
    /// Occurs where its pins cannot be opened.
    pub fn at(point: AttachPoint) -> Result<Option<Self>, BpfError> {
        Self::pinned(point, &Self::folder(Path::new(Store::ROWS_FOLDER), point))
    }

    /// Where the tree of an attach point is pinned, below the folder of all.
    pub(crate) fn folder(all: &Path, point: AttachPoint) -> PathBuf {
        all.join(format!("{}-{}", point.netns, point.ifindex))
    }

    /// What [`Self::pin`] left in a folder; `None` where it left nothing.
    pub(crate) fn pinned(point: AttachPoint, folder: &Path) -> Result<Option<Self>, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(None);
        }
        let engine = Engine::pinned(&Self::kind(point), folder)?;
        Ok(Some(Self { engine }))
    }

    /// Keeps it beyond this process: pins in `folder`, which must be in a BPF file
    /// system and exist.
    pub(crate) fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        self.engine.pin(folder, &mut Vec::new())
    }

    /// Removes what that made, and what a process that died had made of it.
    pub(crate) fn unpin(folder: &Path) -> Result<(), BpfError> {
        for program in [MARKER, TELLER] {
            load::remove(&folder.join(program), |path| std::fs::remove_file(path))?;
        }
        load::unpin(folder, &Engine::pins())
    }

    /// Has marks made at its attach point, which is in the network namespace of this thread,
    /// beyond this process; or no more.
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

    /// Has hosts distinguished at its attach point, as [`Self::mark`] has marks made, by this address
    /// of packets; or no more.
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

    /// By which address hosts are distinguished at its attach point; `None` where they are not.
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

    /// Whether marks are made at its attach point.
    pub(crate) fn marks(&self, point: AttachPoint, folder: &Path) -> Result<bool, BpfError> {
        let counted = self.engine.marks().count(point)?.is_some();
        Ok(counted && tcx::is_on(&folder.join(MARKER), point.ifindex))
    }

    /// Sets the tree. Queued packets stay, except in removed leaves. Nodes are added before others
    /// are removed, and parents before their children, so that a packet always finds a path.
    ///
    /// # Errors
    ///
    /// Occurs where a map cannot be written, or a node has a number that is no row's.
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
            ..Leaves::default()
        };
        let mut changed = Vec::new();
        for (id, row) in &wanted {
            let is = self.engine.config(*id);
            if is.is_none_or(|is| is.as_bytes() != config(row).as_bytes()) {
                self.engine.put(*id, row);
                changed.push(*id);
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
        // One that is not asked for is found when a packet of it goes.
        for id in changed {
            self.engine.look(id);
        }
        Ok(())
    }

    /// The configuration of the tree; `None` where no plan could have made it. `marks` is
    /// whether marks are made, and `hosts` how hosts are distinguished.
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
            hosts,
            nodes: rows.collect(),
        }))
    }

    /// The rate of its gate, and what each node of the tree has had; `None` where no plan
    /// could have made it.
    ///
    /// # Errors
    ///
    /// Occurs where a map cannot be read.
    pub fn counts(&self) -> Result<Option<(Rate, Vec<RowCounts>)>, BpfError> {
        let Some(rows) = self.rows(false, None)? else {
            return Ok(None);
        };
        let nodes = rows.nodes.iter().filter(|node| node.role != RowsRole::Cap);
        let counts = nodes.filter_map(|node| {
            let mut counts = self.engine.counts(row(node.id))?;
            // What hosts have queued beside it, its parent counts.
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

/// Levels above a node.
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
        // What no plan makes does not go on for ever.
        let circle = BTreeMap::from([(id(16), Some(id(16)))]);
        assert_eq!(levels(&circle, Some(id(16))), Rows::LEVELS);
    }
}
