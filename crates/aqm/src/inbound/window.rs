// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive-window control (`aqm/include/window.h`): which window a connection
//! is offered.

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

/// How the window is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowAlgorithm {
    /// The right edge goes on at the rate.
    Edge,
    /// Shah's algorithm 1: steps of up to 4096 bytes, of 256 below 2 kB.
    Steps,
    /// Shah's algorithm 2: steps of a segment.
    Mss,
}

/// The configuration of all connections (`struct window_rule`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowRule {
    /// By its number, as [`WindowRule::new`] sets it.
    pub algorithm: u64,
    /// This window and no other, in bytes; 0: by the algorithm.
    pub fixed_bytes: u64,
    /// Of the edge: the most that is offered, earned by waiting, or owed, as a time at the rate. No
    /// less than the longest round trip.
    pub horizon_ns: u64,
    /// Of the edge: the longest time that an acknowledgement is held back.
    pub hold_ns: u64,
    /// Of the edge: on offer before anything came, in bytes; 0: what the
    /// receiver offers.
    pub initial_bytes: u64,
    /// Never more than this, in bytes; 0 for no such limit.
    pub limit_bytes: u64,
    /// Length of a chunk of the measured rate.
    pub chunk_ns: u64,
    /// How many of them are averaged, up to 64.
    pub chunks: u64,
    /// The silence after which the measured rate is forgotten.
    pub age_ns: u64,
}

impl WindowRule {
    /// An algorithm with Shah's chunks (30 of 100 ms; section 6.2), a horizon of
    /// a second, no acknowledgement held back and nothing configured of the beginning.
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

/// A connection. The caller keeps time.
#[derive(Debug, Clone)]
pub struct Window {
    rule: WindowRule,
    /// `struct window_flow`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl Window {
    /// A connection of which nothing has come.
    pub fn new(rule: WindowRule) -> Self {
        Self {
            rule,
            memory: vec![0; Self::bytes().div_ceil(8)],
        }
    }

    /// Bytes of a connection.
    pub fn bytes() -> usize {
        // SAFETY: a constant.
        unsafe { aqm_window_size as usize }
    }

    /// Data arrived: this many bytes, in segments of at most `mss`.
    pub fn arrived(&mut self, bytes: u32, mss: u32, now_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection; the rule is as C has it.
        unsafe { aqm_window_arrived(flow, &raw const self.rule, bytes, mss, now_ns) };
    }

    /// Which of the sender's bytes arrived: this many, from this sequence number on. Call it before
    /// [`Window::arrived`].
    pub fn numbered(&mut self, first: u32, bytes: u32) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_numbered(flow, first, bytes) };
    }

    /// The window to offer before anything came, in bytes, where the receiver
    /// offers `offered`.
    pub fn initial(&self, offered: u32) -> u32 {
        // SAFETY: the rule is as C has it.
        unsafe { aqm_window_initial(&raw const self.rule, offered) }
    }

    /// What was offered then in the end, with an acknowledgement.
    pub fn begun(&mut self, ack: u32, window: u32, now_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_begun(flow, ack, window, now_ns) };
    }

    /// The window to offer with an acknowledgement, in bytes, where the receiver
    /// offers `offered` and the connection may have `rate` bytes a second, or is not
    /// held to any, where that is 0.
    pub fn offer(&mut self, rate: u64, ack: u32, offered: u32, now_ns: u64) -> u32 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { aqm_window_offer(flow, &raw const self.rule, rate, ack, offered, now_ns) }
    }

    /// What was offered in the end; for how long the acknowledgement is held
    /// back, in nanoseconds.
    pub fn advertised(&mut self, rate: u64, ack: u32, window: u32, now_ns: u64) -> u64 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { aqm_window_advertised(flow, &raw const self.rule, rate, ack, window, now_ns) }
    }

    /// Before [`Window::offer`]: with this acknowledgement the connection goes on
    /// later by some of the bytes that are owed to others, half of what it is for
    /// at most. Returns how many.
    pub fn pay(&mut self, ack: u32, owed: u64) -> u64 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_pay(flow, ack, owed) }
    }

    /// What the handshake measured of the path: a round trip in microseconds.
    pub fn path(&mut self, round_trip_us: u32) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_path(flow, round_trip_us) };
    }

    /// An acknowledgement leaves with this timestamp.
    pub fn asks(&mut self, stamp: u32, leaves_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_asks(flow, stamp, leaves_ns) };
    }

    /// Data came that echoes this timestamp: the path is no longer than the time since
    /// that left.
    pub fn hears(&mut self, echo: u32, now_ns: u64) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_hears(flow, echo, now_ns) };
    }

    /// After [`Window::arrived`], where a queue stands behind: whether that holds the
    /// connection, which has `share` bytes a second of the rate of all. Returns the
    /// bytes that may then be on offer; 0 if the edge goes on at the rate.
    pub fn loosens(&mut self, bytes: u32, share: u64, all: u64) -> u32 {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_loosens(flow, bytes, share, all) }
    }

    /// What came of the connection's share in the last second: 65536 is all of it.
    pub fn had(&mut self, part: u32) {
        let flow = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a connection.
        unsafe { aqm_window_had(flow, part) };
    }

    /// The rate measured, in bytes a second.
    pub fn rate(&self) -> u64 {
        // SAFETY: a constant.
        let at = unsafe { aqm_window_rate } as usize;
        self.memory.get(at / 8).copied().unwrap_or_default()
    }
}
