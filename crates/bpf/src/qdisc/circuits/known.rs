// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of circuits found by an index, which is checked against what the rows have.

use super::CircuitTree;
use super::index::Index;
use crate::error::BpfError;
use weirgate_circuits::rows::Room;

/// What an index says of a label.
pub(super) enum Found {
    /// Its row, and whether it is there.
    Row(u32, bool),
    /// A row that nobody has.
    Free(u32),
    /// All rows have to be looked at: labels share a hash, or none is free.
    Unknown,
}

impl CircuitTree {
    /// Finds rows by an index from now on. It is right until another process changes
    /// anything ([`Self::changes`]).
    pub fn remember(&mut self) -> Result<(), BpfError> {
        let room = self.room()?;
        let mut index = Index::new(room);
        for id in room.sites().chain(room.circuits()) {
            let Some((label, config)) = self.label_bytes(id).zip(self.engine.config(id)) else {
                break;
            };
            let is_circuit = room.circuits().contains(&id);
            match (label.text == [0; 64], is_circuit) {
                (false, _) => index.learn((id, &label), &config, is_circuit),
                (true, false) => {}
                // Rows that were never used are the last.
                (true, true) => {
                    index.fresh = id;
                    break;
                }
            }
        }
        self.index = Some(index);
        Ok(())
    }

    /// The row of a site by the index.
    pub(super) fn known_site(&self, text: &[u8; 64], room: Room) -> Option<(u32, u32)> {
        let index = self.index.as_ref()?;
        let own = (0..room.queues).find_map(|queue| {
            let id = index.row(text, queue)?;
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
        if let Some(id) = index.row(text, queue) {
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
