// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes which parts of a table have to be rewritten to change it in place, so that all other
//! parts keep their counters and meters.
//!
//! Rules hold no state themselves: counters are named objects, and meters are sets. So a chain
//! whose rules differ may be flushed and rewritten in the transaction. Only sets, counters and
//! chains that differ themselves are created again.

use crate::classify::{
    Chain, Content, Count, Effect, Hook, Match, Rule, RuleVerdict, Set, Table, Values,
};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::Inserted as _;

/// The parts of a change, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableChange {
    /// Chains to flush: those that are removed and those that are rewritten.
    pub emptied: BTreeSet<String>,
    /// Chains to remove.
    pub gone_chains: BTreeSet<String>,
    /// Chains whose switch is removed.
    pub gone_switches: BTreeSet<String>,
    /// Sets to remove.
    pub gone_sets: BTreeSet<String>,
    /// Counters to remove.
    pub gone_counters: BTreeSet<String>,
    /// Sets to create.
    pub sets: BTreeSet<String>,
    /// Counters to create.
    pub counters: BTreeSet<String>,
    /// Chains to create.
    pub chains: BTreeSet<String>,
    /// Chains that get a switch.
    pub switches: BTreeSet<String>,
    /// Chains to switch on or off; new ones are off.
    pub switched: BTreeMap<String, bool>,
    /// Chains whose rules have to be written.
    pub written: BTreeSet<String>,
}

/// A set, and what rules count in it.
type Counted<'a> = (&'a Set, BTreeSet<(&'a Count, bool)>);

impl Table {
    /// Returns an empty table of the same name.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self {
            netdev: self.netdev,
            name: self.name.clone(),
            ..Self::default()
        }
    }

    /// Returns the change that turns this table into `new` in place. Returns `None` if base chains
    /// would need other hooks, or if this table has parts that weirgate does not write.
    #[must_use]
    pub fn change_to(&self, new: &Self) -> Option<TableChange> {
        let (old, new) = (self.canonical(), new.canonical());
        if bases(&old) != bases(&new) || old.has_foreign_parts() {
            return None;
        }
        Some(old.change(&new))
    }

    /// Returns the change that creates every part of a table that does not exist yet.
    #[must_use]
    pub fn made(&self) -> TableChange {
        self.emptied().change(&self.canonical())
    }

    fn has_foreign_parts(&self) -> bool {
        let foreign = |rule: &Rule| rule.matches.iter().any(|m| matches!(m, Match::Other(_)));
        let other = |chain: &Chain| matches!(chain.hook, Hook::Other(_));
        self.chains
            .iter()
            .any(|chain| other(chain) || chain.rules.iter().any(foreign))
    }

    fn change<'a>(&'a self, new: &'a Self) -> TableChange {
        let mut change = TableChange::default();
        if self.sets != new.sets || self.has_meters() || new.has_meters() {
            let (sets, new_sets) = (self.sets_and_counts(), new.sets_and_counts());
            let changed = |name: &str| sets.get(name) != new_sets.get(name);
            for set in &self.sets {
                if changed(&set.name) {
                    change.gone_sets.insert(set.name.clone());
                }
            }
            for set in &new.sets {
                if changed(&set.name) {
                    change.sets.insert(set.name.clone());
                }
            }
        }
        let names = |table: &'a Self| table.counters().into_iter().inserted::<BTreeSet<_>>();
        let (had, wants) = (names(self), names(new));
        let owned = |name: &&str| (*name).to_owned();
        change.gone_counters = had.difference(&wants).map(owned).inserted();
        change.counters = wants.difference(&had).map(owned).inserted();
        let (had, wants) = (switches(self), switches(new));
        for name in had.keys().filter(|name| !wants.contains_key(*name)) {
            change.gone_switches.insert(name.clone());
        }
        for (name, on) in &wants {
            if !had.contains_key(name) {
                change.switches.insert(name.clone());
            }
            if had.get(name).copied().unwrap_or(false) != *on {
                change.switched.insert(name.clone(), *on);
            }
        }
        for chain in &self.chains {
            if new.chain(&chain.name).is_none() {
                change.emptied.insert(chain.name.clone());
                change.gone_chains.insert(chain.name.clone());
            }
        }
        for chain in &new.chains {
            match self.chain(&chain.name) {
                None => {
                    change.chains.insert(chain.name.clone());
                    change.written.insert(chain.name.clone());
                }
                Some(old)
                    if old.rules != chain.rules
                        || chain.rules.iter().any(|rule| change.rebinds(rule)) =>
                {
                    change.emptied.insert(chain.name.clone());
                    change.written.insert(chain.name.clone());
                }
                Some(_) => {}
            }
        }
        change
    }

    /// Returns the chain of this name.
    #[must_use]
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    fn has_meters(&self) -> bool {
        let meter = |set: &Set| matches!(set.content, Content::Meter { .. });
        self.sets.iter().any(meter)
    }

    /// Returns the sets by name; a meter's set comes with what is counted in it. The kernel stores
    /// the rate in each element, so a rule with another rate would continue with the old one.
    fn sets_and_counts(&self) -> BTreeMap<&str, Counted<'_>> {
        let sets = self.sets.iter();
        let mut found: BTreeMap<_, _> = sets
            .map(|set| (set.name.as_str(), (set, BTreeSet::new())))
            .inserted();
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        for one in rules.flat_map(|rule| &rule.matches) {
            if let Match::Meter(meter) = one
                && let Some((set, counts)) = found.get_mut(meter.set.as_str())
                && matches!(set.content, Content::Meter { .. })
            {
                counts.insert((&meter.count, meter.over));
            }
        }
        found
    }
}

impl TableChange {
    /// Returns whether an unchanged rule has to be written again, because the set or switch to
    /// which it is bound is created again.
    #[must_use]
    pub fn rebinds(&self, rule: &Rule) -> bool {
        let made = [
            &self.sets,
            &self.gone_sets,
            &self.switches,
            &self.gone_switches,
        ];
        if made.iter().all(|names| names.is_empty()) {
            return false;
        }
        let maps = rule.effects.iter().filter_map(map_of);
        let mut sets = rule.matches.iter().filter_map(set_of).chain(maps);
        let switch = match &rule.verdict {
            RuleVerdict::Jump(name) => {
                self.switches.contains(name) || self.gone_switches.contains(name)
            }
            _ => false,
        };
        switch || sets.any(|set| self.sets.contains(set) || self.gone_sets.contains(set))
    }
}

/// Returns the name of the set in which a match looks values up.
fn set_of(one: &Match) -> Option<&str> {
    match one {
        Match::Test {
            values: Values::Set(name),
            ..
        } => Some(name),
        Match::Meter(meter) => Some(&meter.set),
        _ => None,
    }
}

/// Returns the name of the map in which an effect looks values up.
fn map_of(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::ClassOf { map, .. } => Some(map),
        _ => None,
    }
}

/// Returns the base chains, with their hooks.
fn bases(table: &Table) -> BTreeMap<&str, &Hook> {
    let called = |hook: &Hook| matches!(hook, Hook::Called | Hook::Switched { .. });
    let chains = table.chains.iter().filter(|chain| !called(&chain.hook));
    chains
        .map(|chain| (chain.name.as_str(), &chain.hook))
        .inserted()
}

/// Returns the chains that have a switch, and whether it is on.
fn switches(table: &Table) -> BTreeMap<String, bool> {
    let of = |chain: &Chain| match chain.hook {
        Hook::Switched { on } => Some((chain.name.clone(), on)),
        _ => None,
    };
    table.chains.iter().filter_map(of).inserted()
}
