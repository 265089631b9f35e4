// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy with all former names of fields has the same meaning as with the current ones.

use crate::policy;
use std::collections::BTreeMap;
use weirgate_compile::compile;
use weirgate_document::Severity;
use weirgate_policy::{TABLES, Table, parse};
use weirgate_state::Capabilities;

#[test]
fn a_policy_of_former_names_gives_the_same_state() {
    let old = weirgate_testing::read("tests/policy/former.toml");
    let (_, notes) = parse(&old);
    let fields = TABLES.iter().flat_map(Table::fields);
    let renamed: BTreeMap<&str, &str> = fields
        .flat_map(|field| field.former.iter().map(move |old| (*old, field.name)))
        .collect();
    let every: usize = TABLES
        .iter()
        .flat_map(Table::fields)
        .map(|field| field.former.len())
        .sum();
    assert_eq!(notes.len(), every, "one note for each: {notes:#?}");
    // From the end, so that earlier places stay valid.
    let mut new = old.clone();
    for note in notes.iter().rev() {
        assert_eq!((note.code, note.severity), ("D007", Severity::Note));
        new.replace_range(note.span.clone(), renamed[&old[note.span.clone()]]);
    }
    let (_, problems) = parse(&new);
    assert!(problems.is_empty(), "{problems:#?}");
    let (old, new) = (policy(&old), policy(&new));
    let compiled = |policy| compile(policy, &Capabilities::all()).0;
    assert!(compiled(&old).is_some());
    assert_eq!(compiled(&old), compiled(&new));
    let threshold = |policy: &weirgate_policy::Policy| {
        let track = policy.track.as_ref();
        track.map(weirgate_policy::Track::delay_threshold)
    };
    assert_eq!(threshold(&old), threshold(&new));
}
