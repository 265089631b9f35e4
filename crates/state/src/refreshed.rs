// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What sets hold that is looked up again and again: addresses of DNS names, and
//! the kernel's own numbers of what comes and goes.

use serde::{Deserialize, Serialize};

/// The names behind a set of [`Content::Refreshed`](crate::Content::Refreshed).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Refreshed {
    /// The DNS names; of a set whose [`Key`](crate::Key) is followed, the paths
    /// below the root. None in a state that was observed.
    pub names: Vec<String>,
    /// How often DNS names are looked up, in seconds; 0 for what is
    /// followed, whose coming and going the kernel tells.
    pub every: u32,
    /// The values that the set has when it is made.
    pub found: Vec<u128>,
}

impl PartialEq for Refreshed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Refreshed {}
