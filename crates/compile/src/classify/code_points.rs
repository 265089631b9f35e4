// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clears and maps code points as `[dscp]` says; rules can set others.

use crate::classify::condition::guard;
use std::collections::BTreeSet;
use weirgate_policy::DscpTreatment;
use weirgate_state::{Effect, Field, Frame, IpVersion, Match, Origin, Rule, RuleVerdict};
use weirgate_units::{Dscp, Inserted as _};

fn written(version: IpVersion, matches: Vec<Match>, to: Dscp, origin: &Origin) -> Rule {
    Rule {
        frame: Frame::Plain,
        matches: guard([vec![Match::version_is(version)], matches].concat()),
        counter: None,
        effects: vec![Effect::Dscp(version, to)],
        verdict: RuleVerdict::Continue,
        origin: origin.clone(),
    }
}

/// Returns rules that set every code point to 0, except those that are exempt.
pub(crate) fn clear(dscp: &DscpTreatment, why: &str) -> Vec<Rule> {
    let origin = Origin::new(dscp.line, format!("code points {why}"));
    let zero = Dscp::default();
    let left: BTreeSet<u8> = dscp
        .except
        .iter()
        .map(|one| one.value())
        .chain([0])
        .inserted();
    let rule = |version: IpVersion| {
        let others = left.iter().map(|value| {
            let field = Field::Dscp(version);
            Match::one(field, u128::from(*value)).negated()
        });
        written(version, others.collect(), zero, &origin)
    };
    IpVersion::BOTH.map(rule).to_vec()
}

pub(crate) fn mapped(dscp: &DscpTreatment) -> Vec<Rule> {
    let origin = Origin::new(dscp.line, "code points mapped");
    // Order the mappings so that no code point is mapped twice: a target that is also a source
    // is mapped before.
    let mut order: Vec<(Dscp, Dscp)> = Vec::new();
    let mut waiting = dscp.map.clone();
    while !waiting.is_empty() {
        let free = waiting.iter().position(|(from, _)| {
            !waiting
                .iter()
                .any(|(other, to)| to == from && other != from)
        });
        order.push(waiting.remove(free.unwrap_or(0)));
    }
    order.reverse();
    let rules = order.iter().flat_map(|(from, to)| {
        IpVersion::BOTH.map(|version| {
            let field = Field::Dscp(version);
            let matches = vec![Match::one(field, from.value().into())];
            written(version, matches, *to, &origin)
        })
    });
    rules.collect()
}
