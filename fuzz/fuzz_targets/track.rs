// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any text as a record of rate tracking: a mistake names a line that is there, and
//! the decisions of a record stay between floor and ceiling.

#![no_main]

mod dictionary;
mod words;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use weirgate_track::{Decision, replay};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match replay(text) {
        Ok(replayed) => {
            planted(&replayed.decisions);
            assert!(replayed.inputs <= text.lines().count());
        }
        Err(wrong) => assert!(wrong.line <= text.lines().count().max(1) && !wrong.wrong.is_empty()),
    }
});

/// What libFuzzer itself is given, see tools/xtask.
const DICTIONARY: &str = include_str!("../dictionaries/track.dict");

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match words::mutated(&data[..size], max_size, seed, DICTIONARY) {
        Some(text) => {
            data[..text.len()].copy_from_slice(&text);
            text.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});

/// The planted mistake: a first rate that is in none of the seeds.
#[cfg(feature = "planted")]
fn planted(decisions: &[Decision]) {
    let first = decisions
        .first()
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(
        !first.contains(" 7000000 "),
        "the planted mistake: 7000000 bit/s"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: &[Decision]) {}
