// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filters at one point of a tree, and their chains.

use super::object;
use crate::netlink::wire::{self, Attrs};
use crate::tc::TCMSG;
use crate::tc::decode::Entry;
use crate::tc::raw::{attributes, changed, put, without};
use libc::{TCA_KIND, TCA_OPTIONS};
use nlink::netlink::types::tc::filter::bpf::TCA_BPF_ID;
use nlink::netlink::types::tc::filter::u32::{TCA_U32_DIVISOR, TCA_U32_MARK};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{ListedKind, ListedObject};
use weirgate_units::{Arrange as _, Inserted as _};

/// linux/rtnetlink.h.
pub(super) const TCA_CHAIN: u16 = 11;

/// The listings for one qdisc or class that can have filters.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilterPoint {
    /// The qdisc or class.
    pub(crate) parent: u32,
    /// Every chain that was created explicitly or has a filter.
    pub(crate) chains: Vec<Vec<u8>>,
    /// The filters, and the entries that classifiers list for themselves.
    pub(crate) filters: Vec<Vec<u8>>,
}

/// The flags of a filter that a request may have (`tc_flags_valid`, net/pkt_cls.h): skip hardware,
/// skip software, be verbose.
const ASKED_FLAGS: u32 = 0b1_0011;

/// Attributes of a classifier: actions and police; flags; counters.
struct Classifier {
    name: &'static str,
    actions: &'static [u16],
    flags: Option<u16>,
    counters: &'static [u16],
}

/// linux/pkt_cls.h.
const CLASSIFIERS: [Classifier; 9] = [
    classifier("basic", &[3, 4], None, &[5]),
    // With a program id it is not a classic program; see `filter`.
    classifier("bpf", &[1, 2], Some(9), &[]),
    classifier("cgroup", &[1, 2], None, &[]),
    classifier("flow", &[9, 10], None, &[]),
    classifier("flower", &[3], Some(22), &[]),
    classifier("fw", &[2, 4], None, &[]),
    classifier("matchall", &[2], Some(3), &[4]),
    classifier("route", &[5, 6], None, &[]),
    classifier("u32", &[6, 7], Some(11), &[9, 12]),
];

const fn classifier(
    name: &'static str,
    actions: &'static [u16],
    flags: Option<u16>,
    counters: &'static [u16],
) -> Classifier {
    Classifier {
        name,
        actions,
        flags,
        counters,
    }
}

impl FilterPoint {
    /// Returns what creates its chains and filters again; `None` if that is impossible.
    pub(super) fn objects(&self) -> Option<Vec<ListedObject>> {
        let filters = self.filters()?;
        let mut objects = self.chains(&filters);
        objects.extend(filters);
        Some(objects)
    }

    /// Returns the chains that do not come with a filter: they were created explicitly, perhaps
    /// with a template.
    fn chains(&self, filters: &[ListedObject]) -> Vec<ListedObject> {
        let number = |attrs: &Attrs<'_>| attrs.u32(TCA_CHAIN).unwrap_or_default();
        let of_filters: BTreeSet<u32> = filters
            .iter()
            .map(|object| number(&Attrs::of(&object.attributes)))
            .inserted();
        let mut made = Vec::new();
        for payload in &self.chains {
            let attrs = Attrs::after(payload, TCMSG);
            if !attrs.has(TCA_KIND) && of_filters.contains(&number(&attrs)) {
                continue;
            }
            let mut attributes = Vec::new();
            for kind in [TCA_CHAIN, TCA_KIND, TCA_OPTIONS] {
                if let Some(bytes) = attrs.bytes(kind) {
                    put(&mut attributes, kind, bytes);
                }
            }
            made.push(ListedObject {
                what: ListedKind::Chain,
                handle: 0,
                parent: self.parent,
                info: 0,
                attributes,
            });
        }
        made
    }

