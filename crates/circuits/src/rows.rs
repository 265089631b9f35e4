// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a list to the engine's rows, and to the table that maps packets to leaves.
//!
//! A node is identified by its label. It keeps its row number as long as successive lists
//! contain it, so that its counters continue and its backlog stays queued.

use crate::check::{MOST_CIRCUITS, MOST_SITES};
use crate::hash::Known;
use crate::keys::Key;
pub use crate::label::{Label, LabelText};
use crate::model::{Circuit, List};
use crate::queues;
use std::cell::LazyCell;
use std::fmt;
use std::ops::RangeInclusive;
use weirgate_aqm::{NodeRow, NodeRule};
use weirgate_units::{Direction, Rate};

/// Bytes of a full Ethernet frame: the quantum of every node.
const FRAME: u32 = 1_514;

/// CoDel's usual target, in nanoseconds (RFC 8289). A full frame may take longer.
const TARGET_NS: u64 = 5_000_000;

/// Numbers of rows. The rows of nodes with children come first, starting with one root for each
/// queue. The rows of leaves follow, starting with the default leaf of each queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLayout {
    /// Queues of the device, at least one; each has its own tree.
    pub queues: u32,
    /// Rows for nodes with children.
    pub inner: u32,
    /// Rows for leaves.
    pub leaves: u32,
}

impl RowLayout {
    /// The row of the first queue's root.
    pub const LINK: u32 = 1;

    /// The number of rows for the largest list.
    pub const MOST_NODES: u32 = Self::sized([MOST_SITES, MOST_CIRCUITS], 1).nodes();

    /// Returns the layout for a list on `queues` queues, with space for twice as many circuits and
    /// sites.
    pub fn of(list: &List, queues: u32) -> Self {
        Self::sized([list.sites.len(), list.circuits.len()], queues)
    }

    const fn sized([sites, circuits]: [usize; 2], queues: u32) -> Self {
        const fn size(count: usize, least: u32) -> u32 {
            let twice = count.saturating_add(1).saturating_mul(2);
            if twice < least as usize {
                least
            } else if twice < (u32::MAX / 4) as usize {
                (twice as u32).next_power_of_two()
            } else {
                (u32::MAX / 4).next_power_of_two()
            }
        }
        Self {
            queues,
            inner: size(sites, 256),
            leaves: size(circuits, 4_096),
        }
    }

    /// Returns the row of a queue's root.
    pub fn root(self, queue: u32) -> u32 {
        Self::LINK + queue
    }

    /// Returns whether a row is a root.
    pub fn is_root(self, id: u32) -> bool {
        (Self::LINK..self.root(self.queues)).contains(&id)
    }

    /// Returns the row of a queue's default leaf, which takes the packets of no circuit.
    pub fn others(self, queue: u32) -> u32 {
        self.inner + 1 + queue
    }

    /// Returns the rows for sites.
    pub fn sites(self) -> RangeInclusive<u32> {
        self.root(self.queues)..=self.inner
    }

    /// Returns the rows for circuits.
    pub fn circuits(self) -> RangeInclusive<u32> {
        self.others(self.queues)..=self.nodes()
    }

    /// Returns the number of rows.
    pub const fn nodes(self) -> u32 {
        self.inner + self.leaves
    }
}

/// A row that is or was in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedRow {
    /// The number of the row.
    pub id: u32,
    /// The label of its current or last node.
    pub label: LabelText,
    /// The queue of the row, which never changes.
    pub queue: u32,
    /// Whether a node has the row now.
    pub live: bool,
    /// Whether the row has no backlog and no pending event, so that it can be reused.
    pub at_rest: bool,
}

/// The configuration of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The number of the row.
    pub id: u32,
    /// The label of the node.
    pub label: LabelText,
    /// The queue whose tree contains the node.
    pub queue: u32,
    /// The row's contents in the engine's map.
    pub row: NodeRow,
}

/// The lowest bit of the queue number in the word that identifies a packet's leaf.
pub const QUEUE_SHIFT: u32 = 24;

impl Row {
    /// Returns the word that identifies a packet's leaf: the row in the low bits, the queue
    /// above them.
    pub fn word(&self) -> u32 {
        self.queue << QUEUE_SHIFT | self.id
    }
}

/// Returns the row number in a word.
pub fn row_of(word: u32) -> u32 {
    word & ((1 << QUEUE_SHIFT) - 1)
}

/// The error of a list with more nodes than there are rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// How many rows there are for this kind of node.
    pub rows: u32,
    /// Whether there are too many sites; otherwise there are too many circuits.
    pub sites: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.sites { "sites" } else { "circuits" };
        write!(f, "there is room for {} {what}", self.rows)
    }
}

impl std::error::Error for Full {}

