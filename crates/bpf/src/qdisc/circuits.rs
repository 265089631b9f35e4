// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Circuits on a device: the engine, the lookup of a packet's leaf, and the change from one list
//! to the next (`bpf/egress/circuits.bpf.c`).

use crate::error::BpfError;
use crate::layout::{
    CIRCUITS_MOST_ROWS, ENGINE_MEMBER_SHIFT, circuits_key, circuits_label, circuits_leaves,
    circuits_prefix, circuits_rule, engine_config,
};
use crate::maps::{self, Map, Named};
use crate::programs::tcx::{self, Attached};
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::engine::{Engine, EngineSetup, Mapped};
use crate::qdisc::load;
use libbpf_rs::MapHandle;
use std::path::Path;
use weirgate_aqm::{EngineSize, Link};
use weirgate_circuits::rows::{Full, Label, QUEUE_SHIFT, RowLayout, Table, row_of};
use weirgate_circuits::{Direction, Key};
use zerocopy::FromZeros as _;

mod index;
mod keys;
mod known;
mod list;
mod one;
mod programs;
mod reader;
mod seen;

pub use reader::CircuitReader;
pub use seen::{CircuitsNode, CircuitsRow};

use index::Index;
use programs::Programs;
use seen::Seen;

/// The object file of the programs.
const FILE: &str = "circuits";

/// The maps besides those of the engine.
const MAPS: [&str; 5] = ["staged", "labels", "addresses", "prefixes", "rules"];

const _: () = assert!(
    ENGINE_MEMBER_SHIFT == QUEUE_SHIFT,
    "one shift in C and here"
);

const _: () = assert!(
    RowLayout::MOST_NODES < CIRCUITS_MOST_ROWS,
    "a commit reaches every row"
);

/// The pins of the programs that are attached to the device.
const AT_DEVICE: [&str; 2] = ["egress", "marks"];

/// The sizes of the maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitsSize {
    /// Rows for nodes.
    pub layout: RowLayout,
    /// Entries for addresses and other keys except prefixes. During a change of lists, the
    /// tables hold the keys of both.
    pub addresses: u32,
    /// Entries for prefixes of more than one address.
    pub prefixes: u32,
    /// The largest number of circuits with a backlog.
    pub queues: u32,
    /// The largest backlog in packets.
    pub packets: u32,
    /// The largest backlog in bytes.
    pub bytes: u64,
}

/// The reason why a list was not applied. The former list stays in force.
#[derive(Debug, thiserror::Error)]
pub enum CircuitsError {
    /// The list has more nodes than there are rows.
    #[error(
        "{0}; the row of a circuit that is gone keeps its queue, and is not free while it has \
         packets"
    )]
    Full(#[from] Full),
    /// The list has more keys than a table takes besides those in force.
    #[error(
        "the list and the one in force have {keys} {what} together, and there is room for {room}"
    )]
    Keys {
        /// Which keys.
        what: &'static str,
        /// How many different keys both lists have.
        keys: usize,
        /// How many the table takes.
        room: u32,
    },
    /// The site of a circuit does not exist.
    #[error("there is no site `{0}` in the list in force")]
    NoSite(String),
    /// A key belongs to another circuit.
    #[error("`{key}` is of the circuit `{owner}`")]
    Taken {
        /// The key.
        key: Key,
        /// The circuit that has it.
        owner: String,
    },
    /// A BPF operation failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// The number of changes that applying a list made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitsChange {
    /// New nodes.
    pub added: usize,
    /// Nodes with another configuration.
    pub changed: usize,
    /// Removed nodes.
    pub removed: usize,
    /// Written entries of the tables of keys.
    pub written: usize,
}

/// The circuits of one device. They are unloaded when this is dropped, unless they are pinned.
#[derive(Debug)]
pub struct CircuitTree {
    engine: Engine,
    staged: Mapped<engine_config>,
    labels: Mapped<circuits_label>,
    addresses: Map<circuits_key, circuits_leaves>,
    prefixes: Map<circuits_prefix, circuits_leaves>,
    rules: Map<u32, circuits_rule>,
    programs: Programs,
    index: Option<Index>,
}

impl CircuitTree {
    /// The prefix of the names of qdisc kinds.
    pub const KINDS: &'static str = "weir_c";

    /// Returns the qdisc kind for an attach point. Each device has its own kind. The name
    /// includes the namespace, because kinds are global, but device indices are not.
    pub fn kind(point: AttachPoint) -> String {
        let words = [point.netns, u64::from(point.ifindex)];
        let bytes = words.into_iter().flat_map(u64::to_be_bytes);
        format!("{}{:08x}", Self::KINDS, weirgate_units::fnv1a_32(bytes))
    }

