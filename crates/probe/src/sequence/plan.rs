// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan of a scripted sequence.

use crate::sequence::wanted::{Manner, Stream};
use std::time::Duration;
use weirgate_units::Direction;

/// What a flow does during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// One transfer per run: of this many bytes, or until the run ends.
    Transfer {
        /// The direction.
        direction: Direction,
        /// The number of bytes.
        bytes: Option<u64>,
    },
    /// Requests, one after the other.
    Requests {
        /// The size of a request in bytes.
        request: u64,
        /// The size of a response in bytes.
        response: u64,
        /// The pause after a response.
        think: Duration,
    },
    /// Short transfers, many of which may run concurrently, for each of the equal flows in
    /// chronological order.
    Short {
        /// The direction.
        direction: Direction,
        /// When each starts, and its number of bytes.
        flows: Vec<Vec<Short>>,
    },
    /// Datagrams.
    Datagrams {
        /// The direction; `None` for both.
        direction: Option<Direction>,
        /// Their size and interval.
        stream: Stream,
    },
    /// SYNs that are not answered, at this interval.
    Syns(Duration),
}

/// A short transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// When it starts, since the start of the sequence.
    pub begin: Duration,
    /// When it is given up, since the start of the sequence.
    pub end: Duration,
    /// The bytes of data.
    pub bytes: u64,
}

/// One flow, or several equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// The name.
    pub name: String,
    /// What it does.
    pub doing: Doing,
    /// The properties of its packets.
    pub manner: Manner,
    /// When its runs start and end, since the start of the sequence.
    pub runs: Vec<(Duration, Duration)>,
    /// The number of equal flows.
    pub count: u16,
    /// The delay between the starts of consecutive equal flows.
    pub stagger: Duration,
}

/// A series of echoes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// The name.
    pub name: String,
    /// Whether to use UDP datagrams, which the server returns; otherwise ICMP.
    pub udp: bool,
    /// The interval.
    pub interval: Duration,
    /// The size of the IP packet in bytes.
    pub size: u32,
    /// The code point.
    pub dscp: u8,
    /// When its runs start and end.
    pub runs: Vec<(Duration, Duration)>,
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// The flows.
    pub plays: Vec<Play>,
    /// The echoes.
    pub pings: Vec<Ping>,
    /// The total duration.
    pub length: Duration,
}
