// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any bytes as a policy: read, shown, compiled, judged.
//!
//! What must hold beyond "no panic": a policy is returned exactly when there is
//! no error, every problem can be shown at its place, and what compiles keeps
//! the promises that crate compile's own properties state for chosen policies.

use crate::Corpus;
use std::collections::BTreeSet;
use weirgate_document::{Problem, Severity};
use weirgate_policy::{Direction, Policy};
use weirgate_state::{Capabilities, State};

/// Texts with more are tried and not developed further.
const MOST_MISTAKES: usize = 1;

pub fn run(data: &[u8]) -> Corpus {
    let Ok(source) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    // What it includes is at hand once: itself, which must not go round.
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
    // From a text with many mistakes no single change leads to a policy, and
    // there are endlessly many such texts.
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
    // Rendering takes most of the time; one in turn shows what there is.
    if let Some(problem) = problems.get(source.len() % problems.len().max(1)) {
        assert!(problem.render("policy.toml", source).contains(problem.code));
    }
}

/// What holds for every compiled scheme: the kernel could hold it, and jumps
/// lead somewhere.
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

/// The planted mistake, off by one: as if HTB had priorities 0 to 6. It shows
/// in policies without errors only, and in none of the seeds.
#[cfg(feature = "planted")]
fn planted(policy: &Policy) {
    let last = policy.classes.iter().map(|class| class.priority).max();
    assert!(last < Some(7), "the planted mistake: a class of priority 7");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Policy) {}