    /// Loads the programs for a device without any circuit: all packets go to the default leaf.
    /// Needs root and a kernel with `CONFIG_NET_SCH_BPF`.
    pub fn load(
        point: AttachPoint,
        direction: Direction,
        size: &CircuitsSize,
    ) -> Result<Self, BpfError> {
        let layout = size.layout;
        let engine = Engine::load_as(
            &Self::kind(point),
            EngineSize {
                nodes: layout.nodes(),
                inner: layout.inner,
                queues: size.queues,
                slots: size.packets,
                limit_bytes: size.bytes,
                hosts: 0,
            },
            layout.queues,
        )?;
        let rows = layout.nodes() + 1;
        let entries = [
            (MAPS[0], rows),
            (MAPS[1], rows),
            (MAPS[2], size.addresses.max(1)),
            (MAPS[3], size.prefixes.max(1)),
        ];
        let (programs, maps) = Programs::load(engine.rows(), &entries)?;
        let tree = Self::of(engine, programs, maps, Some(layout))?;
        tree.rules.set_first(&circuits_rule {
            generation: 0,
            next: 0,
            source: u32::from(direction == Direction::Up),
            inner: layout.inner,
            nodes: layout.nodes(),
            queues: layout.queues,
            ..circuits_rule::new_zeroed()
        })?;
        tree.engine.set(&EngineSetup {
            link: Link {
                mtu_bytes: 1_514,
                ..Link::default()
            },
            root: RowLayout::LINK,
            other: layout.others(0),
            host_parts: match direction {
                Direction::Down => 2,
                Direction::Up => 1,
            },
        })?;
        Ok(tree)
    }

