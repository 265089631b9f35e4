// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the rows of circuits by the index, and verifies the result against the rows.

use super::CircuitTree;
use super::index::{Index, hash};
use super::seen::raw;
use crate::error::BpfError;
use crate::layout::circuits_label;
use weirgate_circuits::rows::RowLayout;

/// The result of a search for a label.
#[derive(Debug, PartialEq, Eq)]
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
        let (labels, engine) = (&self.labels, &self.engine);
        let standing = |id: u32| Some((raw(labels, id)?, engine.standing(id)?));
        self.index.as_mut().map_or(Found::Unknown, |index| {
            index.find(text, layout, queue, standing)
        })
    }
}

impl Index {
    /// Finds the row of a circuit. `standing` returns the label of a row, whether it is live, and
    /// whether it is at rest.
    fn find(
        &mut self,
        text: &[u8; 64],
        layout: RowLayout,
        queue: u32,
        standing: impl Fn(u32) -> Option<(circuits_label, (bool, bool))>,
    ) -> Found {
        if let Some(id) = self.row(text, queue) {
            let Some((label, (live, at_rest))) = standing(id) else {
                return Found::Unknown;
            };
            let is_own = label.text == *text && label.queue == queue;
            if is_own && (live || at_rest) {
                return Found::Row(id, live);
            }
            // If the hashes differ, the row was free, and another circuit got it.
            if live && !is_own && hash(&label.text, label.queue) == hash(text, queue) {
                return Found::Unknown;
            }
        }
        let Some(free) = self.free.get_mut(queue as usize) else {
            return Found::Unknown;
        };
        let mut next = 0;
        while let Some(id) = free.range(next..).next().copied() {
            next = id + 1;
            match standing(id) {
                Some((label, (false, true))) if label.queue == queue => return Found::Free(id),
                // It still has packets, so it cannot be reused yet.
                Some((label, (false, false))) if label.queue == queue => {}
                _ => {
                    free.remove(&id);
                }
            }
        }
        while layout.circuits().contains(&self.fresh) {
            let id = self.fresh;
            match standing(id) {
                Some((label, (false, true))) if label.text == [0; 64] => return Found::Free(id),
                // An interrupted process has written here.
                _ => self.fresh += 1,
            }
        }
        Found::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::engine_config;
    use std::collections::BTreeMap;
    use weirgate_circuits::rows::LabelText;
    use zerocopy::FromZeros as _;

    /// Rows in place of the kernel's: labels, and whether they are live. All are at rest.
    struct Rows {
        index: Index,
        layout: RowLayout,
        held: BTreeMap<u32, (circuits_label, bool)>,
    }

    impl Rows {
        fn new() -> Self {
            let layout = RowLayout {
                queues: 1,
                inner: 1,
                leaves: 4,
            };
            let mut index = Index::new(layout);
            index.fresh = *layout.circuits().start();
            Self {
                index,
                layout,
                held: BTreeMap::new(),
            }
        }

        fn find(&mut self, name: &str) -> Found {
            let held = &self.held;
            let standing = |id: u32| {
                let unused = (circuits_label::new_zeroed(), false);
                let (label, live) = *held.get(&id).unwrap_or(&unused);
                Some((label, (live, true)))
            };
            let text = LabelText::circuit(name).0;
            self.index.find(&text, self.layout, 0, standing)
        }

        /// Adds or removes a circuit in a row.
        fn put(&mut self, id: u32, name: &str, live: bool) {
            let label = circuits_label {
                text: LabelText::circuit(name).0,
                queue: 0,
            };
            let config = |live: bool| engine_config {
                live: u32::from(live),
                ..engine_config::new_zeroed()
            };
            self.held.insert(id, (label, live));
            self.index
                .follow((id, &label), &config(!live), &config(live));
        }
    }

    /// Its row was free for a while, and another circuit got it.
    #[test]
    fn a_circuit_whose_row_was_given_away_gets_another_without_a_search() {
        let mut rows = Rows::new();
        let Found::Free(id) = rows.find("a") else {
            panic!("there are fresh rows");
        };
        rows.put(id, "a", true);
        rows.put(id, "a", false);
        assert_eq!(rows.find("a"), Found::Row(id, false));
        assert_eq!(rows.find("b"), Found::Free(id));
        rows.put(id, "b", true);
        assert_eq!(rows.find("a"), Found::Free(id + 1));
    }

    #[test]
    fn a_free_row_is_listed_once() {
        let mut rows = Rows::new();
        let id = rows.index.fresh;
        for _ in 0..3 {
            rows.put(id, "a", true);
            rows.put(id, "a", false);
            assert_eq!(rows.find("a"), Found::Row(id, false));
        }
        assert_eq!(rows.index.free[0].len(), 1);
    }
}
