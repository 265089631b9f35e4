// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ACK filter of BPF engines (`aqm/host/acks.h`) on this machine, for tests.

/// What the filter compares of a segment (`struct acks_segment`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckSegment {
    /// The acknowledgement number.
    pub ack: u32,
    /// Its own timestamp; 0 for none.
    pub stamp: u32,
    /// The echoed timestamp; 0 for none.
    pub echo: u32,
    /// What two segments must have in common: [`AckSegment::form`]; 0 if it is not a pure
    /// acknowledgement.
    pub form: u32,
}

/// How many acknowledgements of a connection wait (`enum acks_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcksKept {
    /// All.
    All,
    /// Two.
    Two,
    /// One.
    One,
}

/// What a host does with a segment (`enum acks_step`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckStep {
    /// It queues the segment.
    Queue,
    /// The segment takes the place of the last one.
    Replace,
    /// The last one takes the place of the one before it, and the segment that of the last one.
    Shift,
}

/// What is known of a connection (`struct acks_flow`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckFlow {
    /// When the packet in `last` arrived, in nanoseconds.
    pub last_ns: u64,
    /// When the packet in `before` arrived, in nanoseconds.
    pub before_ns: u64,
    /// The place of the last acknowledgement that may be dropped, from 1; 0 for none.
    pub last: u32,
    /// The place of the one that it followed; 0 for none.
    pub before: u32,
    seen: AckSegment,
}

unsafe extern "C" {
    fn aqm_acks_form(words: u32, flags: u32, tos: u32) -> u32;
    fn aqm_acks_begin(flow: *mut AckFlow, now: *const AckSegment);
    fn aqm_acks_decide(flow: *const AckFlow, now: *const AckSegment, filter: u32) -> u32;
    fn aqm_acks_replaced(flow: *mut AckFlow, now: *const AckSegment);
    fn aqm_acks_queued(flow: *mut AckFlow, now: *const AckSegment, place: u32, now_ns: u64);
}

impl AckSegment {
    /// Returns the form of a pure acknowledgement. `words` is the length of its TCP header in
    /// words of 32 bits, `flags` its twelve flags, and `tos` the byte of DS field and ECN field.
    #[must_use]
    pub fn form(words: u32, flags: u32, tos: u32) -> u32 {
        #[expect(unsafe_code, reason = "a function of C that takes numbers")]
        // SAFETY: it takes and returns numbers.
        unsafe {
            aqm_acks_form(words, flags, tos)
        }
    }
}

impl AckFlow {
    /// Begins with a connection, whose first segment is this one.
    #[must_use]
    pub fn new(now: &AckSegment) -> Self {
        let mut flow = Self::default();
        #[expect(unsafe_code, reason = "C writes the structure")]
        // SAFETY: both have the layout of C, and live until the call returns.
        unsafe {
            aqm_acks_begin(&raw mut flow, now);
        }
        flow
    }

    /// Decides about a segment. The caller queues it if a packet concerned has left.
    #[must_use]
    pub fn decide(&self, now: &AckSegment, kept: AcksKept) -> AckStep {
        #[expect(unsafe_code, reason = "C reads the structure")]
        // SAFETY: both have the layout of C, and live until the call returns.
        let step = unsafe { aqm_acks_decide(self, now, kept as u32) };
        match step {
            1 => AckStep::Replace,
            2 => AckStep::Shift,
            _ => AckStep::Queue,
        }
    }

    /// Notes that a segment took the place of the last one.
    pub fn replaced(&mut self, now: &AckSegment) {
        #[expect(unsafe_code, reason = "C writes the structure")]
        // SAFETY: both have the layout of C, and live until the call returns.
        unsafe {
            aqm_acks_replaced(self, now);
        }
    }

    /// Notes that a segment was queued in a place, or dropped (0).
    pub fn queued(&mut self, now: &AckSegment, place: u32, now_ns: u64) {
        #[expect(unsafe_code, reason = "C writes the structure")]
        // SAFETY: both have the layout of C, and live until the call returns.
        unsafe {
            aqm_acks_queued(self, now, place, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    unsafe extern "C" {
        static aqm_acks_layout: [u32; 4];
    }

    #[test]
    fn structures_are_those_of_c() {
        #[expect(unsafe_code, reason = "a constant of C")]
        // SAFETY: C defines it as a constant of this type.
        let there = unsafe { aqm_acks_layout };
        let here = [
            size_of::<AckSegment>(),
            size_of::<AckFlow>(),
            offset_of!(AckFlow, last),
            offset_of!(AckFlow, seen),
        ];
        assert_eq!(here.map(|one| one as u32), there);
    }
}
