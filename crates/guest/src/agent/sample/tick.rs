// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The times of samples.

use crate::agent::clock::Clock;
use anyhow::Result;
use weirgate_units::Span;

/// Waits for the next sample. Missed samples are skipped, because a late sample has the wrong
/// time.
pub(crate) async fn tick(clock: &Clock, interval: Span) -> Result<()> {
    Ok(clock.until(next_ns(clock.now_ns(), interval)).await?)
}

/// Returns when the next sample is due. Samples are offset from multiples of `interval`, because
/// traffic and probes are sent at round times and must not wait for a sampler.
fn next_ns(now_ns: u64, interval: Span) -> u64 {
    let interval_ns = interval.as_nanos();
    let aside_ns = interval_ns / 13 * 5;
    let number = (now_ns + interval_ns - aside_ns) / interval_ns;
    number.saturating_mul(interval_ns).saturating_add(aside_ns)
}

#[cfg(test)]
mod tests {
    use super::{Span, next_ns};

    #[test]
    fn samples_are_an_interval_apart_and_not_at_round_times() {
        for (now_ns, due_ns) in [(0, 5), (4, 5), (5, 18), (17, 18), (18, 31), (50, 57)] {
            assert_eq!(next_ns(now_ns, Span::from_nanos(13)), due_ns);
        }
    }
}
