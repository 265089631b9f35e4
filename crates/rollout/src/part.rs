// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a router in a domain: a policy, and circuits. Both are planned, applied, confirmed
//! and rolled back by the same commands, and fail together. That a router should have no circuits
//! is a part too, because it may have some already.

use crate::ssh::Answer;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weirgate_circuits::kept::Ports;
use weirgate_units::Inserted as _;

/// Texts by the names of routers.
pub type Texts = BTreeMap<String, String>;

/// The input of each part.
pub type Parts = BTreeMap<Part, String>;

/// A part of a router.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The router's name.
    pub router: String,
    /// Whether this is its circuits, and not its policy.
    pub is_circuits: bool,
}

impl Part {
    /// Returns these arguments of `weirgate` for this part.
    pub fn words<'w>(&self, words: &[&'w str]) -> Vec<&'w str> {
        let of = self.is_circuits.then_some("circuits");
        of.into_iter().chain(words.iter().copied()).collect()
    }

    /// Returns the command that shows on the router how a change ended.
    pub const fn told_by(&self) -> &'static str {
        if self.is_circuits {
            "weirgate circuits rollback --waiting"
        } else {
            "weirgate history"
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.router)?;
        if self.is_circuits {
            f.write_str(" (circuits)")?;
        }
        Ok(())
    }
}

/// Returns whether this text of a part means no circuits, and the answer to `plan` shows that the
/// router has none.
pub fn has_none(text: &str, answer: &Answer) -> bool {
    text == Ports::NONE && (answer.done() || answer.lacks("circuits"))
}

/// Returns the parts of all routers.
pub fn parts(policies: Texts, circuits: Texts) -> Parts {
    let part = |is_circuits| {
        move |(router, text)| {
            let part = Part {
                router,
                is_circuits,
            };
            (part, text)
        }
    };
    let policies = policies.into_iter().map(part(false));
    let all = policies.chain(circuits.into_iter().map(part(true)));
    all.inserted()
}

/// Counts the routers of these parts.
pub fn routers<'p>(parts: impl Iterator<Item = &'p Part>) -> usize {
    let names: BTreeSet<&str> = parts.map(|part| &*part.router).inserted();
    names.len()
}
