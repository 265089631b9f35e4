// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A checked list of circuits.

use crate::keys::{Key, KeyKind};
use weirgate_schedule::Schedule;
use weirgate_units::Direction;
use weirgate_units::{Rate, Size};

/// A rate, or something else, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair<T = Rate> {
    /// Towards the subscriber.
    pub down: T,
    /// From the subscriber.
    pub up: T,
}

impl<T> Pair<T> {
    /// Returns the value of a direction.
    pub fn of(self, direction: Direction) -> T {
        match direction {
            Direction::Down => self.down,
            Direction::Up => self.up,
        }
    }
}

/// What a plan gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// What a circuit has before others have more than theirs; 0 for nothing.
    pub least: Pair,
    /// What it never exceeds for longer than a burst.
    pub most: Pair,
    /// What it may send above that after it had less; 0 for nothing.
    pub burst: Pair<Size>,
}

/// Rates by a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Its name, which no other plan has.
    pub name: String,
    /// What it gives, unless one of `times` holds.
    pub terms: Terms,
    /// Times at which it gives something else; the first that holds counts.
    pub times: Vec<Times>,
    /// How much it gives in a month.
    pub quota: Quota,
}

/// Times at which a plan gives something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// When.
    pub schedule: Schedule,
    /// The same as it is written: hours, days and zone.
    pub written: [String; 3],
    /// What it gives then.
    pub terms: Terms,
}

/// How much a plan gives in a calendar month of UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes of frames; 0 for as much as can be had.
    pub most: Pair<Size>,
    /// The plan whose terms count when that is used up, for the rest of the month and in
    /// that direction; `None` for those of a suspended circuit.
    pub beyond: Option<String>,
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
    /// What it never exceeds for longer than a burst.
    pub most: Pair,
    /// What it may send above that after it had less; 0 for nothing.
    pub burst: Pair<Size>,
    /// Which of its rates are its plan's: least down and up, most down and up. The burst
    /// is always.
    pub of_plan: [bool; 4],
    /// What tells that packets are its own, in order, none twice.
    pub keys: Vec<Key>,
    /// Whether it has [`SUSPENDED`] alone, whatever its rates say.
    pub suspended: bool,
}

/// What a suspended circuit has in either direction, without a guarantee: enough for a
/// page that says why, and for a payment. A circuit whose own rate is less keeps that.
pub const SUSPENDED: Rate = Rate::kbit(64);

impl Circuit {
    /// What it is guaranteed in a direction, and what it never exceeds there.
    pub fn rates(&self, direction: Direction) -> [Rate; 2] {
        let [least, most] = [self.least, self.most].map(|pair| pair.of(direction));
        if self.suspended {
            return [Rate::default(), most.min(SUSPENDED)];
        }
        [least, most]
    }

    /// Its burst in a direction.
    pub fn burst(&self, direction: Direction) -> Size {
        if self.suspended {
            return Size::default();
        }
        self.burst.of(direction)
    }
}

/// A list without mistakes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// Each behind the one that it is below.
    pub sites: Vec<Site>,
    /// In the order of the files.
    pub circuits: Vec<Circuit>,
    /// In the order of the files.
    pub plans: Vec<Plan>,
}

impl List {
    /// How many keys there are of each kind, in the order of [`KeyKind::ALL`].
    pub fn keys(&self) -> [usize; KeyKind::ALL.len()] {
        let mut counts = [0; KeyKind::ALL.len()];
        for key in self.circuits.iter().flat_map(|one| &one.keys) {
            counts[key.kind() as usize] += 1;
        }
        counts
    }

    /// How many sites and circuits are below the link itself.
    pub fn below_link(&self) -> usize {
        let sites = self.sites.iter().map(|site| site.parent);
        let circuits = self.circuits.iter().map(|circuit| circuit.parent);
        sites.chain(circuits).filter(Option::is_none).count()
    }

    /// What is guaranteed below each site, in bytes a second: the sum of what circuits
    /// have, each in whole bytes.
    pub fn guaranteed_bytes_s(&self, direction: Direction) -> Vec<u64> {
        let mut sums = vec![0_u64; self.sites.len()];
        for circuit in &self.circuits {
            if let Some(sum) = circuit.parent.and_then(|parent| sums.get_mut(parent)) {
                let [least, _] = circuit.rates(direction);
                *sum = sum.saturating_add(least.as_bytes_per_second());
            }
        }
        // Those below a site stand behind it.
        for (number, site) in self.sites.iter().enumerate().rev() {
            let own = sums[number];
            if let Some(above) = site.parent.and_then(|parent| sums.get_mut(parent)) {
                *above = above.saturating_add(own);
            }
        }
        sums
    }
}
