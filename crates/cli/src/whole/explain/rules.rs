// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules that a packet was tested against. A rule of the policy takes one line, even if it
//! consists of several kernel rules.

use crate::whole::explain::class::class_named;
use crate::whole::explain::input::Item;
use crate::whole::explain::origin::{PolicyText, policy_text};
use crate::whole::explain::outcome::About;
use crate::whole::explain::words;
use weirgate_explain::{Direction, Fate, Level, Pass, Tried};
use weirgate_state::{Effect, Field, Match, Origin, Rule, RuleVerdict, Table};

/// The effect of a rule of the policy on a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The rule does not match the packet.
    PassedBy,
    /// The rule matches, but another rule decides.
    Matched,
    /// The rule wrote the class with which the packet leaves.
    Decides,
}

/// A rule of the policy, with its effect on a packet.
pub struct RuleLine {
    /// The place in the policy.
    pub text: PolicyText,
    /// The purpose of the rule.
    pub reason: String,
    /// The effect of the rule.
    pub outcome: Outcome,
    /// The condition that failed, or what the rule did.
    pub detail: String,
}

/// Of all conditions, a port says most about what a packet is for.
const PORTS: [Field; 2] = [Field::SourcePort, Field::DestinationPort];

/// A kernel rule that was tried.
type One<'a> = (&'a Table, &'a Rule, &'a Tried);

/// Returns the rules of the policy that a packet was tested against, in order.
pub fn lines(about: &About<'_>, item: &Item, fate: &Fate) -> Vec<RuleLine> {
    let mut lines = Vec::new();
    for pass in &fate.passes {
        let Some(table) = about.simulator.tables().get(pass.table) else {
            continue;
        };
        let decides = deciding(about, pass).map(|(tried, _)| tried);
        let mut groups: Vec<(&Origin, Vec<One<'_>>)> = Vec::new();
        for tried in &pass.tried {
            let Some(rule) = rule_of(table, tried) else {
                continue;
            };
            let one = (table, rule, tried);
            // All origins are equal under `==`, so compare their fields.
            let key = |origin: &Origin| (origin.line, origin.reason.clone());
            let own = |(origin, _): &&mut (&Origin, _)| key(origin) == key(&rule.origin);
            match groups.iter_mut().find(own) {
                Some((_, all)) => all.push(one),
                None => groups.push((&rule.origin, vec![one])),
            }
        }
        for (origin, all) in groups {
            let Some((outcome, detail)) = outcome(about, item.direction, &all, decides) else {
                continue;
            };
            lines.push(RuleLine {
                text: policy_text(about, origin),
                reason: origin.reason.clone(),
                outcome,
                detail,
            });
        }
    }
    lines
}

/// Returns the effect of a rule of the policy, or `None` if all its tried kernel rules only jump to
/// others.
fn outcome(
    about: &About<'_>,
    direction: Direction,
    all: &[One<'_>],
    decides: Option<&Tried>,
) -> Option<(Outcome, String)> {
    let leads = |rule: &Rule| {
        let jumps = matches!(rule.verdict, RuleVerdict::Jump(_) | RuleVerdict::Goto(_));
        jumps && rule.effects.is_empty() && rule.counter.is_none()
    };
    let mut own = all.iter().filter(|(_, rule, _)| !leads(rule)).peekable();
    own.peek()?;
    let matched: Vec<&One<'_>> = own.filter(|(_, _, tried)| tried.failed.is_none()).collect();
    if matched.is_empty() {
        return Some((Outcome::PassedBy, failure(about, all)));
    }
    let outcome = if matched.iter().any(|one| Some(one.2) == decides) {
        Outcome::Decides
    } else {
        Outcome::Matched
    };
    let mut done: Vec<String> = Vec::new();
    for (_, rule, tried) in matched {
        for effect in effects(about, direction, rule, tried) {
            if !done.contains(&effect) {
                done.push(effect);
            }
        }
    }
    Some((outcome, done.join("; ")))
}

/// Returns why a rule failed. Of its alternatives, it considers those of a service that the user
/// named, then those whose ports match, then those with the most matching conditions.
fn failure(about: &About<'_>, all: &[One<'_>]) -> String {
    let failed = |(_, rule, tried): &One<'_>| rule.matches.get(tried.failed?).cloned();
    let nearness = |one: &One<'_>| {
        let version = failed(one).and_then(|one| one.field()) == Some(Field::Version);
        let service = one.1.origin.service.as_ref();
        let named = service.is_some_and(|service| about.services.contains(service));
        let holds = held(one.1, one.2);
        let port = PORTS.iter().any(|port| holds.contains(&port.words()));
        (!version, named, port, holds.len(), one.2.failed)
    };
    let Some(nearest) = all.iter().rev().max_by_key(|one| nearness(one)) else {
        return String::new();
    };
    let Some(at) = failed(nearest) else {
        return String::new();
    };
    let mut wanted: Vec<String> = Vec::new();
    for one in all {
        let alike = nearness(one) == nearness(nearest);
        if let Some(other) = failed(one)
            && alike
            && other.field() == at.field()
        {
            for value in words::wanted(one.0, &other) {
                if !wanted.contains(&value) {
                    wanted.push(value);
                }
            }
        }
    }
    let levels: Vec<String> = nearest
        .2
        .levels
        .iter()
        .map(|level| level_text(*level))
        .collect();
    let holds = held(nearest.1, nearest.2);
    let holds = match holds.as_slice() {
        [] => String::new(),
        [one] => format!("{one} matches; "),
        [others @ .., last] => format!("{} and {last} match; ", others.join(", ")),
    };
    let service = nearest.1.origin.service.as_ref();
    let service = service.map_or_else(String::new, |service| format!("{service}: "));
    let was = words::found(&at, nearest.2.found);
    let wanted = match (wanted.as_slice(), levels.is_empty()) {
        (_, false) => format!(": {}", levels.join(", ")),
        ([], true) => String::new(),
        (all, true) => format!(", wanted {}", words::either(all)),
    };
    format!("{service}{holds}{was}{wanted}")
}

