// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measured figures.

use std::collections::BTreeMap;
use weirgate_measure::stats::Sorted;

/// Figures by name.
pub type Figures = BTreeMap<String, f64>;

/// Returns the figures of round trips in nanoseconds.
pub fn times(took: Vec<u64>) -> Figures {
    let sorted = Sorted::new(took);
    let rank = |per_mille| sorted.per_mille(per_mille).map(|time| time as f64);
    let all = [
        ("min_ms", rank(0)),
        ("mean_ms", sorted.mean()),
        ("p50_ms", rank(500)),
        ("p99_ms", rank(990)),
    ];
    let known = all.into_iter().filter_map(|(name, time)| {
        let time = time? / 1e6;
        Some((name.to_owned(), time))
    });
    known.collect()
}
