// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the rows of circuits by the index, and verifies the result against the rows.

use super::CircuitTree;
use super::index::Index;
use crate::error::BpfError;
use weirgate_circuits::rows::RowLayout;

/// The result of a search for a label.
pub(super) enum Found {
    /// The circuit's row, and whether it is live.
    Row(u32, bool),
    /// A free row.
    Free(u32),
    /// The index does not know: two labels have the same hash, or no row is free. All rows must
    /// be searched.
    Unknown,
}

impl CircuitTree {
    /// Builds the index, which is used until another process changes anything
    /// ([`Self::changes`]).
    pub fn remember(&mut self) -> Result<(), BpfError> {
        let layout = self.layout()?;
        let mut index = Index::new(layout);
        for id in layout.sites().chain(layout.circuits()) {
            let Some((label, config)) = self.label_bytes(id).zip(self.engine.config(id)) else {
                break;
            };
            let is_circuit = layout.circuits().contains(&id);
            match (label.text == [0; 64], is_circuit) {
                (false, _) => index.learn((id, &label), &config, is_circuit),
                (true, false) => {}
                // Rows that were never used are at the end.
                (true, true) => {
                    index.fresh = id;
                    break;
                }
            }
        }
        self.index = Some(index);
        Ok(())
    }

    /// Returns the row and queue of a site, by the index.
    pub(super) fn known_site(&self, text: &[u8; 64], layout: RowLayout) -> Option<(u32, u32)> {
        let index = self.index.as_ref()?;
        let own = (0..layout.queues).find_map(|queue| {
            let id = index.row(text, queue)?;
            let label = self.label_bytes(id)?;
            let live = self.engine.config(id)?.live != 0;
            (label.text == *text && live).then_some((id, label.queue))
        });
        own.filter(|(id, _)| layout.sites().contains(id))
    }

    /// Returns the row of a circuit, by the index. For a new circuit it is its former row if
    /// that is free, or another free row.
    pub(super) fn known_row(&mut self, text: &[u8; 64], layout: RowLayout, queue: u32) -> Found {
        let Some(mut index) = self.index.take() else {
            return Found::Unknown;
        };
        let found = self.found(&mut index, text, layout, queue);
        self.index = Some(index);
        found
    }

    fn found(&self, index: &mut Index, text: &[u8; 64], layout: RowLayout, queue: u32) -> Found {
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
                // It still has packets, so it cannot be reused yet.
                Some((label, (false, false))) if label.queue == queue => place += 1,
                _ => {
                    free.swap_remove(place);
                }
            }
        }
        while layout.circuits().contains(&index.fresh) {
            let id = index.fresh;
            match standing(id) {
                Some((label, (false, true))) if label.text == [0; 64] => return Found::Free(id),
                // An interrupted process has written here.
                _ => index.fresh += 1,
            }
        }
        Found::Unknown
    }
}
