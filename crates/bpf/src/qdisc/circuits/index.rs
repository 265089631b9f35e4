// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An index of the rows, for callers that change many circuits one by one. It is built once and
//! then updated.
//!
//! The labels and rows in the kernel are authoritative. Only a commit changes what is in force,
//! so the index is correct until another process commits. It does not track rows that are not in
//! force, because an interrupted process may have written there; these are checked before use.

use crate::layout::{circuits_label, engine_config};
use std::collections::BTreeSet;
use std::hash::Hasher as _;
use weirgate_circuits::rows::RowLayout;
use weirgate_circuits::{Known, Mixed};

/// Rows by label, and the free rows.
#[derive(Debug)]
pub(super) struct Index {
    /// Rows by the hash of label and queue. If two rows have one label, the live one is listed.
    rows: Known<u64, u32>,
    /// For each queue, rows of circuits that were used before and are free now.
    pub(super) free: Vec<BTreeSet<u32>>,
    /// The first circuit row that was never used.
    pub(super) fresh: u32,
    /// The sum of the guarantees directly below each inner node, in bytes a second.
    pub(super) below: Vec<u64>,
}

pub(super) fn hash(text: &[u8; 64], queue: u32) -> u64 {
    let mut own = Mixed::default();
    own.write(text);
    own.write_u64(queue.into());
    own.finish()
}

impl Index {
    /// Makes an empty index.
    pub(super) fn new(layout: RowLayout) -> Self {
        Self {
            rows: Known::default(),
            free: vec![BTreeSet::new(); layout.queues as usize],
            fresh: layout.nodes() + 1,
            below: vec![0; layout.inner as usize + 1],
        }
    }

    /// Records the label of a row and, for a circuit, its guarantee.
    pub(super) fn learn(
        &mut self,
        (id, label): (u32, &circuits_label),
        config: &engine_config,
        is_circuit: bool,
    ) {
        let place = self.rows.entry(hash(&label.text, label.queue));
        if config.live != 0 {
            *place.or_default() = id;
        } else {
            place.or_insert(id);
        }
        if is_circuit {
            self.guarantee(config, 1);
            if config.live == 0 {
                self.put_free(id, label.queue);
            }
        }
    }

    /// Returns the last known row with this label.
    pub(super) fn row(&self, text: &[u8; 64], queue: u32) -> Option<u32> {
        self.rows.get(&hash(text, queue)).copied()
    }

    fn put_free(&mut self, id: u32, queue: u32) {
        if let Some(free) = self.free.get_mut(queue as usize) {
            free.insert(id);
        }
    }

    /// Adds the guarantee of a live circuit to its parent's sum; subtracts it if `sign` is
    /// negative.
    fn guarantee(&mut self, config: &engine_config, sign: i64) {
        if config.live == 0 {
            return;
        }
        if let Some(sum) = self.below.get_mut(config.parent as usize) {
            *sum = match sign {
                0.. => sum.saturating_add(config.guarantee_bytes_s),
                _ => sum.saturating_sub(config.guarantee_bytes_s),
            };
        }
    }

    /// Updates the index after a change of a circuit's row, whose label is now `label`.
    pub(super) fn follow(
        &mut self,
        (id, label): (u32, &circuits_label),
        was: &engine_config,
        is: &engine_config,
    ) {
        self.guarantee(was, -1);
        self.guarantee(is, 1);
        self.rows.insert(hash(&label.text, label.queue), id);
        if is.live == 0 {
            self.put_free(id, label.queue);
        }
    }
}
