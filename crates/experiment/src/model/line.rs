// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access line: its rates, its queues, and what happens to packets on it.

use crate::vary::steps;
use weirgate_units::{Direction, Rate, Size, Span};

/// The access line, as its emulator implements it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The direction from the gateway.
    pub up: LineSide,
    /// The direction to the gateway.
    pub down: LineSide,
    /// How packets are framed on the line.
    pub framing: Framing,
    /// Bytes added to each IP packet before framing.
    pub overhead: i32,
    /// Minimum size in bytes after `overhead`, before framing.
    pub mpu: u32,
    /// Changes of the rates, in order of time.
    pub then: Vec<LineStep>,
    /// The model by which its rates vary. `then` is empty in this case, until [`Line::drawn`]
    /// fills it for a run.
    pub varies: Option<Variation>,
    /// Whether only one direction transmits at a time, as on a radio channel.
    pub half_duplex: bool,
}

/// A change of the line at a given time, as when a modem retrains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStep {
    /// When it takes effect, in virtual time since the start of traffic.
    pub at: Span,
    /// The upstream rate from then on; unchanged where absent. At a rate of 0 nothing is
    /// transmitted.
    pub up: Option<Rate>,
    /// The downstream rate from then on; unchanged where absent.
    pub down: Option<Rate>,
    /// One-way delay from then on, in addition to each direction's `delay`; unchanged where
    /// absent.
    pub later: Option<Span>,
}

/// The state of one direction of a line from a given time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStretch {
    /// It applies to transmissions that begin after this time.
    pub after: Span,
    /// The rate in bits on the wire; at 0 no transmission begins.
    pub rate: Rate,
    /// One-way delay in addition to the direction's `delay`.
    pub later: Span,
}

/// A model of a line whose rates vary all the time. The rates of the file are the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variation {
    /// An LTE cell, shared with other users.
    Lte,
    /// 5G at high frequencies: fast in line of sight of the base station, slow without it.
    FiveG,
    /// Satellites in low orbits, with a handover every 15 s.
    Starlink,
    /// A cable segment at a busy hour.
    Cable,
}

/// One direction of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSide {
    /// Line rate, in bits on the wire.
    pub rate: Rate,
    /// Fixed one-way delay after transmission.
    pub delay: Span,
    /// The size of the queue before the line: the modem's or the exchange's.
    pub buffer: Buffer,
    /// Which packet is dropped when the queue is full.
    pub drop: DropEnd,
    /// Impairments of packets after transmission.
    pub impairments: Impairments,
}

/// Impairments of one direction's packets after transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Impairments {
    /// Lost packets per million.
    pub loss: u32,
    /// The largest random delay added to a packet, uniformly distributed. Packets keep their
    /// order.
    pub jitter: Span,
    /// Packets that are delayed so that later ones overtake them.
    pub reordering: Reordering,
    /// The length of intervals: packets transmitted in one interval arrive together at its end,
    /// as from a Wi-Fi aggregate (IEEE 802.11, 9.7) or a DOCSIS grant. 0 disables this.
    pub bursts: Span,
}

/// Packets that are delayed so that later ones overtake them (RFC 4737).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reordering {
    /// Delayed packets per million.
    pub part: u32,
    /// Their additional delay.
    pub by: Span,
}

/// The limit of a queue; the packet in transmission does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// A limit in IP bytes.
    Bytes(Size),
    /// A limit in packets.
    Packets(u32),
}

/// Which packet a full queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropEnd {
    /// The arriving packet.
    Tail,
    /// The oldest packet in the queue.
    Front,
}

/// The framing of packets on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No framing.
    None,
    /// ATM cells, with 48 bytes of payload in 53.
    Atm,
    /// PTM code words, with 64 bytes of payload in 65.
    Ptm,
}

impl Impairments {
    /// No impairments.
    pub const NONE: Self = Self {
        loss: 0,
        jitter: Span::ZERO,
        reordering: Reordering::NONE,
        bursts: Span::ZERO,
    };
}

impl Reordering {
    /// No packet is delayed.
    pub const NONE: Self = Self {
        part: 0,
        by: Span::ZERO,
    };
}

impl Line {
    /// Returns the line of a run with this seed. If its rates vary, `then` has their steps up to
    /// the time `until`. Every arm of a seed has the same steps.
    #[must_use]
    pub fn drawn(&self, seed: u64, until: Span) -> Self {
        let mut line = self.clone();
        if let Some(variation) = line.varies {
            line.then = steps(variation, [line.up.rate, line.down.rate], seed, until);
        }
        line
    }

    /// Returns the states of a direction in order; the first applies from the start.
    #[must_use]
    pub fn stretches(&self, direction: Direction) -> Vec<LineStretch> {
        let side = match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        };
        let mut last = LineStretch {
            after: Span::ZERO,
            rate: side.rate,
            later: Span::ZERO,
        };
        let mut all = vec![last];
        for step in &self.then {
            let rate = match direction {
                Direction::Up => step.up,
                Direction::Down => step.down,
            };
            let next = LineStretch {
                after: step.at,
                rate: rate.unwrap_or(last.rate),
                later: step.later.unwrap_or(last.later),
            };
            if (next.rate, next.later) != (last.rate, last.later) {
                all.push(next);
                last = next;
            }
        }
        all
    }
}
