// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where nodes are among the rows, for who changes many circuits one by one: found once,
//! and kept up.
//!
//! Labels and rows in the kernel are the truth. What is in force changes by commits alone, so
//! that an index is right until another process commits. What it says of rows that are in
//! force by nobody is looked up again, because a process that was ended may have written
//! there.

use super::CircuitTree;
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
    free: Vec<Vec<u32>>,
    /// The first row of circuits that nobody had.
    fresh: u32,
    /// What is guaranteed right below each node with children, in bytes a second.
    pub(super) below: Vec<u64>,
}

/// What an index says of a label.
pub(super) enum Found {
    /// Its row, and whether it is there.
    Row(u32, bool),
    /// A row that nobody has.
    Free(u32),
    /// All rows have to be looked at: labels share a hash, or none is free.
    Unknown,
}

fn hash(text: &[u8; 64], queue: u32) -> u64 {
    let mut own = Mixed::default();
    own.write(text);
    own.write_u64(queue.into());
    own.finish()
}

impl Index {
    fn of(tree: &CircuitTree, room: Room) -> Self {
        let mut own = Self {
            rows: Known::default(),
            free: vec![Vec::new(); room.queues as usize],
            fresh: room.nodes() + 1,
            below: vec![0; room.inner as usize + 1],
        };
        for id in room.sites().chain(room.circuits()) {
            let Some(label) = tree.label_bytes(id) else {
                break;
            };
            let is_circuit = room.circuits().contains(&id);
            if label.text == [0; 64] {
                if is_circuit {
                    own.fresh = id;
                    break;
                }
                continue;
            }
            let Some(config) = tree.engine.config(id) else {
                break;
            };
            let place = own.rows.entry(hash(&label.text, label.queue));
            if config.live != 0 {
                *place.or_default() = id;
            } else {
                place.or_insert(id);
            }
            match config.live {
                0 if is_circuit => own.put_free(id, label.queue),
                0 => {}
                _ if is_circuit => own.guarantee(&config, 1),
                _ => {}
            }
        }
        own
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

impl CircuitTree {
    /// Finds rows by an index from now on. It is right until another process changes
    /// anything ([`Self::changes`]).
    pub fn remember(&mut self) -> Result<(), crate::error::BpfError> {
        let room = self.room()?;
        self.index = Some(Index::of(self, room));
        Ok(())
    }

    /// The row of a site by the index.
    pub(super) fn known_site(&self, text: &[u8; 64], room: Room) -> Option<(u32, u32)> {
        let index = self.index.as_ref()?;
        let own = (0..room.queues).find_map(|queue| {
            let id = index.rows.get(&hash(text, queue)).copied()?;
            let label = self.label_bytes(id)?;
            let live = self.engine.config(id)?.live != 0;
            (label.text == *text && live).then_some((id, label.queue))
        });
        own.filter(|(id, _)| room.sites().contains(id))
    }

    /// The row of a circuit by the index; of one that is not there, its own former one where
    /// that is free, or else any that is.
    pub(super) fn known_row(&mut self, text: &[u8; 64], room: Room, queue: u32) -> Found {
        let Some(mut index) = self.index.take() else {
            return Found::Unknown;
        };
        let found = self.found(&mut index, text, room, queue);
        self.index = Some(index);
        found
    }

    fn found(&self, index: &mut Index, text: &[u8; 64], room: Room, queue: u32) -> Found {
        let standing = |id: u32| Some((self.label_bytes(id)?, self.engine.standing(id)?));
        if let Some(id) = index.rows.get(&hash(text, queue)).copied() {
            let Some((label, (live, at_rest))) = standing(id) else {
                return Found::Unknown;
            };
            let is_own = label.text == *text && label.queue == queue;
            if live && !is_own {
                return Found::Unknown;
            }
            if is_own && (live || at_rest) {
                return Found::Row(id, live);
            }
        }
        let Some(free) = index.free.get_mut(queue as usize) else {
            return Found::Unknown;
        };
        let mut place = 0;
        while let Some(id) = free.get(place).copied() {
            match standing(id) {
                Some((label, (false, true))) if label.queue == queue => return Found::Free(id),
                // It still has packets.
                Some((label, (false, false))) if label.queue == queue => place += 1,
                _ => {
                    free.swap_remove(place);
                }
            }
        }
        while room.circuits().contains(&index.fresh) {
            let id = index.fresh;
            match standing(id) {
                Some((label, (false, true))) if label.text == [0; 64] => return Found::Free(id),
                // A process that was ended has written there.
                _ => index.fresh += 1,
            }
        }
        Found::Unknown
    }
}
