// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as calls of an engine: nodes are added, changed, moved and removed while
//! packets are queued. `growth` checks the invariants after each call.

#[path = "../../crates/aqm/tests/support/growth.rs"]
mod growth;

use growth::{Grown, grow};

pub fn run(data: &[u8]) {
    planted(&grow(data));
}

/// The planted mistake: a leaf that is removed while it has exactly nine packets.
#[cfg(feature = "planted")]
fn planted(grown: &Grown) {
    assert!(
        grown.removed_with != 9,
        "the planted mistake: nine packets of a leaf, with {} sent and {} dropped",
        grown.sent,
        grown.dropped
    );
}

#[cfg(not(feature = "planted"))]
fn planted(grown: &Grown) {
    assert!(grown.removed_with <= 120);
}
