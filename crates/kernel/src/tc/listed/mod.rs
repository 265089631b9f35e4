// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A qdisc tree that the state cannot describe, stored as the kernel lists it: the listing is
//! converted to the requests that create the tree again.
//!
//! A listing and a request have the same attributes, with exceptions that are named here. A tree is
//! not stored if the listing does not contain all of it: the slots of a size table, the
//! distribution of netem's jitter, programs of filters. Nor is it if it has features that were
//! never tried: actions of filters, shared blocks of filters, offload.
//!
//! One thing that is not listed is assumed: the table by which the average of RED and CHOKe
//! decreases while the link is idle. It is created as tc does for a link of 10 Mbit/s, tc's
//! default, and packets of 1,000 bytes.

mod filters;

use super::decode::Entry;
use super::encode::idle_table;
use super::filters::{TC_H_CLSACT, message};
use super::raw::{attributes, changed, put, without};
use super::{HTB_VERSION, TC_H_ROOT, TCA_EGRESS_BLOCK, TCA_INGRESS_BLOCK};
use crate::netlink::wire;
use filters::TCA_CHAIN;
use libc::{RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER, TCA_KIND, TCA_OPTIONS, TCA_STAB};
use nlink::netlink::MessageBuilder;
use nlink::netlink::attr::NLA_F_NESTED;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NlMsgType};
use nlink::netlink::types::tc::qdisc::cake::{TCA_CAKE_OVERHEAD, TCA_CAKE_RAW};
use nlink::netlink::types::tc::qdisc::htb::{TCA_HTB_INIT, TCA_HTB_OFFLOAD};
use nlink::netlink::types::tc::qdisc::red::{TCA_RED_FLAGS, TCA_RED_PARMS, TCA_RED_STAB};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{Listed, ListedKind, ListedObject, Red};
use weirgate_units::{Arrange as _, Inserted as _, Rate, Size};

pub(crate) use filters::FilterPoint;

/// The blocks of events of RED (linux/pkt_sched.h).
const RED_BLOCKS: [u16; 2] = [5, 6];

/// Disciplines whose classes are created by requests. Those of other disciplines come with the
/// qdisc.
const WITH_OWN_CLASSES: [&str; 4] = ["drr", "hfsc", "htb", "qfq"];

/// Disciplines whose listing cannot be used as a request, or that need more than one device.
const NOT_KEPT: [&str; 5] = ["gred", "mqprio", "plug", "taprio", "teql0"];

/// Returns where a tree can have filters: at its qdiscs, and at classes that may have children.
pub(crate) fn filter_parents(qdiscs: &[Entry<'_>], classes: &[Entry<'_>]) -> BTreeSet<u32> {
    let tree = |entry: &&Entry<'_>| entry.handle >> 16 != 0 && entry.parent != TC_H_CLSACT;
    let inner = classes
        .iter()
        .filter(|class| matches!(&*class.kind, "htb" | "hfsc") && class.handle & 0xffff != 0);
    qdiscs
        .iter()
        .filter(tree)
        .chain(inner)
        .map(|entry| entry.handle)
        .inserted()
}

