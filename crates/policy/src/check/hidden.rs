// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that no packet reaches, because an earlier rule takes every packet of theirs.
//!
//! A rule with a list of ports, addresses or lengths hides only rules whose values lie between
//! its own. Each rule is filed under the smallest aligned block of numbers that contains its
//! list, as an address lies in a prefix. A rule is compared with those filed under its own block
//! and under the blocks that contain it.

use crate::codes;
use crate::model::Rule;
use crate::policy::Policy;
use weirgate_document::Problems;
use weirgate_units::Arrange as _;

/// The kind of the block of rules without a list. It contains every rule.
const ANYTHING: Block = (usize::MAX, 0, 0);

/// The order of a condition, and the length and the value of the bits that its numbers share.
type Block = (usize, u32, u128);

pub(super) fn check(policy: &Policy, problems: &Problems) {
    let hiding = Hiding::of(&policy.rules);
    for (at, rule) in policy.rules.iter().enumerate() {
        let Some(earlier) = hiding.first(at, Rule::covers) else {
            continue;
        };
        // For a rule of another file, add the name of the file.
        let file = policy.sources.included(&earlier.span);
        let file = file.map_or_else(String::new, |name| format!(" of {name}"));
        problems.warning(
            codes::NEVER_REACHED,
            rule.span.clone(),
            format!(
                "the rule on line {}{file} already takes every packet of this one",
                earlier.line
            ),
            "the first rule that matches decides; put this one before it, or remove it",
        );
    }
}

/// The rules that can hide others.
struct Hiding<'p> {
    rules: &'p [Rule],
    /// Each of them, by its block and its place in the policy.
    filed: Vec<(Block, usize)>,
    /// The kinds and lengths of these blocks, each once.
    lengths: Vec<(usize, u32)>,
}

impl<'p> Hiding<'p> {
    fn of(rules: &'p [Rule]) -> Self {
        // A rule that does not even hide itself hides no other.
        let hide = rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.covers(rule));
        let mut all: Vec<Block> = hide.clone().flat_map(|(_, rule)| blocks(rule)).collect();
        all.arrange();
        let frequency = |block: &Block| {
            all.partition_point(|other| other <= block) - all.partition_point(|other| other < block)
        };
        // A rule needs only one block: the one that it shares with the fewest others.
        let file = |(at, rule)| {
            let block = blocks(rule).min_by_key(|block| (frequency(block), u32::MAX - block.1));
            (block.unwrap_or(ANYTHING), at)
        };
        let mut filed: Vec<(Block, usize)> = hide.map(file).collect();
        filed.arrange();
        let mut lengths: Vec<(usize, u32)> = filed
            .iter()
            .map(|((kind, length, _), _)| (*kind, *length))
            .collect();
        lengths.dedup();
        Self {
            rules,
            filed,
            lengths,
        }
    }

    /// Returns the first rule before the one at a place that hides it. `covers` tells whether an
    /// earlier rule hides a later one.
    fn first(&self, at: usize, mut covers: impl FnMut(&Rule, &Rule) -> bool) -> Option<&'p Rule> {
        let rule = &self.rules[at];
        let own: Vec<Block> = blocks(rule).chain([ANYTHING]).collect();
        let mut end = at;
        for (kind, length) in &self.lengths {
            let inner = own.iter().find(|own| own.0 == *kind && own.1 >= *length);
            let Some((_, _, bits)) = inner else {
                continue;
            };
            let block = (*kind, *length, start(*bits, *length));
            let from = self.filed.partition_point(|filed| *filed < (block, 0));
            let earlier = |filed: &&(Block, usize)| filed.0 == block && filed.1 < end;
            let mut here = self.filed[from..].iter().take_while(earlier);
            if let Some((_, found)) = here.find(|(_, found)| covers(&self.rules[*found], rule)) {
                end = *found;
            }
        }
        (end < at).then(|| &self.rules[end])
    }
}

/// Returns the blocks of a rule's lists.
fn blocks(rule: &Rule) -> impl Iterator<Item = Block> {
    rule.when.extents().map(|(kind, (least, most))| {
        let length = (least ^ most).leading_zeros();
        (kind, length, start(least, length))
    })
}

