// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a policy: parsing, rendering, compilation, and judgement.
//!
//! Besides "no panic", this must hold: a policy is returned exactly if there is no error, every
//! problem can be shown at its place, and a compiled policy has the properties that crate compile's
//! tests require.

use crate::Corpus;
use std::collections::BTreeSet;
use weirgate_document::{Problem, Severity};
use weirgate_policy::{Direction, Policy};
use weirgate_state::{Capabilities, State};

/// Texts with more mistakes are tried, but not kept in the corpus.
const MOST_MISTAKES: usize = 1;

pub fn run(data: &[u8]) -> Corpus {
    let Ok(source) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    // The only file that can be included is the policy itself, which must not cause a loop.
    let load = |path: &str| match path {
        "self.toml" => Ok(source.to_owned()),
        _ => Err("there is no such file".to_owned()),
    };
    let parsed = weirgate_policy::parse_with("policy.toml", source, &load);
    let (policy, problems) = (parsed.policy, parsed.problems);
    assert_eq!(policy.is_some(), usable(&problems));
    if let Some(problem) = problems.get(source.len() % problems.len().max(1)) {
        assert!(parsed.sources.render(problem).contains(problem.code));
    }
    if let Some(policy) = policy {
        planted(&policy);
        compiled(source, &policy);
    }
    // No single change makes a policy from a text with many mistakes, and there are endlessly many
    // of these texts.
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error);
    if errors.count() > MOST_MISTAKES {
        Corpus::Reject
    } else {
        Corpus::Keep
    }
}

fn usable(problems: &[Problem]) -> bool {
    problems
        .iter()
        .all(|problem| problem.severity != Severity::Error)
}

fn shown(source: &str, problems: &[Problem]) {
    // Rendering takes most of the time, so only one problem is rendered.
    if let Some(problem) = problems.get(source.len() % problems.len().max(1)) {
        assert!(problem.render("policy.toml", source).contains(problem.code));
    }
}

/// Checks every compiled table: the kernel would accept it, and jumps have targets.
fn sound(state: &State) {
    for table in &state.tables {
        assert!(table.faults().is_empty(), "{:?}", table.faults());
        assert!(!table.nft_text().is_empty());
        let names: BTreeSet<&str> = table
            .chains
            .iter()
            .map(|chain| chain.name.as_str())
            .collect();
        assert_eq!(names.len(), table.chains.len(), "two chains of one name");
        let sets: BTreeSet<&str> = table.sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(sets.len(), table.sets.len(), "two sets of one name");
    }
}

fn compiled(source: &str, policy: &Policy) {
    for direction in Direction::BOTH {
        if let Some(shares) = policy.share_out(direction) {
            let rates = shares
                .classes
                .iter()
                .map(|class| class.rate.as_bits_per_second());
            assert!(rates.sum::<u64>() <= shares.gate.as_bits_per_second());
        }
    }
    let (state, problems) = weirgate_compile::compile(policy, &Capabilities::all());
    assert_eq!(state.is_some(), usable(&problems));
    if let Some(state) = &state {
        sound(state);
    }
    shown(source, &problems);
    let report = weirgate_compile::check_report(policy);
    shown(source, &report.problems);
    assert!(!report.to_string().is_empty());
    for class in report
        .directions
        .iter()
        .flat_map(|direction| &direction.classes)
    {
        assert!(class.guaranteed.wire <= class.maximum.wire);
        if let (Some(lone), Some(within)) = (&class.lone, &class.within) {
            assert!(lone.wait <= within.wait);
        }
    }
}

/// The planted mistake, off by one: as if HTB had priorities 0 to 6. It occurs only in valid
/// policies, and in no seed.
#[cfg(feature = "planted")]
fn planted(policy: &Policy) {
    let last = policy.classes.iter().map(|class| class.priority).max();
    assert!(last < Some(7), "the planted mistake: a class of priority 7");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Policy) {}
