// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of the emulated line: a queue, a transmitter, a delay.
//!
//! A pure state machine: time comes in with each call, nothing is read or
//! written. Packets are served first come first served; a transmission begins
//! the instant the one before it ends, however late the caller looks, and takes
//! exactly its bytes at the line rate (the fraction of a nanosecond is carried
//! to the next one). After its last bit a packet travels for a fixed delay.

use std::collections::VecDeque;
use weirgate_experiment::{Buffer, DropEnd, LineSide};

const BIT_TIMES_PER_BYTE: u64 = 8_000_000_000;

/// One direction. `T` is what the caller knows a packet by.
#[derive(Debug)]
pub struct Side<T> {
    bits_per_second: u64,
    delay_ns: u64,
    buffer: Buffer,
    drop: DropEnd,
    waiting: VecDeque<Waiting<T>>,
    waiting_bytes: u64,
    sending: Option<Sending<T>>,
    travelling: VecDeque<Departure<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    packet: T,
    ip_bytes: u32,
    wire_bytes: u32,
}

#[derive(Debug)]
struct Sending<T> {
    packet: T,
    ip_bytes: u32,
    start_ns: u64,
    end: Instant,
}

/// A time with the fraction of a nanosecond, in units of 1 / line rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instant {
    ns: u64,
    fraction: u64,
}

/// A packet whose transmission has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// The caller's packet.
    pub packet: T,
    /// First bit.
    pub start_ns: u64,
    /// Last bit, rounded up.
    pub end_ns: u64,
    /// When it reaches the other end.
    pub due_ns: u64,
}

impl Instant {
    const fn whole(ns: u64) -> Self {
        Self { ns, fraction: 0 }
    }

    /// The first whole nanosecond that is not before.
    const fn rounded_up(self) -> u64 {
        self.ns + (self.fraction > 0) as u64
    }

    const fn after(self, bytes: u32, bits_per_second: u64) -> Self {
        let parts = (bytes as u64)
            .saturating_mul(BIT_TIMES_PER_BYTE)
            .saturating_add(self.fraction);
        Self {
            ns: self.ns.saturating_add(parts / bits_per_second),
            fraction: parts % bits_per_second,
        }
    }
}

impl<T> Side<T> {
    /// An idle direction; `None` where its rate is 0.
    #[must_use]
    pub fn new(side: &LineSide) -> Option<Self> {
        let bits_per_second = side.rate.as_bits_per_second();
        (bits_per_second > 0).then(|| Self {
            bits_per_second,
            delay_ns: side.delay.as_nanos(),
            buffer: side.buffer,
            drop: side.drop,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sending: None,
            travelling: VecDeque::new(),
        })
    }

    /// Transmissions that begin after `now_ns` have this rate. The one under
    /// way ends as it began. A rate of 0 changes nothing.
    pub fn set_rate(&mut self, now_ns: u64, bits_per_second: u64) {
        self.advance(now_ns);
        if bits_per_second == 0 || bits_per_second == self.bits_per_second {
            return;
        }
        if let Some(sending) = &mut self.sending {
            // The fraction is in units of the former rate.
            sending.end = Instant::whole(sending.end.rounded_up());
        }
        self.bits_per_second = bits_per_second;
    }

    /// Takes a packet that arrives at `now_ns`, which may not go backwards.
    /// Where the queue is full, `dropped` gets what is thrown away: this packet
    /// or the oldest waiting.
    pub fn arrive(
        &mut self,
        now_ns: u64,
        packet: T,
        ip_bytes: u32,
        wire_bytes: u32,
        mut dropped: impl FnMut(T),
    ) {
        self.advance(now_ns);
        let arrival = Waiting {
            packet,
            ip_bytes,
            wire_bytes,
        };
        if self.sending.is_none() {
            self.send(arrival, Instant::whole(now_ns));
            return;
        }
        if self.drop == DropEnd::Front && self.fits(ip_bytes, 0, 0) {
            while !self.fits(ip_bytes, self.waiting.len(), self.waiting_bytes) {
                let Some(oldest) = self.take_oldest() else {
                    break;
                };
                dropped(oldest.packet);
            }
        }
        if self.fits(ip_bytes, self.waiting.len(), self.waiting_bytes) {
            self.waiting_bytes += u64::from(ip_bytes);
            self.waiting.push_back(arrival);
        } else {
            dropped(arrival.packet);
        }
    }

    /// Packets waiting or in transmission at `now_ns`, and their IP bytes; the
    /// one in transmission counts in full.
    pub fn ahead(&mut self, now_ns: u64) -> (u32, u32) {
        self.advance(now_ns);
        let sending = self.sending.as_ref();
        let packets = self.waiting.len() + usize::from(sending.is_some());
        let bytes = self.waiting_bytes + sending.map_or(0, |sending| sending.ip_bytes.into());
        (packets as u32, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// The next packet that has reached the other end by `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Departure<T>> {
        self.advance(now_ns);
        self.travelling.pop_front_if(|first| first.due_ns <= now_ns)
    }

    /// When the next packet reaches the other end, as far as is known.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        match (self.travelling.front(), &self.sending) {
            (Some(first), _) => Some(first.due_ns),
            (None, Some(sending)) => Some(self.due_ns(sending.end.rounded_up())),
            (None, None) => None,
        }
    }

    /// Ends the run at `now_ns`: what was transmitted by then and still travels.
    pub fn finish(&mut self, now_ns: u64) -> impl Iterator<Item = Departure<T>> {
        self.advance(now_ns);
        self.travelling.drain(..)
    }

    /// Ends the transmissions that have ended by `now_ns` and begins those that
    /// followed them.
    fn advance(&mut self, now_ns: u64) {
        while let Some(sent) = self
            .sending
            .take_if(|sending| sending.end.rounded_up() <= now_ns)
        {
            let end_ns = sent.end.rounded_up();
            self.travelling.push_back(Departure {
                packet: sent.packet,
                start_ns: sent.start_ns,
                end_ns,
                due_ns: self.due_ns(end_ns),
            });
            if let Some(next) = self.take_oldest() {
                self.send(next, sent.end);
            }
        }
    }

    fn send(&mut self, waiting: Waiting<T>, start: Instant) {
        self.sending = Some(Sending {
            packet: waiting.packet,
            ip_bytes: waiting.ip_bytes,
            start_ns: start.rounded_up(),
            end: start.after(waiting.wire_bytes, self.bits_per_second),
        });
    }

    fn take_oldest(&mut self) -> Option<Waiting<T>> {
        let oldest = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(oldest.ip_bytes);
        Some(oldest)
    }

    fn fits(&self, ip_bytes: u32, packets: usize, bytes: u64) -> bool {
        match self.buffer {
            Buffer::Bytes(limit) => bytes + u64::from(ip_bytes) <= limit.as_bytes(),
            Buffer::Packets(limit) => packets < limit as usize,
        }
    }

    const fn due_ns(&self, end_ns: u64) -> u64 {
        end_ns.saturating_add(self.delay_ns)
    }
}

#[cfg(test)]
mod tests;
