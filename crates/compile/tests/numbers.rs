// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes that are added, removed or moved do not affect others.

use std::collections::BTreeMap;
use weirgate_compile::compile;
use weirgate_plan::{Action, QdiscParent, plan, run};
use weirgate_policy::parse;
use weirgate_state::{Capabilities, QdiscKind, State};
use weirgate_units::Handle;

const HEAD: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"10mbit\"\n\
    down = \"50mbit\"\nlayer = \"raw\"\ninbound = \"lan\"\n";
const URGENT: &str = "[[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\n";
const NORMAL: &str = "[[class]]\nname = \"normal\"\nshare = \"50%\"\ndefault = true\n";
const LAST: &str = "[[class]]\nname = \"last\"\nshare = \"10%\"\npriority = 7\n";
const RULES: &str = "[[rule]]\nclass = \"urgent\"\nport = 22\n";

fn state(parts: &[&str]) -> State {
    let source = parts.concat();
    let (policy, problems) = parse(&source);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    compile(&policy, &Capabilities::all()).0.expect("compiles")
}

/// Returns the class ids of the scheduler on `wan` with their rates.
fn classes(state: &State) -> BTreeMap<Handle, u64> {
    let root = state
        .devices
        .iter()
        .find(|(name, _)| name.as_str() == "wan");
    let root = root
        .and_then(|(_, device)| device.root.as_ref())
        .expect("shaped");
    let QdiscKind::Htb(outer) = &root.kind else {
        panic!("{root:?}")
    };
    let inner = outer.classes[0].leaf.as_ref().expect("the scheduler");
    let QdiscKind::Htb(inner) = &inner.kind else {
        panic!("{inner:?}")
    };
    let rates = inner.classes.iter();
    rates
        .map(|class| (class.id, class.rate.as_bits_per_second()))
        .collect()
}

/// Returns what a plan does to qdiscs and classes, with the object of each step.
fn touched(before: &State, after: &State) -> Vec<(String, Handle)> {
    // As a kernel stores it: in ticks.
    let mut bare = before.clone();
    bare.tables.clear();
    bare.devices
        .values_mut()
        .for_each(|device| device.root = None);
    let steps = plan(&bare, before).expect("a plan").steps;
    let before = run(&steps, &bare).expect("a kernel takes it");
    let steps = plan(&before, after).expect("a plan").steps;
    let of = |action: &Action| match action {
        Action::AddClass { class, .. } => Some(("add class".to_owned(), class.id)),
        Action::ChangeClass { class, .. } => Some(("change class".to_owned(), class.id)),
        Action::DeleteClass { id, .. } => Some(("delete class".to_owned(), *id)),
        Action::AddQdisc {
            parent: QdiscParent::Class(id),
            ..
        } => Some(("add queue".to_owned(), *id)),
        Action::SetTable { .. } | Action::ChangeTable { .. } => None,
        other => Some((other.to_string(), Handle::default())),
    };
    steps.iter().filter_map(|step| of(&step.action)).collect()
}

#[test]
fn a_class_that_comes_touches_no_other_class_or_queue() {
    let before = state(&[HEAD, URGENT, NORMAL, RULES]);
    let rule = "[[rule]]\nclass = \"last\"\nport = 6881\n";
    let after = state(&[HEAD, URGENT, LAST, NORMAL, RULES, rule]);
    let (old, new) = (classes(&before), classes(&after));
    let came: Vec<Handle> = new
        .keys()
        .filter(|id| !old.contains_key(id))
        .copied()
        .collect();
    assert_eq!(came.len(), 1);
    let expected = ["add class", "add queue"].map(|what| (what.to_owned(), came[0]));
    // In both directions, and nothing else.
    assert_eq!(
        touched(&before, &after),
        [expected.clone(), expected].concat()
    );
    let back = touched(&after, &before);
    let expected = ("delete class".to_owned(), came[0]);
    assert_eq!(back, [expected.clone(), expected]);
}

#[test]
fn the_order_of_classes_is_of_no_account() {
    let before = state(&[HEAD, URGENT, NORMAL, LAST, RULES]);
    let after = state(&[HEAD, LAST, NORMAL, URGENT, RULES]);
    assert_eq!(classes(&before), classes(&after));
    assert_eq!(touched(&before, &after), []);
}

/// Another share changes rates in place, without adding or removing classes.
#[test]
fn another_share_is_a_change_in_place() {
    let before = state(&[HEAD, URGENT, NORMAL, LAST, RULES]);
    let larger = NORMAL.replace("50%", "60%");
    let after = state(&[HEAD, URGENT, &larger, LAST, RULES]);
    let done = touched(&before, &after);
    assert!(!done.is_empty());
    assert!(
        done.iter().all(|(what, _)| what == "change class"),
        "{done:?}"
    );
}
