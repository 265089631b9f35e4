// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies overrides to sites.

use super::HINT;
use crate::codes::{ABSENT, TWICE};
use crate::files::located::{FileSpan, Mistakes};
use crate::files::raw::RawSite;
use std::collections::BTreeMap;
use weirgate_units::Rate;

/// A change of a site.
#[derive(Debug)]
pub(super) struct SiteChange {
    pub(super) site: Named,
    pub(super) at: FileSpan,
    pub(super) what: What,
}

/// How an override names a site.
#[derive(Debug)]
pub(super) enum Named {
    /// By its `id`, which takes precedence over a name.
    Id(String),
    /// By its name.
    Name(String),
}

#[derive(Debug, Clone)]
pub(super) enum What {
    /// New rates, down and up.
    Rates([Option<Rate>; 2]),
    /// Whether the site has no limit.
    Virtual(bool),
}

/// Changes sites. Two changes of the same kind to one site are an error, as for devices.
pub(super) fn change(changes: Vec<SiteChange>, sites: &mut [RawSite], mistakes: &Mistakes<'_>) {
    if changes.is_empty() {
        return;
    }
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, site) in sites.iter().enumerate() {
        names.entry(site.name.clone()).or_insert(number);
        if let Some(id) = &site.id {
            ids.entry(id.clone()).or_default().push(number);
        }
    }
    let mut done: BTreeMap<(usize, bool), FileSpan> = BTreeMap::new();
    for change in changes {
        let (name, found) = match &change.site {
            Named::Id(id) => (id, ids.get(id).cloned().unwrap_or_default()),
            Named::Name(name) => (name, names.get(name).copied().into_iter().collect()),
        };
        if found.is_empty() {
            let message = match change.site {
                Named::Id(_) => format!("there is no site with the id `{name}`"),
                Named::Name(_) => format!("there is no site `{name}`"),
            };
            mistakes.warning(ABSENT, &change.at, message, HINT);
        }
        for number in found {
            let kind = (number, matches!(change.what, What::Virtual(_)));
            if let Some(first) = done.get(&kind) {
                let first = mistakes.named(first);
                let message = format!("the site `{name}` has this adjustment twice, see {first}");
                mistakes.error(TWICE, &change.at, message, "leave out one of them");
                continue;
            }
            done.insert(kind, change.at.clone());
            if let Some(site) = sites.get_mut(number) {
                site.rates_at = change.at.clone();
                match &change.what {
                    What::Rates(rates) => {
                        for (own, new) in site.rates.iter_mut().zip(rates) {
                            *own = new.or(*own);
                        }
                    }
                    What::Virtual(is) => site.is_virtual = *is,
                }
            }
        }
    }
}
