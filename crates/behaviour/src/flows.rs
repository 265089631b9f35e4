// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The judges of all flows of a table.

use crate::flow::{Counted, FlowJudge, Kind};
use std::collections::BTreeMap;

/// Judges the flows of a table by their keys.
#[derive(Debug, Clone)]
pub struct Flows<K> {
    known: BTreeMap<K, FlowJudge>,
    /// The flows that have no judge.
    beyond: u64,
}

impl<K> Default for Flows<K> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            beyond: 0,
        }
    }
}

impl<K: Ord> Flows<K> {
    /// The largest number of flows that are judged.
    pub const MOST: usize = 4_096;

    /// Takes a reading of the table: see [`FlowJudge::read`]. A flow keeps its judge until it is
    /// missing, or silent for two minutes. A flow without packets in both directions gets no judge,
    /// so a flood of forged addresses takes nobody's place.
    pub fn take(&mut self, ms: u64, table: impl IntoIterator<Item = (K, [Counted; 2])>) {
        let mut before = std::mem::take(&mut self.known);
        let mut new = Vec::new();
        self.beyond = 0;
        for (key, counted) in table {
            if let Some(mut judge) = before.remove(&key) {
                judge.read(ms, counted);
                if !judge.is_silent() {
                    self.known.insert(key, judge);
                }
            } else if counted.iter().all(|way| way.packets > 0) {
                if new.len() < Self::MOST {
                    new.push((key, counted));
                } else {
                    self.beyond += 1;
                }
            }
        }
        for (key, counted) in new {
            if self.known.len() >= Self::MOST {
                self.beyond += 1;
                continue;
            }
            self.known.entry(key).or_default().read(ms, counted);
        }
    }

    /// Returns the kind of a flow; `None` if it is undecided, or has no judge.
    pub fn kind(&self, key: &K) -> Option<Kind> {
        self.known.get(key)?.kind()
    }

    /// Returns the flows with a kind.
    pub fn recognised(&self) -> impl Iterator<Item = (&K, Kind)> {
        let all = self.known.iter();
        all.filter_map(|(key, judge)| Some((key, judge.kind()?)))
    }

    /// Returns how many flows are judged, and how many found no place.
    pub fn judged(&self) -> (u64, u64) {
        (self.known.len() as u64, self.beyond)
    }
}
