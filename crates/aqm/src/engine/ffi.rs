// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of `aqm/host/engine.h` and the functions of `aqm/host/native/engine.c`. A test
//! compares sizes and offsets with those of C.

use crate::ffi::{Link, Packet, RawVerdict};
use std::ffi::c_void;

/// Levels of a tree (`ENGINE_LEVELS`).
pub(super) const LEVELS: u32 = 8;

/// Lists of a node's children (`ENGINE_LISTS`).
pub(super) const LISTS: usize = 16;

/// Queues of a leaf (`ENGINE_FLOWS`).
pub(super) const FLOWS: u32 = 8;

/// The configuration of a node (`struct engine_config`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NodeConfig {
    pub ceiling_bytes_s: u64,
    pub guarantee_bytes_s: u64,
    pub live: u32,
    pub parent: u32,
    pub fork: u32,
    pub quantum: u32,
    pub priority: u16,
    pub hosts: u16,
    pub limit_bytes: u32,
    pub target_ns: u32,
    pub cap: u32,
    pub burst_bytes: u32,
    pub ceiling_burst_bytes: u32,
}

/// `struct aqm_gate`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Gate {
    pub rate_bytes_s: u64,
    pub opens_ns: u64,
    pub rest: u64,
}

/// The values of `live` in [`NodeConfig`] (`ENGINE_NODE`, `ENGINE_CAP`).
pub(super) const NODE: u32 = 1;
pub(super) const CAP: u32 = 2;

/// The values of a node's `state` (`enum engine_state`).
pub(super) const IDLE: u32 = 0;
pub(super) const READY: u32 = 1;
pub(super) const HELD: u32 = 2;

/// `struct engine_gate`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ceiling {
    pub light: u64,
    pub opens_ns: u64,
    pub rest: u64,
}

/// `struct engine_node`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Node {
    pub config: NodeConfig,
    pub ceiling: Ceiling,
    pub guarantee: Gate,
    pub sent_wire_bytes: u64,
    pub sent_packets: u64,
    pub state: u32,
    pub parent: u32,
    pub list: u32,
    pub next: u32,
    pub prev: u32,
    pub deficit: i32,
    pub turned: u32,
    pub midway: u32,
    pub wheel: u32,
    pub wheel_next: u32,
    pub wheel_prev: u32,
    pub queue: u32,
    pub packets: u32,
    pub bytes: u32,
    pub drops: u32,
    pub marks: u32,
    /// `struct engine_claim`.
    pub claim: [u32; 2],
}

/// `struct engine_fork`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fork {
    pub lists: u32,
    pub pad: u32,
    pub head: [u32; LISTS],
}

/// CoDel's parameters (`struct codel_common`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Codel {
    pub target_ns: u64,
    pub interval_ns: u64,
    pub ce_threshold_ns: u64,
    pub mtu_bytes: u64,
}

/// The settings of the whole engine (`struct engine_rule`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rule {
    pub link: Link,
    pub codel: Codel,
    pub limit_bytes: u64,
    pub root: u32,
    pub other: u32,
    pub lent: u32,
    pub arriving: u32,
}

/// A host that has its own leaf (`struct engine_host`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Host {
    pub key: u32,
    pub leaf: u32,
    pub next: u32,
    pub prev: u32,
    pub above: u32,
    pub rests: u32,
    pub again: u64,
}

/// `struct native_engine_rows`.
#[repr(C)]
pub(super) struct Arrays {
    pub nodes: *mut Node,
    pub forks: *mut Fork,
    pub queues: *mut u64,
    pub slots: *mut u64,
    pub hosts: *mut Host,
    pub node_rows: u64,
    pub fork_rows: u64,
    pub queue_rows: u64,
    pub slot_rows: u64,
    pub host_rows: u64,
}

/// `struct native_engine_departure`.
#[repr(C)]
#[derive(Default)]
pub(super) struct RawDeparture {
    pub verdict: RawVerdict,
    pub leaf: u32,
    pub slot: u32,
    pub opens_ns: u64,
}

/// The results of asking a leaf to admit a packet (`enum engine_room`).
pub(super) const EVICT: u32 = 1;
pub(super) const REFUSE: u32 = 2;

/// The largest number of evictions for one arrival (`ENGINE_EVICT_MOST`).
pub(super) const EVICT_MOST: u32 = 8;

