// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown: what holds for all packets, and what came of each item.

use crate::whole::explain::class::Class;
use std::collections::BTreeMap;
use std::path::Path;
use weirgate_explain::{Devices, Fate, Simulator};
use weirgate_keep::Source;
use weirgate_policy::Policy;

/// What holds for all packets.
pub struct About<'a> {
    pub policy: &'a Policy,
    pub simulator: &'a Simulator,
    /// The policy's files, its own first.
    pub sources: &'a [Source],
    pub name: &'a Path,
    pub general: Vec<String>,
    pub all: bool,
}

/// What came of an item's packets.
#[derive(Default)]
pub struct Shown {
    /// The last one's.
    pub last: Option<(Fate, Class)>,
    /// How many got which class.
    pub classes: BTreeMap<String, usize>,
    pub path: Option<Devices>,
}
