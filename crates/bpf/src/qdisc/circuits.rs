// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A provider's circuits on a device: the engine, the lookup of a packet's leaf, and the change
//! from one list to the next (`bpf/egress/circuits.bpf.c`).

use crate::error::BpfError;
use crate::layout::{
    ENGINE_MEMBER_SHIFT, circuits_key, circuits_label, circuits_leaves, circuits_prefix,
    circuits_rule, engine_config,
};
use crate::maps::{self, Map, Named};
use crate::programs::tcx::{self, Attached};
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::engine::{Engine, EngineSetup, Mapped};
use crate::qdisc::load;
use libbpf_rs::MapHandle;
use std::path::Path;
use weirgate_aqm::{EngineSize, Link};
use weirgate_circuits::Direction;
use weirgate_circuits::Key;
use weirgate_circuits::rows::{Full, Label, QUEUE_SHIFT, Room, Table, row_of};
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

/// The programs' file.
const FILE: &str = "circuits";

/// Its maps beside the rows of the engine.
const MAPS: [&str; 5] = ["staged", "labels", "addresses", "prefixes", "rules"];

const _: () = assert!(
    ENGINE_MEMBER_SHIFT == QUEUE_SHIFT,
    "one shift in C and here"
);

/// Pins of programs at the device.
const AT_DEVICE: [&str; 2] = ["egress", "marks"];

/// How much there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitsSize {
    /// Rows of nodes.
    pub room: Room,
    /// Addresses and all other keys but prefixes. Both lists are in the tables while one
    /// follows the other.
    pub addresses: u32,
    /// Prefixes of more than one address.
    pub prefixes: u32,
    /// Circuits that may have packets at a time.
    pub queues: u32,
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Occurs where a list is not brought into force. The one before is.
#[derive(Debug, thiserror::Error)]
pub enum CircuitsError {
    /// It has more nodes than there are rows.
    #[error("{0}, the rows of what has gone and still has packets not counted")]
    Full(#[from] Full),
    /// A circuit is to be below a site that is not there.
    #[error("there is no site `{0}` in the list in force")]
    NoSite(String),
    /// A key is another circuit's.
    #[error("`{key}` is of the circuit `{owner}`")]
    Taken {
        /// Which.
        key: Key,
        /// Whose it is.
        owner: String,
    },
    /// The kernel refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// What bringing a list into force changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitsChange {
    /// Nodes that were not there.
    pub added: usize,
    /// Nodes whose configuration has changed.
    pub changed: usize,
    /// Nodes that were removed.
    pub removed: usize,
    /// Entries of the tables of keys that were written.
    pub written: usize,
}

/// The circuits of one device, loaded until this is dropped, unless they are pinned.
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
    /// What the names of kinds begin with.
    pub const KINDS: &'static str = "weir_c";

    /// The kind of the qdisc of an attach point. Each device has one of its own: kinds are the
    /// whole machine's, and numbers of devices a namespace's.
    pub fn kind(point: AttachPoint) -> String {
        let words = [point.netns, u64::from(point.ifindex)];
        let bytes = words.into_iter().flat_map(u64::to_be_bytes);
        format!("{}{:08x}", Self::KINDS, weirgate_units::fnv1a_32(bytes))
    }

    /// Loads the programs for a device, with no circuit: all packets are others'. Needs
    /// root, and a kernel with `CONFIG_NET_SCH_BPF`.
    pub fn load(
        point: AttachPoint,
        direction: Direction,
        size: &CircuitsSize,
    ) -> Result<Self, BpfError> {
        let room = size.room;
        let engine = Engine::load_as(
            &Self::kind(point),
            EngineSize {
                nodes: room.nodes(),
                inner: room.inner,
                queues: size.queues,
                slots: size.packets,
                limit_bytes: size.bytes,
                hosts: 0,
            },
            room.queues,
        )?;
        let rows = room.nodes() + 1;
        let entries = [
            (MAPS[0], rows),
            (MAPS[1], rows),
            (MAPS[2], size.addresses.max(1)),
            (MAPS[3], size.prefixes.max(1)),
        ];
        let (programs, maps) = Programs::load(engine.rows(), &entries)?;
        let tree = Self::of(engine, programs, maps, Some(room))?;
        tree.rules.set_first(&circuits_rule {
            generation: 0,
            next: 0,
            source: u32::from(direction == Direction::Up),
            inner: room.inner,
            nodes: room.nodes(),
            queues: room.queues,
            ..circuits_rule::new_zeroed()
        })?;
        tree.engine.set(&EngineSetup {
            link: Link {
                mtu_bytes: 1_514,
                ..Link::default()
            },
            root: Room::LINK,
            other: room.others(0),
            host_parts: match direction {
                Direction::Down => 2,
                Direction::Up => 1,
            },
        })?;
        Ok(tree)
    }

