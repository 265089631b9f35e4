// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many bytes came through a line, and in which time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::Rate;

/// What came through a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the connections' data.
    pub bytes: u64,
    /// In this time.
    pub time: Duration,
}

impl Transfer {
    /// Its rate, in bytes of data.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let bits = self.bytes as f64 * 8.0 / self.time.as_secs_f64().max(1e-9);
        Rate::bits_per_second(bits.round() as u64)
    }
}

/// What is counted in the last three quarters of a time: TCP begins slowly.
pub(crate) fn count(time: Duration, counted: &AtomicU64) -> Transfer {
    thread::sleep(time / 4);
    let (before, begin) = (counted.load(Ordering::Relaxed), Instant::now());
    thread::sleep(time.saturating_sub(time / 4));
    Transfer {
        bytes: counted.load(Ordering::Relaxed) - before,
        time: begin.elapsed(),
    }
}
