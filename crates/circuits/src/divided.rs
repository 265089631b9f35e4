// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lists of several routers, read in one run: each has a list of its own, or the part of
//! a common one that is below its sites.

use crate::codes::{ELSEWHERE, NOWHERE, TWICE, UNKNOWN, UNUSED};
use crate::files::File;
use crate::files::collect::collected;
use crate::files::located::{FileSpan, Located, Mistakes};
use crate::files::raw::Collected;
use crate::hash::Known;
use crate::keys::Key;
use crate::model::{Circuit, List, Site};
use crate::{any_wrong, check};
use std::collections::BTreeMap;
use weirgate_document::{SourceSpan, did_you_mean};
use weirgate_units::Inserted as _;

/// Names that are compared with one that is unknown.
const COMPARED: usize = 2_000;

/// A list, and who has it.
#[derive(Debug)]
pub struct Listed<'t> {
    /// Numbers of its files.
    pub files: Vec<usize>,
    /// The routers that have a part of it.
    pub shares: Vec<Share<'t>>,
}

/// What a router has of a list.
#[derive(Debug)]
pub struct Share<'t> {
    /// The router.
    pub router: &'t str,
    /// Sites that it has with all that is below them, each with its place in the first of
    /// all files; `None` for the whole list.
    pub sites: Option<Vec<(&'t str, SourceSpan)>>,
}

/// What was read.
#[derive(Debug)]
pub struct Several {
    /// What each share has, in their order; `None` where there is an error.
    pub lists: Option<Vec<List>>,
    /// All problems, in the order of files and lines.
    pub problems: Vec<Located>,
}

/// Reads the files of several lists. The first file is that which names the others, and is
/// of none of the lists.
pub fn read_several(files: &[File<'_>], listed: &[Listed<'_>]) -> Several {
    let mistakes = Mistakes::new(files);
    let all: Vec<Collected> = listed
        .iter()
        .map(|one| collected(files, &one.files, &mistakes))
        .collect();
    apart(&all, listed, &mistakes);
    let mut lists = Vec::new();
    for (collected, listed) in all.into_iter().zip(listed) {
        let owners = owners(&collected, &listed.shares, &mistakes);
        let list = check::check(collected, &mistakes);
        for (number, share) in listed.shares.iter().enumerate() {
            lists.push(match share.sites {
                None => list.clone(),
                Some(_) => part(&list, &owners, number),
            });
        }
    }
    let problems = mistakes.located();
    Several {
        lists: Some(lists).filter(|_| !any_wrong(&problems)),
        problems,
    }
}

/// Who a list is of, in words.
fn routers(listed: &Listed<'_>) -> String {
    let names: Vec<&str> = listed.shares.iter().map(|share| share.router).collect();
    names.join(", ")
}

/// Tells what is a key in two lists. That may be meant: VLANs, and addresses that are not
/// public, can be used at each site anew.
fn apart(all: &[Collected<'_>], listed: &[Listed<'_>], mistakes: &Mistakes<'_>) {
    if all.len() < 2 {
        return;
    }
    let mut keys = Vec::new();
    for (list, own) in all.iter().enumerate() {
        let of = own.keys.iter();
        keys.extend(of.map(|(circuit, (key, at))| (list, *circuit, key, at)));
    }
    let mut owners: Known<Key, usize> = Known::default();
    for (place, (list, _, key, at)) in keys.iter().enumerate() {
        let Some(first) = owners.get(*key).copied() else {
            owners.insert(**key, place);
            continue;
        };
        let Some((other_list, circuit, ..)) = keys.get(first).filter(|(other, ..)| other != list)
        else {
            continue;
        };
        let own = all.get(*other_list);
        let Some(other) = own.and_then(|own| own.circuits.get(*circuit)) else {
            continue;
        };
        let message = format!(
            "`{key}` is of the circuit `{}` of {} too, in {}",
            other.id,
            listed.get(*other_list).map(routers).unwrap_or_default(),
            mistakes.named(&other.at)
        );
        let hint = "leave it to one of them, unless it is another subscriber's there";
        mistakes.warning(ELSEWHERE, at, message, hint);
    }
}

