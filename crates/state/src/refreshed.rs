// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Set contents that are updated again and again: addresses of DNS names, and the kernel's own
//! numbers of objects that appear and disappear.

use serde::{Deserialize, Serialize};

/// The names behind a set of [`Content::Refreshed`](crate::Content::Refreshed).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Refreshed {
    /// The DNS names. For a set whose [`Key`](crate::Key) is followed, the paths below the root.
    /// Empty in an observed state.
    pub names: Vec<String>,
    /// The interval between look-ups of DNS names, in seconds. 0 for followed objects, whose
    /// changes the kernel reports.
    pub every: u32,
    /// The values with which the set is created.
    pub found: Vec<u128>,
}

impl PartialEq for Refreshed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Refreshed {}
