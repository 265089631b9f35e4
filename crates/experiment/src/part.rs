// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of an entry's short flows by size, and an arm's discipline of the kit. Both serve to
//! evaluate queueing disciplines.

use crate::{Traffic, TrafficKind};
use weirgate_units::Rate;

/// A discipline of the kit, at the root of the gateway's device to the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kit {
    /// Its name, such as `meredt`.
    pub discipline: String,
    /// The rate to which it shapes, in bits on the wire.
    pub rate: Option<Rate>,
    /// The name of the link layer by which it counts bytes. If absent, it counts as the device
    /// does.
    pub layer: Option<String>,
    /// Parameters, each as `name=value`.
    pub set: Vec<String>,
}

/// The flows of an entry within certain size bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The subject of its metrics: `mice:5000`, or `mice:more`.
    pub name: String,
    /// Lower bound in payload bytes, exclusive.
    pub above: u64,
    /// Upper bound in payload bytes, inclusive.
    pub most: u64,
}

impl Part {
    /// Returns whether a flow of this many bytes belongs to it.
    #[must_use]
    pub const fn has(&self, bytes: u64) -> bool {
        self.above < bytes && bytes <= self.most
    }
}

impl Traffic {
    /// Returns the parts of its flows by size, the smallest first; empty if it has no bounds.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let TrafficKind::ShortFlows { sizes, .. } = &self.kind else {
            return Vec::new();
        };
        let mut above = 0;
        let mut parts = Vec::new();
        for size in sizes {
            let most = size.as_bytes();
            let name = format!("{}:{most}", self.name);
            parts.push(Part { name, above, most });
            above = most;
        }
        if !parts.is_empty() {
            parts.push(Part {
                name: format!("{}:more", self.name),
                above,
                most: u64::MAX,
            });
        }
        parts
    }
}
