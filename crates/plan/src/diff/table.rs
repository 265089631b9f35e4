// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps from tables to tables, and the kept decisions that they outdate.

use crate::action::{Action, Step, table_name};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weirgate_state::{Effect, Field, Match, Origin, Rule, State, Table, Values};

/// The table of the same family and name in a state.
pub(crate) fn twin<'a>(state: &'a State, table: &Table) -> Option<&'a Table> {
    let same = |other: &&Table| (other.netdev, &other.name) == (table.netdev, &table.name);
    state.tables.iter().find(same)
}

/// The step that makes the table, if there is anything to do.
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

/// What a change does, in a line.
pub(crate) fn describe(f: &mut fmt::Formatter<'_>, before: &Table, after: &Table) -> fmt::Result {
    let change = before.change_to(after).unwrap_or_else(|| after.made());
    let mut parts: Vec<String> = Vec::new();
    let (mut come, mut go) = (0, 0);
    for name in change.written.union(&change.emptied) {
        let (old, new) = (rules(before, name), rules(after, name));
        come += only_in(new, old);
        go += only_in(old, new);
    }
    if come + go > 0 {
        parts.push(format!("{come} rules come, {go} go"));
    }
    if !change.sets.is_empty() {
        parts.push(format!("{} lists or meters made anew", change.sets.len()));
    }
    for (chain, on) in &change.switched {
        parts.push(format!(
            "{chain} switched {}",
            if *on { "on" } else { "off" }
        ));
    }
    if parts.is_empty() {
        parts.push(String::from("the order of rules, or names"));
    }
    let name = table_name(after.netdev, &after.name);
    write!(f, "change table {name}: {}", parts.join(", "))
}

/// The rules of a chain; none where it is not there.
fn rules<'a>(table: &'a Table, chain: &str) -> &'a [Rule] {
    let chain = table.chain(chain);
    chain.map_or(&[], |chain| chain.rules.as_slice())
}

/// How many different rules are only in the first of two lists. Those at the
/// beginning and the end that both have are not looked at twice.
fn only_in(list: &[Rule], other: &[Rule]) -> usize {
    let same = |(a, b): &(&Rule, &Rule)| a == b;
    let head = list.iter().zip(other).take_while(same).count();
    let (list, rest) = (&list[head..], &other[head..]);
    let backwards = list.iter().rev().zip(rest.iter().rev());
    let tail = backwards.take_while(same).count();
    let middle: BTreeSet<&Rule> = list[..list.len() - tail].iter().collect();
    if middle.is_empty() {
        return 0;
    }
    let other: BTreeSet<&Rule> = other.iter().collect();
    middle.difference(&other).count()
}

/// The steps that clear what connections keep of rules that are others now.
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

/// What each kept decision stands for: the rules that make it and those that
/// it leads to, without its number.
fn decisions(state: &State) -> BTreeMap<(u32, u32), Vec<Rule>> {
    let mut found: BTreeMap<(u32, u32), Vec<Rule>> = BTreeMap::new();
    let mut tables: Vec<Table> = state.tables.iter().map(Table::canonical).collect();
    tables.sort_by_key(|table| table.netdev);
    let chains = tables.iter().flat_map(|table| &table.chains);
    for rule in chains.flat_map(|chain| &chain.rules) {
        for decision in numbers(rule) {
            found.entry(decision).or_default().push(unnumbered(rule));
        }
    }
    found
}

/// The decisions that a rule makes or follows.
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
    // 0 is none.
    made.chain(followed)
        .filter(|(_, value)| *value != 0)
        .collect()
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
