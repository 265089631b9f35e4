// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data for the output: what holds for all packets, and the result of each item.

use crate::whole::explain::class::Class;
use std::collections::BTreeMap;
use std::path::Path;
use weirgate_explain::{Devices, Fate, Simulator};
use weirgate_keep::Source;
use weirgate_policy::Policy;

/// The data that holds for all packets.
pub struct About<'a> {
    pub policy: &'a Policy,
    pub simulator: &'a Simulator,
    /// The policy's files; the main file is the first.
    pub sources: &'a [Source],
    pub name: &'a Path,
    pub general: Vec<String>,
    /// The services whose packets are shown.
    pub services: Vec<String>,
    pub all: bool,
}

/// The results of an item's packets.
#[derive(Default)]
pub struct Shown {
    /// The fate and class of the last packet.
    pub last: Option<(Fate, Class)>,
    /// The number of packets in each class.
    pub classes: BTreeMap<String, usize>,
    pub path: Option<Devices>,
}
