// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lets the native host replay the records of another host, and compares verdicts and states.

use crate::discipline::{Discipline, Row};
use crate::ffi::{RawVerdict, SLOT_BYTES};
use crate::queue::Queue;
use crate::record::{EventKind, Record};
use crate::settings::Settings;
use thiserror::Error;

/// The error of a record that cannot be replayed, or that leads to another result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MirrorError {
    /// The bytes are not a record.
    #[error("record {at} cannot be read: {what}")]
    Malformed {
        /// The index of the record, from 0.
        at: u64,
        /// The problem.
        what: &'static str,
    },
    /// Records are missing.
    #[error("{missing} records before record {at} were lost")]
    Lost {
        /// The index of the record, from 0.
        at: u64,
        /// How many are missing.
        missing: u32,
    },
    /// The verdict differs.
    #[error("record {at}: {event} gave {recorded}, here it gives {own}")]
    Verdict {
        /// The index of the record, from 0.
        at: u64,
        /// `arrive`, `depart`, ...
        event: &'static str,
        /// The recorded verdict.
        recorded: String,
        /// The verdict of this host.
        own: String,
    },
    /// The state differs.
    #[error("record {at}: the states differ: {what}")]
    State {
        /// The index of the record, from 0.
        at: u64,
        /// Where it differs.
        what: String,
    },
}

/// The meaning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// A part of a state that is still incomplete.
    Part,
    /// The first state, which was adopted.
    Began,
    /// A later state, which equals that of this host.
    Compared,
    /// An event with the same verdict.
    Event(Record),
}

/// A native instance that replays records.
#[derive(Debug)]
pub struct Mirror {
    discipline: Discipline,
    queue: Option<Queue<()>>,
    /// An incomplete state: its record, and the instance and slots received so far.
    coming: Option<(Record, Vec<u8>)>,
    next: Option<u32>,
    records: u64,
    skipping: bool,
}

impl Mirror {
    /// Makes a mirror that waits for its first state.
    pub fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            queue: None,
            coming: None,
            next: None,
            records: 0,
            skipping: false,
        }
    }

    /// Ignores records until the next state, to continue after a loss.
    pub fn skip_to_state(&mut self) {
        self.skipping = true;
    }

    /// Returns the instance, once there is one.
    pub fn queue(&self) -> Option<&Queue<()>> {
        self.queue.as_ref()
    }

    /// Consumes the mirror, and returns the instance if there is one.
    pub fn into_queue(self) -> Option<Queue<()>> {
        self.queue
    }

    /// Returns the state variables that the discipline describes.
    pub fn vars(&self) -> Vec<(Row, u64)> {
        let rows = self.discipline.vars().into_iter();
        rows.filter_map(|row| Some((row, self.queue.as_ref()?.var(row.name)?)))
            .collect()
    }

    /// Returns how many records were processed.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Replays the next record of a host.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken, MirrorError> {
        let at = self.records;
        self.records += 1;
        let malformed = |what| MirrorError::Malformed { at, what };
        if self.skipping {
            let state = |record: &Record| record.kind() == Some(EventKind::State);
            if !Record::from_bytes(bytes).is_some_and(|record| state(&record)) {
                return Ok(Taken::Part);
            }
            self.skipping = false;
        }
        if let Some((record, mut parts)) = self.coming.take() {
            let due = match parts.len() {
                0 => self.discipline.layout().size,
                _ => SLOT_BYTES,
            };
            if bytes.len() != due {
                return Err(malformed("a part of the state is missing"));
            }
            parts.extend(bytes);
            return self.part(at, record, parts);
        }
        let record = Record::from_bytes(bytes).ok_or_else(|| malformed("its length"))?;
        if let Some(next) = self.next.filter(|next| *next != record.sequence) {
            let missing = record.sequence.wrapping_sub(next);
            return Err(MirrorError::Lost { at, missing });
        }
        self.next = Some(record.sequence.wrapping_add(1));
        let kind = record.kind().ok_or_else(|| malformed("an unknown event"))?;
        if kind == EventKind::State {
            if record.len as usize != self.discipline.layout().size {
                return Err(malformed(
                    "another version's layout, or another discipline's",
                ));
            }
            if record.slot > self.discipline.packets() {
                return Err(malformed("more slots than there can be"));
            }
            self.coming = Some((record, Vec::new()));
            return Ok(Taken::Part);
        }
        let queue = self.queue.as_mut();
        let queue = queue.ok_or_else(|| malformed("an event before the first state"))?;
        follow(queue, kind, &record, at)?;
        Ok(Taken::Event(record))
    }

    /// Appends a part of a state.
    fn part(&mut self, at: u64, record: Record, parts: Vec<u8>) -> Result<Taken, MirrorError> {
        let size = self.discipline.layout().size;
        if parts.len() < size + record.slot as usize * SLOT_BYTES {
            self.coming = Some((record, parts));
            return Ok(Taken::Part);
        }
        if let Some(queue) = &mut self.queue {
            queue.take_over_settings(&parts);
            let what = queue.difference(&parts);
            return what.map_or(Ok(Taken::Compared), |what| {
                Err(MirrorError::State { at, what })
            });
        }
        let mut queue = Queue::new(&Settings::new(self.discipline), &crate::Link::default());
        if !queue.take_over(&parts) {
            let what = "the state contradicts itself";
            return Err(MirrorError::Malformed { at, what });
        }
        self.queue = Some(queue);
        Ok(Taken::Began)
    }
}

/// Makes the recorded call and compares the result.
fn follow(
    queue: &mut Queue<()>,
    kind: EventKind,
    record: &Record,
    at: u64,
) -> Result<(), MirrorError> {
    let mut own = RawVerdict::default();
    let (event, slot) = match kind {
        EventKind::Arrive => {
            let packet = record.packet();
            (
                "arrive",
                queue.call_arrive(&packet, record.random, &mut own),
            )
        }
        EventKind::Evict => ("evict", queue.call_evict(record.now_ns)),
        EventKind::Depart => (
            "depart",
            queue.call_depart(record.now_ns, record.random, &mut own),
        ),
        EventKind::Reset | EventKind::State => {
            queue.reset();
            ("reset", 0)
        }
    };
    if slot != record.slot || own != record.raw() {
        let shown = |slot: u32, raw: &RawVerdict| format!("{raw:?} in slot {slot}");
        return Err(MirrorError::Verdict {
            at,
            event,
            recorded: shown(record.slot, &record.raw()),
            own: shown(slot, &own),
        });
    }
    Ok(())
}
