// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An index of the nodes' rows, for callers that change many circuits one by one: built once, then
//! updated.
//!
//! Labels and rows in the kernel are the truth. What is in force changes by commits alone, so
//! that an index is right until another process commits. What it says of rows that are in
//! force by nobody is looked up again, because a process that was ended may have written
//! there.

use crate::layout::{circuits_label, engine_config};
use std::hash::Hasher as _;
use weirgate_circuits::rows::Room;
use weirgate_circuits::{Known, Mixed};

/// Rows by what they are called, and what is free.
#[derive(Debug)]
pub(super) struct Index {
    /// By the hash of a label and its queue: of two rows that one which is there.
    rows: Known<u64, u32>,
    /// Of each queue, rows of circuits that somebody had.
    pub(super) free: Vec<Vec<u32>>,
    /// The first row of circuits that nobody had.
    pub(super) fresh: u32,
    /// What is guaranteed right below each node with children, in bytes a second.
    pub(super) below: Vec<u64>,
}

fn hash(text: &[u8; 64], queue: u32) -> u64 {
    let mut own = Mixed::default();
    own.write(text);
    own.write_u64(queue.into());
    own.finish()
}

impl Index {
    /// Nothing is known yet of rows of which there are so many.
    pub(super) fn new(room: Room) -> Self {
        Self {
            rows: Known::default(),
            free: vec![Vec::new(); room.queues as usize],
            fresh: room.nodes() + 1,
            below: vec![0; room.inner as usize + 1],
        }
    }

    /// Learns of a row what it is called, and of a circuit's what it has.
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

    /// The row that was last known by this label.
    pub(super) fn row(&self, text: &[u8; 64], queue: u32) -> Option<u32> {
        self.rows.get(&hash(text, queue)).copied()
    }

    fn put_free(&mut self, id: u32, queue: u32) {
        if let Some(free) = self.free.get_mut(queue as usize) {
            free.push(id);
        }
    }

    /// Adds what a circuit is guaranteed, or takes it away where `sign` is negative.
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

    /// Keeps it up with a change of a circuit's row, which has this label now.
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
