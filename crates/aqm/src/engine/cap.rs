// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caps: ceilings that several nodes share, wherever they are.

use super::ffi::Node;
use super::node::config;
use super::{Engine, EngineError, NodeRule};

impl<T> Engine<T> {
    /// Adds a cap: a ceiling for the sum of the nodes that name it. Returns its row number.
    pub fn cap(&mut self, ceiling_bytes_s: u64) -> Result<u32, EngineError> {
        self.reclaim();
        let id = self.free_row().ok_or(EngineError::Full)?;
        let rule = NodeRule {
            ceiling_bytes_s,
            ..NodeRule::default()
        };
        let row = &mut self.nodes[id as usize];
        *row = Node {
            config: config(0, 0, &rule),
            wheel: row.wheel,
            wheel_next: row.wheel_next,
            wheel_prev: row.wheel_prev,
            ..Node::default()
        };
        // Row 0 stands for the missing parent.
        self.children[0] += 1;
        Ok(id)
    }

    /// Looks at the nodes that name a cap: they may be waiting for it.
    pub(super) fn look_at_members(&mut self, cap: u32) {
        let names = |one: &u32| self.nodes[*one as usize].config.cap == cap;
        let members: Vec<u32> = (1..=self.size.nodes).filter(names).collect();
        for member in members {
            self.look(member);
        }
    }
}