    /// Returns the filters; `None` if one of them could not be created again.
    fn filters(&self) -> Option<Vec<ListedObject>> {
        let mut tables = Vec::new();
        let mut found = Vec::new();
        for payload in &self.filters {
            let entry = Entry::of(payload)?;
            // A classifier also lists itself, without options.
            let Some(raw) = entry.attrs.bytes(TCA_OPTIONS) else {
                continue;
            };
            let info = wire::u32_at(payload, 16)?;
            let options = filter(&entry.kind, raw)?;
            let table =
                entry.kind == "u32" && attributes(raw).any(|(kind, _)| kind == TCA_U32_DIVISOR);
            let mut object = object(ListedKind::Filter, &entry, info, Some(options));
            object.parent = self.parent;
            if table {
                tables.push(object);
            } else {
                found.push((entry.kind == "bpf", object));
            }
        }
        // The newest table is listed first. The first table of a preference was created with the
        // classifier itself (`u32_init`, net/sched/cls_u32.c).
        let mut roots = BTreeMap::new();
        tables.reverse();
        tables.retain(|table| {
            let (preference, number) = (table.info >> 16, table.handle);
            let known = roots.contains_key(&preference);
            roots.entry(preference).or_insert(number);
            known
        });
        // The newest classic program is also listed first, and the first one that matches decides.
        let (mut programs, mut others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(program, _)| *program);
        programs.reverse();
        others.arrange_by_key(|(_, object)| (object.info, object.handle));
        let rest = programs.into_iter().chain(others).map(|(_, object)| object);
        let all: Vec<ListedObject> = tables.into_iter().chain(rest).collect();
        numbered_anew(&all, &roots).then_some(all)
    }
}

/// Returns whether the table of each `u32` preference gets the same number again as in the listing.
/// The kernel numbers these tables in order of creation, from 800, and accepts no number in a
/// request (`u32_init`, net/sched/cls_u32.c).
fn numbered_anew(objects: &[ListedObject], roots: &BTreeMap<u32, u32>) -> bool {
    let mut begun = BTreeSet::new();
    let firsts = objects
        .iter()
        .filter(|object| object.what == ListedKind::Filter)
        .map(|object| object.info >> 16)
        .filter(|preference| roots.contains_key(preference) && begun.insert(*preference));
    let numbers = (0x800_u32..).map(|number| number << 20);
    firsts
        .zip(numbers)
        .all(|(preference, number)| roots[&preference] == number)
}

/// Returns the options of a filter in the form of a request.
fn filter(name: &str, raw: &[u8]) -> Option<Vec<u8>> {
    let known = CLASSIFIERS.iter().find(|known| known.name == name)?;
    let has = |kind| attributes(raw).any(|(own, _)| own == kind);
    if known.actions.iter().any(|kind| has(*kind)) || (name == "bpf" && has(TCA_BPF_ID)) {
        return None;
    }
    let kept = without(raw, known.counters);
    Some(changed(&kept, |kind, bytes| {
        if Some(kind) == known.flags
            && let Some(flags) = wire::u32_at(bytes, 0)
        {
            bytes[..4].copy_from_slice(&(flags & ASKED_FLAGS).to_ne_bytes());
        }
        // `struct tc_u32_mark` ends with a counter.
        if name == "u32" && kind == TCA_U32_MARK {
            bytes.iter_mut().skip(8).for_each(|byte| *byte = 0);
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_the_kernel_would_number_otherwise_are_not_kept() {
        let filter = |preference: u32| ListedObject {
            what: ListedKind::Filter,
            handle: 0,
            parent: 0x1_0000,
            info: preference << 16 | 8,
            attributes: Vec::new(),
        };
        let objects = [filter(1), filter(1), filter(3)];
        let kept = |roots: &[(u32, u32)]| {
            let roots = roots.iter().map(|(at, number)| (*at, number << 20));
            numbered_anew(&objects, &roots.collect())
        };
        assert!(kept(&[]) && kept(&[(3, 0x800)]) && kept(&[(1, 0x800), (3, 0x801)]));
        // Tables that were created earlier have been deleted since, or were created later.
        assert!(!kept(&[(3, 0x801)]) && !kept(&[(1, 0x801), (3, 0x800)]));
    }
}
