// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policing of UDP streams that exceed their rate (`aqm/include/udp.h`).

use std::ffi::c_void;

// Defined in `aqm/host/native/window.c`.
unsafe extern "C" {
    static aqm_udp_size: u32;
    static aqm_udp_state: u32;
    fn aqm_udp_arrived(flow: *mut c_void, rule: *const UdpRule, bytes: u32, now_ns: u64) -> u32;
}

/// The settings for all streams (`struct udp_rule`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpRule {
    /// The algorithm. 0: the states of [`UdpState`]; 1: a token bucket.
    pub mode: u64,
    /// The allowed rate of each stream, in bytes a second.
    pub rate_bytes_s: u64,
    /// The depth of the token bucket in bytes.
    pub burst_bytes: u64,
    /// How long a stream above the rate is discarded, in nanoseconds.
    pub drop_ns: u64,
    /// How long it is then delivered before it is judged again, in nanoseconds.
    pub warn_ns: u64,
    /// The length of an interval of the rate measurement, in nanoseconds.
    pub chunk_ns: u64,
    /// The number of intervals that are averaged, up to 64.
    pub chunks: u64,
    /// The idle time after which a stream starts afresh, in nanoseconds.
    pub age_ns: u64,
}

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UdpState {
    /// Datagrams are delivered.
    Okay,
    /// Datagrams are discarded for a while.
    Drop,
    /// Datagrams are delivered while the rate is measured again.
    Warn,
    /// Datagrams are refused.
    Kill,
}

impl UdpState {
    /// Returns the state with this number (`enum udp_state`).
    pub const fn numbered(number: u32) -> Self {
        match number {
            0 => Self::Okay,
            1 => Self::Drop,
            2 => Self::Warn,
            _ => Self::Kill,
        }
    }
}

/// What happens to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UdpVerdict {
    /// It is delivered.
    Deliver,
    /// It is dropped.
    Discard,
    /// It is rejected, so that its sender learns that no one listens on the port.
    Refuse,
}

/// One stream. The caller supplies the time.
#[derive(Debug, Clone)]
pub struct Udp {
    rule: UdpRule,
    /// `struct udp_flow`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl Udp {
    /// Makes a stream without datagrams so far.
    pub fn new(rule: UdpRule) -> Self {
        Self {
            rule,
            memory: vec![0; Self::bytes().div_ceil(8)],
        }
    }

    /// Returns the size of a stream's state in bytes.
    pub fn bytes() -> usize {
        // SAFETY: a constant.
        unsafe { aqm_udp_size as usize }
    }

    /// Decides on a datagram of `bytes` that has arrived.
    pub fn arrived(&mut self, bytes: u32, now_ns: u64) -> UdpVerdict {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a stream; the layout of the rule is that of C.
        match unsafe { aqm_udp_arrived(flow, &raw const self.rule, bytes, now_ns) } {
            0 => UdpVerdict::Deliver,
            1 => UdpVerdict::Discard,
            _ => UdpVerdict::Refuse,
        }
    }

    /// Returns the state.
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
