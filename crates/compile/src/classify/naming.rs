// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of counters, meters and lists, which depend on their content and not on their place in
//! the policy.
//!
//! A rule without a name gets one from its class and a checksum of its conditions. A line or a
//! rule that is inserted before it therefore does not change its counter and its meters, and the
//! plan need not replace them. Equal rules are distinguished by a number.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use weirgate_policy::Rule as PolicyRule;
use weirgate_state::{Chain, Effect, Field, Match, Meter, Rule, RuleVerdict, Set};
use weirgate_units::{Inserted as _, fnv1a_64, fnv1a_64_more};

/// The purpose, in the name of a chain, of the alternatives of one rule.
pub(crate) const ANY: &str = "any";

/// A character that neither nftables nor classes allow in names.
const MARKER: char = '#';

/// The number of characters of a class in a name; nftables allows 128 in total.
const LONGEST: usize = 24;

/// Returns the name of a rule without one until [`settle`] replaces it.
pub(crate) fn provisional(rule: &PolicyRule) -> String {
    let class = rule.class.as_ref().map_or("code", |class| &class.value);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let class: String = class.chars().map(plain).take(LONGEST).collect();
    format!("{class}{MARKER}{}{MARKER}", rule.span.start)
}

/// Replaces provisional names by names that depend on the contents of the rules.
pub(crate) fn settle(chains: &mut [Chain], sets: &mut [Set]) {
    let settled = Settled::of(chains);
    let put = |text: &mut String| settled.put(text);
    for set in sets.iter_mut() {
        put(&mut set.name);
    }
    for chain in chains.iter_mut() {
        put(&mut chain.name);
        for rule in &mut chain.rules {
            rule.counter.iter_mut().for_each(put);
            if let RuleVerdict::Jump(name) | RuleVerdict::Goto(name) = &mut rule.verdict {
                put(name);
            }
            for found in &mut rule.matches {
                if let Match::Meter(meter) = found {
                    put(&mut meter.set);
                }
            }
        }
    }
}

/// The parts of a provisional name: the offset of the rule in the policy, and its class.
type Token = (usize, String);

/// The final names of rules.
struct Settled(BTreeMap<Token, String>);

impl Settled {
    /// Calculates names from contents, in the order of the policy's rules.
    fn of(chains: &[Chain]) -> Self {
        let mut contents: BTreeMap<Token, Digest> = BTreeMap::new();
        let all = chains
            .iter()
            .flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)));
        for (chain, rule) in all {
            let named = rule.counter.as_ref().unwrap_or(&chain.name);
            if let Some((label, position, _)) = divided(named) {
                // The label begins with the direction. A chain's is followed by its purpose.
                let class = label.split_once('_').map_or(label, |(_, class)| class);
                let of_chain = class
                    .strip_prefix(ANY)
                    .and_then(|rest| rest.strip_prefix('_'));
                let class = of_chain.filter(|_| rule.counter.is_none()).unwrap_or(class);
                let token = (position, class.to_owned());
                digest_rule(contents.entry(token).or_default(), rule);
            }
        }
        let mut given = BTreeSet::new();
        let names = contents.into_iter().map(|(token, content)| {
            let name = format!("{}_{}", token.1, content.text());
            let mut free = name.clone();
            let mut number = 2;
            while !given.insert(free.clone()) {
                free = format!("{name}_{number}");
                number += 1;
            }
            (token, free)
        });
        Self(names.inserted())
    }

    fn put(&self, text: &mut String) {
        let Some((label, position, rest)) = divided(text) else {
            return;
        };
        let here = (position, String::new())..(position.saturating_add(1), String::new());
        let of_label = |(token, _): &(&Token, &String)| label.ends_with(&token.1);
        let found = self.0.range(here).filter(of_label);
        if let Some((token, name)) = found.max_by_key(|(token, _)| token.1.len()) {
            let before = label.strip_suffix(&token.1).unwrap_or_default();
            *text = format!("{before}{name}{rest}");
        }
    }
}

/// Splits a name with a provisional part: the text before it, the offset of the rule, and the
/// text after it.
fn divided(text: &str) -> Option<(&str, usize, &str)> {
    let (label, rest) = text.split_once(MARKER)?;
    let (position, rest) = rest.split_once(MARKER)?;
    Some((label, position.parse().ok()?, rest))
}

/// Adds the conditions and effects of a rule to a checksum, without names and numbers of
/// decisions.
fn digest_rule(digest: &mut Digest, rule: &Rule) {
    let verdict = match &rule.verdict {
        RuleVerdict::Jump(_) | RuleVerdict::Goto(_) => &RuleVerdict::Final,
        other => other,
    };
    let kept = |one: &&Match| matches!(one.field(), Some(Field::ConnectionMark { .. }));
    let matches = rule.matches.iter().filter(|one| !kept(one));
    let matches: Vec<Cow<'_, Match>> = matches.map(unnamed).collect();
    let mark = |effect: &&Effect| matches!(effect, Effect::ConnectionMark { .. });
    let effects = rule.effects.iter().filter(|effect| !mark(effect));
    let effects: Vec<&Effect> = effects.collect();
    // Writing to a checksum cannot fail.
    let _ = write!(digest, "{matches:?}{effects:?}{verdict:?}");
}

/// Returns a match without the name of its set.
fn unnamed(one: &Match) -> Cow<'_, Match> {
    match one {
        Match::Meter(meter) => Cow::Owned(Match::Meter(Meter {
            set: String::new(),
            ..meter.clone()
        })),
        other => Cow::Borrowed(other),
    }
}

/// A checksum of a text that is written piece by piece.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(fnv1a_64([]))
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = fnv1a_64_more(self.0, text.bytes());
        Ok(())
    }
}

impl Digest {
    /// Folds the checksum to six hexadecimal digits.
    fn text(&self) -> String {
        let hash = self.0;
        format!("{:06x}", (hash ^ (hash >> 24) ^ (hash >> 48)) & 0x00ff_ffff)
    }
}

/// Returns six hexadecimal digits for a text.
pub(crate) fn digest(text: &str) -> String {
    let mut digest = Digest::default();
    // Writing to a checksum cannot fail.
    let _ = digest.write_str(text);
    digest.text()
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
