// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A provider's circuits on a device: the engine, what finds a packet's leaf, and how
//! one list follows another (`bpf/egress/circuits.bpf.c`).

use crate::error::BpfError;
use crate::layout::{
    circuits_host, circuits_label, circuits_leaves, circuits_prefix, circuits_rule, engine_said,
};
use crate::maps::{Map, Named};
use crate::programs::tcx::{Attached, End};
use crate::programs::{self, log};
use crate::qdisc::attach_point::Place;
use crate::qdisc::engine::{Engine, EngineSetup, Mapped, said};
use crate::qdisc::load;
use libbpf_rs::{ErrorExt, MapCore as _, MapHandle, Object, ObjectBuilder, ProgramInput};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use weirgate_aqm::{EngineSize, Link, NodeCounts};
use weirgate_circuits::rows::{self, Direction, Full, Held, Label, Room, Table};
use weirgate_circuits::{List, Prefix};
use weirgate_units::Rate;

mod keys;

/// The program's file, and the programs in it.
const FILE: &str = "circuits";
const EGRESS: &str = "circuits_egress";
const COMMIT: &str = "circuits_commit";

/// Its maps beside that of nodes.
const NODES: &str = "nodes";
const MAPS: [&str; 5] = ["staged", "labels", "addresses", "prefixes", "rules"];

/// Pins of programs at the device.
const AT_DEVICE: [&str; 2] = ["egress", "marks"];

/// How much there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitsSize {
    /// Rows of nodes.
    pub room: Room,
    /// Addresses, each by itself, and prefixes. Both lists are in the tables while one
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
    /// The kernel refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// What bringing a list into force changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitsChange {
    /// Nodes that were not there.
    pub added: usize,
    /// Nodes of which something else is said.
    pub changed: usize,
    /// Nodes that are there no more.
    pub removed: usize,
    /// Entries of the tables of addresses and prefixes that were written.
    pub written: usize,
}

/// A node, as it is in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitsNode {
    /// The number of its row.
    pub id: u32,
    /// What it is.
    pub label: Label,
    /// The row of the node above it; 0 for the link.
    pub parent: u32,
    /// What it never exceeds, in bytes a second; 0 for nothing.
    pub ceiling_bytes_s: u64,
    /// What it is guaranteed; 0 for nothing.
    pub guarantee_bytes_s: u64,
    /// What it has had and has.
    pub counts: NodeCounts,
}

/// The circuits of one device, loaded until this is dropped, unless they are pinned.
#[derive(Debug)]
pub struct CircuitTree {
    engine: Engine,
    staged: Mapped<engine_said>,
    labels: Mapped<circuits_label>,
    addresses: Map<circuits_host, circuits_leaves>,
    prefixes: Map<circuits_prefix, circuits_leaves>,
    rules: Map<u32, circuits_rule>,
    object: Object,
}

impl CircuitTree {
    /// The kind of the qdisc of a place. Each device has one of its own: kinds are the
    /// whole machine's, and numbers of devices a namespace's.
    pub fn kind(place: Place) -> String {
        let words = [place.netns, u64::from(place.ifindex)];
        let bytes = words.into_iter().flat_map(u64::to_be_bytes);
        format!("weir_c{:08x}", weirgate_units::fnv1a_32(bytes))
    }

    /// Loads the programs for a device, with no circuit: all packets are others'. Needs
    /// root, and a kernel with `CONFIG_NET_SCH_BPF`.
    pub fn load(place: Place, direction: Direction, size: &CircuitsSize) -> Result<Self, BpfError> {
        let room = size.room;
        let engine = Engine::load_as(
            &Self::kind(place),
            EngineSize {
                nodes: room.nodes(),
                inner: room.inner,
                queues: size.queues,
                slots: size.packets,
                limit_bytes: size.bytes,
            },
        )?;
        let rows = room.nodes() + 1;
        let entries = [
            (MAPS[0], rows),
            (MAPS[1], rows),
            (MAPS[2], size.addresses.max(1)),
            (MAPS[3], size.prefixes.max(1)),
        ];
        let nodes = engine.nodes();
        let object = object(&[(NODES, nodes)], &entries)?;
        let maps = MAPS.map(|name| handle(&object, name));
        let tree = Self::of(engine, object, maps, room)?;
        tree.rules.set_first(&circuits_rule {
            generation: 0,
            next: 0,
            source: u32::from(direction == Direction::Up),
            inner: room.inner,
            nodes: room.nodes(),
            pad: 0,
        })?;
        tree.engine.set(&EngineSetup {
            link: Link {
                mtu_bytes: 1_514,
                ..Link::default()
            },
            root: Room::LINK,
            other: room.others(),
            host_parts: match direction {
                Direction::Down => 2,
                Direction::Up => 1,
            },
        })?;
        Ok(tree)
    }

