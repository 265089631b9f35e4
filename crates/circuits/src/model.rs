// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A checked list of circuits.

use crate::address::Prefix;
use weirgate_units::Rate;

/// A rate in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair {
    /// Towards the subscriber.
    pub down: Rate,
    /// From the subscriber.
    pub up: Rate,
}

/// A node of the tree with others below it: a site, a tower, an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its name, which no other site has.
    pub name: String,
    /// The place in [`List::sites`] of the site above it; `None` for the link.
    /// It is less than the site's own.
    pub parent: Option<usize>,
    /// What everything below it never exceeds; `None` where it has no rate.
    pub most: Option<Pair>,
}

/// A subscriber's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuit {
    /// Its identifier, which no other circuit has.
    pub id: String,
    /// The place in [`List::sites`] of the site above it; `None` for the link.
    pub parent: Option<usize>,
    /// Its plan, where it has one.
    pub plan: Option<String>,
    /// What it has before others have more than theirs; 0 for nothing.
    pub least: Pair,
    /// What it never exceeds.
    pub most: Pair,
    /// Whose packets are its own, in order, none twice.
    pub prefixes: Vec<Prefix>,
}

/// A list without mistakes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// Each behind the one that it is below.
    pub sites: Vec<Site>,
    /// In the order of the files.
    pub circuits: Vec<Circuit>,
}

impl List {
    /// What is guaranteed to the circuits below each site together.
    pub fn guaranteed(&self) -> Vec<Pair> {
        let add = |to: &mut Pair, more: Pair| {
            let sum = |a: Rate, b: Rate| {
                let bits = a
                    .as_bits_per_second()
                    .saturating_add(b.as_bits_per_second());
                Rate::bits_per_second(bits)
            };
            *to = Pair {
                down: sum(to.down, more.down),
                up: sum(to.up, more.up),
            };
        };
        let mut sums = vec![Pair::default(); self.sites.len()];
        for circuit in &self.circuits {
            if let Some(own) = circuit.parent.and_then(|parent| sums.get_mut(parent)) {
                add(own, circuit.least);
            }
        }
        // Those below a site stand behind it.
        for (number, site) in self.sites.iter().enumerate().rev() {
            let own = sums[number];
            if let Some(above) = site.parent.and_then(|parent| sums.get_mut(parent)) {
                add(above, own);
            }
        }
        sums
    }
}