/// The number of the share that each site is of. A site or a circuit that is of none or of
/// two is a mistake.
fn owners(all: &Collected, shares: &[Share<'_>], mistakes: &Mistakes<'_>) -> Vec<Option<usize>> {
    let sites = &all.sites;
    if shares.iter().any(|share| share.sites.is_none()) {
        return Vec::new();
    }
    let by_name: BTreeMap<&str, usize> = sites
        .iter()
        .enumerate()
        .map(|(number, site)| (&*site.name, number))
        .inserted();
    let direct = direct(all, shares, &by_name, mistakes);
    let mut owners: Vec<Option<usize>> = vec![None; sites.len()];
    for (number, site) in sites.iter().enumerate() {
        let above = site.parent.and_then(|above| owners.get(above).copied()?);
        let own = direct.get(number).and_then(Option::as_ref);
        if let (Some(owner), Some((_, at))) = (above, own) {
            let name = shares.get(owner).map_or("", |share| share.router);
            let message = format!("`{}` is below a site of `{name}`", site.name);
            let hint = "name sites that are beside one another";
            mistakes.error(NOWHERE, at, message, hint);
        }
        owners[number] = above.or(own.map(|(share, _)| *share));
    }
    let mut has_below = vec![false; sites.len()];
    for (number, site) in sites.iter().enumerate().rev() {
        if let Some(above) = site.parent
            && (owners[number].is_some() || has_below[number])
        {
            has_below[above] = true;
        }
    }
    for (number, site) in sites.iter().enumerate() {
        if owners[number].is_some() {
            continue;
        }
        if has_below[number] {
            if !site.is_virtual {
                let name = &site.name;
                let message = format!("the rate of `{name}` holds nowhere: routers have its sites");
                let hint = "give it to one router as a whole, or write `\"virtual\": true`";
                mistakes.warning(UNUSED, &site.at, message, hint);
            }
        } else if site.parent.is_none_or(|above| has_below[above]) {
            let message = format!("the site `{}` is of no router", site.name);
            let hint = "name it, or what it is below, among the `sites` of a router";
            mistakes.error(NOWHERE, &site.at, message, hint);
        }
    }
    for circuit in &all.circuits {
        let site = by_name.get(&*circuit.parent);
        let is_lost = match site {
            None => circuit.parent.is_empty() || !all.has_network,
            // Of a site that is of nobody there is one mistake.
            Some(site) => owners[*site].is_none() && has_below[*site],
        };
        if is_lost {
            let at = if circuit.parent.is_empty() {
                &circuit.at
            } else {
                &circuit.parent_at
            };
            let message = format!("the circuit `{}` is below no site of a router", circuit.id);
            let hint = "give it a `Parent Node` that is of one router";
            mistakes.error(NOWHERE, at, message, hint);
        }
    }
    owners
}

/// The share that names each site, and where.
fn direct(
    all: &Collected,
    shares: &[Share<'_>],
    by_name: &BTreeMap<&str, usize>,
    mistakes: &Mistakes<'_>,
) -> Vec<Option<(usize, FileSpan)>> {
    let mut direct: Vec<Option<(usize, FileSpan)>> = vec![None; all.sites.len()];
    for (number, share) in shares.iter().enumerate() {
        for (name, span) in share.sites.iter().flatten() {
            let span = span.clone();
            let at = FileSpan { file: 0, span };
            let Some(site) = by_name.get(name) else {
                let known = all.sites.iter().take(COMPARED).map(|site| &*site.name);
                let hint = did_you_mean(name, known, || {
                    "name a site of the domain's network.json".to_owned()
                });
                mistakes.error(UNKNOWN, &at, format!("there is no site `{name}`"), hint);
                continue;
            };
            if let Some((other, _)) = &direct[*site] {
                let other = shares.get(*other).map_or("", |share| share.router);
                let message = format!("the site `{name}` is of `{other}` already");
                mistakes.error(TWICE, &at, message, "leave it to one of them");
                continue;
            }
            direct[*site] = Some((number, at));
        }
    }
    direct
}

/// What is below the sites of a share.
fn part(list: &List, owners: &[Option<usize>], share: usize) -> List {
    let is_own = |site: usize| owners.get(site).copied().flatten() == Some(share);
    let mut places: Vec<Option<usize>> = vec![None; list.sites.len()];
    let mut sites = Vec::new();
    for (number, site) in list.sites.iter().enumerate() {
        if is_own(number) {
            places[number] = Some(sites.len());
            sites.push(Site {
                parent: site.parent.and_then(|above| places[above]),
                ..site.clone()
            });
        }
    }
    let own = |circuit: &Circuit| {
        let parent = places[circuit.parent?];
        parent.map(|parent| Circuit {
            parent: Some(parent),
            ..circuit.clone()
        })
    };
    List {
        circuits: list.circuits.iter().filter_map(own).collect(),
        sites,
        plans: list.plans.clone(),
    }
}
