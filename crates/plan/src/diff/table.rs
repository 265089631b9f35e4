// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps from the observed to the desired tables, and the stored decisions that become
//! obsolete.

use crate::action::{Action, Step};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{Effect, Field, Match, Origin, Rule, State, Table, Values};
use weirgate_units::{Arrange as _, Inserted as _};

/// Returns the table of the same family and name in a state.
pub(crate) fn twin<'a>(state: &'a State, table: &Table) -> Option<&'a Table> {
    let same = |other: &&Table| (other.netdev, &other.name) == (table.netdev, &table.name);
    state.tables.iter().find(same)
}

/// Returns the step that leads to the wanted table, if they differ.
pub(crate) fn step(observed: &State, wanted: &Table) -> Option<Step> {
    let action = match twin(observed, wanted) {
        Some(seen) if seen.canonical() == wanted.canonical() => return None,
        Some(seen) if seen.change_to(wanted).is_some() => Action::ChangeTable {
            before: seen.clone(),
            after: wanted.clone(),
        },
        _ => Action::SetTable {
            table: wanted.clone(),
        },
    };
    Some(Step {
        action,
        origin: Origin::default(),
    })
}

/// Returns the steps that clear the stored decisions of rules that have changed.
pub(crate) fn forgotten(observed: &State, desired: &State) -> Vec<Step> {
    let (before, after) = (decisions(observed), decisions(desired));
    let mut stale: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for ((mask, value), rules) in &before {
        if after.get(&(*mask, *value)) != Some(rules) {
            stale.entry(*mask).or_default().insert(*value);
        }
    }
    let step = |(mask, values)| Step {
        action: Action::ForgetDecisions { mask, values },
        origin: Origin::default(),
    };
    stale.into_iter().map(step).collect()
}

/// Returns the meaning of each stored decision: the rules that make it and those that follow it,
/// without its number. Rules that several tables share, one for each link, count once.
fn decisions(state: &State) -> BTreeMap<(u32, u32), Vec<Rule>> {
    let mut found: BTreeMap<(u32, u32), Vec<Rule>> = BTreeMap::new();
    let mut tables: Vec<Table> = state.tables.iter().map(Table::canonical).collect();
    tables.arrange_by_key(|table| table.netdev);
    let chains = tables.iter().flat_map(|table| &table.chains);
    for rule in chains.flat_map(|chain| &chain.rules) {
        for decision in numbers(rule) {
            let (rules, rule) = (found.entry(decision).or_default(), unnumbered(rule));
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    found
}

/// Returns the decisions that a rule makes or follows.
fn numbers(rule: &Rule) -> BTreeSet<(u32, u32)> {
    let made = rule.effects.iter().filter_map(|effect| match effect {
        Effect::ConnectionMark { mask, value } => Some((*mask, *value)),
        _ => None,
    });
    let followed = rule.matches.iter().filter_map(|one| match one {
        Match::Test {
            field: Field::ConnectionMark { mask },
            negated: false,
            values: Values::Range(from, to),
        } if from == to => Some((*mask, u32::try_from(*from).ok()?)),
        _ => None,
    });
    // 0 means no decision.
    made.chain(followed)
        .filter(|(_, value)| *value != 0)
        .inserted()
}

fn unnumbered(rule: &Rule) -> Rule {
    let mark = |one: &Match| matches!(one.field(), Some(Field::ConnectionMark { .. }));
    let mut rule = rule.clone();
    rule.counter = None;
    rule.matches.retain(|one| !mark(one));
    rule.effects
        .retain(|effect| !matches!(effect, Effect::ConnectionMark { .. }));
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Chain, DeviceName, Hook};
    use weirgate_units::Handle;

    /// The table of a link, which keeps a decision for a class.
    fn table(link: &str, class: u16) -> Table {
        let mut rule = Rule::classify(Vec::new(), Handle::new(2, class), Origin::default());
        let (mask, value) = (0xff_0000, 0x1_0000);
        rule.effects.push(Effect::ConnectionMark { mask, value });
        let device = DeviceName::new(link).expect("a name");
        let up = Chain {
            name: "up".to_owned(),
            hook: Hook::Postrouting { device },
            rules: vec![rule].into(),
        };
        Table {
            name: link.to_owned(),
            chains: vec![up],
            ..Table::default()
        }
    }

    fn state(tables: &[Table]) -> State {
        State {
            tables: tables.to_vec(),
            ..State::default()
        }
    }

    #[test]
    fn a_decision_stays_while_a_link_comes_and_goes() {
        let one = state(&[table("wan0", 0x10)]);
        let both = state(&[table("wan0", 0x10), table("wan1", 0x10)]);
        assert_eq!(forgotten(&one, &both), Vec::new());
        assert_eq!(forgotten(&both, &one), Vec::new());
        let other = state(&[table("wan0", 0x11)]);
        assert_eq!(forgotten(&one, &other).len(), 1);
    }
}
