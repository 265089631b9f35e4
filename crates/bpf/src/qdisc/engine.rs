// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine in the kernel (`bpf/qdisc/engine.bpf.c`): a tree of nodes whose rows are mapped
//! into this process.

mod arena;
mod mapped;
mod nodes;

pub(crate) use mapped::Mapped;
pub(crate) use nodes::Nodes;

use crate::error::BpfError;
use crate::layout::{
    ENGINE_ASKS, ENGINE_LAYOUT, ENGINE_LAYOUT_OF_ACKS, codel_common, engine_ask, engine_asks,
    engine_config, engine_node, engine_rule, engine_settings,
};
use crate::maps::{Map, Named};
use crate::programs::tcx::Attached;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::hosts;
use crate::qdisc::link::{acks_number, acks_of};
use crate::qdisc::load::{self, load_sized};
use crate::qdisc::marks::{self, Marks};
use crate::qdisc::recorder::{follow, make};
use arena::Arena;
use libbpf_rs::{Link, MapHandle};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use weirgate_aqm::{EngineSize, Link as LinkFacts, NodeCounts, NodeRow};
use weirgate_state::CakeAckFilter;
use zerocopy::{FromZeros as _, IntoBytes as _};

/// The name of the program.
const NAME: &str = "engine";

/// The maps of the engine, in the order of loading.
const MAPS: [&str; 4] = [arena::NAME, "settings", "asks", "recorders"];

/// Returns these maps and those for ECN marks.
fn maps() -> Vec<&'static str> {
    MAPS.into_iter().chain(marks::MAPS).collect()
}

/// The settings of the qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSetup {
    /// The overhead and framing on the wire, and the largest packet. The rate is the ceiling of
    /// the root.
    pub link: LinkFacts,
    /// The row of the root.
    pub root: u32,
    /// The default leaf, for packets without a valid leaf; 0 drops them.
    pub other: u32,
    /// The header fields that identify a packet's host, as bits of a discipline's `flows`. 0
    /// means that all packets of a leaf have the same host.
    pub host_parts: u32,
}

/// Settings for all leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaves {
    /// CoDel's interval, and its target for leaves that have none of their own.
    pub(crate) target_ns: u64,
    pub(crate) interval_ns: u64,
    /// The value of `skb->priority` for row 0; that of other rows is larger by their number.
    pub(crate) first: u32,
    /// Which acknowledgements that wait are dropped.
    pub(crate) acks: CakeAckFilter,
}

impl Default for Leaves {
    /// Returns the target and interval of RFC 8289, and rows numbered by `skb->priority` itself.
    fn default() -> Self {
        Self {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            first: 0,
            acks: CakeAckFilter::No,
        }
    }
}

/// The engine as a qdisc kind, registered until this is dropped. One device may have it as its
/// root.
#[derive(Debug)]
pub struct Engine {
    nodes: Nodes,
    /// The last row for configured nodes; the leaves of hosts follow.
    last: u32,
    /// The last row for lists of children.
    last_fork: u32,
    asks: Mapped<engine_asks>,
    recorders: Map<u32, i32>,
    marks: Marks,
    settings: Map<u32, engine_settings>,
    /// Keeps the kind registered, as its pin does.
    link: Option<Link>,
}

impl Engine {
    /// The name of the kind for netlink.
    pub const KIND: &'static str = "weir_engine";

    /// Loads the engine with rows for this size. Needs root and a kernel with
    /// `CONFIG_NET_SCH_BPF`.
    pub fn load(size: EngineSize) -> Result<Self, BpfError> {
        Self::load_as(Self::KIND, size, 1)
    }

