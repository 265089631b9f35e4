// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any text as a state that was kept on disk: it is refused, or it is a state
//! that is the same when it is written and read again, and that can be judged and
//! shown whatever it says.

use crate::Corpus;
use weirgate_state::State;

pub fn run(data: &[u8]) -> Corpus {
    let Ok(state) = serde_json::from_slice::<State>(data) else {
        return Corpus::Reject;
    };
    planted(&state);
    let text = serde_json::to_vec(&state).expect("a state can be written");
    let again: State = serde_json::from_slice(&text).expect("what was written is read");
    assert_eq!(state, again);
    for table in &state.tables {
        let _ = table.faults();
        assert!(!table.nft_text().is_empty());
        let canonical = table.canonical();
        assert_eq!(canonical, canonical.canonical());
    }
    Corpus::Keep
}

/// The planted mistake: a table of a name that is in none of the seeds.
#[cfg(feature = "planted")]
fn planted(state: &State) {
    let called = state.tables.iter().any(|table| table.name == "netdev");
    assert!(!called, "the planted mistake: a table `netdev`");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &State) {}
