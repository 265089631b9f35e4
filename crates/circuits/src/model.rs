// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A checked list of circuits.

use crate::keys::{Key, KeyKind};
use weirgate_schedule::Schedule;
use weirgate_units::{Direction, Rate, Size};

/// A rate or another value for each direction.
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

/// The rates and bursts that a plan grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// The guaranteed rate; 0 for none.
    pub least: Pair,
    /// The maximum rate, apart from bursts.
    pub most: Pair,
    /// Bytes that a circuit may send above the maximum rate after it was below it; 0 for none.
    pub burst: Pair<Size>,
}

/// A named set of terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The unique name.
    pub name: String,
    /// The terms outside the hours in `times`.
    pub terms: Terms,
    /// Terms for certain hours. The first entry whose hours match applies.
    pub times: Vec<Times>,
    /// The monthly quota.
    pub quota: Quota,
}

/// The terms of a plan during certain hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// The hours and days.
    pub schedule: Schedule,
    /// The schedule as the file has it: hours, days and zone.
    pub written: [String; 3],
    /// The terms during these hours.
    pub terms: Terms,
}

/// How much traffic a plan includes per calendar month in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes of frames; 0 for no quota.
    pub most: Pair<Size>,
    /// The plan whose terms apply once the quota is used up, in that direction, until the month
    /// ends. `None` means the terms of a suspended circuit.
    pub beyond: Option<String>,
}

/// An inner node of the tree: a site, a tower or an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The unique name.
    pub name: String,
    /// The index in [`List::sites`] of the parent, which is less than the site's own; `None` for
    /// the link.
    pub parent: Option<usize>,
    /// The maximum rate of everything below it; `None` for no limit.
    pub most: Option<Pair>,
}

/// The line of one subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuit {
    /// The unique identifier.
    pub id: String,
    /// The index in [`List::sites`] of the parent; `None` for the link.
    pub parent: Option<usize>,
    /// The name of its plan, if it has one.
    pub plan: Option<String>,
    /// The guaranteed rate; 0 for none.
    pub least: Pair,
    /// The maximum rate, apart from bursts.
    pub most: Pair,
    /// Bytes that it may send above the maximum rate after it was below it; 0 for none.
    pub burst: Pair<Size>,
    /// Which rates come from the plan: minimum down and up, maximum down and up. The burst
    /// always does.
    pub of_plan: [bool; 4],
    /// The keys that identify its packets, sorted and without duplicates.
    pub keys: Vec<Key>,
    /// Whether it is limited to [`SUSPENDED`], regardless of its rates.
    pub suspended: bool,
}

/// The rate of a suspended circuit in either direction, without a guarantee. It suffices for a
/// page that explains the suspension, and for a payment. A circuit with a lower rate keeps that.
pub const SUSPENDED: Rate = Rate::kbit(64);

impl Circuit {
    /// Returns the guaranteed and the maximum rate in a direction. The guarantee of a plan may be
    /// above the maximum of the circuit itself, which then counts for both.
    pub fn rates(&self, direction: Direction) -> [Rate; 2] {
        let [least, most] = [self.least, self.most].map(|pair| pair.of(direction));
        if self.suspended {
            return [Rate::default(), most.min(SUSPENDED)];
        }
        [least.min(most), most]
    }

    /// Returns the burst in a direction.
    pub fn burst(&self, direction: Direction) -> Size {
        if self.suspended {
            return Size::default();
        }
        self.burst.of(direction)
    }
}

/// A list that passed all checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// The sites, each after its parent.
    pub sites: Vec<Site>,
    /// The circuits in the order of the files.
    pub circuits: Vec<Circuit>,
    /// The plans in the order of the files.
    pub plans: Vec<Plan>,
}

impl List {
    /// Returns how many keys of each kind there are, in the order of [`KeyKind::ALL`].
    pub fn keys(&self) -> [usize; KeyKind::ALL.len()] {
        let mut counts = [0; KeyKind::ALL.len()];
        for key in self.circuits.iter().flat_map(|one| &one.keys) {
            counts[key.kind() as usize] += 1;
        }
        counts
    }

    /// Returns how many sites and circuits have no site as parent.
    pub fn below_link(&self) -> usize {
        let sites = self.sites.iter().map(|site| site.parent);
        let circuits = self.circuits.iter().map(|circuit| circuit.parent);
        sites.chain(circuits).filter(Option::is_none).count()
    }

    /// Returns the sum of the guarantees below each site, in bytes a second. Each circuit's
    /// guarantee is rounded to whole bytes.
    pub fn guaranteed_bytes_s(&self, direction: Direction) -> Vec<u64> {
        let mut sums = vec![0_u64; self.sites.len()];
        for circuit in &self.circuits {
            if let Some(sum) = circuit.parent.and_then(|parent| sums.get_mut(parent)) {
                let [least, _] = circuit.rates(direction);
                *sum = sum.saturating_add(least.as_bytes_per_second());
            }
        }
        // Children come after their parents, so add them up from the end.
        for (number, site) in self.sites.iter().enumerate().rev() {
            let own = sums[number];
            if let Some(above) = site.parent.and_then(|parent| sums.get_mut(parent)) {
                *above = above.saturating_add(own);
            }
        }
        sums
    }
}
