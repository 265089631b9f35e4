// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates conditions to matches: every way in which a packet can fulfil them. The ways
//! exclude each other, except for services.

mod lists;
mod lower;

pub(crate) use lists::Lists;
pub(crate) use lower::{Lowering, check, helpers, pure_ack};

use lists::{Ranges, single};
use lower::Lowered;
use weirgate_policy::{Conditions, Direction, Known, Rule as PolicyRule, Schedule};
use weirgate_state::{
    Field, Frame, IpVersion, Match, Origin, Rule, RuleVerdict, Set, port_protocols,
};

/// One way to fulfil a rule.
pub(crate) struct Alternative {
    /// The matches.
    pub(crate) matches: Vec<Match>,
    /// The matches that must be evaluated last.
    pub(crate) late: Vec<Match>,
    /// The service that it identifies, if the rule names services.
    pub(crate) service: Option<String>,
}

impl Alternative {
    /// Returns the alternative with these matches.
    pub(crate) fn of(matches: Vec<Match>) -> Self {
        Self {
            matches,
            late: Vec::new(),
            service: None,
        }
    }

    /// Returns a rule that leads its packets elsewhere.
    pub(crate) fn leading(self, verdict: &RuleVerdict, origin: Origin) -> Rule {
        Rule {
            frame: Frame::Plain,
            matches: self.matches,
            counter: None,
            effects: Vec::new(),
            verdict: verdict.clone(),
            origin: Origin {
                service: self.service,
                ..origin
            },
        }
    }
}

/// Returns whether the conditions need properties that packets have only after connection
/// tracking and routing.
pub(crate) fn needs_tracking(when: &Conditions) -> bool {
    when.iter().any(|one| match one.known() {
        Known::Packet => false,
        Known::Connection | Known::Mark | Known::Input(_) | Known::Sender(_) => true,
    })
}

/// Returns the ways in which a schedule is active, in the kernel's terms; a single one without
/// matches if there is no schedule.
pub(crate) fn times(schedule: Option<&Schedule>, lists: &mut Lists<'_>) -> Vec<Vec<Match>> {
    let Some(schedule) = schedule else {
        return vec![Vec::new()];
    };
    let mut found = Vec::new();
    for season in &schedule.seasons {
        let intervals: Ranges = season
            .intervals
            .iter()
            .map(|(from, to)| (nanoseconds(*from), nanoseconds(*to)))
            .collect();
        for span in &season.spans {
            let mut matches = Vec::new();
            if !intervals.is_empty() {
                matches.push(lists.any(Field::Moment, &intervals));
            }
            if span.days.len() < 7 {
                let days = span.days.iter().map(|day| single((*day).into())).collect();
                matches.push(lists.any(Field::Day, &days));
            }
            if span.from > 0 || span.to < 86_399 {
                matches.push(Match::range(Field::Hour, span.from.into(), span.to.into()));
            }
            found.push(matches);
        }
    }
    found
}

fn nanoseconds(seconds: u64) -> u128 {
    u128::from(seconds) * 1_000_000_000
}

/// Returns whether only upstream packets can fulfil the conditions.
fn upstream_only(when: &Conditions) -> bool {
    when.iter().any(|one| match one.known() {
        Known::Packet | Known::Connection | Known::Mark => false,
        Known::Input(_) | Known::Sender(_) => true,
    })
}

/// Returns the ways to fulfil a rule's own conditions and those of one of its services, but none
/// of its `not`. With `by_version`, each way is for one IP version.
pub(crate) fn matches(
    lowering: &Lowering,
    (rule, service): (&PolicyRule, Option<&Conditions>),
    by_version: bool,
    lists: &mut Lists<'_>,
) -> Vec<Vec<Match>> {
    let wanted = || std::iter::once(&rule.when).chain(service);
    let all = || wanted().chain(&rule.never);
    if lowering.direction() == Direction::Down && all().any(upstream_only) {
        return Vec::new();
    }
    let split = by_version
        || all()
            .flat_map(Conditions::iter)
            .any(|one| matches!(lowering.lower(one, None), Lowered::ByVersion));
    let versions: Vec<Option<IpVersion>> = if split {
        IpVersion::BOTH.map(Some).to_vec()
    } else {
        vec![None]
    };
    let mut found = Vec::new();
    for version in versions {
        let mut alternatives: Vec<Vec<Match>> =
            vec![version.map(Match::version_is).into_iter().collect()];
        for one in wanted().flat_map(Conditions::iter) {
            alternatives = match lowering.lower(one, version).alternatives(lists) {
                Some(more) => multiplied(&alternatives, &more),
                None => Vec::new(),
            };
        }
        for one in rule.never.iter().flat_map(Conditions::iter) {
            let none = lowering.lower(one, version).negated(lists);
            alternatives = multiplied(&alternatives, &[none]);
        }
        found.extend(alternatives);
    }
    found
}

fn multiplied(alternatives: &[Vec<Match>], more: &[Vec<Match>]) -> Vec<Vec<Match>> {
    let with = |alternative: &Vec<Match>| {
        let alternative = alternative.clone();
        more.iter()
            .map(move |one| [alternative.clone(), one.clone()].concat())
    };
    alternatives.iter().flat_map(with).collect()
}

/// Adds the set of protocols with ports to a table that uses it.
pub(crate) fn complete(sets: &mut Vec<Set>, chains: &[weirgate_state::Chain]) {
    let wanted = Match::within(Field::Protocol, weirgate_state::PORT_PROTOCOLS);
    let rules = || chains.iter().flat_map(|chain| &chain.rules);
    if rules().any(|rule| rule.matches.contains(&wanted)) {
        sets.push(port_protocols());
    }
}

/// Adds the matches that these matches presuppose.
pub(crate) fn guard(matches: Vec<Match>) -> Vec<Match> {
    let rule = Rule {
        frame: Frame::Plain,
        matches,
        counter: None,
        effects: Vec::new(),
        verdict: RuleVerdict::Continue,
        origin: Origin::default(),
    };
    rule.guarded().matches
}
