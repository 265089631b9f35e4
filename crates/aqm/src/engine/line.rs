// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line whose rate several engines share (`aqm/host/engine/line.h`).

use super::{Engine, EngineSize, ffi};
use crate::ffi::Link;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The largest number of engines that share a line (`ENGINE_MEMBERS`).
pub const MEMBERS: u32 = 64;

/// A round in nanoseconds: the time for the leases of all engines that always have something to
/// send (`ENGINE_ROUND_NS`).
pub const ROUND_NS: u64 = 16 << 15;

/// The state of a line that several engines share.
#[derive(Debug)]
pub struct EngineLine {
    /// `struct engine_line`, which the engines change concurrently.
    memory: Vec<AtomicU64>,
    members: u32,
}

impl EngineLine {
    /// Makes an unused line for a number of engines, from one to [`MEMBERS`].
    pub fn new(members: u32) -> Arc<Self> {
        let [.., bytes] = ffi::sizes();
        let words = bytes.div_ceil(8);
        Arc::new(Self {
            memory: (0..words).map(|_| AtomicU64::new(0)).collect(),
            members: members.clamp(1, MEMBERS),
        })
    }
}

impl<T> Engine<T> {
    /// Makes an engine as [`Engine::new`] does, which shares the rate with the other members of
    /// a line. `member` is its number among them, from 0.
    pub fn sharing(link: &Link, size: EngineSize, shared: &Arc<EngineLine>, member: u32) -> Self {
        let mut whole = Self::new(link, size);
        let raw = whole.raw();
        let memory = shared.memory.as_ptr().cast_mut().cast();
        let member = member.min(shared.members - 1);
        // SAFETY: the memory is an engine's. The line's memory consists of atomic words, and
        // lives as long as the engine, which holds a reference to it.
        unsafe { ffi::aqm_engine_share(raw, memory, shared.members, member) };
        whole.line = Some(Arc::clone(shared));
        whole
    }
}