/// Returns the tree of a device, with the listings of each of its [`filter_parents`]; `None` if it
/// could not be created again.
pub(crate) fn tree(
    qdiscs: &[Entry<'_>],
    classes: &[Entry<'_>],
    points: &[FilterPoint],
) -> Option<Listed> {
    let root = qdiscs
        .iter()
        .find(|entry| entry.parent == TC_H_ROOT && entry.handle >> 16 != 0)?;
    let mut objects = Vec::new();
    let mut seen = BTreeSet::new();
    qdisc(root, qdiscs, classes, &mut seen, &mut objects)?;
    for point in points {
        objects.extend(point.objects()?);
    }
    Some(Listed {
        name: root.kind.clone(),
        objects,
    })
}

fn qdisc(
    entry: &Entry<'_>,
    qdiscs: &[Entry<'_>],
    classes: &[Entry<'_>],
    seen: &mut BTreeSet<u32>,
    objects: &mut Vec<ListedObject>,
) -> Option<()> {
    // Do not recurse without end if a listing names a qdisc twice.
    if !seen.insert(entry.handle) {
        return None;
    }
    let below = [TCA_STAB, TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK];
    // The root's size table is handled separately.
    let from = usize::from(entry.parent == TC_H_ROOT);
    if below[from..].iter().any(|kind| entry.attrs.has(*kind)) || NOT_KEPT.contains(&&*entry.kind) {
        return None;
    }
    objects.push(object(ListedKind::Qdisc, entry, 0, qdisc_options(entry)?));
    let own = |class: &&Entry<'_>| class.handle >> 16 == entry.handle >> 16;
    if WITH_OWN_CLASSES.contains(&&*entry.kind) {
        for class in parents_first(classes.iter().filter(own).collect()) {
            if class.handle & 0xffff != 0 {
                let options = class.attrs.bytes(TCA_OPTIONS).map(<[u8]>::to_vec);
                objects.push(object(ListedKind::Class, class, 0, options));
            }
        }
    }
    let mut children: Vec<&Entry<'_>> = qdiscs
        .iter()
        .filter(|child| {
            child.parent >> 16 == entry.handle >> 16
                && child.handle >> 16 != 0
                && child.parent != TC_H_ROOT
        })
        .collect();
    children.arrange_by_key(|child| child.parent);
    for child in children {
        qdisc(child, qdiscs, classes, seen, objects)?;
    }
    Some(())
}

/// Sorts classes with parents before children, otherwise by number. The kernel lists them in the
/// order of its hash table.
fn parents_first<'a, 'b>(mut classes: Vec<&'a Entry<'b>>) -> Vec<&'a Entry<'b>> {
    classes.arrange_by_key(|class| class.handle);
    let parents: BTreeMap<u32, u32> = classes
        .iter()
        .map(|class| (class.handle, class.parent))
        .inserted();
    let depth = |class: &&Entry<'_>| {
        let mut at = class.parent;
        let mut depth = 0;
        while let Some(parent) = parents.get(&at).filter(|_| depth < parents.len()) {
            at = *parent;
            depth += 1;
        }
        depth
    };
    classes.arrange_by_key(depth);
    classes
}

fn object(
    what: ListedKind,
    entry: &Entry<'_>,
    info: u32,
    options: Option<Vec<u8>>,
) -> ListedObject {
    let mut attributes = Vec::new();
    let mut name = entry.kind.clone().into_bytes();
    name.push(0);
    put(&mut attributes, TCA_KIND, &name);
    if let Some(chain) = entry.attrs.bytes(TCA_CHAIN) {
        put(&mut attributes, TCA_CHAIN, chain);
    }
    if let Some(options) = options {
        put(&mut attributes, TCA_OPTIONS, &options);
    }
    ListedObject {
        what,
        handle: entry.handle,
        parent: entry.parent,
        info,
        attributes,
    }
}

/// Converts listed options to those of a request. The outer `None` means that there is no such
/// request.
#[expect(clippy::option_option, reason = "an entry may have no options at all")]
fn qdisc_options(entry: &Entry<'_>) -> Option<Option<Vec<u8>>> {
    let Some(raw) = entry.attrs.bytes(TCA_OPTIONS) else {
        return Some(None);
    };
    let has = |kind| attributes(raw).any(|(own, _)| own == kind);
    let options = match &*entry.kind {
        "htb" => {
            if has(TCA_HTB_OFFLOAD) {
                return None;
            }
            // The major version alone, and no count of packets (`htb_init`).
            changed(raw, |kind, bytes| {
                if kind == TCA_HTB_INIT && bytes.len() >= 20 {
                    bytes[..4].copy_from_slice(&HTB_VERSION.to_ne_bytes());
                    bytes[16..20].fill(0);
                }
            })
        }
        // Counters follow the settings of `struct tc_sfq_qopt_v1`.
        "sfq" => {
            let mut options = raw.to_vec();
            options.iter_mut().skip(48).for_each(|byte| *byte = 0);
            // A requested limit bounds the number of flows; the kernel's default does not.
            if wire::u32_at(raw, 16)? > wire::u32_at(raw, 8)? {
                options[8..12].fill(0);
            }
            options
        }
        "codel" => changed(raw, codel_times(&[1, 3, 5])),
        "fq_codel" => changed(raw, codel_times(&[1, 3, 7])),
        "pie" => changed(raw, pie_target(1)),
        "fq_pie" => changed(raw, pie_target(3)),
        // With an overhead, cake stops counting as the device does.
        "cake" if has(TCA_CAKE_RAW) => without(raw, &[TCA_CAKE_OVERHEAD]),
        "red" => {
            if RED_BLOCKS.into_iter().any(has) {
                return None;
            }
            // Flags are in one place or in the other (`red_get_flags`, net/red.h).
            let flags = has(TCA_RED_FLAGS);
            with_idle_table(changed(raw, |kind, bytes| {
                if flags && kind == TCA_RED_PARMS && bytes.len() >= 16 {
                    bytes[15] = 0;
                }
            }))
        }
        "choke" => with_idle_table(raw.to_vec()),
        // `struct tc_netem_qopt` ends with the jitter; a slot may have a distribution too.
        "netem" => {
            const SLOT: u16 = 12;
            let jitter = wire::u32_at(raw, 20)?;
            let slot = attributes(raw.get(24..)?).any(|(kind, _)| kind == SLOT);
            if jitter != 0 || slot {
                return None;
            }
            raw.to_vec()
        }
        _ => raw.to_vec(),
    };
    Some(Some(options))
}

/// Returns the lowest number of microseconds that `CoDel` stores as the listed value. It stores
/// units of 1,024 ns, and lists whole microseconds, rounded down.
fn codel_times(kinds: &'static [u16]) -> impl Fn(u16, &mut [u8]) {
    move |kind, bytes| {
        if kinds.contains(&kind)
            && let Some(listed) = wire::u32_at(bytes, 0)
        {
            let units = (u64::from(listed) * 1_000).div_ceil(1_024);
            let micros = (units * 1_024).div_ceil(1_000);
            let micros = u32::try_from(micros).unwrap_or(u32::MAX);
            bytes[..4].copy_from_slice(&micros.to_ne_bytes());
        }
    }
}

/// Does the same for PIE's target, which is stored in ticks of 64 ns.
fn pie_target(of: u16) -> impl Fn(u16, &mut [u8]) {
    move |kind, bytes| {
        if kind == of
            && let Some(listed) = wire::u32_at(bytes, 0)
            && !listed.is_multiple_of(8)
        {
            bytes[..4].copy_from_slice(&listed.saturating_add(1).to_ne_bytes());
        }
    }
}

/// Appends `TCA_RED_STAB` or `TCA_CHOKE_STAB`, which have the same number.
fn with_idle_table(mut options: Vec<u8>) -> Vec<u8> {
    let parms = attributes(&options).find(|(kind, _)| *kind == TCA_RED_PARMS);
    let log = |at| {
        parms
            .and_then(|(_, bytes)| wire::u8_at(bytes, at))
            .unwrap_or(0)
    };
    let table = idle_table(&Red {
        limit: Size::default(),
        min: Size::default(),
        max: Size::default(),
        probability_millionths: 0,
        wlog: log(12),
        plog: log(13),
        scell_log: log(14),
        ecn: false,
        adaptive: false,
        bandwidth: Rate::kbit(10_000),
        avpkt: 1_000,
    });
    put(&mut options, TCA_RED_STAB, &table);
    options
}

/// Returns the requests that create a tree again at a device. With `replace` it replaces another
/// root.
pub(crate) fn requests(ifindex: u32, listed: &Listed, replace: bool) -> Vec<MessageBuilder> {
    let request = |(at, object): (usize, &ListedObject)| {
        let kind = match object.what {
            ListedKind::Qdisc => RTM_NEWQDISC,
            ListedKind::Class => RTM_NEWTCLASS,
            ListedKind::Chain => NlMsgType::RTM_NEWCHAIN,
            ListedKind::Filter => RTM_NEWTFILTER,
        };
        let only = if at == 0 && replace {
            NLM_F_REPLACE
        } else {
            NLM_F_EXCL
        };
        let head = (ifindex, object.handle, object.parent, object.info);
        let mut asked = message(kind, NLM_F_CREATE | only, head);
        // Some disciplines require the nested flag in requests, and list without it
        // (`ets_qdisc_change`, net/sched/sch_ets.c).
        for (kind, payload) in attributes(&object.attributes) {
            let nested = if kind == TCA_OPTIONS { NLA_F_NESTED } else { 0 };
            asked.append_attr(kind | nested, payload);
        }
        asked
    };
    listed.objects.iter().enumerate().map(request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each value that `CoDel` can store is listed, and requested so that the same value is stored
    /// again.
    #[test]
    fn times_are_kept_however_often_they_are_read() {
        for units in [1_u64, 2, 3, 999, 4_882, 97_656] {
            let listed = (units * 1_024 / 1_000) as u32;
            let mut bytes = listed.to_ne_bytes();
            codel_times(&[1])(1, &mut bytes);
            let kept = (u64::from(u32::from_ne_bytes(bytes)) * 1_000) >> 10;
            assert_eq!(kept, units);
        }
        for asked in [1_u64, 20, 15_000, 15_001, 15_007] {
            let list = |micros: u64| micros * 1_000 / 64 * 64 / 1_000;
            let listed = list(asked) as u32;
            let mut bytes = listed.to_ne_bytes();
            pie_target(1)(1, &mut bytes);
            let again = list(u64::from(u32::from_ne_bytes(bytes)));
            assert_eq!(again, u64::from(listed), "{asked}");
        }
    }

    #[test]
    fn what_no_listing_holds_is_not_kept() {
        let netem = |jitter: u32| {
            let mut options = vec![0_u8; 24];
            options[20..].copy_from_slice(&jitter.to_ne_bytes());
            let mut payload = vec![0_u8; super::super::TCMSG];
            payload[8..12].copy_from_slice(&0x1_0000_u32.to_ne_bytes());
            payload[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
            put(&mut payload, TCA_KIND, b"netem\0");
            put(&mut payload, TCA_OPTIONS, &options);
            payload
        };
        for (jitter, kept) in [(0, true), (5, false)] {
            let payload = netem(jitter);
            let entry = [Entry::of(&payload).unwrap()];
            assert_eq!(tree(&entry, &[], &[]).is_some(), kept, "{jitter}");
        }
    }
}