/// Returns a number with all bits after the first `length` cleared.
fn start(number: u128, length: u32) -> u128 {
    number & !u128::MAX.checked_shr(length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "version = 1\n[link]\ndevice = \"wan\"\nup = \"10mbit\"\n\
        layer = \"ethernet\"\n[[class]]\nname = \"a\"\nshare = \"50%\"\ndefault = true\n";

    fn policy(rules: impl IntoIterator<Item = String>) -> Policy {
        let rule = |conditions| format!("[[rule]]\nclass = \"a\"\n{conditions}\n");
        let text: String = rules.into_iter().map(rule).collect();
        let (policy, problems) = crate::parse(&format!("{HEAD}{text}"));
        policy.unwrap_or_else(|| panic!("{problems:?}"))
    }

    /// Returns how often rules are compared with each other.
    fn comparisons(rules: impl IntoIterator<Item = String>) -> usize {
        let policy = policy(rules);
        let hiding = Hiding::of(&policy.rules);
        let mut count = 0;
        for at in 0..policy.rules.len() {
            hiding.first(at, |earlier, rule| {
                count += 1;
                earlier.covers(rule)
            });
        }
        count
    }

    #[test]
    fn rules_are_compared_a_few_times_each() {
        let port = |at| format!("protocol = \"udp\"\nremote-port = {at}");
        assert_eq!(comparisons((1..=2_000).map(port)), 0);
        let subnet = |at| {
            let (high, low, port) = (at / 256, at % 256, at % 100 + 1);
            format!("remote-address = \"10.{high}.{low}.0/24\"\nremote-port = \"{port}-9000\"")
        };
        assert_eq!(comparisons((1..=2_000).map(subnet)), 0);
        let same = |_| "remote-port = 80".to_owned();
        assert_eq!(comparisons((0..2_000).map(same)), 1_999);
    }

    fn condition() -> impl Strategy<Value = String> {
        let port = (40_u16..80, 0_u16..20).prop_map(|(from, more)| (from, from + more));
        let ports = proptest::collection::vec(port, 1..3).prop_map(|all| {
            let all: Vec<String> = all
                .iter()
                .map(|(from, to)| format!("\"{from}-{to}\""))
                .collect();
            format!("[{}]", all.join(", "))
        });
        let address = prop_oneof![
            Just("\"0.0.0.0/0\""),
            Just("\"192.0.2.0/24\""),
            Just("\"192.0.2.128/25\""),
            Just("\"192.0.2.129\""),
            Just("[\"192.0.2.1\", \"2001:db8::/32\"]"),
            Just("\"::/0\""),
            Just("\"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\""),
        ];
        prop_oneof![
            ports
                .clone()
                .prop_map(|list| format!("remote-port = {list}")),
            ports
                .clone()
                .prop_map(|list| format!("local-port = {list}")),
            ports.prop_map(|list| format!("length = {list}")),
            address.prop_map(|list| format!("remote-address = {list}")),
            (0_u8..4).prop_map(|one| format!("dscp = [{one}, {}]", one + 1)),
            Just("protocol = \"udp\"".to_owned()),
            Just("protocol = [\"udp\", \"tcp\"]".to_owned()),
            Just("direction = \"up\"".to_owned()),
        ]
    }

    proptest! {
        /// The first rule that hides another one is the one that a comparison of all pairs finds.
        #[test]
        fn the_first_of_all_pairs_is_found(
            rules in proptest::collection::vec(proptest::collection::vec(condition(), 1..3), 1..30)
        ) {
            let distinct = rules.into_iter().map(|mut conditions| {
                conditions.sort();
                conditions.dedup_by_key(|one| one.split(' ').next().map(str::to_owned));
                if conditions.iter().all(|one| one.starts_with("direction")) {
                    conditions.push("protocol = 1".to_owned());
                }
                conditions.join("\n")
            });
            let policy = policy(distinct);
            let hiding = Hiding::of(&policy.rules);
            for (at, rule) in policy.rules.iter().enumerate() {
                let pairs = policy.rules[..at].iter().find(|earlier| earlier.covers(rule));
                let found = hiding.first(at, Rule::covers);
                prop_assert_eq!(found.map(|one| one.line), pairs.map(|one| one.line));
            }
        }
    }
}
