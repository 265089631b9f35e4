// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both sides are given, and what they answer: the formats of `kernel/main.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// An instance begins anew.
pub const BEGIN: u32 = 0;
/// A packet comes.
pub const ARRIVE: u32 = 1;
/// The link is free.
pub const DEPART: u32 = 2;

/// The code point of a packet that was marked.
pub const CE: u32 = 3;

/// `struct event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct Event {
    /// When, in nanoseconds.
    pub now_ns: u64,
    /// [`BEGIN`], [`ARRIVE`] or [`DEPART`].
    pub kind: u32,
    /// Bytes of the packet.
    pub len: u32,
    /// Hash of its flow.
    pub flow: u32,
    /// Its ECN code point.
    pub ecn: u32,
    /// A random word for the decision.
    pub random: u32,
    /// Its number within the run, from 1.
    pub id: u32,
}

/// `struct outcome`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub struct Outcome {
    /// The packet that left; 0 where none did, or on arrival.
    pub id: u32,
    /// On arrival whether it was marked now; on departure its ECN code point.
    pub marked: u32,
    /// How many packets were dropped.
    pub dropped: u32,
    /// Their numbers, each added to 31 times the sum before.
    pub digest: u32,
}

impl Outcome {
    /// One more packet was dropped.
    pub fn drop(&mut self, id: u32) {
        self.dropped += 1;
        self.digest = self.digest.wrapping_mul(31).wrapping_add(id);
    }
}
