// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structures and functions of `aqm/host/native/native.h` and `aqm/include/aqm.h`. A test
//! compares every size and offset with that of C.

use std::ffi::{c_char, c_void};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The properties of a packet that a discipline can see.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The time of arrival in nanoseconds.
    pub arrived_ns: u64,
    /// The size in bytes, as the device counts it.
    pub len: u32,
    /// The size on the wire in bytes: [`Link::wire_bytes`].
    pub wire: u32,
    /// The hash of the fields that define its flow.
    pub flow: u32,
    /// The two ECN bits of its IP header; 0 if nothing can be marked.
    pub ecn: u32,
}

/// The link after a queue.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, FromBytes, Immutable, IntoBytes)]
pub struct Link {
    /// The rate on the wire in bytes a second; 0 if it is unknown.
    pub rate_bytes_s: u64,
    /// The largest packet in bytes, as the device counts it.
    pub mtu_bytes: u32,
    /// Bytes that the wire adds to the size that the device counts; may be negative.
    pub overhead_bytes: i32,
    /// The smallest frame in bytes, including overhead.
    pub mpu_bytes: u32,
    /// How frames are split: 0 not at all, 1 into ATM cells, 2 into PTM code words.
    pub framing: u32,
    /// The length of the device's transmit queue in packets; 0 for none.
    pub queue_packets: u32,
    /// The largest number of packets that the host should hold; 0 for as many as it can.
    pub room_packets: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RawVerdict {
    pub(crate) action: u32,
    pub(crate) reason: u32,
    pub(crate) queue: u32,
    pub(crate) evict: u32,
}

#[repr(C)]
pub(crate) struct RawRow {
    pub(crate) name: *const c_char,
    pub(crate) unit: *const c_char,
    pub(crate) help: *const c_char,
    pub(crate) dflt: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

#[repr(C)]
pub(crate) struct RawDescriptor {
    pub(crate) name: *const c_char,
    pub(crate) summary: *const c_char,
    pub(crate) params: *const RawRow,
    pub(crate) vars: *const RawRow,
    pub(crate) stats: *const RawRow,
    pub(crate) params_count: u32,
    pub(crate) vars_count: u32,
    pub(crate) stats_count: u32,
    pub(crate) queues: u32,
    pub(crate) packets: u32,
    pub(crate) size: u32,
    pub(crate) link_offset: u32,
    pub(crate) params_offset: u32,
    pub(crate) vars_offset: u32,
    pub(crate) vars_size: u32,
    pub(crate) stats_offset: u32,
    pub(crate) counts_offset: u32,
    pub(crate) room_offset: u32,
    pub(crate) needs: u32,
    pub(crate) virtual_size: u32,
    pub(crate) virtual_offset: u32,
    pub(crate) setup: unsafe extern "C" fn(*mut c_void),
    pub(crate) arrive:
        unsafe extern "C" fn(*mut c_void, *const Packet, u32, *mut RawVerdict) -> u32,
    pub(crate) evict: unsafe extern "C" fn(*mut c_void, u64) -> u32,
    pub(crate) depart: unsafe extern "C" fn(*mut c_void, u64, u32, *mut RawVerdict) -> u32,
    pub(crate) virtual_setup: unsafe extern "C" fn(*mut c_void, *const Link, u64),
    pub(crate) virtual_arrive:
        unsafe extern "C" fn(*mut c_void, *const Packet, u32, *mut RawVerdict),
    pub(crate) virtual_count: unsafe extern "C" fn(*mut c_void, *const Packet),
    pub(crate) virtual_measured: unsafe extern "C" fn(*mut c_void, u64, u64),
}

// SAFETY: a descriptor is constant data: strings, numbers and functions.
unsafe impl Sync for RawDescriptor {}

// `KIT` and `LAB`, the descriptors of the disciplines in `aqm/disciplines.txt`; and `LAB_NAMES`.
include!(concat!(env!("OUT_DIR"), "/disciplines.rs"));

/// Flags of `enum aqm_needs`.
pub(crate) const NEEDS_FLOW: u32 = 2;
pub(crate) const NEEDS_CODE: u32 = 16;
pub(crate) const NEEDS_QUEUE: u32 = 32;
pub(crate) const NEEDS_RANDOM_OUT: u32 = 128;
pub(crate) const NEEDS_ECN: u32 = 256;

/// The largest number of calls for evictions after one arrival (`AQM_EVICT_CALLS`).
pub(crate) const EVICT_CALLS: usize = 65;

/// The size of `struct aqm_last`, which precedes the room.
pub(crate) const LAST_BYTES: usize = 16;

/// The size of a slot after the instance (`struct aqm_slot`).
pub const SLOT_BYTES: usize = size_of::<Packet>() + 8;

unsafe extern "C" {
    pub(crate) static aqm_reasons: [RawRow; 0];
    pub(crate) static aqm_reasons_count: u32;
    pub(crate) static aqm_counts: [RawRow; 0];
    pub(crate) static aqm_counts_count: u32;
    pub(crate) fn aqm_test_wire(link: *const Link, len: u32) -> u32;
    pub(crate) safe fn aqm_test_scale(a: u64, ratio: u64) -> u64;
    pub(crate) safe fn aqm_test_power(base: u64, n: u32) -> u64;
    pub(crate) safe fn aqm_test_idle_packets(weight: u64) -> u64;
    pub(crate) safe fn aqm_test_automatic_weight(packets_s: u64) -> u64;
}

// SAFETY: rows are constant data with pointers to constant strings.
unsafe impl Sync for RawRow {}

impl Link {
    /// Returns the bytes on the wire of a packet with `len` bytes by the device's count,
    /// calculated by `aqm_wire()` as on every host.
    pub fn wire_bytes(&self, len: u32) -> u32 {
        // SAFETY: the function reads one Link, whose layout is C's.
        unsafe { aqm_test_wire(self, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    unsafe extern "C" {
        static aqm_layout: [u32; 0];
        static aqm_layout_count: u32;
    }

    #[test]
    fn every_size_and_offset_is_the_one_that_c_has() {
        let own = [
            size_of::<Packet>(),
            offset_of!(Packet, arrived_ns),
            offset_of!(Packet, len),
            offset_of!(Packet, wire),
            offset_of!(Packet, flow),
            offset_of!(Packet, ecn),
            size_of::<RawVerdict>(),
            offset_of!(RawVerdict, action),
            offset_of!(RawVerdict, reason),
            offset_of!(RawVerdict, queue),
            offset_of!(RawVerdict, evict),
            size_of::<Link>(),
            offset_of!(Link, rate_bytes_s),
            offset_of!(Link, mtu_bytes),
            offset_of!(Link, overhead_bytes),
            offset_of!(Link, mpu_bytes),
            offset_of!(Link, framing),
            offset_of!(Link, queue_packets),
            offset_of!(Link, room_packets),
            size_of::<RawRow>(),
            offset_of!(RawRow, name),
            offset_of!(RawRow, help),
            offset_of!(RawRow, most),
            size_of::<RawDescriptor>(),
            offset_of!(RawDescriptor, params_count),
            offset_of!(RawDescriptor, packets),
            offset_of!(RawDescriptor, room_offset),
            offset_of!(RawDescriptor, setup),
            offset_of!(RawDescriptor, needs),
            offset_of!(RawDescriptor, virtual_offset),
            offset_of!(RawDescriptor, virtual_measured),
            SLOT_BYTES,
            LAST_BYTES,
            // Counters: one for each row, followed by drops and marks by reason.
            8 * (crate::discipline::counters().len() + 2 * crate::reasons().len()),
        ];
        // SAFETY: C states how many numbers there are.
        let theirs = unsafe {
            std::slice::from_raw_parts(
                (&raw const aqm_layout).cast::<u32>(),
                aqm_layout_count as usize,
            )
        };
        assert_eq!(own.map(|number| number as u32), *theirs);
    }
}