    /// Loads the engine as a kind of another name, of at most 15 bytes, so that several can be
    /// loaded. With several queues, each of them can have it as a child of mq, and they share
    /// the rate of the root. Each queue then has its own root and default leaf, in the rows that
    /// follow those of the setup. There are no leaves of hosts, and nodes are changed only by
    /// stores to their rows.
    pub(crate) fn load_as(kind: &str, size: EngineSize, queues: u32) -> Result<Self, BpfError> {
        let (rows, at) = Arena::make(size)?;
        // One more than `size.slots`: row 0 is not used.
        let entries = [
            ("packets", size.slots + 1),
            ("instances", (queues - 1).max(1)),
        ];
        let shared = vec![(arena::NAME, rows.map()?)];
        let kinds = (Self::KIND, kind);
        let (maps, link) = load_sized(NAME, kinds, &maps(), &entries, &shared)?;
        let mut engine = Self::of(kind, maps, link)?;
        engine.last = size.nodes;
        engine.nodes.has(size.nodes + size.hosts);
        engine.last_fork = size.inner;
        // Store the sizes with the settings.
        engine.settings.set_first(&engine_settings {
            rule: engine_rule {
                limit_bytes: size.limit_bytes,
                lent: size.nodes,
                ..engine_rule::new_zeroed()
            },
            queues: size.queues,
            slots: size.slots,
            hosts: size.hosts,
            inner: size.inner,
            at,
            members: if queues > 1 { queues } else { 0 },
            layout: ENGINE_LAYOUT as u16,
            ..engine_settings::new_zeroed()
        })?;
        Ok(engine)
    }

    /// Opens the engine that [`Self::pin`] pinned in a folder.
    pub(crate) fn pinned(kind: &str, folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = load::open(folder, &maps())?;
        let mut engine = Self::of(kind, maps, link)?;
        let settings = engine.settings.first()?;
        if !(1..=ENGINE_LAYOUT).contains(&settings.layout.into()) {
            return Err(BpfError::Rows(kind.to_owned()));
        }
        engine.last = settings.rule.lent;
        engine.nodes.has(settings.rule.lent + settings.hosts);
        engine.last_fork = settings.inner;
        Ok(engine)
    }

    fn of(kind: &str, maps: Vec<MapHandle>, link: Link) -> Result<Self, BpfError> {
        let mut maps = maps.into_iter();
        let nodes = Nodes::open(maps.next())?;
        let settings = Map::of(kind, MAPS[1], maps.next())?;
        let asks = Mapped::new(MAPS[2], maps.next(), 1)?;
        Ok(Self {
            nodes,
            last: 0,
            last_fork: 0,
            asks,
            recorders: Map::of(kind, MAPS[3], maps.next())?,
            marks: Marks::of(kind, &mut maps)?,
            settings,
            link: Some(link),
        })
    }

    /// Pins the engine and further maps in a folder of a BPF file system, so that they outlive
    /// this process.
    pub(crate) fn pin(&mut self, folder: &Path, more: &mut Vec<Named<'_>>) -> Result<(), BpfError> {
        let mut own = vec![
            (MAPS[0], self.nodes.handle()),
            self.settings.handle(),
            (MAPS[2], self.asks.handle()),
            self.recorders.handle(),
        ];
        own.extend(self.marks.named());
        let mut all: Vec<Named<'_>> = own.into_iter().chain(more.drain(..)).collect();
        let link = self.link.as_mut().ok_or(BpfError::NoProgram(NAME))?;
        load::pin(folder, &mut all, link)
    }

    /// Releases the kind, which then ends with its pin.
    pub(crate) fn let_go(&mut self) {
        self.link = None;
    }

