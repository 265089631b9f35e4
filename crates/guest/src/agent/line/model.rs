// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated line: in each direction a queue, a transmitter and a delay.
//!
//! It is a pure state machine without I/O; the caller passes the time with each call. Packets
//! are served first come, first served. A transmission begins the instant the previous one ends,
//! however late the caller calls. It takes exactly its bytes at the line rate; the fraction of a
//! nanosecond is carried over to the next one. After its last bit a packet is delayed by a fixed
//! time, and by the impairments of the direction.
//!
//! If the line is half duplex, only one direction transmits at a time. While both have packets,
//! they take turns of one packet.

mod medium;

pub use medium::{Medium, lots};

use std::collections::VecDeque;
use weirgate_experiment::{Buffer, DropEnd, Impairments, LineSide, LineStretch};
use weirgate_units::Rate;

const BIT_TIMES_PER_BYTE: u64 = 8_000_000_000;
const MILLION: u64 = 1_000_000;

/// A random decision about a packet.
#[derive(Debug, Clone, Copy)]
enum Lot {
    Loss,
    Jitter,
    Reordering,
}

/// One direction. `T` identifies a packet for the caller.
#[derive(Debug)]
pub struct Side<T> {
    bits_per_second: u64,
    delay_ns: u64,
    /// Future changes of the rate.
    then: VecDeque<LineStretch>,
    /// Current delay of packets in addition to `delay_ns`.
    later_ns: u64,
    buffer: Buffer,
    drop: DropEnd,
    impairments: Impairments,
    /// The seed of random decisions.
    lots: u64,
    /// The number of packets that have arrived, which is the next packet's number.
    came: u32,
    /// When the last packet that keeps its order reaches the other end.
    in_order_ns: u64,
    waiting: VecDeque<Waiting<T>>,
    waiting_bytes: u64,
    sending: Option<Sending<T>>,
    travelling: VecDeque<Departure<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    packet: T,
    number: u32,
    ip_bytes: u32,
    wire_bytes: u32,
}

#[derive(Debug)]
struct Sending<T> {
    packet: T,
    ip_bytes: u32,
    start_ns: u64,
    end: Instant,
    arrival: Arrival,
}

/// How a packet reaches the other end.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    due_ns: u64,
    lost: bool,
    late: bool,
}

/// A time, with the fraction of a nanosecond in units of 1 / line rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instant {
    ns: u64,
    fraction: u64,
}

/// A packet whose transmission has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// The caller's identifier of the packet.
    pub packet: T,
    /// Start of the transmission of the first bit.
    pub start_ns: u64,
    /// End of the transmission of the last bit, rounded up.
    pub end_ns: u64,
    /// When it reaches the other end, or would reach it if it is lost.
    pub due_ns: u64,
    /// Whether it is lost after transmission.
    pub lost: bool,
    /// Whether later packets may overtake it.
    late: bool,
}

impl Instant {
    const fn whole(ns: u64) -> Self {
        Self { ns, fraction: 0 }
    }

    /// Returns the time rounded up to whole nanoseconds.
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
    /// Returns an idle direction with these stretches. `lots` is the seed of random decisions.
    /// `None` if its first or last rate is 0.
    #[must_use]
    pub fn new(side: &LineSide, stretches: &[LineStretch], lots: u64) -> Option<Self> {
        let (first, last) = (stretches.first()?, stretches.last()?);
        let bits_per_second = first.rate.as_bits_per_second();
        (bits_per_second > 0 && last.rate > Rate::ZERO).then(|| Self {
            bits_per_second,
            delay_ns: side.delay.as_nanos(),
            then: stretches.iter().skip(1).copied().collect(),
            later_ns: first.later.as_nanos(),
            buffer: side.buffer,
            drop: side.drop,
            impairments: side.impairments,
            lots,
            came: 0,
            in_order_ns: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sending: None,
            travelling: VecDeque::new(),
        })
    }

    /// Applies rate changes up to a transmission that could begin at `start`. Returns when it
    /// begins, which is later if nothing can be transmitted then.
    fn follow(&mut self, start: Instant) -> Instant {
        let (mut begins_ns, mut waits) = (start.rounded_up(), false);
        let former = self.bits_per_second;
        while let Some(next) = self.then.front() {
            let after_ns = next.after.as_nanos();
            if after_ns >= begins_ns {
                if self.bits_per_second > 0 {
                    break;
                }
                (begins_ns, waits) = (after_ns + 1, true);
            }
            self.bits_per_second = next.rate.as_bits_per_second();
            self.later_ns = next.later.as_nanos();
            self.then.pop_front();
        }
        // The fraction is in units of the former rate, so round up.
        if waits || self.bits_per_second != former {
            return Instant::whole(begins_ns);
        }
        start
    }

    /// Adds a packet that arrives at `now_ns`, which must not decrease. If the queue is full,
    /// `dropped` is called with this packet or the oldest waiting one.
    pub fn arrive(
        &mut self,
        now_ns: u64,
        packet: T,
        ip_bytes: u32,
        wire_bytes: u32,
        dropped: impl FnMut(T),
    ) {
        self.advance(now_ns);
        let arrival = self.numbered(packet, ip_bytes, wire_bytes);
        if self.sending.is_none() {
            self.send(arrival, Instant::whole(now_ns));
        } else {
            self.queue(arrival, dropped);
        }
    }

    /// Returns the number of packets that wait or are in transmission at `now_ns`, and their IP
    /// bytes. The one in transmission counts in full.
    pub fn ahead(&mut self, now_ns: u64) -> (u32, u32) {
        self.advance(now_ns);
        self.ahead_now()
    }

