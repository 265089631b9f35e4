// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No experiment file promises less than it must.
//!
//! `promises.txt` lists the promises of the theses and of the project's plan, with their
//! tolerances. A file that widens a tolerance, changes a value, drops an expectation or adds an
//! unlisted one fails here; a stricter file passes. A change of the list needs a reason.

use std::collections::BTreeMap;
use weirgate_experiment::{Expectation, Promise, parse};

/// Experiment, arm, metric, and the formula or kind, because one metric may have several promises.
type Key = (String, String, String, String);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Allowed {
    Share(f64, f64),
    Distance(f64, f64),
    Least(f64),
    Most(f64),
}

/// Parses `EXPERIMENT ARM METRIC = VALUE TOLERANCE`, `... >= VALUE`, `... <= VALUE`; a formula is
/// in braces.
fn list() -> BTreeMap<Key, Allowed> {
    let mut list = BTreeMap::new();
    for line in include_str!("promises.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (names, promise) = line.split_once(" : ").expect("names : promise");
        let names: Vec<&str> = names.split(' ').collect();
        let [experiment, arm, metric] = names[..] else {
            panic!("{line}");
        };
        let (relation, rest) = promise.split_once(' ').expect("relation and value");
        let (formula, rest) = match rest.strip_prefix('{') {
            Some(text) => {
                let (formula, rest) = text.split_once('}').expect("a closed formula");
                (formula.to_owned(), format!("0{rest}"))
            }
            None => (String::new(), rest.to_owned()),
        };
        let (value, tolerance) = rest.split_once(' ').unwrap_or((&rest, ""));
        let value: f64 = value.parse().expect("a value");
        let allowed = match (relation, tolerance.strip_suffix('%')) {
            ("=", Some(share)) => {
                Allowed::Share(value, share.parse::<f64>().unwrap_or(0.0) / 100.0)
            }
            ("=", None) => Allowed::Distance(value, tolerance.parse().expect("a tolerance")),
            (">=", _) => Allowed::Least(value),
            ("<=", _) => Allowed::Most(value),
            _ => panic!("{line}"),
        };
        let [experiment, arm, metric] = [experiment, arm, metric].map(str::to_owned);
        let key = (experiment, arm, metric, format!("{relation}{formula}"));
        assert!(list.insert(key, allowed).is_none(), "twice: {line}");
    }
    list
}

fn relation(expectation: &Expectation) -> String {
    let relation = match expectation.promise {
        Promise::Near { .. } | Promise::Within { .. } => "=",
        Promise::AtLeast(_) => ">=",
        Promise::AtMost(_) => "<=",
    };
    let formula = expectation.formula.as_ref();
    format!(
        "{relation}{}",
        formula.map(ToString::to_string).unwrap_or_default()
    )
}

/// Returns whether a promise is at least as strict as the list's.
fn strict(promise: Promise, allowed: Allowed) -> bool {
    const FRACTION: f64 = 1e-9;
    match (promise, allowed) {
        (Promise::Near { value, tolerance }, Allowed::Share(listed, most))
        | (Promise::Within { value, tolerance }, Allowed::Distance(listed, most)) => {
            value == listed && tolerance <= most + FRACTION
        }
        (Promise::AtLeast(bound), Allowed::Least(listed)) => bound >= listed,
        (Promise::AtMost(bound), Allowed::Most(listed)) => bound <= listed,
        _ => false,
    }
}

#[test]
fn no_file_widens_a_tolerance_or_drops_a_promise() {
    let mut list = list();
    let folder = weirgate_testing::root().join("experiments");
    let mut wrong = Vec::new();
    for path in weirgate_campaign::folder::files(&folder)
        .unwrap()
        .into_values()
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let experiment = parse(&text).0.unwrap();
        for expectation in &experiment.expectations {
            let key = (
                experiment.name.clone(),
                expectation.arm.clone(),
                expectation.metric.clone(),
                relation(expectation),
            );
            match list.remove(&key) {
                None => wrong.push(format!("not in the list: {key:?}")),
                Some(allowed) if !strict(expectation.promise, allowed) => wrong.push(format!(
                    "{key:?}: {:?} is wider than {allowed:?}",
                    expectation.promise
                )),
                Some(_) => {}
            }
        }
    }
    wrong.extend(list.keys().map(|key| format!("in no file: {key:?}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wider_promise_is_noticed() {
    let allowed = Allowed::Share(440.0, 0.1);
    let near = |value, tolerance| Promise::Near { value, tolerance };
    assert!(strict(near(440.0, 0.1), allowed));
    assert!(strict(near(440.0, 0.05), allowed));
    assert!(!strict(near(440.0, 0.11), allowed));
    assert!(!strict(near(420.0, 0.1), allowed));
    assert!(!strict(Promise::AtLeast(0.0), allowed));
    assert!(!strict(Promise::AtMost(39.0), Allowed::Most(38.0)));
    assert!(!strict(Promise::AtLeast(0.98), Allowed::Least(0.99)));
}
