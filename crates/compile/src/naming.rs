// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of counters, meters and lists that follow what they stand for, not
//! where it stands in the policy.
//!
//! A rule without a name of its own is known by its class and a digest of its
//! conditions. So a line added above it, or a rule put before it, leaves its
//! counter and its meters as they are, and the plan has nothing to change
//! there. Two rules that ask for the same are told apart by a number.

use weirgate_policy::Rule as PolicyRule;
use weirgate_state::{Chain, Effect, Field, Match, Meter, Rule, Set, Verdict};

/// What no name of nftables' and no class can contain.
const MARKER: char = '#';

/// Letters of a class that get into a name; nftables takes 128 altogether.
const LONGEST: usize = 24;

/// What stands in names for a rule without one until [`settle`].
pub(crate) fn provisional(rule: &PolicyRule) -> String {
    let class = rule.class.as_ref().map_or("code", |class| &class.value);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let class: String = class.chars().map(plain).take(LONGEST).collect();
    format!("{class}{MARKER}{}{MARKER}", rule.span.start)
}

/// Puts names made of the rules' contents in place of provisional ones.
pub(crate) fn settle(chains: &mut [Chain], sets: &mut [Set]) {
    let mut given: Vec<String> = Vec::new();
    for token in tokens(chains) {
        let rules = chains.iter().flat_map(|chain| &chain.rules);
        let own = rules.filter(|rule| rule.counter.as_ref().is_some_and(|c| c.contains(&token)));
        let content: Vec<String> = own.map(content).collect();
        let class = token.split(MARKER).next().unwrap_or_default();
        let name = format!("{class}_{}", digest(&content.concat()));
        let mut free = name.clone();
        let mut number = 2;
        while given.contains(&free) {
            free = format!("{name}_{number}");
            number += 1;
        }
        let put = |text: &mut String| {
            if text.contains(&token) {
                *text = text.replace(&token, &free);
            }
        };
        for set in sets.iter_mut() {
            put(&mut set.name);
        }
        for chain in chains.iter_mut() {
            put(&mut chain.name);
            for rule in &mut chain.rules {
                rule.counter.iter_mut().for_each(put);
                if let Verdict::Jump(name) | Verdict::Goto(name) = &mut rule.verdict {
                    put(name);
                }
                for found in &mut rule.matches {
                    if let Match::Meter(meter) = found {
                        put(&mut meter.set);
                    }
                }
            }
        }
        given.push(free);
    }
}

/// The provisional names in the order of their rules, each once.
fn tokens(chains: &[Chain]) -> Vec<String> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let rules = chains.iter().flat_map(|chain| &chain.rules);
    for counter in rules.filter_map(|rule| rule.counter.as_ref()) {
        let mut parts = counter.split(MARKER);
        let (Some(label), Some(position)) = (parts.next(), parts.next()) else {
            continue;
        };
        // What stands before the class is the direction.
        let class = label.split_once('_').map_or(label, |(_, class)| class);
        let token = format!("{class}{MARKER}{position}{MARKER}");
        let place = position.parse().unwrap_or(usize::MAX);
        if !found.iter().any(|(_, known)| *known == token) {
            found.push((place, token));
        }
    }
    found.sort();
    found.into_iter().map(|(_, token)| token).collect()
}

/// What a rule asks for, without names and without the numbers of decisions.
fn content(rule: &Rule) -> String {
    let mut rule = rule.clone();
    rule.counter = None;
    rule.verdict = match rule.verdict {
        Verdict::Jump(_) | Verdict::Goto(_) => Verdict::Final,
        other => other,
    };
    let kept = |one: &Match| matches!(one.field(), Some(Field::ConnectionMark { .. }));
    rule.matches.retain(|one| !kept(one));
    for one in &mut rule.matches {
        if let Match::Meter(Meter { set, .. }) = one {
            set.clear();
        }
    }
    let mark = |effect: &Effect| matches!(effect, Effect::ConnectionMark { .. });
    rule.effects.retain(|effect| !mark(effect));
    format!("{:?}{:?}{:?}", rule.matches, rule.effects, rule.verdict)
}

/// Six hexadecimal digits of a text: FNV-1a (draft-eastlake-fnv), folded.
pub(crate) fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:06x}", (hash ^ (hash >> 24) ^ (hash >> 48)) & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_of_the_text_alone() {
        assert_eq!(digest("a"), digest("a"));
        assert_ne!(digest("a"), digest("b"));
        assert_eq!(digest("").len(), 6);
    }
}
