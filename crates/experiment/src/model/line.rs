// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access line: its rates, its queues, and what happens to packets on it.

use crate::vary::steps;
use weirgate_units::Direction;
use weirgate_units::{Rate, Size, Span};

/// The access line as its emulator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From the gateway.
    pub up: LineSide,
    /// To the gateway.
    pub down: LineSide,
    /// How bytes become line time.
    pub framing: Framing,
    /// Bytes added to each IP packet before framing.
    pub overhead: i32,
    /// Smallest size after `overhead`, before framing.
    pub mpu: u32,
    /// Rates that take the place of the ones before, in order of time.
    pub then: Vec<LineStep>,
    /// What kind of line its rates vary as; `then` is empty where they do, until a run
    /// [draws](Line::drawn) it.
    pub varies: Option<Variation>,
    /// Whether only one direction transmits at a time, as on a radio channel.
    pub half_duplex: bool,
}

/// A change of the line from a time on, as when a modem retrains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStep {
    /// When, in virtual time since the start of traffic.
    pub at: Span,
    /// Upstream from then on; as before where nothing is configured. At a rate of 0 nothing
    /// is transmitted.
    pub up: Option<Rate>,
    /// Downstream from then on.
    pub down: Option<Rate>,
    /// How much longer than the direction's `delay` a packet takes each way from then on.
    pub later: Option<Span>,
}

/// What a direction of a line has from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStretch {
    /// Transmissions that begin later have this.
    pub after: Span,
    /// Bits on the wire; at 0 none begins.
    pub rate: Rate,
    /// How much longer than the direction's delay a packet takes.
    pub later: Span,
}

/// A kind of line whose rates vary all the time. The rates of the file are the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variation {
    /// A cell of LTE, shared with others.
    Lte,
    /// 5G at high frequencies: fast in sight of the station, slow behind a corner.
    FiveG,
    /// Satellites in low orbits, which take over from each other every 15 s.
    Starlink,
    /// A segment of cable at a busy hour.
    Cable,
}

/// One direction of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSide {
    /// Line rate, in bits on the wire.
    pub rate: Rate,
    /// Fixed one-way delay after transmission.
    pub delay: Span,
    /// The queue before the line (the modem's, the exchange's).
    pub buffer: Buffer,
    /// Where a packet is dropped when the queue is full.
    pub drop: DropEnd,
    /// What happens to packets after transmission.
    pub impairments: Impairments,
}

/// What happens to a direction's packets after transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Impairments {
    /// How many of a million packets are lost.
    pub loss: u32,
    /// The most that a packet is delayed in addition, uniformly distributed. Packets keep
    /// their order.
    pub jitter: Span,
    /// Packets that arrive later than those behind them.
    pub reordering: Reordering,
    /// What was transmitted within each such time arrives together at its end, as from an
    /// aggregate of Wi-Fi (IEEE 802.11, 9.7) or a grant of DOCSIS; 0 for as it is transmitted.
    pub bursts: Span,
}

/// Packets that arrive later than those behind them (RFC 4737).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reordering {
    /// How many of a million.
    pub part: u32,
    /// How much later.
    pub by: Span,
}

/// The limit of a queue; the packet in transmission does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// In IP bytes.
    Bytes(Size),
    /// In packets.
    Packets(u32),
}

/// Which packet a full queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropEnd {
    /// The one that arrives.
    Tail,
    /// The oldest waiting.
    Front,
}

/// How the line packs bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// As they are.
    None,
    /// ATM cells, 48 bytes of payload in 53.
    Atm,
    /// PTM, 64 bytes in 65.
    Ptm,
}

impl Impairments {
    /// Packets arrive as they were transmitted.
    pub const NONE: Self = Self {
        loss: 0,
        jitter: Span::ZERO,
        reordering: Reordering::NONE,
        bursts: Span::ZERO,
    };
}

impl Reordering {
    /// None is late.
    pub const NONE: Self = Self {
        part: 0,
        by: Span::ZERO,
    };
}

impl Line {
    /// The line as a run of this seed has it: one that varies gets the steps of its rates
    /// until that time. Every arm of a seed has the same ones.
    #[must_use]
    pub fn drawn(&self, seed: u64, until: Span) -> Self {
        let mut line = self.clone();
        if let Some(variation) = line.varies {
            line.then = steps(variation, [line.up.rate, line.down.rate], seed, until);
        }
        line
    }

    /// What a direction has over time, in order; the first from the start on.
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
