// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine is given of a list: rows of nodes, and whose packets are a leaf's.
//!
//! A node is known by its label, and keeps the number of its row as long as lists
//! name it. So its counters go on, and what it has queued stays.

use crate::hash::Known;
use crate::keys::Key;
pub use crate::label::{Label, LabelText};
use crate::model::{Circuit, List};
use crate::queues;
use std::cell::LazyCell;
use std::fmt;
use std::ops::RangeInclusive;
use weirgate_aqm::{NodeRow, NodeRule};
use weirgate_units::Direction;
use weirgate_units::Rate;

/// Bytes of a full Ethernet frame: a turn among equals.
const FRAME: u32 = 1_514;

/// CoDel's usual target, in nanoseconds (RFC 8289). A full frame may take longer.
const TARGET_NS: u64 = 5_000_000;

/// How many rows there are: first those of nodes with children, of which the first are
/// the link's, one for each queue, then those of leaves, of which the first are those of
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Queues of the device, each with a tree of its own; one at least.
    pub queues: u32,
    /// Of nodes with children.
    pub inner: u32,
    /// Of leaves.
    pub leaves: u32,
}

impl Room {
    /// The row of the link, in the first queue.
    pub const LINK: u32 = 1;

    /// Room for a list in so many queues, and for twice as many circuits and sites later.
    pub fn of(list: &List, queues: u32) -> Self {
        let room = |count: usize, least: u32| {
            let twice =
                u32::try_from(count.saturating_add(1).saturating_mul(2)).unwrap_or(u32::MAX / 4);
            twice.max(least).next_power_of_two()
        };
        Self {
            queues,
            inner: room(list.sites.len(), 256),
            leaves: room(list.circuits.len(), 4_096),
        }
    }

    /// The row of the link in a queue.
    pub fn root(self, queue: u32) -> u32 {
        Self::LINK + queue
    }

    /// Whether a row is the link's.
    pub fn is_root(self, id: u32) -> bool {
        (Self::LINK..self.root(self.queues)).contains(&id)
    }

    /// The row of a queue's packets that are no circuit's.
    pub fn others(self, queue: u32) -> u32 {
        self.inner + 1 + queue
    }

    /// The rows of sites.
    pub fn sites(self) -> RangeInclusive<u32> {
        self.root(self.queues)..=self.inner
    }

    /// The rows of circuits.
    pub fn circuits(self) -> RangeInclusive<u32> {
        self.others(self.queues)..=self.nodes()
    }

    /// All rows.
    pub fn nodes(self) -> u32 {
        self.inner + self.leaves
    }
}

/// What a row has been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The number of the row.
    pub id: u32,
    /// Whose it is or was.
    pub label: LabelText,
    /// Of which queue, for ever.
    pub queue: u32,
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
    pub label: LabelText,
    /// Of which queue.
    pub queue: u32,
    /// Its configuration.
    pub row: NodeRow,
}

/// Where the number of its queue begins in the word that a packet of a leaf has.
pub const QUEUE_SHIFT: u32 = 24;

impl Row {
    /// The word that packets of a leaf have: its row, and its queue above that.
    pub fn word(&self) -> u32 {
        self.queue << QUEUE_SHIFT | self.id
    }
}

/// The row of such a word.
pub fn row_of(word: u32) -> u32 {
    word & ((1 << QUEUE_SHIFT) - 1)
}

/// Occurs where a list has more nodes than there are free rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// The rows for that kind.
    pub rows: u32,
    /// Whether it is sites that are too many, and not circuits.
    pub sites: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.sites { "sites" } else { "circuits" };
        write!(f, "there is room for {} {what}", self.rows)
    }
}

impl std::error::Error for Full {}

