// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan of a scripted sequence.

use crate::sequence::wanted::{Manner, Stream};
use std::time::Duration;
use weirgate_units::Direction;

/// What a flow does while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// One transfer for each run: of so many bytes, or until the run ends.
    Transfer {
        /// Which direction.
        direction: Direction,
        /// How many.
        bytes: Option<u64>,
    },
    /// Requests, one after the other.
    Requests {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a response.
        response: u64,
        /// Pause after a response.
        think: Duration,
    },
    /// Short transfers, of which many may run at once: those of each of the
    /// equal flows, in order of time.
    Short {
        /// Which direction.
        direction: Direction,
        /// When each begins and how many bytes it has.
        flows: Vec<Vec<Short>>,
    },
    /// Datagrams.
    Datagrams {
        /// Which direction; both where none is given.
        direction: Option<Direction>,
        /// What they are.
        stream: Stream,
    },
    /// SYNs that nobody answers, so far apart.
    Syns(Duration),
}

/// A short transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// When it begins, since the beginning of all.
    pub begin: Duration,
    /// When the sequence is given up.
    pub end: Duration,
    /// Bytes of data.
    pub bytes: u64,
}

/// A flow, or several equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// Its name.
    pub name: String,
    /// What it does.
    pub doing: Doing,
    /// How its packets are.
    pub manner: Manner,
    /// From when to when it runs, since the beginning.
    pub runs: Vec<(Duration, Duration)>,
    /// How many at once.
    pub count: u16,
    /// How long after the one before each begins.
    pub stagger: Duration,
}

/// Echoes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// Its name.
    pub name: String,
    /// By datagrams, which the serving end returns; else by ICMP.
    pub udp: bool,
    /// How often.
    pub interval: Duration,
    /// Bytes of the IP packet.
    pub size: u32,
    /// Its code point.
    pub dscp: u8,
    /// When it runs.
    pub runs: Vec<(Duration, Duration)>,
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Flows.
    pub plays: Vec<Play>,
    /// Echoes.
    pub pings: Vec<Ping>,
    /// How long all of it takes.
    pub length: Duration,
}
