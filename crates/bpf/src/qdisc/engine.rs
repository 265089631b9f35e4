// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine in the kernel (`bpf/qdisc/engine.bpf.c`): a tree of nodes, whose rows
//! are mapped into this process.

mod arena;
mod mapped;
mod nodes;

pub(crate) use mapped::Mapped;
pub(crate) use nodes::Nodes;

use crate::error::BpfError;
use crate::layout::{
    ENGINE_ASKS, ENGINE_LAYOUT, codel_common, engine_ask, engine_asks, engine_config, engine_node,
    engine_rule, engine_settings,
};
use crate::maps::{Map, Named};
use crate::programs::tcx::Attached;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::hosts;
use crate::qdisc::load::{self, load_sized};
use crate::qdisc::marks::{self, Marks};
use crate::qdisc::recorder::{follow, make};
use arena::Arena;
use libbpf_rs::{Link, MapHandle};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use weirgate_aqm::{EngineSize, Link as LinkFacts, NodeCounts, NodeRow};
use zerocopy::{FromZeros as _, IntoBytes as _};

/// The program's name.
const NAME: &str = "engine";

/// Its maps, in the order in which they are asked for.
const MAPS: [&str; 4] = [arena::NAME, "settings", "asks", "recorders"];

/// The same, and those of marks.
fn maps() -> Vec<&'static str> {
    MAPS.into_iter().chain(marks::MAPS).collect()
}

/// The settings of the qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineSetup {
    /// What packets cost on the wire, and the largest of them. The rate is that of
    /// the root's ceiling.
    pub link: LinkFacts,
    /// The number of the root.
    pub root: u32,
    /// The leaf of packets that name none; 0 drops them.
    pub other: u32,
    /// What of a packet's headers makes its host, as the bits of a discipline's
    /// `flows`; 0: all packets of a leaf are of one.
    pub host_parts: u32,
}

/// The configuration of all leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaves {
    /// CoDel's target where a leaf has none of its own, and its interval.
    pub(crate) target_ns: u64,
    pub(crate) interval_ns: u64,
    /// What `skb->priority` is for row 0: more by a row's number for that row.
    pub(crate) first: u32,
}

impl Default for Leaves {
    /// The target and interval of RFC 8289, and rows by their own numbers.
    fn default() -> Self {
        Self {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            first: 0,
        }
    }
}

/// The engine as a kind of qdisc, registered until this is dropped. One device may
/// have it as its root.
#[derive(Debug)]
pub struct Engine {
    nodes: Nodes,
    /// The last row of the user's; hosts have those behind it.
    last: u32,
    /// The last row of lists.
    last_fork: u32,
    asks: Mapped<engine_asks>,
    recorders: Map<u32, i32>,
    marks: Marks,
    settings: Map<u32, engine_settings>,
    /// The kind, registered as long as somebody has this or its pin.
    link: Option<Link>,
}

impl Engine {
    /// The kind's name for netlink.
    pub const KIND: &'static str = "weir_engine";

    /// Loads it, with room for so much. Needs root, and a kernel with
    /// `CONFIG_NET_SCH_BPF`.
    pub fn load(size: EngineSize) -> Result<Self, BpfError> {
        Self::load_as(Self::KIND, size, 1)
    }

