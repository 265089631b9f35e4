// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules by control group.
//!
//! The kernel knows the sender's control group at output, but not at postrouting, where the
//! rules are (`nft_socket_validate`). A chain at output therefore numbers the groups of the
//! policy. It writes the number of the packet's deepest group into bits of its mark, and the
//! rules read these bits. Bits that others wrote there are cleared.
//!
//! The kernel compares the numeric identifier of a group, which changes if a group is created
//! again under the same path. Each path has a set with the identifier, whose elements crate
//! `keep` replaces as groups come and go.

use crate::classify::naming;
use crate::codes;
use std::collections::BTreeSet;
use weirgate_document::Problems;
use weirgate_policy::{ControlGroup, ControlGroups, Policy};
use weirgate_state::{
    Capabilities, Chain, Content, Effect, Field, Frame, Hook, Key, Match, Origin, Refreshed, Rule,
    RuleVerdict, Set,
};
use weirgate_units::Arrange as _;

/// The name of the chain.
const CHAIN: &str = "senders";
/// The field that the kernel must support, at any level.
const FIELD: Field = Field::ControlGroup { level: 1 };

/// The control groups of a policy, numbered from 1.
pub(super) struct Groups {
    mask: u32,
    numbered: Vec<ControlGroup>,
}

impl Groups {
    pub(super) fn of(policy: &Policy) -> Self {
        let groups = ControlGroups::named(&policy.rules).into_iter();
        Self {
            mask: policy.marks.control_groups,
            numbered: groups.map(|group| group.value.clone()).collect(),
        }
    }

    /// Returns the numbers of the groups that fit, shifted to their place in the mark.
    fn marks(&self, fits: impl Fn(&ControlGroup) -> bool) -> Vec<u32> {
        let all = self.numbered.iter().zip(1..);
        let found = all.filter(|(group, _)| fits(group));
        found
            .map(|(_, number): (_, u32)| number << self.mask.trailing_zeros())
            .collect()
    }

    /// Returns the ways to match one of the requested control groups or a descendant. There is
    /// one way for each number: marks are in host byte order, so a set cannot contain them.
    /// Forwarded packets may have bits that others wrote.
    pub(super) fn alternatives(&self, ControlGroups(asked): &ControlGroups) -> Vec<Vec<Match>> {
        let marks = self.marks(|group| asked.iter().any(|one| group.is_within(&one.value)));
        let field = Field::Mark { mask: self.mask };
        let own = Match::text(Field::InputDevice, "");
        if marks.len() == self.numbered.len() {
            return vec![vec![own, Match::one(field, 0).negated()]];
        }
        marks
            .into_iter()
            .map(|mark| vec![own.clone(), Match::one(field, mark.into())])
            .collect()
    }
}

/// Returns the chain that numbers packets by their senders' control groups, and adds its sets;
/// `None` if no rule needs it.
pub(super) fn chain(policy: &Policy, sets: &mut Vec<Set>) -> Option<Chain> {
    let groups = ControlGroups::named(&policy.rules);
    if groups.is_empty() {
        return None;
    }
    let mask = policy.marks.control_groups;
    let mut numbered: Vec<_> = groups.into_iter().zip(1_u32..).collect();
    // The deepest matching group decides.
    numbered.arrange_by_key(|(group, number)| (u8::MAX - group.value.level(), *number));
    let mut names = BTreeSet::new();
    let mut rules: Vec<Rule> = Vec::new();
    for (group, number) in numbered {
        let line = match policy.sources.included(&group.span) {
            Some(_) => 0,
            None => group.line,
        };
        let origin = Origin::new(line, format!("control group {}", group.value));
        let name = set_name(&group.value, &mut names);
        sets.push(Set {
            name: name.clone(),
            key: Key::ControlGroup,
            content: Content::Refreshed(Refreshed {
                names: vec![group.value.path().to_owned()],
                every: 0,
                found: Vec::new(),
            }),
            origin: origin.clone(),
        });
        let level = group.value.level();
        let value = number << mask.trailing_zeros();
        rules.push(Rule {
            frame: Frame::Plain,
            matches: vec![Match::within(Field::ControlGroup { level }, &name)],
            counter: None,
            effects: vec![Effect::Mark { mask, value }],
            verdict: RuleVerdict::Final,
            origin,
        });
    }
    rules.push(Rule {
        frame: Frame::Plain,
        matches: vec![Match::one(Field::Mark { mask }, 0).negated()],
        counter: None,
        effects: vec![Effect::Mark { mask, value: 0 }],
        verdict: RuleVerdict::Final,
        origin: Origin::new(0, "of no control group of the policy"),
    });
    Some(Chain {
        name: CHAIN.to_owned(),
        hook: Hook::Output,
        rules: rules.into(),
    })
}

/// Returns a name that depends on the path, so that a set stays when others come and go.
fn set_name(group: &ControlGroup, taken: &mut BTreeSet<String>) -> String {
    let name = format!("cgroup_{}", naming::digest(group.path()));
    let mut free = name.clone();
    let mut number = 2;
    while !taken.insert(free.clone()) {
        free = format!("{name}_{number}");
        number += 1;
    }
    free
}

/// Reports a kernel that lacks the field.
pub(super) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let groups = ControlGroups::named(&policy.rules);
    let Some(first) = groups.first().filter(|_| !kernel.has_field(FIELD)) else {
        return;
    };
    problems.error(
        codes::NO_FIELD,
        first.span.clone(),
        format!("{release} cannot match the control group of packets that it sends"),
        "load or build nft_socket (CONFIG_NFT_SOCKET, CONFIG_SOCK_CGROUP_DATA), or write `uid`",
    );
}
