// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how many bytes pass a line in a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::Rate;

/// The data that passed a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of payload.
    pub bytes: u64,
    /// The duration.
    pub time: Duration,
}

impl Transfer {
    /// Returns the rate of payload.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let bits = self.bytes as f64 * 8.0 / self.time.as_secs_f64().max(1e-9);
        Rate::bits_per_second(bits.round() as u64)
    }
}

/// Counts during the last three quarters of a time, because TCP starts slowly.
pub(crate) fn count(time: Duration, counted: &AtomicU64) -> Transfer {
    thread::sleep(time / 4);
    let (before, begin) = (counted.load(Ordering::Relaxed), Instant::now());
    thread::sleep(time.saturating_sub(time / 4));
    Transfer {
        bytes: counted.load(Ordering::Relaxed) - before,
        time: begin.elapsed(),
    }
}