/// The nodes of a list, the link first, and for each circuit its word. `held` says
/// what rows have been; `link` is the rate of the whole, if there is
/// one.
pub fn rows(
    list: &List,
    direction: Direction,
    room: Room,
    link: Option<Rate>,
    held: &[Held],
) -> Result<(Vec<Row>, Vec<u32>), Full> {
    let queues = queues::of(list, direction, room.queues, held);
    let sites = list.sites.iter().map(|site| LabelText::site(&site.name));
    let circuits = list.circuits.iter();
    let circuits = circuits.map(|one| LabelText::circuit(&one.id));
    let labels: Vec<(LabelText, u32)> = sites.chain(circuits).zip(queues).collect();
    let mut numbers = Numbers::new(&labels, room, held);
    let mut labels = labels.into_iter();
    let mut rows = Vec::with_capacity(list.sites.len() + list.circuits.len() + 2);
    let inner = |id: u32, parent: u32, rule| NodeRow {
        parent,
        fork: id,
        rule,
    };
    for queue in 0..room.queues {
        let top = room.root(queue);
        rows.push(Row {
            id: top,
            label: LabelText::LINK,
            queue,
            row: inner(top, 0, rule(link, 0)),
        });
        rows.push(Row {
            id: room.others(queue),
            label: LabelText::OTHERS,
            queue,
            row: NodeRow {
                parent: top,
                fork: 0,
                rule: rule(None, 0),
            },
        });
    }
    let guaranteed = list.guaranteed_bytes_s(direction);
    let mut sites: Vec<u32> = Vec::with_capacity(list.sites.len());
    let of = |parent: Option<usize>, queue: u32, sites: &[u32]| {
        parent
            .and_then(|parent| sites.get(parent).copied())
            .unwrap_or(room.root(queue))
    };
    for ((site, sum), (label, queue)) in list.sites.iter().zip(guaranteed).zip(labels.by_ref()) {
        let id = numbers.take(true, queue)?;
        let most = site.most.map(|most| most.of(direction));
        let rule = rule(most, sum);
        let row = inner(id, of(site.parent, queue, &sites), rule);
        rows.push(Row {
            id,
            label,
            queue,
            row,
        });
        sites.push(id);
    }
    let mut circuits = Vec::with_capacity(list.circuits.len());
    for (circuit, (label, queue)) in list.circuits.iter().zip(labels) {
        let id = numbers.take(false, queue)?;
        let row = NodeRow {
            parent: of(circuit.parent, queue, &sites),
            fork: 0,
            rule: circuit.rule(direction),
        };
        let row = Row {
            id,
            label,
            queue,
            row,
        };
        circuits.push(row.word());
        rows.push(row);
    }
    Ok((rows, circuits))
}

/// What a node has; `guarantee` in bytes a second.
fn rule(most: Option<Rate>, guarantee: u64) -> NodeRule {
    let ceiling = most.map_or(0, Rate::as_bytes_per_second);
    NodeRule {
        ceiling_bytes_s: ceiling,
        guarantee_bytes_s: if ceiling > 0 {
            guarantee.min(ceiling)
        } else {
            guarantee
        },
        quantum: FRAME,
        ..NodeRule::default()
    }
}

impl Circuit {
    /// What its leaf has.
    pub fn rule(&self, direction: Direction) -> NodeRule {
        let [least, most] = self.rates(direction);
        let rule = rule(Some(most), least.as_bytes_per_second());
        // A queue that holds one frame is no standing queue.
        let frame_ns = u64::from(FRAME) * 1_000_000_000 / rule.ceiling_bytes_s.max(1);
        let burst = self.burst(direction).as_bytes();
        NodeRule {
            target_ns: if frame_ns > TARGET_NS {
                u32::try_from(frame_ns).unwrap_or(u32::MAX)
            } else {
                0
            },
            ceiling_burst_bytes: u32::try_from(burst).unwrap_or(u32::MAX),
            ..rule
        }
    }
}

/// Gives rows to nodes. A row stays of the queue that had it first, because that queue's
/// engine may still have it in its wheel.
struct Numbers {
    /// The rows that nodes have already, in their order.
    known: std::vec::IntoIter<Option<u32>>,
    /// Free rows that somebody had, of leaves and of others, each by its queue; the lowest
    /// number last.
    free: [Vec<Vec<u32>>; 2],
    /// Whether somebody ever had the row.
    had: Vec<bool>,
    /// Where the next row of either kind is looked for that nobody had.
    next: [u32; 2],
    room: Room,
}

impl Numbers {
    fn new(labels: &[(LabelText, u32)], room: Room, held: &[Held]) -> Self {
        let mut had = vec![false; room.nodes() as usize + 1];
        let mut taken = had.clone();
        for one in held {
            if let Some(taken) = taken.get_mut(one.id as usize) {
                *taken = one.live || !one.at_rest;
                had[one.id as usize] = true;
            }
        }
        let known = known(labels, room, held);
        // Nobody else gets the row of a node that comes back.
        for id in known.iter().flatten() {
            if let Some(taken) = taken.get_mut(*id as usize) {
                *taken = true;
            }
        }
        let mut free = [(); 2].map(|()| vec![Vec::new(); room.queues as usize]);
        for one in held.iter().rev().filter(|one| !taken[one.id as usize]) {
            let inner = one.id <= room.inner;
            if let Some(free) = free[usize::from(inner)].get_mut(one.queue as usize) {
                free.push(one.id);
            }
        }
        Self {
            known: known.into_iter(),
            free,
            had,
            next: [*room.circuits().start(), *room.sites().start()],
            room,
        }
    }