    /// What [`Self::pin`] left in a folder; `None` where it left nothing.
    pub(crate) fn pinned(place: Place, folder: &Path) -> Result<Option<Self>, BpfError> {
        if !load::is_pinned(folder) {
            return Ok(None);
        }
        let engine = Engine::pinned(&Self::kind(place), folder)?;
        let open = |name: &str| {
            let path = folder.join(name);
            MapHandle::from_pinned_path(&path).map_err(|source| BpfError::Pin {
                path,
                doing: "opened",
                source,
            })
        };
        let [staged, labels, addresses, prefixes, rules] = MAPS.map(open);
        let maps = [staged?, labels?, addresses?, prefixes?, rules?];
        let mut shared = vec![(NODES, engine.nodes())];
        shared.extend(MAPS.into_iter().zip(maps.iter().map(AsFd::as_fd)));
        let object = object(&shared, &[])?;
        let rule: circuits_rule = Map::of(FILE, MAPS[4], Some(handle_of(&maps[4])?))?.first()?;
        let room = Room {
            inner: rule.inner,
            leaves: rule.nodes.saturating_sub(rule.inner),
        };
        let maps = maps.map(Ok);
        Self::of(engine, object, maps, room).map(Some)
    }

    fn of(
        engine: Engine,
        object: Object,
        maps: [Result<MapHandle, BpfError>; 5],
        room: Room,
    ) -> Result<Self, BpfError> {
        let rows = room.nodes() as usize + 1;
        let [staged, labels, addresses, prefixes, rules] = maps;
        Ok(Self {
            staged: Mapped::new(MAPS[0], Some(staged?), rows)?,
            labels: Mapped::new(MAPS[1], Some(labels?), rows)?,
            addresses: Map::of(FILE, MAPS[2], Some(addresses?))?,
            prefixes: Map::of(FILE, MAPS[3], Some(prefixes?))?,
            rules: Map::of(FILE, MAPS[4], Some(rules?))?,
            engine,
            object,
        })
    }

    /// Puts the programs that find leaves, and that make marks, on the device.
    pub fn attach(&self, place: Place) -> Result<[Attached; 2], BpfError> {
        let mut programs = self.object.progs();
        let program = programs.find(|program| program.name() == EGRESS);
        let program = program.ok_or(BpfError::NoProgram(FILE))?;
        let egress = Attached::to(program.as_fd(), place.ifindex, End::Egress);
        let egress = egress.map_err(|source| BpfError::Program {
            name: EGRESS,
            doing: "put on the device",
            source,
        })?;
        Ok([egress, self.engine.mark(place)?])
    }

    /// Keeps all of it beyond this process, with what is on the device: pins in
    /// `folder`, which must be in a BPF file system and exist.
    pub(crate) fn pin(&mut self, folder: &Path, attached: &[Attached; 2]) -> Result<(), BpfError> {
        for (program, name) in attached.iter().zip(AT_DEVICE) {
            program.pin(&folder.join(name))?;
        }
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
        let names: Vec<&str> = Engine::pins().into_iter().chain(MAPS).collect();
        load::unpin(folder, &names)
    }

    /// Which way the packets go whose subscribers are looked up.
    pub fn direction(&self) -> Result<Direction, BpfError> {
        Ok(match self.rules.first()?.source {
            0 => Direction::Down,
            _ => Direction::Up,
        })
    }

