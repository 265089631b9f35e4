// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine is told of a list: rows of nodes, and whose packets are a leaf's.
//!
//! A node is known by its label, and keeps the number of its row as long as lists
//! name it. So its counters go on, and what it has queued stays.

use crate::address::Prefix;
use crate::model::{Circuit, List, Pair};
use std::collections::BTreeMap;
use std::fmt;
use weirgate_aqm::{NodeRow, NodeRule};
use weirgate_units::Rate;

/// Bytes of a full Ethernet frame: a turn among equals.
const FRAME: u32 = 1_514;

/// CoDel's usual target, in nanoseconds (RFC 8289). A full frame may take longer.
const TARGET_NS: u64 = 5_000_000;

/// Which way the packets go that a device sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To subscribers, whom the destination tells.
    Down,
    /// From subscribers, whom the source tells.
    Up,
}

impl Direction {
    fn of(self, pair: Pair) -> Rate {
        match self {
            Self::Down => pair.down,
            Self::Up => pair.up,
        }
    }
}

/// What a node is. In the kernel it is a text of at most 61 bytes, which begins with
/// a letter for the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// The whole device.
    Link,
    /// The leaf of packets that are no circuit's.
    Others,
    /// The site of this name.
    Site(String),
    /// The circuit of this identifier.
    Circuit(String),
}

impl Label {
    /// Reads what [`fmt::Display`] writes; `None` for any other text.
    pub fn read(text: &str) -> Option<Self> {
        match (text.get(..1)?, text.get(1..)?) {
            ("l", "") => Some(Self::Link),
            ("o", "") => Some(Self::Others),
            ("s", name) => Some(Self::Site(name.to_owned())),
            ("c", id) => Some(Self::Circuit(id.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("l"),
            Self::Others => f.write_str("o"),
            Self::Site(name) => write!(f, "s{name}"),
            Self::Circuit(id) => write!(f, "c{id}"),
        }
    }
}

/// How many rows there are: first those of nodes with children, of which the first is
/// the link's, then those of leaves, of which the first is that of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of nodes with children.
    pub inner: u32,
    /// Of leaves.
    pub leaves: u32,
}

impl Room {
    /// The row of the link.
    pub const LINK: u32 = 1;

    /// Room for a list, and for twice as many circuits and sites later.
    pub fn of(list: &List) -> Self {
        let room = |count: usize, least: u32| {
            let twice =
                u32::try_from(count.saturating_add(1).saturating_mul(2)).unwrap_or(u32::MAX / 4);
            twice.max(least).next_power_of_two()
        };
        Self {
            inner: room(list.sites.len(), 256),
            leaves: room(list.circuits.len(), 4_096),
        }
    }

    /// The row of packets that are no circuit's.
    pub fn others(self) -> u32 {
        self.inner + 1
    }

    /// All rows.
    pub fn nodes(self) -> u32 {
        self.inner + self.leaves
    }
}

/// What a row has been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose it is or was.
    pub label: Label,
    /// Whether there is such a node.
    pub live: bool,
    /// Whether nothing of it is queued or waits any more.
    pub at_rest: bool,
}

/// A node as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The number of the row.
    pub id: u32,
    /// What it is.
    pub label: Label,
    /// What is said of it.
    pub row: NodeRow,
}

/// Occurs where a list has more nodes than there are free rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// The rows of that kind.
    pub rows: u32,
    /// Whether it is sites that are too many, and not circuits.
    pub sites: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.sites { "sites" } else { "circuits" };
        write!(f, "there is room for {} {what}", self.rows - 1)
    }
}

impl std::error::Error for Full {}

/// The nodes of a list, the link first, and for each circuit its row. `held` says
/// what rows have been, by their numbers; `link` is the rate of the whole, if there is
/// one.
pub fn rows(
    list: &List,
    direction: Direction,
    room: Room,
    link: Option<Rate>,
    held: &BTreeMap<u32, Held>,
) -> Result<(Vec<Row>, Vec<u32>), Full> {
    let mut numbers = Numbers::new(list, room, held);
    let mut rows = Vec::with_capacity(list.sites.len() + list.circuits.len() + 2);
    let above = |most: Option<Rate>, least: Rate| {
        let ceiling = most.map_or(0, Rate::as_bytes_per_second);
        let mut guarantee = least.as_bytes_per_second();
        if ceiling > 0 {
            guarantee = guarantee.min(ceiling);
        }
        NodeRule {
            ceiling_bytes_s: ceiling,
            guarantee_bytes_s: guarantee,
            quantum: FRAME,
            ..NodeRule::default()
        }
    };
    let inner = |id: u32, parent: u32, rule| NodeRow {
        parent,
        fork: id,
        rule,
    };
    rows.push(Row {
        id: Room::LINK,
        label: Label::Link,
        row: inner(Room::LINK, 0, above(link, Rate::default())),
    });
    rows.push(Row {
        id: room.others(),
        label: Label::Others,
        row: NodeRow {
            parent: Room::LINK,
            fork: 0,
            rule: above(None, Rate::default()),
        },
    });
    let guaranteed = list.guaranteed();
    let mut sites: Vec<u32> = Vec::with_capacity(list.sites.len());
    let of = |parent: Option<usize>, sites: &[u32]| {
        parent
            .and_then(|parent| sites.get(parent).copied())
            .unwrap_or(Room::LINK)
    };
    for (site, sum) in list.sites.iter().zip(guaranteed) {
        let label = Label::Site(site.name.clone());
        let id = numbers.take(&label, true)?;
        let most = site.most.map(|most| direction.of(most));
        let rule = above(most, direction.of(sum));
        let row = inner(id, of(site.parent, &sites), rule);
        rows.push(Row { id, label, row });
        sites.push(id);
    }
    let mut circuits = Vec::with_capacity(list.circuits.len());
    for circuit in &list.circuits {
        let label = Label::Circuit(circuit.id.clone());
        let id = numbers.take(&label, false)?;
        let row = NodeRow {
            parent: of(circuit.parent, &sites),
            fork: 0,
            rule: leaf(circuit, direction, above),
        };
        rows.push(Row { id, label, row });
        circuits.push(id);
    }
    Ok((rows, circuits))
}

