// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The air between two radios of `mac80211_hwsim`. It sends one frame after the other, each for the
//! time of its bytes at a rate. hwsim itself delivers at once. Its frames wait in the radio until
//! the air has sent them, like in the ring of a driver.
//!
//! Commands and attributes are those of drivers/net/wireless/virtual/mac80211_hwsim.h.

use crate::netlink::{Message, Socket};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REGISTER: u8 = 1;
const FRAME: u8 = 2;
const TX_INFO_FRAME: u8 = 3;

const ADDR_RECEIVER: u16 = 1;
const ADDR_TRANSMITTER: u16 = 2;
const FRAME_BYTES: u16 = 3;
const FLAGS: u16 = 4;
const RX_RATE: u16 = 5;
const SIGNAL: u16 = 6;
const TX_INFO: u16 = 7;
const COOKIE: u16 = 8;

/// Flags: report to the sender, no acknowledgement is expected, an acknowledgement arrived.
const REQ_TX_STATUS: u32 = 1;
const NO_ACK: u32 = 2;
const STAT_ACK: u32 = 4;

/// The time of a frame besides its bytes: preamble, spaces and acknowledgement.
const OVERHEAD: Duration = Duration::from_micros(100);

/// A good signal, in dBm.
const GOOD: i32 = -40;

/// The air, which lasts until the guest ends.
pub struct Medium(Arc<AtomicU64>);

impl Medium {
    /// Starts the air between this many radios, with a rate in bit/s.
    pub fn start(radios: u8, rate: u64) -> Self {
        let own = Self(Arc::new(AtomicU64::new(rate)));
        let shared = Arc::clone(&own.0);
        let socket = Socket::to("MAC80211_HWSIM");
        socket.send(&Message::new(REGISTER));
        thread::spawn(move || carry(&socket, radios, &shared));
        own
    }

    pub fn set(&self, rate: u64) {
        self.0.store(rate, Ordering::Relaxed);
    }
}

/// Returns the address by which hwsim knows a radio: that of its second interface.
fn address(radio: u8) -> [u8; 6] {
    [0x42, 0, 0, 0, radio, 0]
}

fn carry(socket: &Socket, radios: u8, rate: &AtomicU64) {
    let mut waiting: VecDeque<Message> = VecDeque::new();
    let mut free = Instant::now();
    loop {
        let left = free.saturating_duration_since(Instant::now());
        // The last part of a millisecond is slept instead, so that frames end on time.
        let wait = if waiting.is_empty() {
            1_000
        } else {
            left.as_millis() as i32
        };
        if let Some(message) = socket.receive(wait)
            && message.command == FRAME
        {
            if waiting.is_empty() {
                free = free.max(Instant::now()) + airtime(&message, rate);
            }
            waiting.push_back(message);
        }
        let left = free.saturating_duration_since(Instant::now());
        if waiting.is_empty() || left >= Duration::from_millis(1) {
            continue;
        }
        thread::sleep(left);
        if let Some(frame) = waiting.pop_front() {
            deliver(socket, &frame, radios);
        }
        if let Some(next) = waiting.front() {
            free += airtime(next, rate);
        }
    }
}

fn airtime(frame: &Message, rate: &AtomicU64) -> Duration {
    let bits = frame.get(FRAME_BYTES).map_or(0, <[u8]>::len) as u64 * 8;
    OVERHEAD + Duration::from_nanos(bits * 1_000_000_000 / rate.load(Ordering::Relaxed))
}

/// Delivers a frame to every other radio, and reports to its sender that it was sent.
fn deliver(socket: &Socket, frame: &Message, radios: u8) {
    let (Some(from), Some(bytes)) = (frame.get(ADDR_TRANSMITTER), frame.get(FRAME_BYTES)) else {
        return;
    };
    for radio in 0..radios {
        let to = address(radio);
        if to != from {
            socket.send(
                &Message::new(FRAME)
                    .with(ADDR_RECEIVER, &to)
                    .with(FRAME_BYTES, bytes)
                    .with(RX_RATE, &1_u32.to_ne_bytes())
                    .with(SIGNAL, &GOOD.to_ne_bytes()),
            );
        }
    }
    let flags = frame.get(FLAGS).and_then(|flags| flags.try_into().ok());
    let flags = flags.map_or(0, u32::from_ne_bytes);
    let taken = if flags & NO_ACK == 0 { STAT_ACK } else { 0 };
    if let (Some(cookie), Some(rates)) = (frame.get(COOKIE), frame.get(TX_INFO)) {
        socket.send(
            &Message::new(TX_INFO_FRAME)
                .with(ADDR_TRANSMITTER, from)
                .with(FLAGS, &(flags | REQ_TX_STATUS | taken).to_ne_bytes())
                .with(SIGNAL, &GOOD.to_ne_bytes())
                .with(TX_INFO, rates)
                .with(COOKIE, cookie),
        );
    }
}