/// Returns the rows of a list, roots first, and the word of each circuit. `held` lists the rows
/// in use; `link` is the rate of the whole device, if it has a limit.
pub fn rows(
    list: &List,
    direction: Direction,
    layout: RowLayout,
    link: Option<Rate>,
    held: &[UsedRow],
) -> Result<(Vec<Row>, Vec<u32>), Full> {
    let queues = queues::of(list, direction, layout.queues, held);
    let sites = list.sites.iter().map(|site| LabelText::site(&site.name));
    let circuits = list.circuits.iter();
    let circuits = circuits.map(|one| LabelText::circuit(&one.id));
    let labels: Vec<(LabelText, u32)> = sites.chain(circuits).zip(queues).collect();
    let mut numbers = Numbers::new(&labels, layout, held);
    let mut labels = labels.into_iter();
    let mut rows = Vec::with_capacity(list.sites.len() + list.circuits.len() + 2);
    let inner = |id: u32, parent: u32, rule| NodeRow {
        parent,
        fork: id,
        rule,
    };
    for queue in 0..layout.queues {
        let top = layout.root(queue);
        rows.push(Row {
            id: top,
            label: LabelText::LINK,
            queue,
            row: inner(top, 0, rule(link, 0)),
        });
        rows.push(Row {
            id: layout.others(queue),
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
            .unwrap_or(layout.root(queue))
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

/// Returns the rule of a node with a maximum rate and a guarantee in bytes a second.
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
    /// Returns the rule of the circuit's leaf.
    pub fn rule(&self, direction: Direction) -> NodeRule {
        let [least, most] = self.rates(direction);
        let rule = rule(Some(most), least.as_bytes_per_second());
        // Raise CoDel's target to the time of one full frame: one waiting frame is no standing
        // queue.
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

/// Assigns row numbers to nodes. A row stays with its first queue, because the timer wheel of
/// that queue's engine may still contain it.
struct Numbers {
    /// For each node in order, the row that it already has.
    known: std::vec::IntoIter<Option<u32>>,
    /// Free rows that were used before, for leaves and inner nodes, by queue. The lowest number
    /// is last.
    free: [Vec<Vec<u32>>; 2],
    /// Whether each row was ever used.
    had: Vec<bool>,
    /// The next candidate of either kind among the rows that were never used.
    next: [u32; 2],
    layout: RowLayout,
}

impl Numbers {
    fn new(labels: &[(LabelText, u32)], layout: RowLayout, held: &[UsedRow]) -> Self {
        let mut had = vec![false; layout.nodes() as usize + 1];
        let mut taken = had.clone();
        for one in held {
            if let Some(taken) = taken.get_mut(one.id as usize) {
                *taken = one.live || !one.at_rest;
                had[one.id as usize] = true;
            }
        }
        let known = known(labels, layout, held);
        // Reserve the rows of nodes that return after an absence.
        for id in known.iter().flatten() {
            if let Some(taken) = taken.get_mut(*id as usize) {
                *taken = true;
            }
        }
        let mut free = [(); 2].map(|()| vec![Vec::new(); layout.queues as usize]);
        for one in held.iter().rev().filter(|one| !taken[one.id as usize]) {
            let inner = one.id <= layout.inner;
            if let Some(free) = free[usize::from(inner)].get_mut(one.queue as usize) {
                free.push(one.id);
            }
        }
        Self {
            known: known.into_iter(),
            free,
            had,
            next: [*layout.circuits().start(), *layout.sites().start()],
            layout,
        }
    }

    /// Returns the row of the next node, which belongs to this queue.
    fn take(&mut self, inner: bool, queue: u32) -> Result<u32, Full> {
        if let Some(id) = self.known.next().flatten() {
            return Ok(id);
        }
        let free = self.free[usize::from(inner)].get_mut(queue as usize);
        if let Some(id) = free.and_then(Vec::pop) {
            return Ok(id);
        }
        let rows = if inner {
            self.layout.sites()
        } else {
            self.layout.circuits()
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

/// Returns, for each node, the row that it already has.
fn known(labels: &[(LabelText, u32)], layout: RowLayout, held: &[UsedRow]) -> Vec<Option<u32>> {
    // An interrupted run can leave two rows with one label. The live row wins, because it is
    // inserted last.
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
    let is = |one: &UsedRow, label, queue| one.live && one.label == label && one.queue == queue;
    // Fast path: most nodes have the row after their predecessor's. Sites and circuits are
    // counted separately.
    let first = [*layout.sites().start(), *layout.circuits().start()];
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

/// Each key with the word of its leaf ([`Row::word`]), sorted by key.
pub type Table = Vec<(Key, u32)>;

/// Returns the table of a list whose circuits have these words.
pub fn table(list: &List, circuits: &[u32]) -> Table {
    let circuits = list.circuits.iter().zip(circuits);
    let mut table: Table = circuits
        .flat_map(|(circuit, row)| circuit.keys.iter().map(|key| (*key, *row)))
        .collect();
    table.sort_unstable();
    table
}

/// Merges two tables: returns each key of either one with its word in both. A packet matches the
/// longest prefix of the merged table. Where one table lacks a prefix, its longest enclosing
/// prefix therefore counts, or 0 if there is none. For other kinds of keys, 0 means: continue
/// with the next kind of key.
pub fn both(old: &Table, new: &Table) -> Vec<(Key, [u32; 2])> {
    let mut rest = [Rest::of(old), Rest::of(new)];
    let mut both = Vec::with_capacity(old.len().max(new.len()));
    while let Some(key) = rest.iter().filter_map(Rest::next).min() {
        both.push((key, rest.each_mut().map(|one| one.row(key))));
    }
    both
}

/// The remaining entries of a table during a merge.
struct Rest<'t> {
    entries: &'t [(Key, u32)],
    /// Prefixes that were passed and may enclose the following keys, the longest last.
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

    /// Returns the word of a key. Callers ask for keys in ascending order.
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