fn leaf(
    circuit: &Circuit,
    direction: Direction,
    rule: impl Fn(Option<Rate>, Rate) -> NodeRule,
) -> NodeRule {
    let rule = rule(
        Some(direction.of(circuit.most)),
        direction.of(circuit.least),
    );
    // A queue that holds one frame is no standing queue.
    let frame_ns = u64::from(FRAME) * 1_000_000_000 / rule.ceiling_bytes_s.max(1);
    NodeRule {
        target_ns: if frame_ns > TARGET_NS {
            u32::try_from(frame_ns).unwrap_or(u32::MAX)
        } else {
            0
        },
        ..rule
    }
}

/// Gives rows to nodes.
struct Numbers<'h> {
    known: BTreeMap<&'h Label, u32>,
    free: [Box<dyn Iterator<Item = u32> + 'h>; 2],
    room: Room,
}

impl<'h> Numbers<'h> {
    fn new(list: &List, room: Room, held: &'h BTreeMap<u32, Held>) -> Self {
        let mut known: BTreeMap<&Label, u32> = BTreeMap::new();
        // Of two rows with one label, which a run that was ended may leave, the one
        // counts that is there.
        for live in [false, true] {
            for (id, one) in held.iter().filter(|(_, one)| one.live == live) {
                known.insert(&one.label, *id);
            }
        }
        let named = |label: Label| known.get(&label).copied();
        let sites = list.sites.iter().map(|site| Label::Site(site.name.clone()));
        let circuits = list
            .circuits
            .iter()
            .map(|one| Label::Circuit(one.id.clone()));
        let wanted: std::collections::BTreeSet<u32> =
            sites.chain(circuits).filter_map(named).collect();
        let wanted = std::rc::Rc::new(wanted);
        let free = |from: u32, to: u32| {
            let wanted = wanted.clone();
            let rests = move |id: &u32| held.get(id).is_none_or(|one| !one.live && one.at_rest);
            Box::new(
                (from..=to)
                    .filter(rests)
                    .filter(move |id| !wanted.contains(id)),
            )
        };
        Self {
            free: [
                free(room.others() + 1, room.nodes()),
                free(Room::LINK + 1, room.inner),
            ],
            known,
            room,
        }
    }

    fn take(&mut self, label: &Label, inner: bool) -> Result<u32, Full> {
        if let Some(id) = self.known.get(label) {
            return Ok(*id);
        }
        let free = self.free[usize::from(inner)].next();
        free.ok_or(Full {
            rows: if inner {
                self.room.inner
            } else {
                self.room.leaves
            },
            sites: inner,
        })
    }
}

/// Whose packets are a leaf's: the row of each prefix.
pub type Table = BTreeMap<Prefix, u32>;

/// The table of a list, whose circuits have these rows.
pub fn table(list: &List, circuits: &[u32]) -> Table {
    let of = |(circuit, row): (&Circuit, u32)| -> Vec<(Prefix, u32)> {
        circuit
            .prefixes
            .iter()
            .map(|prefix| (*prefix, row))
            .collect()
    };
    list.circuits
        .iter()
        .zip(circuits.iter().copied())
        .flat_map(of)
        .collect()
}

/// Two tables in one: for each prefix of either, the row in each of them. A packet is
/// looked up by the longest prefix of either table, so where one lacks a prefix, the
/// longest that it has around it counts; 0 where there is none. A single address is
/// looked up first, and 0 is then what has prefixes asked.
pub fn both<'t>(old: &'t Table, new: &'t Table) -> impl Iterator<Item = (Prefix, [u32; 2])> + 't {
    let around = |table: &Table, prefix: &Prefix| {
        if let Some(row) = table.get(prefix) {
            return *row;
        }
        if prefix.is_host() || table.is_empty() {
            return 0;
        }
        let shorter = (0..prefix.length()).rev();
        let mut shorter = shorter.filter_map(|length| table.get(&prefix.shortened(length)));
        shorter.next().copied().unwrap_or(0)
    };
    let added = new.keys().filter(|prefix| !old.contains_key(prefix));
    old.keys()
        .chain(added)
        .map(move |prefix| (*prefix, [around(old, prefix), around(new, prefix)]))
}
