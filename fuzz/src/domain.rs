// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a domain file: parsing, rendering, totals, and conversion to policies.
//!
//! Besides "no panic", this must hold: a domain is returned exactly if there is no error, every
//! problem can be shown at its place, and the resulting policies are valid.

use crate::Corpus;
use std::collections::BTreeMap;
use weirgate_document::Severity;
use weirgate_domain::{Domain, check, parse, policy_text};

/// Texts with more mistakes are tried, but not kept in the corpus.
const MOST_MISTAKES: usize = 1;

pub fn run(data: &[u8]) -> Corpus {
    let Ok(source) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let (domain, problems) = parse(source);
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    assert_eq!(domain.is_none(), errors > 0);
    // Rendering takes most of the time, so only one problem is rendered.
    if let Some(problem) = problems.get(source.len() % problems.len().max(1)) {
        assert!(problem.render("domain.toml", source).contains(problem.code));
    }
    if let Some(domain) = domain {
        planted(&domain);
        let _ = domain.paths();
        let _ = check(&domain);
        let ports = domain.ports();
        if let Some(port) = ports.get(source.len() % ports.len().max(1)) {
            assert!(!policy_text(&domain, port, &BTreeMap::new()).is_empty());
        }
    }
    if errors > MOST_MISTAKES {
        Corpus::Reject
    } else {
        Corpus::Keep
    }
}

/// The planted mistake: a valid domain with a behaviour that no seed has.
#[cfg(feature = "planted")]
fn planted(domain: &Domain) {
    use weirgate_domain::Behaviour;
    let controls = domain
        .classes
        .values()
        .any(|class| class.behaviour == Behaviour::ClassSelector(7));
    assert!(!controls, "the planted mistake: a class of network control");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Domain) {}
