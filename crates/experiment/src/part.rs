// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An entry's short flows by size, and an arm's discipline of the kit: the parts of the model with
//! which queueing disciplines are judged.

use crate::{Traffic, TrafficKind};
use weirgate_units::Rate;

/// A discipline of the kit at the root of the gateway's device to the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kit {
    /// Its name, such as `meredt`.
    pub discipline: String,
    /// The rate that it holds packets back to, in bits on the wire.
    pub rate: Option<Rate>,
    /// The link layer by which it counts bytes, by name; as the device counts
    /// where absent.
    pub layer: Option<String>,
    /// Parameters, `name=value` each.
    pub set: Vec<String>,
}

/// Flows of an entry within bounds of size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The subject of its metrics: `mice:5000`, or `mice:more`.
    pub name: String,
    /// Flows of more payload bytes than this belong to it,
    pub above: u64,
    /// if they have at most so many.
    pub most: u64,
}

impl Part {
    /// Whether a flow of this many bytes belongs to it.
    #[must_use]
    pub const fn has(&self, bytes: u64) -> bool {
        self.above < bytes && bytes <= self.most
    }
}

impl Traffic {
    /// Its flows by size, where the entry names bounds; the smallest first.
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