    /// Brings a list into force, all at once or not at all: what happens to this
    /// process meanwhile leaves the one before. `link` is the rate of the whole, if
    /// there is one. Nothing is lost of what is queued, but for circuits that go.
    pub fn reconcile(
        &mut self,
        list: &List,
        link: Option<Rate>,
    ) -> Result<CircuitsChange, CircuitsError> {
        let rule = self.rules.first()?;
        let direction = self.direction()?;
        let room = self.room()?;
        let held: BTreeMap<u32, Held> = (1..=room.nodes())
            .filter_map(|id| Some((id, self.held(id)?)))
            .collect();
        let (nodes, circuits) = rows::rows(list, direction, room, link, &held)?;
        let mut change = self.stage(room, &nodes);
        let new = rows::table(list, &circuits);
        let active = (rule.generation & 1) as usize;
        let stored = self.stored()?;
        let old: Table = stored
            .iter()
            .filter_map(|(prefix, leaves)| {
                Some((*prefix, leaves[active])).filter(|(_, leaf)| *leaf > 0)
            })
            .collect();
        let switches = old != new;
        if switches {
            let entries: Vec<(Prefix, [u32; 2])> = rows::both(&old, &new)
                .map(|(prefix, [old, new])| {
                    (prefix, if active == 0 { [old, new] } else { [new, old] })
                })
                .filter(|(prefix, leaves)| stored.get(prefix) != Some(leaves))
                .collect();
            change.written = entries.len();
            self.write(&entries)?;
        }
        let next = rule.generation ^ u32::from(switches);
        self.commit(circuits_rule { next, ..rule })?;
        let gone = stored.keys().chain(old.keys());
        for prefix in gone.filter(|prefix| !new.contains_key(prefix)) {
            self.forget(prefix)?;
        }
        Ok(change)
    }