/// Returns what the matching conditions of a rule test.
///
/// Negated conditions are left out: the compiler adds them to separate the alternatives of a rule.
fn held(rule: &Rule, tried: &Tried) -> Vec<&'static str> {
    let mut list: Vec<&'static str> = Vec::new();
    let before = 0..tried.failed.unwrap_or(0);
    let places = before.chain(tried.held_behind.iter().copied());
    for one in places.filter_map(|at| rule.matches.get(at)) {
        let word = match one {
            Match::Test { negated: true, .. } | Match::Other(_) => "",
            Match::Test { field, .. } => field.words(),
            Match::TcpPayloadEmpty { .. } => "payload",
            Match::Meter(_) => "limit",
        };
        if !word.is_empty() && !list.contains(&word) {
            list.push(word);
        }
    }
    list
}

pub fn rule_of<'a>(table: &'a Table, tried: &Tried) -> Option<&'a Rule> {
    let chain = table
        .chains
        .iter()
        .find(|chain| chain.name == tried.chain)?;
    chain.rules.get(tried.index)
}

/// Returns what a rule did.
pub fn effects(about: &About<'_>, direction: Direction, rule: &Rule, tried: &Tried) -> Vec<String> {
    let mut list: Vec<String> = rule
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Class(class) => {
                format!("class {}", class_named(about.policy, direction, *class))
            }
            Effect::ClassOf { .. } => String::from("class of its host's group or limit"),
            Effect::MaxSegment(most) => {
                format!("lowers the largest segment that it announces to {most} bytes")
            }
            Effect::Mark { mask, value } => format!("mark {value:#x}/{mask:#x}"),
            Effect::ConnectionMark { mask, value } => {
                format!("keeps its decision on the connection (ct mark {value:#x}/{mask:#x})")
            }
            Effect::Dscp(_, dscp) => format!("writes DSCP {dscp}"),
        })
        .collect();
    if tried.without_connection {
        list.push("ends there: the packet has no connection".to_owned());
    }
    for level in &tried.levels {
        list.push(level_text(*level));
    }
    list
}

fn level_text(level: Level) -> String {
    match level {
        Level::Tokens(thousandths) => {
            let (whole, part) = (thousandths / 1000, thousandths % 1000 / 10);
            format!("the limit had room for {whole}.{part:02} such packets")
        }
        Level::Connections(count) => format!("{count} connections were open"),
        Level::Full => "the table of the limit is full, which matches nothing".to_owned(),
    }
}

/// Returns the rule that wrote the final class of the packet.
pub fn deciding<'a>(about: &'a About<'_>, pass: &'a Pass) -> Option<(&'a Tried, &'a Rule)> {
    let table = about.simulator.tables().get(pass.table)?;
    let writes = pass.matched().filter_map(|tried| {
        let rule = rule_of(table, tried)?;
        rule.class().map(|_| (tried, rule))
    });
    writes.last()
}

/// Returns the place of a rule, such as `inet weirgate, chain up, rule 7`.
pub fn where_in(table: &Table, tried: &Tried) -> String {
    let family = if table.netdev { "netdev" } else { "inet" };
    format!(
        "{family} {}, chain {}, rule {}",
        table.name,
        tried.chain,
        tried.index + 1
    )
}
