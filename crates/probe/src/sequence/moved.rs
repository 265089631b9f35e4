// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the bytes that a flow moves, by the second in which they move, so that late reporting
//! does not matter.

use crate::sequence::stop::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The bytes of a flow, by second since the start of its sequence.
#[derive(Debug)]
pub(crate) struct Moved {
    begin: Instant,
    length: Duration,
    seconds: Mutex<Vec<u64>>,
}

impl Moved {
    /// Makes an empty counter for a sequence of this length.
    pub(crate) fn new(begin: Instant, length: Duration) -> Self {
        Self {
            begin,
            length,
            seconds: Mutex::default(),
        }
    }

    /// Counts bytes that move now. Bytes after the end are not counted.
    pub(crate) fn add(&self, bytes: u64) {
        let now = self.begin.elapsed();
        if now >= self.length {
            return;
        }
        let second = now.as_secs() as usize;
        let mut seconds = lock(&self.seconds);
        if seconds.len() <= second {
            seconds.resize(second + 1, 0);
        }
        seconds[second] += bytes;
    }

    /// Returns the bytes so far.
    pub(crate) fn sum(&self) -> u64 {
        lock(&self.seconds).iter().sum()
    }

    /// Returns the bytes of each of the first seconds.
    pub(crate) fn first(&self, count: usize) -> Vec<u64> {
        let mut seconds = lock(&self.seconds).clone();
        seconds.resize(count, 0);
        seconds
    }
}
