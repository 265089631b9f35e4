// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the lists of several routers in one run. A router has its own list, or the part of a
//! common list below its sites.

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

/// How many names are compared with an unknown one for a suggestion.
const COMPARED: usize = 2_000;

/// A list, and the routers that use it.
#[derive(Debug)]
pub struct Listed<'t> {
    /// The numbers of its files.
    pub files: Vec<usize>,
    /// The routers that use the list or a part of it.
    pub shares: Vec<Share<'t>>,
}

/// The part of a list that one router uses.
#[derive(Debug)]
pub struct Share<'t> {
    /// The router.
    pub router: &'t str,
    /// The router's sites, each with its span in the first file. The router gets everything
    /// below these sites; `None` means the whole list.
    pub sites: Option<Vec<(&'t str, SourceSpan)>>,
}

/// The result of reading several lists.
#[derive(Debug)]
pub struct Several {
    /// The list of each share, in the order of the shares; `None` if any problem is an error.
    pub lists: Option<Vec<List>>,
    /// All problems, sorted by file and line.
    pub problems: Vec<Located>,
}

/// Reads the files of several lists. The first file names the others and is part of no list.
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

/// Returns the names of the routers that use a list, for messages.
fn routers(listed: &Listed<'_>) -> String {
    let names: Vec<&str> = listed.shares.iter().map(|share| share.router).collect();
    names.join(", ")
}

/// Warns about keys that occur in two lists. This can be intended: several sites may use the
/// same VLANs or private addresses.
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

/// Returns the number of the share that owns each site. A site or a circuit must have exactly
/// one owner; otherwise an error is reported.
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
            // If nothing at the site has an owner, the error of the site is enough.
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

/// Returns, for each site, the share that names it and where.
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

/// Returns the part of the list that a share owns.
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
