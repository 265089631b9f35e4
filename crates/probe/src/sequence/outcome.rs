// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scripted sequence did.

use crate::sequence::datagram::Received;
use std::time::Duration;
use weirgate_units::Direction;

/// A transfer, or the requests of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// Which flow.
    pub play: usize,
    /// Which of its equal ones, from 0.
    pub member: u16,
    /// When it began, since the beginning.
    pub begin: Duration,
    /// When it ended.
    pub end: Duration,
    /// Bytes of data that arrived: of requests, of the responses.
    pub bytes: u64,
    /// Of datagrams and SYNs, what became of them in each direction.
    pub counted: Vec<Counted>,
    /// How long each request took until its response was whole.
    pub answers: Vec<Duration>,
    /// Why it ended, where that was not by plan.
    pub failed: Option<String>,
}

/// Datagrams or SYNs of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Which direction.
    pub direction: Direction,
    /// How many were sent.
    pub sent: u64,
    /// What arrived; nothing is known of SYNs.
    pub received: Option<Received>,
}

/// One echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinged {
    /// Of which [`Ping`].
    pub ping: usize,
    /// When it was sent.
    pub at: Duration,
    /// How long it took; `None` of those that were lost.
    pub took: Option<Duration>,
}

/// What a sequence did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Played {
    /// Transfers, as they ended.
    pub transfers: Vec<Transferred>,
    /// Bytes of data of each flow by the second: downwards as they arrived,
    /// upwards as they were given to the kernel.
    pub seconds: Vec<Vec<u64>>,
    /// Echoes, in order of time.
    pub echoes: Vec<Pinged>,
}
