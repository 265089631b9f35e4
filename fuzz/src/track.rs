// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as a record of rate tracking. A mistake must name a valid line, and the
//! decisions of a record must stay between floor and ceiling.

use weirgate_track::{Decision, replay};

pub fn run(data: &[u8]) {
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
}

/// The planted mistake: a first rate that no seed has.
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
