// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The circuits on a device: their traffic at every look, and answers to queries.

pub(crate) mod answer;
pub(crate) mod json;
pub(crate) mod metrics;
mod most;
pub(crate) mod query;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weirgate_bpf::{AttachPoint, BpfError, CircuitReader, CircuitsRow};
use weirgate_circuits::Direction;
use weirgate_circuits::rows::RowLayout;

/// The number of levels of a tree, including the link and the circuits.
const LEVELS: usize = 8;

/// The traffic of a node, in total or since the previous look.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    bytes: u64,
    packets: u64,
    drops: u32,
    marks: u32,
}

impl Count {
    /// Returns the difference from `before`. A smaller counter belongs to a new circuit in the
    /// row, which started at zero since then.
    fn since(self, before: Self) -> Self {
        if self.bytes < before.bytes || self.packets < before.packets {
            return self;
        }
        Self {
            bytes: self.bytes - before.bytes,
            packets: self.packets - before.packets,
            drops: self.drops.wrapping_sub(before.drops),
            marks: self.marks.wrapping_sub(before.marks),
        }
    }
}

/// The sums over all circuits below a node; packets of no circuit count too.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    circuits: u64,
    dropped: u64,
    marked: u64,
    queued_packets: u64,
    queued_bytes: u64,
    /// Drops and marks since the previous look.
    drops: u64,
    marks: u64,
}

impl Sums {
    /// Returns the sums of a leaf.
    fn of(row: &CircuitsRow, since: Count, is_circuit: bool) -> Self {
        Self {
            circuits: is_circuit.into(),
            dropped: row.counts.drops.into(),
            marked: row.counts.marks.into(),
            queued_packets: row.counts.packets.into(),
            queued_bytes: row.counts.bytes.into(),
            drops: since.drops.into(),
            marks: since.marks.into(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.circuits += other.circuits;
        self.dropped += other.dropped;
        self.marked += other.marked;
        self.queued_packets += other.queued_packets;
        self.queued_bytes += other.queued_bytes;
        self.drops += other.drops;
        self.marks += other.marks;
    }
}

/// The circuits of one device. For each there are the counters of the last two looks, 24 bytes
/// each; everything else is read from the kernel's memory.
#[derive(Debug)]
pub struct CircuitsLook {
    device: String,
    reader: CircuitReader,
    direction: Direction,
    /// The counters by row, up to the last node.
    now: Vec<Count>,
    before: Vec<Count>,
    /// The sums of inner nodes, by row.
    sums: Vec<Sums>,
    sites: u64,
    circuits: u64,
    /// The time of the last look: in milliseconds of Unix time, and on the monotonic clock.
    time: i64,
    last: Option<Instant>,
    /// The time between the last two looks.
    interval: Option<Duration>,
}

impl CircuitsLook {
    /// Opens the circuits of the device with this name and index. Returns `None` if there are
    /// none, or if this process lacks the permission. Needs root.
    pub fn open(device: &str, index: u32) -> Result<Option<Self>, BpfError> {
        let Some(reader) = CircuitReader::open(AttachPoint::root(index)?)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            device: device.to_owned(),
            direction: reader.direction()?,
            reader,
            now: Vec::new(),
            before: Vec::new(),
            sums: Vec::new(),
            sites: 0,
            circuits: 0,
            time: 0,
            last: None,
            interval: None,
        }))
    }

    /// Returns whether these are the current circuits of the device with this name.
    pub(crate) fn is_of(&self, device: &str) -> bool {
        self.device == device && self.reader.is_current()
    }

    /// Takes a look at all circuits.
    pub fn look(&mut self) {
        let passed = Instant::now();
        let last = self.last.replace(passed);
        self.interval = last.map(|last| passed.saturating_duration_since(last));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        self.time = wall.map_or(0, |since| since.as_millis() as i64);
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.clear();
        self.sums.clear();
        let layout = self.reader.layout();
        let inner = layout.inner as usize + 1;
        self.sums.resize(inner, Sums::default());
        (self.sites, self.circuits) = (0, 0);
        for id in [RowLayout::LINK].into_iter().chain(layout.sites()) {
            if let Some(row) = self.reader.row(id) {
                self.sites += u64::from(id != RowLayout::LINK);
                self.take(id, &row);
            }
        }
        for id in [layout.others(0)].into_iter().chain(layout.circuits()) {
            let Some(row) = self.reader.row(id) else {
                continue;
            };
            let is_circuit = id != layout.others(0);
            self.circuits += u64::from(is_circuit);
            let since = self.take(id, &row);
            let Some(sums) = self.sums.get_mut(row.parent as usize) else {
                continue;
            };
            // Fast path: most circuits have no backlog, drops or marks.
            if row.counts.packets | row.counts.drops | row.counts.marks == 0 {
                sums.circuits += u64::from(is_circuit);
            } else {
                sums.add(&Sums::of(&row, since, is_circuit));
            }
        }
        // Add the sums of each site to all its ancestors.
        let right_below = self.sums.clone();
        for id in layout.sites() {
            let own = right_below[id as usize];
            let above = |id: &u32| Some(self.reader.row(*id)?.parent);
            for id in std::iter::successors(Some(id), above).skip(1).take(LEVELS) {
                // A row beyond the inner nodes has no children.
                if let Some(sums) = self.sums.get_mut(id as usize).filter(|_| id > 0) {
                    sums.add(&own);
                }
            }
        }
    }

    /// Stores the counters of a row; returns the difference from the previous look.
    fn take(&mut self, id: u32, row: &CircuitsRow) -> Count {
        let own = Count {
            bytes: row.counts.sent_wire_bytes,
            packets: row.counts.sent_packets,
            drops: row.counts.drops,
            marks: row.counts.marks,
        };
        if self.now.len() < id as usize {
            self.now.resize(id as usize, Count::default());
        }
        self.now.push(own);
        own.since(self.before(id))
    }

    fn before(&self, id: u32) -> Count {
        self.before.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the difference of a row's counters from the previous look.
    fn since(&self, id: u32) -> Count {
        let now = self.now.get(id as usize).copied().unwrap_or_default();
        now.since(self.before(id))
    }

    /// Iterates over the rows of circuits, up to the last one of the look.
    fn circuit_rows(&self) -> impl Iterator<Item = u32> + use<> {
        let layout = self.reader.layout();
        let last = u32::try_from(self.now.len()).unwrap_or(u32::MAX);
        let first = *layout.circuits().start();
        first..last.clamp(first, layout.nodes() + 1)
    }

    /// Returns the sums of a row and its descendants.
    fn sums(&self, id: u32, row: &CircuitsRow) -> Sums {
        let layout = self.reader.layout();
        match self.sums.get(id as usize) {
            Some(sums) => *sums,
            None => Sums::of(row, self.since(id), id != layout.others(0)),
        }
    }
}
