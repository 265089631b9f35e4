// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the rows of nodes in shared memory, while the program changes them.

use super::Engine;
use super::arena::{self, Arena};
use crate::error::BpfError;
use crate::layout::{ENGINE_IDLE, engine_config, engine_node};
use crate::maps;
use libbpf_rs::MapHandle;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use weirgate_aqm::NodeCounts;

/// The rows of an engine's nodes. They do not keep the qdisc kind alive.
#[derive(Debug)]
pub(crate) struct Nodes {
    arena: Arena,
    count: u32,
}

impl Nodes {
    /// Opens the rows of an arena. [`Self::has`] must set their number before any is read.
    pub(super) fn open(map: Option<MapHandle>) -> Result<Self, BpfError> {
        Ok(Self {
            arena: Arena::open(map)?,
            count: 0,
        })
    }

    /// Opens `count` rows that [`Engine::pin`] pinned in a folder. An arena that is too small,
    /// as one of another version may be, is an error.
    pub(crate) fn pinned(folder: &Path, count: u32) -> Result<Self, BpfError> {
        let mut nodes = Self::open(Some(maps::pinned(folder, arena::NAME)?))?;
        let expected = (count as usize + 1) * size_of::<engine_node>();
        let found = nodes.arena.bytes();
        if found < expected {
            return Err(BpfError::Layout {
                kind: Engine::KIND.to_owned(),
                map: arena::NAME,
                found: found as u32,
                expected: expected as u32,
            });
        }
        nodes.has(count);
        Ok(nodes)
    }

    /// Sets the number of rows, which start with row 1.
    pub(super) fn has(&mut self, count: u32) {
        self.count = count;
    }

    /// Returns the map, to pin it.
    pub(super) fn handle(&mut self) -> &mut MapHandle {
        self.arena.handle()
    }

    /// Returns the descriptor of the map.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.arena.descriptor()
    }

    /// Returns a row, which the program may change at any time. Row 0 is not a node.
    pub(super) fn row(&self, id: u32) -> Option<*mut engine_node> {
        (id > 0 && id <= self.count).then(|| self.arena.node(id))
    }

    /// Notifies the program of new settings or a request: it checks only if the counter in row 0
    /// has changed (`engine_bell`).
    pub(super) fn ring(&self) {
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: row 0 is in the mapping, and its words are aligned. All writers use atomic
        // operations.
        let bell = unsafe { AtomicU32::from_ptr(&raw mut (*self.arena.node(0)).state) };
        bell.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a copy of a row.
    pub(super) fn read(&self, id: u32) -> Option<engine_node> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are a valid row.
        Some(unsafe { row.read_volatile() })
    }

    /// Returns whether a row has a live node, and whether the row could be reused: no backlog
    /// and no pending event.
    pub(super) fn standing(&self, id: u32) -> Option<(bool, bool)> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are valid integers.
        let (live, state, packets) = unsafe {
            (
                (&raw const (*row).config.live).read_volatile(),
                (&raw const (*row).state).read_volatile(),
                (&raw const (*row).packets).read_volatile(),
            )
        };
        Some((live != 0, state == ENGINE_IDLE && packets == 0))
    }

    /// Returns the counters and backlog of a node.
    pub(crate) fn counts(&self, id: u32) -> Option<NodeCounts> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are valid integers.
        Some(unsafe {
            NodeCounts {
                sent_packets: (&raw const (*row).sent_packets).read_volatile(),
                sent_wire_bytes: (&raw const (*row).sent_wire_bytes).read_volatile(),
                packets: (&raw const (*row).packets).read_volatile(),
                bytes: (&raw const (*row).bytes).read_volatile(),
                drops: (&raw const (*row).drops).read_volatile(),
                marks: (&raw const (*row).marks).read_volatile(),
            }
        })
    }

    /// Returns the parent, ceiling and guarantee of a live node. This reads little memory, for
    /// loops over a million rows.
    pub(crate) fn rule(&self, id: u32) -> Option<(u32, u64, u64)> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are valid integers.
        unsafe {
            let config = &raw const (*row).config;
            if (&raw const (*config).live).read_volatile() == 0 {
                return None;
            }
            Some((
                (&raw const (*config).parent).read_volatile(),
                (&raw const (*config).ceiling_bytes_s).read_volatile(),
                (&raw const (*config).guarantee_bytes_s).read_volatile(),
            ))
        }
    }

    /// Returns the configuration of a node.
    pub(crate) fn config(&self, id: u32) -> Option<engine_config> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are a valid configuration.
        Some(unsafe { (&raw const (*row).config).read_volatile() })
    }
}
