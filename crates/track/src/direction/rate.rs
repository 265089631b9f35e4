// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times in nanoseconds, and rates in bits per second.

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MILLISECOND: u64 = 1_000_000;

/// `whole * share / of`, saturating at the largest number.
pub(crate) fn part(whole: u64, share: u64, of: u64) -> u64 {
    let exact = u128::from(whole) * u128::from(share) / u128::from(of.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Returns a rate in bits per second.
pub(super) fn rate_of(bytes: u64, span: u64) -> u64 {
    part(bytes, 8 * SECOND, span)
}