    /// Every node that is there, by the numbers of rows.
    pub fn nodes(&self) -> Result<impl Iterator<Item = CircuitsNode> + '_, BpfError> {
        let room = self.room()?;
        Ok((1..=room.nodes()).filter_map(|id| self.node(id)))
    }

    /// A node that is there, by the number of its row.
    pub fn node(&self, id: u32) -> Option<CircuitsNode> {
        let said = self.engine.said(id).filter(|said| said.live != 0)?;
        Some(CircuitsNode {
            id,
            label: self.label(id)?,
            parent: said.parent,
            ceiling_bytes_s: said.ceiling_bytes_s,
            guarantee_bytes_s: said.guarantee_bytes_s,
            counts: self.engine.counts(id)?,
        })
    }

    /// Whose packets are whose: the row of each address and prefix that is in force.
    pub fn table(&self) -> Result<Table, BpfError> {
        let active = (self.rules.first()?.generation & 1) as usize;
        let stored = self.stored()?.into_iter();
        let own = stored.map(|(prefix, leaves)| (prefix, leaves[active]));
        Ok(own.filter(|(_, leaf)| *leaf > 0).collect())
    }

    fn room(&self) -> Result<Room, BpfError> {
        let rule = self.rules.first()?;
        Ok(Room {
            inner: rule.inner,
            leaves: rule.nodes.saturating_sub(rule.inner),
        })
    }

    /// What a row has been; `None` where it was never used.
    fn held(&self, id: u32) -> Option<Held> {
        let (live, at_rest) = self.engine.standing(id)?;
        Some(Held {
            label: self.label(id)?,
            live,
            at_rest,
        })
    }

    fn label(&self, id: u32) -> Option<Label> {
        let place = self.labels.at(id as usize)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are a label.
        let label = unsafe { place.read_volatile() };
        let text = label.text.split(|byte| *byte == 0).next()?;
        Label::read(std::str::from_utf8(text).ok()?)
    }

    /// Writes what is to be said of every row where the program finds it.
    fn stage(&self, room: Room, nodes: &[rows::Row]) -> CircuitsChange {
        let mut change = CircuitsChange::default();
        let mut wanted: Vec<Option<&rows::Row>> = vec![None; room.nodes() as usize + 1];
        for row in nodes {
            if let Some(place) = wanted.get_mut(row.id as usize) {
                *place = Some(row);
            }
        }
        for (id, row) in wanted.into_iter().enumerate().skip(1) {
            let Some(is) = self.engine.said(id as u32) else {
                continue;
            };
            let said = match row {
                Some(row) => said(&row.row),
                // What it has queued is dropped where it stood.
                None => engine_said { live: 0, ..is },
            };
            match (is.live != 0, row) {
                (false, Some(row)) => {
                    change.added += 1;
                    self.put_label(id, &row.label);
                }
                (true, None) => change.removed += 1,
                _ if !keys::is_same(&is, &said) => change.changed += 1,
                _ => {}
            }
            if let Some(place) = self.staged.at(id) {
                #[expect(unsafe_code, reason = "the memory is the kernel's too")]
                // SAFETY: the row is in the mapping; the program only reads it.
                unsafe {
                    place.write_volatile(said);
                }
            }
        }
        change
    }

    fn put_label(&self, id: usize, label: &Label) {
        let mut own = circuits_label { text: [0; 64] };
        let text = label.to_string();
        for (to, from) in own.text.iter_mut().zip(text.bytes().take(63)) {
            *to = from;
        }
        if let Some(place) = self.labels.at(id) {
            #[expect(unsafe_code, reason = "the memory is the kernel's too")]
            // SAFETY: the row is in the mapping; no program reads it.
            unsafe {
                place.write_volatile(own);
            }
        }
    }

    /// What both tables have, of both generations.
    fn stored(&self) -> Result<BTreeMap<Prefix, [u32; 2]>, BpfError> {
        let hosts = self.addresses.entries()?.into_iter();
        let hosts = hosts.filter_map(|(key, value)| Some((keys::host(&key)?, value.leaf)));
        let prefixes = self.prefixes.entries()?.into_iter();
        let prefixes = prefixes.filter_map(|(key, value)| Some((keys::prefix(&key)?, value.leaf)));
        Ok(hosts.chain(prefixes).collect())
    }

    fn write(&self, entries: &[(Prefix, [u32; 2])]) -> Result<(), BpfError> {
        let hosts = entries.iter().filter(|(prefix, _)| prefix.is_host());
        let hosts =
            hosts.map(|(prefix, leaf)| (keys::of(prefix).host, circuits_leaves { leaf: *leaf }));
        self.addresses.put_all(hosts)?;
        let prefixes = entries.iter().filter(|(prefix, _)| !prefix.is_host());
        let prefixes =
            prefixes.map(|(prefix, leaf)| (keys::of(prefix), circuits_leaves { leaf: *leaf }));
        self.prefixes.put_all(prefixes)
    }

    fn forget(&self, prefix: &Prefix) -> Result<(), BpfError> {
        let key = keys::of(prefix);
        if prefix.is_host() {
            return self.addresses.remove(&key.host);
        }
        self.prefixes.remove(&key)
    }

    /// Has the kernel copy the rows that differ, and switch.
    fn commit(&mut self, rule: circuits_rule) -> Result<(), BpfError> {
        self.rules.set_first(&rule)?;
        let failed = |source| BpfError::Program {
            name: COMMIT,
            doing: "run",
            source,
        };
        let mut programs = self.object.progs_mut();
        let program = programs.find(|program| program.name() == COMMIT);
        let program = program.ok_or(BpfError::NoProgram(FILE))?;
        let ran = program.test_run(ProgramInput::default()).map_err(failed)?;
        if ran.return_value != 0 {
            let missing = libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
            return Err(failed(missing));
        }
        Ok(())
    }
}

/// Loads the programs with these maps of others, and maps of so many entries.
fn object(
    shared: &[(&str, std::os::fd::BorrowedFd<'_>)],
    entries: &[(&str, u32)],
) -> Result<Object, BpfError> {
    let program = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
    let (loaded, log) = log::recorded(|| {
        let mut open = ObjectBuilder::default().name(FILE)?.open_memory(&program)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((_, own)) = shared.iter().find(|(own, _)| *own == name) {
                map.reuse_fd(*own).context("the qdisc's maps")?;
            } else if let Some((_, count)) = entries.iter().find(|(own, _)| *own == name) {
                map.set_max_entries(*count)?;
            }
        }
        open.load()
    });
    loaded.map_err(|source| BpfError::Refused {
        kind: "the programs of circuits".to_owned(),
        source,
        log,
    })
}

fn handle(object: &Object, name: &'static str) -> Result<MapHandle, BpfError> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or(BpfError::NoProgram(name))?;
    MapHandle::try_from(&map).map_err(crate::maps::failed(FILE, name, "opened"))
}

fn handle_of(map: &MapHandle) -> Result<MapHandle, BpfError> {
    MapHandle::try_from(map).map_err(crate::maps::failed(FILE, MAPS[4], "opened"))
}
