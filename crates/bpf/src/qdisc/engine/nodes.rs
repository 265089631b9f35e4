// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of nodes in this process's memory, read while the program changes them.

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

/// The rows of an engine's nodes. None of them keeps the kind of qdisc in the kernel.
#[derive(Debug)]
pub(crate) struct Nodes {
    arena: Arena,
    count: u32,
}

impl Nodes {
    /// Those of this arena, of which nothing is read until [`Self::has`] says how many
    /// there are.
    pub(super) fn open(map: Option<MapHandle>) -> Result<Self, BpfError> {
        Ok(Self {
            arena: Arena::open(map)?,
            count: 0,
        })
    }

    /// So many rows of what [`Engine::pin`] left in a folder. An arena of another version
    /// may be too small for them, and is refused.
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

    /// Says how many rows there are, the first of which is row 1.
    pub(super) fn has(&mut self, count: u32) {
        self.count = count;
    }

    /// The map, to pin it.
    pub(super) fn handle(&mut self) -> &mut MapHandle {
        self.arena.handle()
    }

    /// Its descriptor.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.arena.descriptor()
    }

    /// A row, which the program changes at any time. Row 0 is none.
    pub(super) fn row(&self, id: u32) -> Option<*mut engine_node> {
        (id > 0 && id <= self.count).then(|| self.arena.node(id))
    }

    /// Tells the program that settings were written, or something was asked: it looks only
    /// then (`engine_bell`). Row 0 counts that.
    pub(super) fn ring(&self) {
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: row 0 is in the mapping, and its words are aligned. Whoever writes there
        // does so by this.
        let bell = unsafe { AtomicU32::from_ptr(&raw mut (*self.arena.node(0)).state) };
        bell.fetch_add(1, Ordering::SeqCst);
    }

    /// All of a row.
    pub(super) fn read(&self, id: u32) -> Option<engine_node> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are a row.
        Some(unsafe { row.read_volatile() })
    }

    /// Whether there is a node in a row, and whether nothing of one is queued or waits.
    pub(super) fn standing(&self, id: u32) -> Option<(bool, bool)> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are numbers.
        let (live, state, packets) = unsafe {
            (
                (&raw const (*row).config.live).read_volatile(),
                (&raw const (*row).state).read_volatile(),
                (&raw const (*row).packets).read_volatile(),
            )
        };
        Some((live != 0, state == ENGINE_IDLE && packets == 0))
    }

    /// What a node has had and has.
    pub(crate) fn counts(&self, id: u32) -> Option<NodeCounts> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are numbers.
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

    /// Of the configuration of a node, where there is one: the row above it, its ceiling and
    /// its guarantee. Who goes through a million rows reads no more of them.
    pub(crate) fn rule(&self, id: u32) -> Option<(u32, u64, u64)> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are numbers.
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

    /// The configuration of a node.
    pub(crate) fn config(&self, id: u32) -> Option<engine_config> {
        let row = self.row(id)?;
        #[expect(unsafe_code, reason = "the memory is the kernel's too")]
        // SAFETY: the row is in the mapping, and any bytes are a configuration.
        Some(unsafe { (&raw const (*row).config).read_volatile() })
    }
}
