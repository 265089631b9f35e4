// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a scripted sequence.

use crate::sequence::datagram::Received;
use std::time::Duration;
use weirgate_units::Direction;

/// A transfer, or the requests of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// The index of its flow.
    pub play: usize,
    /// The index among equal flows, from 0.
    pub member: u16,
    /// When it started, since the start of the sequence.
    pub begin: Duration,
    /// When it ended, since the start of the sequence.
    pub end: Duration,
    /// Bytes of data that arrived; for requests, those of the responses.
    pub bytes: u64,
    /// For datagrams and SYNs, the counts in each direction.
    pub counted: Vec<Counted>,
    /// The time from each request to the end of its response.
    pub answers: Vec<Duration>,
    /// Why it ended, if not as planned.
    pub failed: Option<String>,
}

/// The datagrams or SYNs of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The direction.
    pub direction: Direction,
    /// The number sent.
    pub sent: u64,
    /// Those that arrived; unknown for SYNs.
    pub received: Option<Received>,
}

/// One echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinged {
    /// The index of its [`Ping`].
    pub ping: usize,
    /// When it was sent.
    pub at: Duration,
    /// The round-trip time; `None` if it was lost.
    pub took: Option<Duration>,
}

/// The results of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Played {
    /// The transfers, in the order in which they ended.
    pub transfers: Vec<Transferred>,
    /// The bytes of data of each flow per second: downstream when they arrived, upstream when
    /// they were passed to the kernel.
    pub seconds: Vec<Vec<u64>>,
    /// The echoes, in chronological order.
    pub echoes: Vec<Pinged>,
}