    /// The same as a kind of another name, of at most 15 bytes: several of them may
    /// be loaded. With several queues each of them may have it, below mq, and they share
    /// the rate of the root. Each then has a root and a leaf for others of its own, so many
    /// rows behind those of the setup; there are no hosts, and nodes are only changed by
    /// stores.
    pub(crate) fn load_as(kind: &str, size: EngineSize, queues: u32) -> Result<Self, BpfError> {
        let (rows, at) = Arena::make(size)?;
        // With row 0, which is none.
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
        // How much there is room for stands with the settings.
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
            layout: ENGINE_LAYOUT,
            ..engine_settings::new_zeroed()
        })?;
        Ok(engine)
    }

    /// What [`Self::pin`] left in a folder.
    pub(crate) fn pinned(kind: &str, folder: &Path) -> Result<Self, BpfError> {
        let (maps, link) = load::open(folder, &maps())?;
        let mut engine = Self::of(kind, maps, link)?;
        let settings = engine.settings.first()?;
        if !(1..=ENGINE_LAYOUT).contains(&settings.layout) {
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

    /// Keeps it beyond this process, with maps of others: pins in a folder of a BPF
    /// file system.
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

    /// Lets go of the kind, which ends with its pin then.
    pub(crate) fn let_go(&mut self) {
        self.link = None;
    }

    /// The names of those pins, but for that of the link.
    pub(crate) fn pins() -> Vec<&'static str> {
        maps()
    }

    /// Its rows, to be read.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The map of its rows, by its name.
    pub(crate) fn rows(&self) -> (&'static str, BorrowedFd<'_>) {
        (arena::NAME, self.nodes.descriptor())
    }

    /// Says what holds for the whole. It takes effect with the next packet.
    pub fn set(&self, setup: &EngineSetup) -> Result<(), BpfError> {
        self.say(setup, &Leaves::default())
    }

    /// The same, and what holds for all leaves.
    pub(crate) fn say(&self, setup: &EngineSetup, leaves: &Leaves) -> Result<(), BpfError> {
        for id in [setup.root, setup.other] {
            if id > self.last {
                return Err(BpfError::Classes(format!("{id} is the number of no row")));
            }
        }
        let before = self.settings.first()?;
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
            ..before
        })
    }

    /// Has the program take these over with the next packet.
    fn follow(&self, settings: engine_settings) -> Result<(), BpfError> {
        self.settings.set_first(&engine_settings {
            changes: settings.changes.wrapping_add(1),
            ..settings
        })?;
        self.nodes.ring();
        Ok(())
    }

    /// The configuration of the whole, and of all leaves.
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
        };
        Ok((setup, leaves))
    }

    /// Says what a node is, by stores: what it has queued and had stays. It is in
    /// force when the program next looks at the node. `false` where there is no such
    /// row, or no row that it names.
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

    /// Asks the program to say this of a node: all of it at once, with the next packet
    /// that comes or may go. `false` where there is no such row or none that it names,
    /// or as many changes wait as there is room for.
    pub fn change(&self, id: u32, row: &NodeRow) -> bool {
        self.has_rows_of(row) && self.ask(id, Some(&config(row)))
    }

    /// Whether there are the rows that this one names. The program asks no more: in the
    /// arena a number beyond the rows of a kind is a row of another kind.
    pub(crate) fn has_rows_of(&self, row: &NodeRow) -> bool {
        row.parent <= self.last && row.rule.cap <= self.last && row.fork <= self.last_fork
    }

    /// Asks the program to look at a node whose configuration a store has written, as
    /// [`Self::change`] does.
    pub(crate) fn look(&self, id: u32) -> bool {
        self.ask(id, None)
    }

    /// Ends a node: what a leaf has queued is dropped where it stands. `false` where
    /// there is no such row.
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
        // SAFETY: the ring is in the mapping. The program reads a slot only once
        // `asked` is beyond it, and this process alone writes there.
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

    /// What a node has had and has; `None` where there is no such row.
    pub fn counts(&self, id: u32) -> Option<NodeCounts> {
        self.nodes.counts(id)
    }

    /// The configuration of a node; `None` where there is no such row.
    pub(crate) fn config(&self, id: u32) -> Option<engine_config> {
        self.nodes.config(id)
    }

    /// Whether there is a node in a row, and whether nothing of one is queued or waits.
    pub(crate) fn standing(&self, id: u32) -> Option<(bool, bool)> {
        self.nodes.standing(id)
    }

    /// A node's row in the bytes that it has in memory; `None` where there is none.
    pub fn bytes(&self, id: u32) -> Option<Vec<u8>> {
        Some(self.nodes.read(id)?.as_bytes().to_vec())
    }

    /// Has a program at egress of the device make the marks that leaves decide on, for
    /// as long as the answer is there. Without it they drop.
    pub fn mark(&self, point: AttachPoint) -> Result<Attached, BpfError> {
        let marker = self.marks.attach(point)?;
        self.again()?;
        Ok(marker)
    }

    /// Ends that, with the next packet.
    pub(crate) fn unmark(&self, point: AttachPoint) -> Result<(), BpfError> {
        self.marks.forget(point)?;
        self.again()
    }

    /// What became of its marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Has a program at egress of the device tell whose host each packet is, for as long
    /// as the answer is there. `arriving` is whether its packets come from the link.
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

    /// Ends that, with the next packet.
    pub(crate) fn tell_no_hosts(&self) -> Result<(), BpfError> {
        self.hosts_by(0, false)
    }

    /// Whether that looks at what comes from the link; `None` where it is not asked for.
    pub(crate) fn hosts_reported(&self) -> Result<Option<bool>, BpfError> {
        let settings = self.settings.first()?;
        Ok((settings.host_stamp != 0).then_some(settings.rule.arriving != 0))
    }

    /// Records what the qdisc is given and decides, by a ring of so many bytes. It begins
    /// with the next packet; an engine whose rows the reader does not know cannot be
    /// followed.
    pub fn record(&self, bytes: u32) -> Result<EngineRecorder<'_>, BpfError> {
        let ring = make(bytes).map_err(self.recorders.failed("made"))?;
        self.recorders.put(&0, &ring.as_fd().as_raw_fd())?;
        let recorder = EngineRecorder { engine: self, ring };
        self.again()?;
        Ok(recorder)
    }

    /// Has the program take over the configuration of the whole.
    fn again(&self) -> Result<(), BpfError> {
        self.follow(self.settings.first()?)
    }

    /// A row, if it is the user's, and not a host's.
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

/// Recording is on while this is there. [`weirgate_aqm::EngineMirror`] takes the
/// records.
#[derive(Debug)]
pub struct EngineRecorder<'e> {
    engine: &'e Engine,
    ring: MapHandle,
}

impl EngineRecorder<'_> {
    /// Gives every record to `take` as it comes, until that or `more` says false;
    /// `more` is asked several times a second. A signal ends it too.
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
        // Where the maps are gone there is nothing to end.
        let _ = self.engine.recorders.remove(&0);
        let _ = self.engine.again();
    }
}