    /// Returns the names of these pins, except that of the link.
    pub(crate) fn pins() -> Vec<&'static str> {
        maps()
    }

    /// Returns the rows for reading.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the name and descriptor of the map of rows.
    pub(crate) fn rows(&self) -> (&'static str, BorrowedFd<'_>) {
        (arena::NAME, self.nodes.descriptor())
    }

    /// Changes the settings of the qdisc, from the next packet on.
    pub fn set(&self, setup: &EngineSetup) -> Result<(), BpfError> {
        self.say(setup, &Leaves::default())
    }

    /// Changes the settings of the qdisc and of all leaves.
    pub(crate) fn say(&self, setup: &EngineSetup, leaves: &Leaves) -> Result<(), BpfError> {
        for id in [setup.root, setup.other] {
            if id > self.last {
                return Err(BpfError::Classes(format!("{id} is the number of no row")));
            }
        }
        let before = self.settings.first()?;
        let acks = acks_number(leaves.acks);
        if acks != 0 && u32::from(before.layout) < ENGINE_LAYOUT_OF_ACKS {
            return Err(BpfError::Rows(NAME.to_owned()));
        }
        let link = &setup.link;
        self.follow(engine_settings {
            rule: engine_rule {
                link: *link,
                codel: codel_common {
                    target_ns: leaves.target_ns,
                    interval_ns: leaves.interval_ns,
                    ce_threshold_ns: 0,
                    mtu_bytes: u64::from(link.mtu_bytes),
                },
                limit_bytes: before.rule.limit_bytes,
                root: setup.root,
                other: setup.other,
                ..before.rule
            },
            host_parts: setup.host_parts,
            first: leaves.first,
            acks,
            ..before
        })
    }

    /// Makes the program read these settings at the next packet.
    fn follow(&self, settings: engine_settings) -> Result<(), BpfError> {
        self.settings.set_first(&engine_settings {
            changes: settings.changes.wrapping_add(1),
            ..settings
        })?;
        self.nodes.ring();
        Ok(())
    }

    /// Returns the settings of the qdisc and of all leaves.
    pub(crate) fn setup(&self) -> Result<(EngineSetup, Leaves), BpfError> {
        let settings = self.settings.first()?;
        let rule = &settings.rule;
        let setup = EngineSetup {
            link: rule.link,
            root: rule.root,
            other: rule.other,
            host_parts: settings.host_parts,
        };
        let leaves = Leaves {
            target_ns: rule.codel.target_ns,
            interval_ns: rule.codel.interval_ns,
            first: settings.first,
            acks: acks_of(settings.acks),
        };
        Ok((setup, leaves))
    }

    /// Writes the configuration of a node into its row. Backlog and counters stay. It applies
    /// when the program next visits the node. Returns `false` if the row, or a row that it
    /// refers to, does not exist.
    pub fn put(&self, id: u32, row: &NodeRow) -> bool {
        let Some(node) = self.own(id).filter(|_| self.has_rows_of(row)) else {
            return false;
        };
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping; the program only reads these words.
        unsafe {
            (&raw mut (*node).config).write_volatile(config(row));
        };
        true
    }

    /// Asks the program to replace the configuration of a node at its next run, all fields at
    /// once. Returns `false` if the row, or a row that it refers to, does not exist, or if the
    /// queue of requests is full.
    pub fn change(&self, id: u32, row: &NodeRow) -> bool {
        self.has_rows_of(row) && self.ask(id, Some(&config(row)))
    }

    /// Returns whether the rows exist that this one refers to. The program does not check that:
    /// beyond the last row of one kind, the arena contains rows of another kind.
    pub(crate) fn has_rows_of(&self, row: &NodeRow) -> bool {
        row.parent <= self.last && row.rule.cap <= self.last && row.fork <= self.last_fork
    }

    /// Asks the program to visit a node whose configuration was changed by a store.
    pub(crate) fn look(&self, id: u32) -> bool {
        self.ask(id, None)
    }

    /// Removes a node. The backlog of a leaf is dropped where it is. Returns `false` if the row
    /// does not exist.
    pub(crate) fn end(&self, id: u32) -> bool {
        let Some(node) = self.own(id) else {
            return false;
        };
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping; the program only reads this word.
        unsafe {
            (&raw mut (*node).config.live).write_volatile(0);
        };
        true
    }

    fn ask(&self, id: u32, config: Option<&engine_config>) -> bool {
        let Some(asks) = self.asks.at(0).filter(|_| self.own(id).is_some()) else {
            return false;
        };
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the ring is in the mapping. The program reads a slot only once `asked` is
        // beyond it, and only this process writes there.
        unsafe {
            let asked = (&raw const (*asks).asked).read_volatile();
            let done = (&raw const (*asks).done).read_volatile();
            if asked.wrapping_sub(done) >= ENGINE_ASKS {
                return false;
            }
            let slot = (asked % ENGINE_ASKS) as usize;
            (&raw mut (*asks).ask[slot]).write_volatile(engine_ask {
                id,
                stored: u32::from(config.is_none()),
                config: config.copied().unwrap_or_else(engine_config::new_zeroed),
            });
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            (&raw mut (*asks).asked).write_volatile(asked.wrapping_add(1));
        };
        self.nodes.ring();
        true
    }

    /// Returns the counters and backlog of a node; `None` if the row does not exist.
    pub fn counts(&self, id: u32) -> Option<NodeCounts> {
        self.nodes.counts(id)
    }

    /// Returns the configuration of a node; `None` if the row does not exist.
    pub(crate) fn config(&self, id: u32) -> Option<engine_config> {
        self.nodes.config(id)
    }

    /// Returns whether a row has a live node, and whether the row could be reused: no backlog
    /// and no pending event.
    pub(crate) fn standing(&self, id: u32) -> Option<(bool, bool)> {
        self.nodes.standing(id)
    }

    /// Returns the bytes of a node's row; `None` if it does not exist.
    pub fn bytes(&self, id: u32) -> Option<Vec<u8>> {
        Some(self.nodes.read(id)?.as_bytes().to_vec())
    }

    /// Attaches a program at egress of the device that applies the ECN marks which leaves decide
    /// on. It stays as long as the returned value exists. Without it, leaves drop instead.
    pub fn mark(&self, point: AttachPoint) -> Result<Attached, BpfError> {
        let marker = self.marks.attach(point)?;
        self.again()?;
        Ok(marker)
    }

    /// Stops marking, from the next packet on.
    pub(crate) fn unmark(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.marks.forget(point)?;
        self.again()
    }

    /// Returns the maps with the counts of marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Attaches a program at egress of the device that determines the host of each packet. It
    /// stays as long as the returned value exists. `arriving` tells whether the packets come
    /// from the link.
    pub(crate) fn tell_hosts(
        &self,
        point: AttachPoint,
        arriving: bool,
    ) -> Result<Attached, BpfError> {
        let (teller, stamp) = hosts::attach(point, arriving)?;
        self.hosts_by(stamp, arriving)?;
        Ok(teller)
    }

    fn hosts_by(&self, stamp: u32, arriving: bool) -> Result<(), BpfError> {
        let mut settings = self.settings.first()?;
        settings.host_stamp = stamp;
        settings.rule.arriving = arriving.into();
        self.follow(settings)
    }

    /// Stops using that program, from the next packet on.
    pub(crate) fn tell_no_hosts(&self) -> Result<(), BpfError> {
        self.hosts_by(0, false)
    }

    /// Returns the value of `arriving` of that program; `None` if it is not used.
    pub(crate) fn hosts_reported(&self) -> Result<Option<bool>, BpfError> {
        let settings = self.settings.first()?;
        Ok((settings.host_stamp != 0).then_some(settings.rule.arriving != 0))
    }

    /// Records the inputs and decisions of the qdisc, from the next packet on, into a ring
    /// buffer of `bytes`. The reader must know the state of the rows at that time.
    pub fn record(&self, bytes: u32) -> Result<EngineRecorder<'_>, BpfError> {
        let ring = make(bytes).map_err(self.recorders.failed("made"))?;
        self.recorders.put(&0, &ring.as_fd().as_raw_fd())?;
        let recorder = EngineRecorder { engine: self, ring };
        self.again()?;
        Ok(recorder)
    }

    /// Makes the program read the settings again.
    fn again(&self) -> Result<(), BpfError> {
        self.follow(self.settings.first()?)
    }

    /// Returns a row, unless it is a leaf of a host.
    fn own(&self, id: u32) -> Option<*mut engine_node> {
        self.nodes.row(id).filter(|_| id <= self.last)
    }
}

