// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a stream of datagrams above its rate is treated (`aqm/include/udp.h`).

use std::ffi::c_void;

// Defined in `aqm/host/native/window.c`.
unsafe extern "C" {
    static aqm_udp_size: u32;
    static aqm_udp_state: u32;
    fn aqm_udp_arrived(flow: *mut c_void, rule: *const UdpRule, bytes: u32, now_ns: u64) -> u32;
}

/// The configuration of all streams (`struct udp_rule`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpRule {
    /// 0: the states; 1: a token bucket.
    pub mode: u64,
    /// What each stream may have, in bytes a second.
    pub rate_bytes_s: u64,
    /// What the token bucket lets through at once.
    pub burst_bytes: u64,
    /// How long a stream above the rate is discarded.
    pub drop_ns: u64,
    /// How long it is then delivered before it is judged.
    pub warn_ns: u64,
    /// Length of a chunk of the measured rate.
    pub chunk_ns: u64,
    /// How many of them are averaged, up to 64.
    pub chunks: u64,
    /// The silence after which a stream starts again.
    pub age_ns: u64,
}

/// Where a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UdpState {
    /// Delivered.
    Okay,
    /// Discarded for a while.
    Drop,
    /// Delivered, and watched.
    Warn,
    /// Refused.
    Kill,
}

impl UdpState {
    /// The state of this number (`enum udp_state`).
    pub const fn numbered(number: u32) -> Self {
        match number {
            0 => Self::Okay,
            1 => Self::Drop,
            2 => Self::Warn,
            _ => Self::Kill,
        }
    }
}

/// What becomes of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UdpVerdict {
    /// It goes on.
    Deliver,
    /// It is dropped.
    Discard,
    /// Its sender learns that nobody listens there.
    Refuse,
}

/// A stream. The caller keeps time.
#[derive(Debug, Clone)]
pub struct Udp {
    rule: UdpRule,
    /// `struct udp_flow`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl Udp {
    /// A stream of which nothing has come.
    pub fn new(rule: UdpRule) -> Self {
        Self {
            rule,
            memory: vec![0; Self::bytes().div_ceil(8)],
        }
    }

    /// Bytes of a stream.
    pub fn bytes() -> usize {
        // SAFETY: a constant.
        unsafe { aqm_udp_size as usize }
    }

    /// A datagram of this many bytes arrived.
    pub fn arrived(&mut self, bytes: u32, now_ns: u64) -> UdpVerdict {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a stream; the rule is as C has it.
        match unsafe { aqm_udp_arrived(flow, &raw const self.rule, bytes, now_ns) } {
            0 => UdpVerdict::Deliver,
            1 => UdpVerdict::Discard,
            _ => UdpVerdict::Refuse,
        }
    }

    /// Where it is.
    pub fn state(&self) -> UdpState {
        let bytes: Vec<u8> = self
            .memory
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        // SAFETY: a constant.
        let at = unsafe { aqm_udp_state } as usize;
        let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        UdpState::numbered(u32::from_ne_bytes(word.copied().unwrap_or_default()))
    }
}
