// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recent load of the line, and its outages.

use super::rate::{MILLISECOND, SECOND, rate_of};
use std::collections::VecDeque;

/// The time over which the load tells what the line carries, when a queue appears: by then it has
/// stood for about this long.
pub(super) const JUST: u64 = 200 * MILLISECOND;
/// When a queue has stood for this long, the rate that came through is known.
pub(super) const KNOWN: u64 = 150 * MILLISECOND;
/// The time for which readings are stored.
pub(super) const KEPT: u64 = 2 * SECOND;
/// The error of a reading, in bytes.
pub(super) const ERROR_BYTES: u64 = 2_000;

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: u64,
    span: u64,
    bytes: u64,
    full: bool,
}

/// The readings of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Load {
    samples: VecDeque<Sample>,
    last: Option<u64>,
    /// Whether there is an outage, and since when packets arrive again.
    silent: bool,
    resumed: Option<u64>,
}

impl Load {
    /// Takes counters that were read while the shaper let `shaped` bit/s through. Returns the
    /// time since the last reading; `None` for the first one.
    pub(super) fn take(&mut self, at: u64, bytes: u64, backlog: u64, shaped: u64) -> Option<u64> {
        let span = at.saturating_sub(self.last.replace(at)?);
        if span == 0 {
            return Some(0);
        }
        self.listen(at, bytes, shaped);
        self.samples.push_back(Sample {
            at,
            span,
            bytes,
            full: backlog > 0 || rate_of(bytes, span) >= shaped / 10 * 9,
        });
        let old = |one: &Sample| at.saturating_sub(one.at) > KEPT;
        while self.samples.front().is_some_and(old) {
            self.samples.pop_front();
        }
        Some(span)
    }

    /// Detects an outage: nothing arrives although the line was in use. The delay that it causes
    /// is no queue, and ends one round trip after the connection is back. Below 1.3 Mbit/s, a
    /// reading without a packet is normal.
    fn listen(&mut self, at: u64, bytes: u64, shaped: u64) {
        if bytes > 0 {
            if self.silent {
                self.silent = false;
                self.resumed = Some(at);
            }
            return;
        }
        let lately = self
            .lately(at, JUST)
            .fold((0_u64, 0), |(bytes, looks), one| {
                (bytes.saturating_add(one.bytes), looks + 1)
            });
        let (bytes, looks) = lately;
        let much = bytes / looks.max(1) >= 4 * ERROR_BYTES;
        self.silent |= much && self.carried(at, JUST) >= shaped / 2;
    }

    /// Whether answers that take this long are delayed by an outage.
    pub(super) fn is_deaf(&self, at: u64, answers: u64) -> bool {
        let back = |then: u64| at.saturating_sub(then) < answers.saturating_add(KNOWN);
        self.silent || self.resumed.is_some_and(back)
    }

    fn lately(&self, at: u64, window: u64) -> impl Iterator<Item = &Sample> {
        let from = at.saturating_sub(window);
        self.samples.iter().filter(move |one| one.at > from)
    }

    /// Returns the mean rate on the line in the last `window`, in bits per second.
    pub(super) fn carried(&self, at: u64, window: u64) -> u64 {
        mean(self.lately(at, window))
    }

    /// Returns that rate without the time of outages.
    pub(super) fn came(&self, at: u64, window: u64) -> u64 {
        let is_deaf = self.is_deaf(at, window);
        mean(
            self.lately(at, window)
                .filter(|one| one.bytes > 0 || !is_deaf),
        )
    }

    /// Returns whether the shaper was full for most of that time.
    pub(super) fn filled(&self, at: u64, window: u64) -> bool {
        let (full, span) = self.lately(at, window).fold((0, 0), |(full, span), one| {
            (full + if one.full { one.span } else { 0 }, span + one.span)
        });
        span >= window / 10 * 7 && full >= span / 10 * 6
    }
}

fn mean<'a>(samples: impl Iterator<Item = &'a Sample>) -> u64 {
    let (bytes, span) = samples.fold((0u64, 0u64), |(bytes, span), one| {
        (bytes.saturating_add(one.bytes), span + one.span)
    });
    rate_of(bytes, span)
}
