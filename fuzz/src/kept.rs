// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any text as a stored state. It must be refused, or be a state that does not change when
//! it is written and read again, and that can be judged and shown whatever it contains.

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

/// The planted mistake: a table with a name that no seed has.
#[cfg(feature = "planted")]
fn planted(state: &State) {
    let called = state.tables.iter().any(|table| table.name == "netdev");
    assert!(!called, "the planted mistake: a table `netdev`");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &State) {}
