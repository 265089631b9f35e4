// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input and output of both sides, in the formats of `kernel/main.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// An instance begins.
pub const BEGIN: u32 = 0;
/// A packet arrives.
pub const ARRIVE: u32 = 1;
/// The link is free.
pub const DEPART: u32 = 2;

/// The code point of a marked packet.
pub const CE: u32 = 3;

/// `struct event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct Event {
    /// The time in nanoseconds.
    pub now_ns: u64,
    /// [`BEGIN`], [`ARRIVE`] or [`DEPART`].
    pub kind: u32,
    /// The packet's length in bytes.
    pub len: u32,
    /// The hash of its flow.
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
    /// The packet that left; 0 if none did, or on arrival.
    pub id: u32,
    /// On arrival, whether the packet was marked; on departure, its ECN code point.
    pub marked: u32,
    /// How many packets were dropped.
    pub dropped: u32,
    /// A digest of their numbers: each is added to 31 times the previous digest.
    pub digest: u32,
}

impl Outcome {
    /// Records one more dropped packet.
    pub fn drop(&mut self, id: u32) {
        self.dropped += 1;
        self.digest = self.digest.wrapping_mul(31).wrapping_add(id);
    }
}