    fn ahead_now(&self) -> (u32, u32) {
        let sending = self.sending.as_ref();
        let packets = self.waiting.len() + usize::from(sending.is_some());
        let bytes = self.waiting_bytes + sending.map_or(0, |sending| sending.ip_bytes.into());
        (packets as u32, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Returns the next packet that has reached the other end by `now_ns`, or would have if it
    /// is lost.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Departure<T>> {
        self.advance(now_ns);
        self.pop_arrived(now_ns)
    }

    fn pop_arrived(&mut self, now_ns: u64) -> Option<Departure<T>> {
        let first = self
            .travelling
            .iter()
            .position(|one| one.due_ns <= now_ns || !one.late)?;
        let there = self.travelling[first].due_ns <= now_ns;
        there.then(|| self.travelling.remove(first)).flatten()
    }

    /// Returns the next known time at which a packet reaches the other end. While all packets in
    /// transit are late, it is also the end of the transmission: the packet that begins then may
    /// overtake them.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        let sending = self.sending.as_ref();
        let travelling = self.travelling.iter().map(|one| one.due_ns);
        let end_ns = sending.map(|sending| sending.end.rounded_up());
        travelling
            .chain(sending.map(|sending| sending.arrival.due_ns))
            .chain(end_ns.filter(|_| self.may_be_overtaken()))
            .min()
    }

    /// Returns whether a packet waits, and all packets in transit are late.
    fn may_be_overtaken(&self) -> bool {
        let sending = self.sending.iter().map(|sending| sending.arrival.late);
        let mut late = self.travelling.iter().map(|one| one.late).chain(sending);
        !self.waiting.is_empty() && late.all(|late| late)
    }

    /// Ends the run at `now_ns`. Returns packets that were transmitted by then and are still
    /// under way.
    pub fn finish(&mut self, now_ns: u64) -> impl Iterator<Item = Departure<T>> {
        self.advance(now_ns);
        self.travelling.drain(..)
    }

    /// Ends the transmissions that have ended by `now_ns` and begins the following ones.
    fn advance(&mut self, now_ns: u64) {
        while let Some(end) = self.end(now_ns) {
            self.begin(end);
        }
    }

    /// Ends the transmission if it has ended by `now_ns`. Returns when it ended.
    fn end(&mut self, now_ns: u64) -> Option<Instant> {
        let sent = self
            .sending
            .take_if(|sending| sending.end.rounded_up() <= now_ns)?;
        self.travelling.push_back(Departure {
            packet: sent.packet,
            start_ns: sent.start_ns,
            end_ns: sent.end.rounded_up(),
            due_ns: sent.arrival.due_ns,
            lost: sent.arrival.lost,
            late: sent.arrival.late,
        });
        Some(sent.end)
    }

    /// Begins to transmit the oldest waiting packet. Returns false if there is none.
    fn begin(&mut self, at: Instant) -> bool {
        let next = self.take_oldest();
        let some = next.is_some();
        if let Some(next) = next {
            self.send(next, at);
        }
        some
    }

    fn numbered(&mut self, packet: T, ip_bytes: u32, wire_bytes: u32) -> Waiting<T> {
        let number = self.came;
        self.came = number.wrapping_add(1);
        Waiting {
            packet,
            number,
            ip_bytes,
            wire_bytes,
        }
    }

    /// Adds a packet to the queue, or drops one.
    fn queue(&mut self, arrival: Waiting<T>, mut dropped: impl FnMut(T)) {
        let ip_bytes = arrival.ip_bytes;
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

    fn send(&mut self, waiting: Waiting<T>, start: Instant) {
        let start = self.follow(start);
        let end = start.after(waiting.wire_bytes, self.bits_per_second);
        self.sending = Some(Sending {
            packet: waiting.packet,
            ip_bytes: waiting.ip_bytes,
            start_ns: start.rounded_up(),
            end,
            arrival: self.arrival(waiting.number, end.rounded_up()),
        });
    }

    /// Returns how the packet with this number reaches the other end. Its last bit is sent at
    /// `end_ns`.
    fn arrival(&mut self, number: u32, end_ns: u64) -> Arrival {
        let Impairments {
            loss,
            jitter,
            reordering,
            bursts,
        } = self.impairments;
        let burst_ns = bursts.as_nanos();
        let together_ns = match burst_ns {
            0 => end_ns,
            _ => end_ns.div_ceil(burst_ns).saturating_mul(burst_ns),
        };
        let jitter_ns = (self.lot(number, Lot::Jitter) * jitter.as_nanos()) >> 32;
        let own_ns = together_ns.saturating_add(self.delay_ns + self.later_ns + jitter_ns);
        let due_ns = own_ns.max(self.in_order_ns);
        let falls = |what, part: u32| (self.lot(number, what) * MILLION) >> 32 < part.into();
        let (lost, late) = (
            falls(Lot::Loss, loss),
            falls(Lot::Reordering, reordering.part),
        );
        if late {
            let due_ns = due_ns.saturating_add(reordering.by.as_nanos());
            return Arrival { due_ns, lost, late };
        }
        self.in_order_ns = due_ns;
        Arrival { due_ns, lost, late }
    }

    /// Returns a 32-bit random number for a decision about the packet with this number, from
    /// SplitMix64 (Steele, Lea and Flood 2014).
    const fn lot(&self, number: u32, what: Lot) -> u64 {
        let step = number as u64 * 3 + what as u64 + 1;
        let state = self
            .lots
            .wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> 32
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
}

#[cfg(test)]
mod tests;