    /// What [`Self::pin`] left in a folder; `None` where it left nothing.
    pub(crate) fn pinned(point: AttachPoint, folder: &Path) -> Result<Option<Self>, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(None);
        }
        let engine = Engine::pinned(&Self::kind(point), folder)?;
        let open = |name| maps::pinned(folder, name);
        let maps: Result<Vec<MapHandle>, BpfError> = MAPS.into_iter().map(open).collect();
        Self::of(engine, Programs::pinned(folder)?, maps?, None).map(Some)
    }

    /// With these maps, in their order; `room` is that of maps that nothing says it of.
    fn of(
        engine: Engine,
        programs: Programs,
        maps: Vec<MapHandle>,
        room: Option<Room>,
    ) -> Result<Self, BpfError> {
        let mut maps = maps.into_iter();
        let (staged, labels) = (maps.next(), maps.next());
        let addresses = Map::of(FILE, MAPS[2], maps.next())?;
        let prefixes = Map::of(FILE, MAPS[3], maps.next())?;
        let rules: Map<u32, circuits_rule> = Map::of(FILE, MAPS[4], maps.next())?;
        let room = match room {
            Some(room) => room,
            None => room_of(&rules.first()?),
        };
        let rows = room.nodes() as usize + 1;
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

    /// Puts the programs that find leaves, and that make marks, on the device.
    pub fn attach(&self, point: AttachPoint) -> Result<[Attached; 2], BpfError> {
        Ok([
            self.programs.attach(point.ifindex)?,
            self.engine.mark(point)?,
        ])
    }

    /// Whether the programs that were pinned in this folder are on their device:
    /// nobody has taken one off, and the device is still the same.
    pub(crate) fn is_attached(point: AttachPoint, folder: &Path) -> bool {
        let on = |name: &str| tcx::is_on(&folder.join(name), point.ifindex);
        AT_DEVICE.into_iter().all(on)
    }

    /// Puts those programs on the device once more.
    pub(crate) fn attach_again(&self, point: AttachPoint, folder: &Path) -> Result<(), BpfError> {
        for name in AT_DEVICE {
            load::remove(&folder.join(name), |path| std::fs::remove_file(path))?;
        }
        for (program, name) in self.attach(point)?.iter().zip(AT_DEVICE) {
            program.pin(&folder.join(name))?;
        }
        Ok(())
    }

    /// Keeps all of it beyond this process, with what is on the device: pins in
    /// `folder`, which must be in a BPF file system and exist.
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

    /// Removes what that made, and what a process that died had made of it.
    pub(crate) fn unpin(folder: &Path) -> Result<(), BpfError> {
        for name in AT_DEVICE {
            load::remove(&folder.join(name), |path| std::fs::remove_file(path))?;
        }
        Programs::unpin(folder)?;
        let names: Vec<&str> = Engine::pins().into_iter().chain(MAPS).collect();
        load::unpin(folder, &names)
    }

    /// Whether what is pinned in a folder is this, and not what another process has put in its
    /// place.
    pub(crate) fn is_pinned_in(&self, folder: &Path) -> Result<bool, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(false);
        }
        // The kernel gives no other map the number of one that this process has.
        let pinned = maps::id(&maps::pinned(folder, MAPS[4])?);
        Ok(pinned.is_some() && pinned == self.rules.id())
    }

    /// Releases the kind of qdisc. The kernel then removes it with its pins, whoever has the maps.
    /// It cannot be pinned afterwards.
    pub fn let_go(&mut self) {
        self.engine.let_go();
    }

    /// Which way the packets go whose subscribers are looked up.
    pub fn direction(&self) -> Result<Direction, BpfError> {
        Self::direction_of(&self.rules)
    }

    fn direction_of(rules: &Map<u32, circuits_rule>) -> Result<Direction, BpfError> {
        Ok(match rules.first()?.source {
            0 => Direction::Down,
            _ => Direction::Up,
        })
    }

    /// Queues of the device that have circuits, each with an engine of its own.
    pub fn queues(&self) -> Result<u32, BpfError> {
        Ok(self.room()?.queues)
    }

    /// Every node that is there, by the numbers of rows. The link, and others, are one each
    /// of all queues.
    pub fn nodes(&self) -> Result<impl Iterator<Item = CircuitsNode> + '_, BpfError> {
        let room = self.room()?;
        let inner = [Room::LINK].into_iter().chain(room.sites());
        let leaves = [room.others(0)].into_iter().chain(room.circuits());
        let seen = self.seen(room);
        Ok(inner.chain(leaves).filter_map(move |id| seen.node(id)))
    }

    /// A node that is there, by the number of its row.
    pub fn node(&self, id: u32) -> Option<CircuitsNode> {
        self.seen(self.room().ok()?).node(id)
    }

    fn seen(&self, room: Room) -> Seen<'_> {
        Seen {
            nodes: self.engine.nodes(),
            labels: &self.labels,
            room,
        }
    }

    /// What the row of a circuit has sent, in bytes; `None` where it is not this one's.
    pub fn sent_bytes(&self, row: u32, id: &str) -> Option<u64> {
        self.engine.config(row).filter(|config| config.live != 0)?;
        let is_own = self.label(row)?.0 == Label::Circuit(id.to_owned());
        Some(self.engine.counts(row)?.sent_wire_bytes).filter(|_| is_own)
    }

    /// A number that no other tree of this boot has.
    pub fn number(&self) -> Result<u32, BpfError> {
        self.rules.number()
    }

    /// Whose packets are whose: the row of each key that is in force.
    pub fn table(&self) -> Result<Table, BpfError> {
        let active = (self.rules.first()?.generation & 1) as usize;
        let stored = self.stored()?.into_iter();
        let own = stored.map(|(key, leaves)| (key, row_of(leaves[active])));
        let mut table: Table = own.filter(|(_, leaf)| *leaf > 0).collect();
        table.sort_unstable();
        Ok(table)
    }

    fn room(&self) -> Result<Room, BpfError> {
        Ok(room_of(&self.rules.first()?))
    }

    /// Whose a row is, and of which queue.
    fn label(&self, id: u32) -> Option<(Label, u32)> {
        seen::label(&self.labels, id)
    }
}

fn room_of(rule: &circuits_rule) -> Room {
    Room {
        queues: rule.queues.max(1),
        inner: rule.inner,
        leaves: rule.nodes.saturating_sub(rule.inner),
    }
}