    /// The row of the next node, which is of this queue.
    fn take(&mut self, inner: bool, queue: u32) -> Result<u32, Full> {
        if let Some(id) = self.known.next().flatten() {
            return Ok(id);
        }
        let free = self.free[usize::from(inner)].get_mut(queue as usize);
        if let Some(id) = free.and_then(Vec::pop) {
            return Ok(id);
        }
        let rows = if inner {
            self.room.sites()
        } else {
            self.room.circuits()
        };
        let next = &mut self.next[usize::from(inner)];
        while *next <= *rows.end() {
            let id = *next;
            *next += 1;
            if !self.had[id as usize] {
                return Ok(id);
            }
        }
        Err(Full {
            rows: rows.end() + 1 - rows.start(),
            sites: inner,
        })
    }
}

/// The row that each node has already.
fn known(labels: &[(LabelText, u32)], room: Room, held: &[Held]) -> Vec<Option<u32>> {
    // Of two rows with one label, which a run that was ended may leave, the one counts
    // that is there.
    let places = LazyCell::new(|| {
        let mut places: Known<(&LabelText, u32), usize> = Known::default();
        places.reserve(held.len());
        for live in [false, true] {
            for (place, one) in held.iter().enumerate().filter(|(_, one)| one.live == live) {
                places.insert((&one.label, one.queue), place);
            }
        }
        places
    });
    let is = |one: &Held, label, queue| one.live && one.label == label && one.queue == queue;
    // Most nodes have the row behind that of the one before: sites, and circuits.
    let first = [*room.sites().start(), *room.circuits().start()];
    let mut next = first.map(|id| held.partition_point(|one| one.id < id));
    let own = |(label, queue): &(LabelText, u32)| {
        let next = &mut next[usize::from(label.is_circuit())];
        let follows = held.get(*next).is_some_and(|one| is(one, *label, *queue));
        let place = if follows {
            *next
        } else {
            *places.get(&(label, *queue))?
        };
        *next = place + 1;
        held.get(place).map(|one| one.id)
    };
    labels.iter().map(own).collect()
}

/// Whose packets are a leaf's: its word ([`Row::word`]) for each key, in their order.
pub type Table = Vec<(Key, u32)>;

/// The table of a list, whose circuits have these words.
pub fn table(list: &List, circuits: &[u32]) -> Table {
    let circuits = list.circuits.iter().zip(circuits);
    let mut table: Table = circuits
        .flat_map(|(circuit, row)| circuit.keys.iter().map(|key| (*key, *row)))
        .collect();
    table.sort_unstable();
    table
}

/// Two tables in one: for each key of either, the row in each of them. A packet is
/// looked up by the longest prefix of either table, so where one lacks a prefix, the
/// longest that it has around it counts; 0 where there is none. Other keys are looked up
/// one after another, and 0 is then what has the next asked.
pub fn both(old: &Table, new: &Table) -> Vec<(Key, [u32; 2])> {
    let mut rest = [Rest::of(old), Rest::of(new)];
    let mut both = Vec::with_capacity(old.len().max(new.len()));
    while let Some(key) = rest.iter().filter_map(Rest::next).min() {
        both.push((key, rest.each_mut().map(|one| one.row(key))));
    }
    both
}

/// What is left of a table that is gone through.
struct Rest<'t> {
    entries: &'t [(Key, u32)],
    /// Prefixes that went by and that what follows may be a part of, the longest last.
    around: Vec<(Key, u32)>,
}

impl<'t> Rest<'t> {
    fn of(table: &'t Table) -> Self {
        Self {
            entries: table,
            around: Vec::new(),
        }
    }

    fn next(&self) -> Option<Key> {
        self.entries.first().map(|(key, _)| *key)
    }

    /// The row of a key that no one before was behind.
    fn row(&mut self, key: Key) -> u32 {
        while self
            .around
            .last()
            .is_some_and(|(around, _)| !around.contains(&key))
        {
            self.around.pop();
        }
        let is_prefix = key.prefix().is_some();
        if let Some((own, rest)) = self.entries.split_first()
            && own.0 == key
        {
            self.entries = rest;
            if is_prefix {
                self.around.push(*own);
            }
            return own.1;
        }
        if !is_prefix {
            return 0;
        }
        self.around.last().map_or(0, |(_, row)| *row)
    }
}