pub(crate) fn config(row: &NodeRow) -> engine_config {
    engine_config {
        ceiling_bytes_s: row.rule.ceiling_bytes_s,
        guarantee_bytes_s: row.rule.guarantee_bytes_s,
        live: row.live(),
        parent: row.parent,
        fork: row.fork,
        quantum: row.rule.quantum,
        priority: row.rule.priority,
        limit_bytes: row.rule.limit_bytes,
        target_ns: row.rule.target_ns,
        cap: row.rule.cap,
        burst_bytes: row.rule.burst_bytes,
        hosts: row.rule.hosts.into(),
        ceiling_burst_bytes: row.rule.ceiling_burst_bytes,
    }
}

/// An active recording, which ends when this is dropped. [`weirgate_aqm::EngineMirror`] reads
/// the records.
#[derive(Debug)]
pub struct EngineRecorder<'e> {
    engine: &'e Engine,
    ring: MapHandle,
}

impl EngineRecorder<'_> {
    /// Passes every record to `take` until it returns false, `more` returns false, or a signal
    /// arrives. `more` is called several times a second.
    pub fn follow(
        &self,
        mut take: impl FnMut(&[u8]) -> bool,
        mut more: impl FnMut() -> bool,
    ) -> Result<(), BpfError> {
        let failed = self.engine.recorders.failed("read");
        follow(&self.ring, &mut take, &mut more).map_err(failed)
    }
}

impl Drop for EngineRecorder<'_> {
    fn drop(&mut self) {
        // Ignore: if the maps are gone, nothing is left to end.
        let _ = self.engine.recorders.remove(&0);
        let _ = self.engine.again();
    }
}