unsafe extern "C" {
    static aqm_engine_layout: [u32; 45];
    pub(super) fn aqm_engine_setup(engine: *mut c_void, rule: *const Rule, rows: *const Arrays);
    pub(super) fn aqm_engine_share(
        engine: *mut c_void,
        line: *mut c_void,
        members: u32,
        member: u32,
    );
    pub(super) fn aqm_engine_look(engine: *mut c_void, id: u32, now_ns: u64);
    pub(super) fn aqm_engine_leaf_of(engine: *mut c_void, leaf: u32, host: u32) -> u32;
    pub(super) fn aqm_engine_admit(engine: *mut c_void, leaf: u32, len: u32) -> u32;
    pub(super) fn aqm_engine_evict(engine: *mut c_void, leaf: u32) -> u32;
    pub(super) fn aqm_engine_arrive(
        engine: *mut c_void,
        leaf: u32,
        packet: *const Packet,
        host: u32,
    ) -> u32;
    pub(super) fn aqm_engine_depart(engine: *mut c_void, now_ns: u64, departure: *mut RawDeparture);
    pub(super) fn aqm_engine_packet(engine: *mut c_void, slot: u32, packet: *mut Packet);
    pub(super) fn aqm_engine_counts(engine: *const c_void, counts: *mut u64);
    pub(super) fn aqm_engine_first(engine: *mut c_void, leaf: u32, flow: u32) -> u32;
    pub(super) fn aqm_engine_behind(engine: *mut c_void, slot: u32) -> u32;
    #[cfg(test)]
    fn aqm_engine_lowest(word: u64) -> u64;
}

/// Returns the sizes in bytes of the engine itself, of a row of queues, of a row of slots, and
/// of a line that engines share.
pub(super) fn sizes() -> [usize; 4] {
    // SAFETY: a constant.
    let [engine, queue, slot, line, ..] = unsafe { aqm_engine_layout };
    [engine, queue, slot, line].map(|bytes| bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        CREDIT_NS, EngineRecord, IDLE_CREDIT_NS, LEAST_QUANTUM, MEMBERS, ROUND_NS, SLOW_TICKS,
        TICK_NS,
    };
    use std::mem::offset_of;

    #[test]
    fn layouts_are_those_that_c_has() {
        // SAFETY: a constant.
        let [engine, queue, slot, line, theirs @ ..] = unsafe { aqm_engine_layout };
        assert!(
            [engine, queue, slot, line]
                .iter()
                .all(|bytes| bytes % 8 == 0)
        );
        let own = [
            size_of::<Fork>(),
            offset_of!(Fork, head),
            size_of::<NodeConfig>(),
            offset_of!(NodeConfig, guarantee_bytes_s),
            offset_of!(NodeConfig, live),
            offset_of!(NodeConfig, parent),
            offset_of!(NodeConfig, target_ns),
            offset_of!(NodeConfig, cap),
            offset_of!(NodeConfig, burst_bytes),
            offset_of!(NodeConfig, hosts),
            offset_of!(NodeConfig, ceiling_burst_bytes),
            size_of::<Node>(),
            offset_of!(Node, ceiling),
            offset_of!(Node, guarantee),
            offset_of!(Node, sent_wire_bytes),
            offset_of!(Node, state),
            offset_of!(Node, deficit),
            offset_of!(Node, wheel),
            offset_of!(Node, queue),
            offset_of!(Node, marks),
            offset_of!(Node, claim),
            size_of::<Rule>(),
            offset_of!(Rule, codel),
            offset_of!(Rule, limit_bytes),
            offset_of!(Rule, other),
            offset_of!(Rule, lent),
            size_of::<Host>(),
            offset_of!(Host, rests),
            size_of::<EngineRecord>(),
            offset_of!(EngineRecord, event),
            offset_of!(EngineRecord, reason),
            LEVELS as usize,
            LISTS,
            LEAST_QUANTUM as usize,
            TICK_NS.trailing_zeros() as usize,
            CREDIT_NS as usize,
            IDLE_CREDIT_NS as usize,
            MEMBERS as usize,
            ROUND_NS as usize,
            SLOW_TICKS as usize,
            (2 * SLOW_TICKS * TICK_NS) as usize,
        ];
        assert_eq!(own.map(|number| number as u32), theirs);
    }

    /// Compares with Rust's own function, for every single bit alone and with higher bits set.
    #[test]
    fn the_lowest_bit_is_found() {
        for bit in 0..64 {
            let one = 1_u64 << bit;
            for above in [0, u64::MAX, 0xaaaa_5555_0f0f_3c3c] {
                let word = one | (above & !(one | (one - 1)));
                // SAFETY: a function of a number that is not 0.
                let found = unsafe { aqm_engine_lowest(word) };
                assert_eq!(found, u64::from(word.trailing_zeros()), "{word:#x}");
            }
        }
    }
}
