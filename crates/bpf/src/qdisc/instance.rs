// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A copy of one qdisc's state and statistics.

use crate::qdisc::attach_point::AttachPoint;
use weirgate_aqm::{Discipline, Link, Row, reasons};
use zerocopy::{FromBytes, IntoBytes};

/// A copy of a qdisc's state. The kernel continues during the read, so related numbers may
/// differ by a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    discipline: Discipline,
    point: AttachPoint,
    memory: Vec<u64>,
}

impl Instance {
    /// Makes the copy for a qdisc or a class at that attach point.
    pub(crate) fn new(discipline: Discipline, point: AttachPoint, memory: Vec<u64>) -> Self {
        Self {
            discipline,
            point,
            memory,
        }
    }

    /// Returns the attach point.
    pub fn point(&self) -> AttachPoint {
        self.point
    }

    /// Returns the discipline.
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// Returns the link as the discipline sees it.
    pub fn link(&self) -> Link {
        let bytes = self.memory.as_bytes().get(self.discipline.layout().link);
        let link = bytes.and_then(|bytes| Link::read_from_bytes(bytes).ok());
        link.unwrap_or_default()
    }

    /// Returns every parameter in force.
    pub fn params(&self) -> Vec<(Row, u64)> {
        let start = self.discipline.layout().params.start;
        self.numbers(self.discipline.params(), start)
    }

    /// Returns every state variable that the discipline describes.
    pub fn vars(&self) -> Vec<(Row, u64)> {
        let start = self.discipline.layout().vars.start;
        self.numbers(self.discipline.vars(), start)
    }

    /// Returns all counters: those of every discipline, then its own.
    pub fn stats(&self) -> Vec<(Row, u64)> {
        let layout = self.discipline.layout();
        let mut all = self.numbers(Discipline::counters(), layout.counts.start);
        all.extend(self.numbers(self.discipline.stats(), layout.stats.start));
        all
    }

    /// Returns the dropped packets, by reason.
    pub fn drops(&self) -> Vec<(Row, u64)> {
        let start = self.discipline.layout().counts.start;
        self.numbers(reasons(), start + 8 * Discipline::counters().len())
    }

    /// Returns the packets that were chosen for marking, by reason.
    pub fn marks(&self) -> Vec<(Row, u64)> {
        let start = self.discipline.layout().counts.start;
        let before = Discipline::counters().len() + reasons().len();
        self.numbers(reasons(), start + 8 * before)
    }

    /// Returns a number by name. Statistics are searched first, then state variables, then
    /// parameters.
    pub fn number(&self, name: &str) -> Option<u64> {
        [self.stats(), self.vars(), self.params()]
            .iter()
            .flatten()
            .find(|(row, _)| row.name == name)
            .map(|(_, value)| *value)
    }

    /// Returns the packets dropped for one reason.
    pub fn dropped(&self, reason: &str) -> Option<u64> {
        let drops = self.drops();
        let found = drops.iter().find(|(row, _)| row.name == reason);
        found.map(|(_, count)| *count)
    }

    /// Returns the whole state, to compare it with that of another host.
    pub fn state(&self) -> &[u8] {
        let vars = self.discipline.layout().vars;
        self.memory.as_bytes().get(vars).unwrap_or_default()
    }

    fn numbers(&self, rows: Vec<Row>, start: usize) -> Vec<(Row, u64)> {
        let words = self.memory.get(start / 8..).unwrap_or_default();
        rows.into_iter().zip(words.iter().copied()).collect()
    }
}
