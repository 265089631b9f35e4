// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links of a site with several, as `weirgate links run` reports them, and their changes.

use crate::object::{Number, Object, Sort};
use serde::Serialize;

/// The current state of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteLink {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Whether connections use it.
    pub up: bool,
    /// Why it is suspected, while it is up.
    pub suspected: Option<String>,
    /// When it went up or down, in seconds of Unix time.
    pub since_s: u64,
    /// The reason for that.
    pub why: String,
    /// Its weight for new connections, if these are balanced.
    pub weight: Option<u32>,
    /// A description of the rules that apply to it.
    pub rules: Vec<String>,
}

impl SiteLink {
    /// Returns its metrics.
    #[must_use]
    pub fn object(&self) -> Object {
        let mut numbers = vec![
            (Number::SiteLinkUp, self.up.into()),
            (Number::SiteLinkSuspected, self.suspected.is_some().into()),
            (Number::SiteLinkSince, self.since_s),
        ];
        let weight = self.weight.map(u64::from);
        numbers.extend(weight.map(|weight| (Number::SiteLinkWeight, weight)));
        Object {
            sort: Sort::SiteLink,
            identity: String::new(),
            begins: false,
            labels: vec![("link", self.name.clone()), ("device", self.device.clone())],
            numbers,
        }
    }
}

/// Describes the changes from one look to the next. There are none at the first look with links,
/// because nothing is known about the time before.
pub(crate) fn events(before: &[SiteLink], now: &[SiteLink]) -> Vec<String> {
    let mut found = Vec::new();
    if before.is_empty() {
        return found;
    }
    for link in now {
        let SiteLink { name, device, .. } = link;
        let same = before.iter().find(|one| one.name == *name);
        let is_new = same.is_none_or(|one| one.up != link.up || one.device != *device);
        let was_suspected = same.and_then(|one| one.suspected.as_ref());
        if is_new {
            let word = if link.up { "up" } else { "down" };
            found.push(format!("{name} ({device}) is {word}: {}", link.why));
        } else if let (None, Some(why)) = (was_suspected, &link.suspected) {
            found.push(format!("{name} ({device}) is suspected: {why}"));
        }
    }
    for link in before {
        if !now.iter().any(|one| one.name == link.name) {
            found.push(format!("{} ({}) is held no longer", link.name, link.device));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_links_is_told_once() {
        let link = |up, suspected: Option<&str>| SiteLink {
            name: String::from("fibre"),
            device: String::from("wan0"),
            up,
            suspected: suspected.map(str::to_owned),
            since_s: 1,
            why: String::from("nobody answered"),
            weight: None,
            rules: Vec::new(),
        };
        let up = [link(true, None)];
        assert!(events(&[], &up).is_empty());
        assert!(events(&up, &up).is_empty());
        let suspected = [link(true, Some("it sends, and receives nothing"))];
        let text = "fibre (wan0) is suspected: it sends, and receives nothing";
        assert_eq!(events(&up, &suspected), [text]);
        assert!(events(&suspected, &up).is_empty());
        let down = [link(false, None)];
        assert_eq!(
            events(&suspected, &down),
            ["fibre (wan0) is down: nobody answered"]
        );
        assert_eq!(events(&down, &[]), ["fibre (wan0) is held no longer"]);
    }
}
