// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive-window control (`aqm/include/window.h`): chooses the window that a connection
//! advertises.

use std::ffi::c_void;

// Defined in `aqm/host/native/window.c`.
unsafe extern "C" {
    static aqm_window_size: u32;
    static aqm_window_rate: u32;
    fn aqm_window_arrived(
        flow: *mut c_void,
        rule: *const WindowRule,
        bytes: u32,
        mss: u32,
        now_ns: u64,
    );
    fn aqm_window_numbered(flow: *mut c_void, first: u32, bytes: u32);
    fn aqm_window_initial(rule: *const WindowRule, offered: u32) -> u32;
    fn aqm_window_begun(flow: *mut c_void, ack: u32, window: u32, now_ns: u64);
    fn aqm_window_offer(
        flow: *mut c_void,
        rule: *const WindowRule,
        rate: u64,
        ack: u32,
        offered: u32,
        now_ns: u64,
    ) -> u32;
    fn aqm_window_path(flow: *mut c_void, round_trip_us: u32);
    fn aqm_window_asks(flow: *mut c_void, stamp: u32, leaves_ns: u64);
    fn aqm_window_hears(flow: *mut c_void, echo: u32, now_ns: u64);
    fn aqm_window_loosens(flow: *mut c_void, bytes: u32, share: u64, all: u64) -> u32;
    fn aqm_window_had(flow: *mut c_void, part: u32);
    fn aqm_window_pay(flow: *mut c_void, ack: u32, owed: u64) -> u64;
    fn aqm_window_advertised(
        flow: *mut c_void,
        rule: *const WindowRule,
        rate: u64,
        ack: u32,
        window: u32,
        now_ns: u64,
    ) -> u64;
}

/// The algorithm that chooses the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowAlgorithm {
    /// The right edge of the window advances at the rate.
    Edge,
    /// Shah's algorithm 1: steps of up to 4096 bytes, and of 256 bytes below 2 kB.
    Steps,
    /// Shah's algorithm 2: steps of one segment.
    Mss,
}

/// The settings for all connections (`struct window_rule`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowRule {
    /// The number of the algorithm, which [`WindowRule::new`] sets.
    pub algorithm: u64,
    /// A constant window in bytes; 0 to use the algorithm.
    pub fixed_bytes: u64,
    /// Edge: the largest window as a time at the rate, in nanoseconds. It also limits credit for
    /// waiting, and debt. It must not be less than the longest round trip.
    pub horizon_ns: u64,
    /// Edge: the longest delay of an acknowledgement, in nanoseconds.
    pub hold_ns: u64,
    /// Edge: the window before any data arrived, in bytes; 0 for the receiver's own window.
    pub initial_bytes: u64,
    /// The upper limit of the window in bytes; 0 for none.
    pub limit_bytes: u64,
    /// The length of an interval of the rate measurement, in nanoseconds.
    pub chunk_ns: u64,
    /// The number of intervals that are averaged, up to 64.
    pub chunks: u64,
    /// The idle time after which the measured rate is forgotten, in nanoseconds.
    pub age_ns: u64,
}

impl WindowRule {
    /// Returns an algorithm with Shah's intervals (30 of 100 ms; section 6.2) and a horizon of
    /// one second. Acknowledgements are not delayed, and the initial window is the receiver's.
    pub const fn new(algorithm: WindowAlgorithm) -> Self {
        Self {
            algorithm: algorithm as u64,
            fixed_bytes: 0,
            horizon_ns: 1_000_000_000,
            hold_ns: 0,
            initial_bytes: 0,
            limit_bytes: 0,
            chunk_ns: 100_000_000,
            chunks: 30,
            age_ns: 5_000_000_000,
        }
    }
}

/// One connection. The caller supplies the time.
#[derive(Debug, Clone)]
pub struct Window {
    rule: WindowRule,
    /// `struct window_flow`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl Window {
    /// Makes a connection without data so far.
    pub fn new(rule: WindowRule) -> Self {
        Self {
            rule,
            memory: vec![0; Self::bytes().div_ceil(8)],
        }
    }

    /// Returns the size of a connection's state in bytes.
    pub fn bytes() -> usize {
        // SAFETY: a constant.
        unsafe { aqm_window_size as usize }
    }

    /// Counts `bytes` of data that arrived in segments of at most `mss`.
    pub fn arrived(&mut self, bytes: u32, mss: u32, now_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection; the layout of the rule is that of C.
        unsafe { aqm_window_arrived(flow, &raw const self.rule, bytes, mss, now_ns) };
    }

    /// Notes which bytes of the sender arrived: `bytes` from the sequence number `first` on.
    /// Call it before [`Window::arrived`].
    pub fn numbered(&mut self, first: u32, bytes: u32) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_numbered(flow, first, bytes) };
    }

    /// Returns the window to advertise before any data arrived, in bytes; `offered` is the
    /// receiver's own window.
    pub fn initial(&self, offered: u32) -> u32 {
        // SAFETY: the layout of the rule is that of C.
        unsafe { aqm_window_initial(&raw const self.rule, offered) }
    }

    /// Notes the initial window that was advertised, with its acknowledgement number.
    pub fn begun(&mut self, ack: u32, window: u32, now_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_begun(flow, ack, window, now_ns) };
    }

    /// Returns the window in bytes to advertise with an acknowledgement. `offered` is the
    /// receiver's own window; `rate` is the allowed rate in bytes a second, or 0 for no limit.
    pub fn offer(&mut self, rate: u64, ack: u32, offered: u32, now_ns: u64) -> u32 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { aqm_window_offer(flow, &raw const self.rule, rate, ack, offered, now_ns) }
    }

    /// Notes the window that was advertised. Returns how long to delay the acknowledgement, in
    /// nanoseconds.
    pub fn advertised(&mut self, rate: u64, ack: u32, window: u32, now_ns: u64) -> u64 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { aqm_window_advertised(flow, &raw const self.rule, rate, ack, window, now_ns) }
    }

    /// Call it before [`Window::offer`]. Makes the edge stay back by some of the bytes owed to
    /// others, at most half of the bytes that this acknowledgement covers. Returns how many.
    pub fn pay(&mut self, ack: u32, owed: u64) -> u64 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_pay(flow, ack, owed) }
    }

    /// Notes the round trip that the handshake measured, in microseconds.
    pub fn path(&mut self, round_trip_us: u32) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_path(flow, round_trip_us) };
    }

    /// Notes that an acknowledgement with this timestamp leaves.
    pub fn asks(&mut self, stamp: u32, leaves_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_asks(flow, stamp, leaves_ns) };
    }

    /// Notes that data echo this timestamp. The round trip is at most the time since the
    /// timestamp left.
    pub fn hears(&mut self, echo: u32, now_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_hears(flow, echo, now_ns) };
    }

    /// Call it after [`Window::arrived`], if a queue follows. Decides whether that queue limits
    /// the connection, whose share is `share` bytes a second of the total rate `all`. If so,
    /// returns the window in bytes to allow; otherwise returns 0, and the edge advances at the
    /// rate.
    pub fn loosens(&mut self, bytes: u32, share: u64, all: u64) -> u32 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_loosens(flow, bytes, share, all) }
    }

    /// Notes which part of its share the connection received in the last second; 65536 is all of
    /// it.
    pub fn had(&mut self, part: u32) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_had(flow, part) };
    }

    /// Returns the measured rate in bytes a second.
    pub fn rate(&self) -> u64 {
        // SAFETY: a constant.
        let at = unsafe { aqm_window_rate } as usize;
        self.memory.get(at / 8).copied().unwrap_or_default()
    }
}