    /// Opens the circuits that [`Self::pin`] pinned in a folder; `None` if there are none.
    pub(crate) fn pinned(point: AttachPoint, folder: &Path) -> Result<Option<Self>, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(None);
        }
        let engine = Engine::pinned(&Self::kind(point), folder)?;
        let open = |name| maps::pinned(folder, name);
        let maps: Result<Vec<MapHandle>, BpfError> = MAPS.into_iter().map(open).collect();
        Self::of(engine, Programs::pinned(folder)?, maps?, None).map(Some)
    }

    /// Combines the parts; `maps` are in the order of [`MAPS`]. `layout` is needed for new maps,
    /// which do not contain it yet.
    fn of(
        engine: Engine,
        programs: Programs,
        maps: Vec<MapHandle>,
        layout: Option<RowLayout>,
    ) -> Result<Self, BpfError> {
        let mut maps = maps.into_iter();
        let (staged, labels) = (maps.next(), maps.next());
        let addresses = Map::of(FILE, MAPS[2], maps.next())?;
        let prefixes = Map::of(FILE, MAPS[3], maps.next())?;
        let rules: Map<u32, circuits_rule> = Map::of(FILE, MAPS[4], maps.next())?;
        let layout = match layout {
            Some(layout) => layout,
            None => layout_of(&rules.first()?),
        };
        let rows = layout.nodes() as usize + 1;
        Ok(Self {
            staged: Mapped::new(MAPS[0], staged, rows)?,
            labels: Mapped::new(MAPS[1], labels, rows)?,
            addresses,
            prefixes,
            rules,
            engine,
            programs,
            index: None,
        })
    }

    /// Attaches the programs that find leaves and that apply ECN marks to the device.
    pub fn attach(&self, point: AttachPoint) -> Result<[Attached; 2], BpfError> {
        Ok([
            self.programs.attach(point.ifindex)?,
            self.engine.mark(point)?,
        ])
    }

    /// Returns whether the pinned programs are still attached to their device.
    pub(crate) fn is_attached(point: AttachPoint, folder: &Path) -> bool {
        let on = |name: &str| tcx::is_on(&folder.join(name), point.ifindex);
        AT_DEVICE.into_iter().all(on)
    }

    /// Attaches these programs to the device again.
    pub(crate) fn attach_again(&self, point: AttachPoint, folder: &Path) -> Result<(), BpfError> {
        for name in AT_DEVICE {
            load::remove(&folder.join(name), |path| std::fs::remove_file(path))?;
        }
        for (program, name) in self.attach(point)?.iter().zip(AT_DEVICE) {
            program.pin(&folder.join(name))?;
        }
        Ok(())
    }

    /// Pins everything in `folder`, which must exist in a BPF file system, so that it outlives
    /// this process.
    pub(crate) fn pin(&mut self, folder: &Path, attached: &[Attached; 2]) -> Result<(), BpfError> {
        for (program, name) in attached.iter().zip(AT_DEVICE) {
            program.pin(&folder.join(name))?;
        }
        self.programs.pin(folder)?;
        let mut maps: Vec<Named<'_>> = vec![
            (MAPS[0], self.staged.handle()),
            (MAPS[1], self.labels.handle()),
            self.addresses.handle(),
            self.prefixes.handle(),
            self.rules.handle(),
        ];
        self.engine.pin(folder, &mut maps)
    }

    /// Removes these pins, also if a process died before it had made all of them.
    pub(crate) fn unpin(folder: &Path) -> Result<(), BpfError> {
        for name in AT_DEVICE {
            load::remove(&folder.join(name), |path| std::fs::remove_file(path))?;
        }
        Programs::unpin(folder)?;
        let names: Vec<&str> = Engine::pins().into_iter().chain(MAPS).collect();
        load::unpin(folder, &names)
    }

    /// Returns whether the pins in a folder are those of this tree, and not of one that replaced
    /// it.
    pub(crate) fn is_pinned_in(&self, folder: &Path) -> Result<bool, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(false);
        }
        // While this process holds the map, the kernel gives its identifier to no other map.
        let pinned = maps::id(&maps::pinned(folder, MAPS[4])?);
        Ok(pinned.is_some() && pinned == self.rules.id())
    }

    /// Releases the qdisc kind, which then ends with its pins. It cannot be pinned afterwards.
    pub fn let_go(&mut self) {
        self.engine.let_go();
    }

    /// Returns the direction of the packets whose subscribers are looked up.
    pub fn direction(&self) -> Result<Direction, BpfError> {
        Self::direction_of(&self.rules)
    }

    fn direction_of(rules: &Map<u32, circuits_rule>) -> Result<Direction, BpfError> {
        Ok(match rules.first()?.source {
            0 => Direction::Down,
            _ => Direction::Up,
        })
    }

    /// Returns how many queues of the device have circuits, each with its own engine.
    pub fn queues(&self) -> Result<u32, BpfError> {
        Ok(self.layout()?.queues)
    }

    /// Iterates over all live nodes in the order of their rows. The root and the default leaf
    /// represent those of all queues.
    pub fn nodes(&self) -> Result<impl Iterator<Item = CircuitsNode> + '_, BpfError> {
        let layout = self.layout()?;
        let inner = [RowLayout::LINK].into_iter().chain(layout.sites());
        let leaves = [layout.others(0)].into_iter().chain(layout.circuits());
        let seen = self.seen(layout);
        Ok(inner.chain(leaves).filter_map(move |id| seen.node(id)))
    }

    /// Returns the node in a row, if it is live.
    pub fn node(&self, id: u32) -> Option<CircuitsNode> {
        self.seen(self.layout().ok()?).node(id)
    }

    fn seen(&self, layout: RowLayout) -> Seen<'_> {
        Seen {
            nodes: self.engine.nodes(),
            labels: &self.labels,
            layout,
        }
    }

    /// Returns the bytes on the wire that a circuit has sent; `None` if it does not have this
    /// row.
    pub fn sent_bytes(&self, row: u32, id: &str) -> Option<u64> {
        self.engine.config(row).filter(|config| config.live != 0)?;
        let is_own = self.label(row)?.0 == Label::Circuit(id.to_owned());
        Some(self.engine.counts(row)?.sent_wire_bytes).filter(|_| is_own)
    }

    /// Returns a number that is unique among the trees since the last boot.
    pub fn number(&self) -> Result<u32, BpfError> {
        self.rules.number()
    }

    /// Returns the table in force: the row of each key.
    pub fn table(&self) -> Result<Table, BpfError> {
        let active = (self.rules.first()?.generation & 1) as usize;
        let stored = self.stored()?.into_iter();
        let own = stored.map(|(key, leaves)| (key, row_of(leaves[active])));
        let mut table: Table = own.filter(|(_, leaf)| *leaf > 0).collect();
        table.sort_unstable();
        Ok(table)
    }

    fn layout(&self) -> Result<RowLayout, BpfError> {
        Ok(layout_of(&self.rules.first()?))
    }

    /// Returns the label and the queue of a row.
    fn label(&self, id: u32) -> Option<(Label, u32)> {
        seen::label(&self.labels, id)
    }
}

fn layout_of(rule: &circuits_rule) -> RowLayout {
    RowLayout {
        queues: rule.queues.max(1),
        inner: rule.inner,
        leaves: rule.nodes.saturating_sub(rule.inner),
    }
}
