// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the differences between two lists in words.

use super::{Kept, head, line, plan_lines, site_begins, site_of};
use crate::model::List;
use std::collections::BTreeMap;
use weirgate_units::Inserted as _;

/// How many names of each kind are listed.
const MOST: usize = 6;

/// A text for each object, by name. Objects differ if their texts do.
type Texts<'l> = BTreeMap<&'l str, String>;

/// Returns one sentence for each kind of object that differs. It is empty if only the order
/// differs. `old` is the list in force.
pub fn compared(old: Option<&Kept>, new: &Kept) -> Vec<String> {
    let none = List::default();
    let had = old.map_or(&none, |old| &old.list);
    let all = old.map(|old| head(old.direction, old.link, old.queues));
    let now = head(new.direction, new.link, new.queues);
    let mut told = Vec::new();
    match all {
        None => told.push("there is no list".to_owned()),
        Some(all) if all != now => {
            told.push("the direction, the rate or the queues of the whole change".to_owned());
        }
        Some(_) => {}
    }
    for (what, of) in [
        ("sites", sites as fn(&List) -> Texts<'_>),
        ("plans", plans),
        ("circuits", circuits),
    ] {
        differ(what, &of(had), &of(&new.list), &mut told);
    }
    told
}

fn sites(list: &List) -> Texts<'_> {
    let text = |site: &crate::Site| {
        let above = site.parent.and_then(|parent| list.sites.get(parent));
        let mut text = above.map_or_else(String::new, |above| format!("{}\n", above.name));
        site_begins(site, &mut text);
        text
    };
    let all = list.sites.iter();
    all.map(|site| (&*site.name, text(site))).inserted()
}

fn plans(list: &List) -> Texts<'_> {
    let text = |plan| {
        let mut text = String::new();
        plan_lines(plan, &mut text);
        text
    };
    let all = list.plans.iter();
    all.map(|plan| (&*plan.name, text(plan))).inserted()
}

fn circuits(list: &List) -> Texts<'_> {
    let text = |circuit| {
        let mut text = String::new();
        line(circuit, site_of(list, circuit), &mut text);
        text
    };
    let all = list.circuits.iter();
    all.map(|one| (&*one.id, text(one))).inserted()
}

fn differ(what: &str, old: &Texts<'_>, new: &Texts<'_>, told: &mut Vec<String>) {
    let come = new.keys().filter(|name| !old.contains_key(*name));
    let go = old.keys().filter(|name| !new.contains_key(*name));
    let change = new
        .iter()
        .filter(|(name, text)| old.get(*name).is_some_and(|had| had != *text))
        .map(|(name, _)| name);
    for (how, names) in [
        ("new", come.collect::<Vec<_>>()),
        ("changed", change.collect()),
        ("removed", go.collect()),
    ] {
        if names.is_empty() {
            continue;
        }
        let some: Vec<&str> = names.iter().take(MOST).map(|name| **name).collect();
        let more = if names.len() > MOST { ", ..." } else { "" };
        let count = names.len();
        told.push(format!("{how} {what}: {count} ({}{more})", some.join(", ")));
    }
}
