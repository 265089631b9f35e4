// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds senders to a rate from the receiving side: TCP's by the receive
//! window, streams of datagrams by states or a token bucket.

use serde::{Deserialize, Serialize};
use weirgate_units::{Handle, Rate, Size, Span};

/// UDP's protocol number.
pub const UDP: u8 = 17;

/// How receive windows are chosen (`aqm/include/window.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WindowAlgorithm {
    /// The right edge of the window goes on at the rate.
    #[default]
    Edge,
    /// Shah's algorithm 1: steps of 256 bytes where the window is small.
    Steps,
    /// Shah's algorithm 2: steps of a segment, never less than one.
    Segments,
}

/// How a rate is measured: bytes in chunks of time, averaged over a ring of
/// them, forgotten after a silence (`aqm/include/meter.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The length of a chunk.
    pub chunk: Span,
    /// How many are averaged, up to 64.
    pub chunks: u32,
    /// The silence.
    pub age: Span,
}

/// A mark, and the mask of the bits that are looked at; a mask of 0 is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SparedMark {
    /// The mark, within the mask.
    pub mark: u32,
    /// The bits.
    pub mask: u32,
}

/// Two programs at a device's `clsact` qdisc that choose the receive windows of
/// what leaves by what arrives (`bpf/inbound/window.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "whom and what windows hold, each by itself"
)]
pub struct Windows {
    /// What all connections of no class of their own may have together, of TCP's
    /// payload; 0 for no limit.
    pub rate: Rate,
    /// How windows are chosen.
    pub algorithm: WindowAlgorithm,
    /// This window and no other; 0 bytes for none.
    pub fixed: Size,
    /// The most that is offered, earned or owed, as a time at the rate.
    pub horizon: Span,
    /// For how long an acknowledgement is held back at most, which `fq` does.
    pub hold: Span,
    /// What is on offer before anything came; 0 bytes for what the receiver
    /// offers.
    #[serde(default)]
    pub initial: Size,
    /// The largest window of any connection; 0 bytes for no such limit.
    #[serde(default)]
    pub limit: Size,
    /// How the rate is measured.
    pub measured: Measured,
    /// Whose connections are not limited.
    pub spared: SparedMark,
    /// The class of bare acknowledgements, which tells nothing of the
    /// connection's; 0:0 for none.
    pub acknowledgements: Handle,
    /// Classes with a rate of their own, which their connections share; 0 for no
    /// limit. A connection has the class of what it sends.
    pub classes: Vec<(Handle, Rate)>,
    /// While a session is announced: the largest segment that new connections
    /// ask for, in bytes, 0 for what they would ask for anyway.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub announced_segment: u16,
    /// While a session is announced: whether older connections that have
    /// received much are reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced_resets: bool,
    /// New connections ask for segments of what they may have in a round trip,
    /// which is this to ends of whom none is known; 0 for what they would ask
    /// for anyway.
    #[serde(default, skip_serializing_if = "is_never")]
    pub round_trip: Span,
    /// A rate is shared by hosts inside, and what one of them may have by its
    /// connections; else by connections, whosever they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hosts: bool,
    /// What no window holds, datagrams and connections that are not known, leaves less of
    /// a rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
    /// Windows hold senders of L4S as well, which are left alone otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub l4s: bool,
}

/// A filter for arriving packets that holds each stream of datagrams to a rate
/// (`bpf/inbound/udp.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Datagrams {
    /// What each stream may have, of IP packets.
    pub rate: Rate,
    /// Whether by a token bucket, and not by states.
    pub bucket: bool,
    /// What the token bucket lets through at once.
    pub burst: Size,
    /// How long a stream above the rate is discarded.
    pub drop: Span,
    /// How long it is then delivered before it is judged.
    pub warn: Span,
    /// How the rate is measured.
    pub measured: Measured,
    /// The bits that are set in the mark of what is to be refused.
    pub refuse: u32,
    /// Whose streams are let go.
    pub spared: SparedMark,
}

/// What is as ever is not written down.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes what it may leave out by reference"
)]
const fn is_zero(segment: &u16) -> bool {
    *segment == 0
}

/// As [`is_zero`].
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes what it may leave out by reference"
)]
const fn is_never(time: &Span) -> bool {
    time.as_nanos() == 0
}

impl Windows {
    /// Whether announced sessions change anything.
    #[must_use]
    pub const fn heeds_announcements(&self) -> bool {
        self.announced_segment != 0 || self.announced_resets
    }
}
