// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weirgate's filters at a device's ingress and egress hooks: encodes requests and reads listings.
//!
//! The filter that restores marks is recognised by its preference, its kind and the cookie of its
//! action; the others by preference and name ([`Program::of_filter`]). They pass on every packet
//! that they do not drop. So filters of other programs with a greater preference see these packets
//! as usual.

use super::decode::Entry;
use crate::netlink::wire::{self, Attrs};
use libc::{
    RTM_DELQDISC, RTM_DELTFILTER, RTM_NEWACTION, RTM_NEWQDISC, RTM_NEWTFILTER, TCA_KIND,
    TCA_OPTIONS,
};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST};
use nlink::netlink::types::tc::TCA_ACT_TAB;
use nlink::netlink::types::tc::action::ctinfo::{
    TCA_CTINFO_ACT, TCA_CTINFO_PARMS_CPMARK_MASK, TCA_CTINFO_PARMS_DSCP_MASK, TCA_CTINFO_ZONE,
};
use nlink::netlink::types::tc::action::{
    TC_ACT_UNSPEC, TCA_ACT_COOKIE, TCA_ACT_KIND, TCA_ACT_OPTIONS,
};
use nlink::netlink::types::tc::filter::bpf::{
    TCA_BPF_FD, TCA_BPF_FLAG_ACT_DIRECT, TCA_BPF_FLAGS, TCA_BPF_FLAGS_GEN, TCA_BPF_ID,
    TCA_BPF_NAME, TCA_BPF_TAG,
};
use nlink::netlink::types::tc::filter::flower::TCA_CLS_FLAGS_SKIP_HW;
use nlink::netlink::types::tc::filter::matchall::{TCA_MATCHALL_ACT, TCA_MATCHALL_FLAGS};
use nlink::netlink::types::tc::tc_handle::{CLSACT_EGRESS, CLSACT_INGRESS};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use weirgate_bpf::{FoundFilter, filter_name};
use weirgate_plan::RESTORE_PREFERENCE;
use weirgate_state::{ClsactHook, HookPrograms, Program};

/// The parent of a `clsact` or `ingress` qdisc.
pub(crate) use nlink::netlink::types::tc::tc_handle::CLSACT as TC_H_CLSACT;

/// The handle of such a qdisc, and the parents of its filters, for arriving packets first.
const CLSACT_HANDLE: u32 = 0xffff_0000;
pub(crate) const CLSACT_PARENTS: [u32; 2] = [CLSACT_INGRESS, CLSACT_EGRESS];

/// The offset of the parent in `struct tcmsg`.
const PARENT: usize = 12;

/// linux/if_ether.h.
const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;

/// The cookie of weirgate's actions.
const COOKIE: &[u8] = b"weirgate";

/// The size of `struct tc_ctinfo`: index, capabilities, action, two reference counts.
const TC_CTINFO: usize = 20;

/// The change of one program: attached as these hooks have it, with a descriptor for each of its
/// filters, or detached.
pub(crate) type Change<'a> = (Program, Option<(&'a HookPrograms, Vec<OwnedFd>)>);

/// How programs are attached at the hooks of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookAttachment {
    /// Hooks whose programs are attached by tcx.
    pub(crate) by_tcx: Vec<ClsactHook>,
    /// The parent in requests for ingress filters. An `ingress` qdisc accepts any, and lists all of
    /// its filters with the one that was named last (`tc_new_tfilter`, net/sched/cls_api.c).
    pub(crate) arriving: u32,
    /// The filters that are there: an interrupted change leaves a part of a program's.
    pub(crate) present: Found,
}

impl Default for HookAttachment {
    /// Returns the values of weirgate's own `clsact` qdisc.
    fn default() -> Self {
        Self {
            by_tcx: Vec::new(),
            arriving: CLSACT_INGRESS,
            present: Found::default(),
        }
    }
}

impl HookAttachment {
    /// Returns the parent of a hook's filters.
    fn parent(&self, hook: ClsactHook) -> u32 {
        match hook {
            ClsactHook::Ingress => self.arriving,
            ClsactHook::Egress => CLSACT_EGRESS,
        }
    }
}

/// Returns the parent with which the filters of a hook are listed; `None` without filters.
pub(crate) fn listed_parent(payloads: &[Vec<u8>]) -> Option<u32> {
    payloads
        .iter()
        .find_map(|payload| wire::u32_at(payload, PARENT))
}

/// Returns the listings of both hooks of a device, each with the parent of its hook. An `ingress`
/// qdisc lists the same filters at both, and runs them for arriving packets.
pub(crate) fn by_hook(mut arrives: Vec<Vec<u8>>, leaves: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let one = listed_parent(&arrives).is_some_and(|own| Some(own) == listed_parent(&leaves));
    for payload in &mut arrives {
        if let Some(parent) = payload.get_mut(PARENT..PARENT + 4) {
            parent.copy_from_slice(&CLSACT_INGRESS.to_ne_bytes());
        }
    }
    if !one {
        arrives.extend(leaves);
    }
    arrives
}

/// Returns the requests that lead from `before` to `after`. Programs at hooks that use tcx are left
/// out.
pub(crate) fn change(
    ifindex: u32,
    (before, after): (Option<&HookPrograms>, Option<&HookPrograms>),
    programs: &[Change<'_>],
    attachment: &HookAttachment,
) -> Vec<MessageBuilder> {
    let mut out = Vec::new();
    if before.is_none() {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let mut add = message(
            RTM_NEWQDISC,
            flags,
            (ifindex, CLSACT_HANDLE, TC_H_CLSACT, 0),
        );
        add.append_attr_str(TCA_KIND, "clsact");
        out.push(add);
    }
    let [old, new] = [before, after].map(|hooks| hooks.and_then(|hooks| hooks.restore));
    if old.is_some() && old != new {
        let slot = (attachment.arriving, RESTORE_PREFERENCE);
        let mut delete = at(RTM_DELTFILTER, 0, ifindex, slot);
        delete.append_attr_str(TCA_KIND, "matchall");
        out.push(delete);
    }
    if let Some(mask) = new.filter(|_| old != new) {
        out.push(restore(ifindex, attachment.arriving, mask));
    }
    for (program, attached) in programs {
        let row = program.row();
        for (at, filter) in row.filters.iter().enumerate() {
            let needed = attached.is_some() || attachment.present.has(*program, at);
            if !needed || attachment.by_tcx.contains(&filter.hook) {
                continue;
            }
            let slot = (attachment.parent(filter.hook), row.preference);
            out.push(match attached {
                Some((wanted, loaded)) => {
                    let name = filter_name(*program, at, wanted);
                    let descriptor = loaded.get(at).map_or(-1, AsRawFd::as_raw_fd);
                    attach(ifindex, slot, &name, descriptor)
                }
                None => detach(ifindex, slot),
            });
        }
    }
    if after.is_none() && before.is_some_and(|hooks| !hooks.others) {
        out.push(remove(ifindex));
    }
    out
}

/// Returns the parent of a hook's filters in `clsact`.
const fn parent(hook: ClsactHook) -> u32 {
    match hook {
        ClsactHook::Ingress => CLSACT_INGRESS,
        ClsactHook::Egress => CLSACT_EGRESS,
    }
}

/// Deletes the qdisc with all filters.
pub(crate) fn remove(ifindex: u32) -> MessageBuilder {
    message(RTM_DELQDISC, 0, (ifindex, CLSACT_HANDLE, TC_H_CLSACT, 0))
}

/// Returns a request that must fail: with ENOENT if the action does not exist, and with EINVAL for
/// lack of settings if it does (`tcf_ctinfo_init`, net/sched/act_ctinfo.c).
pub(crate) fn probe() -> MessageBuilder {
    let mut message = MessageBuilder::new(RTM_NEWACTION, NLM_F_REQUEST | NLM_F_CREATE);
    // `struct tcamsg`.
    message.append_bytes(&[0; 4]);
    let table = message.nest_start(TCA_ACT_TAB);
    let action = message.nest_start(1);
    message.append_attr_str(TCA_ACT_KIND, "ctinfo");
    message.nest_end(action);
    message.nest_end(table);
    message
}

fn restore(ifindex: u32, parent: u32, mask: u32) -> MessageBuilder {
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let mut message = at(RTM_NEWTFILTER, flags, ifindex, (parent, RESTORE_PREFERENCE));
    message.append_attr_str(TCA_KIND, "matchall");
    let options = message.nest_start(TCA_OPTIONS);
    // Not in hardware: a network card cannot see the connection.
    message.append_attr_u32(TCA_MATCHALL_FLAGS, TCA_CLS_FLAGS_SKIP_HW);
    let actions = message.nest_start(TCA_MATCHALL_ACT);
    let action = message.nest_start(1);
    message.append_attr_str(TCA_ACT_KIND, "ctinfo");
    message.append_attr(TCA_ACT_COOKIE, COOKIE);
    let settings = message.nest_start(TCA_ACT_OPTIONS);
    let mut general = vec![0_u8; 8];
    general.extend(TC_ACT_UNSPEC.to_ne_bytes());
    general.resize(TC_CTINFO, 0);
    message.append_attr(TCA_CTINFO_ACT, &general);
    message.append_attr_u32(TCA_CTINFO_PARMS_CPMARK_MASK, mask);
    for nest in [settings, action, actions, options] {
        message.nest_end(nest);
    }
    message
}

/// Attaches a program. An existing one is replaced between two packets (`cls_bpf_change`,
/// net/sched/cls_bpf.c).
fn attach(ifindex: u32, slot: (u32, u16), name: &str, program: RawFd) -> MessageBuilder {
    let mut message = at(RTM_NEWTFILTER, NLM_F_CREATE, ifindex, slot);
    message.append_attr_str(TCA_KIND, "bpf");
    let options = message.nest_start(TCA_OPTIONS);
    message.append_attr_u32(TCA_BPF_FD, program.cast_unsigned());
    message.append_attr_str(TCA_BPF_NAME, name);
    message.append_attr_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
    message.append_attr_u32(TCA_BPF_FLAGS_GEN, TCA_CLS_FLAGS_SKIP_HW);
    message.nest_end(options);
    message
}

/// Detaches a program.
fn detach(ifindex: u32, slot: (u32, u16)) -> MessageBuilder {
    let mut message = at(RTM_DELTFILTER, 0, ifindex, slot);
    message.append_attr_str(TCA_KIND, "bpf");
    message
}

/// Returns a request about a filter of a parent, by its preference.
fn at(kind: u16, flags: u16, ifindex: u32, (parent, preference): (u32, u16)) -> MessageBuilder {
    let info = u32::from(preference) << 16 | u32::from(ETH_P_ALL.to_be());
    message(kind, flags, (ifindex, 1, parent, info))
}

/// Returns a request with its `struct tcmsg`: device, handle, parent and info.
pub(crate) fn message(
    kind: u16,
    flags: u16,
    (ifindex, handle, parent, info): (u32, u32, u32, u32),
) -> MessageBuilder {
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    let mut header = vec![0_u8; 4];
    header.extend(ifindex.cast_signed().to_ne_bytes());
    for word in [handle, parent, info] {
        header.extend(word.to_ne_bytes());
    }
    message.append_bytes(&header);
    message
}

/// Returns whether an entry of a listing is a filter. A classifier also lists itself and its
/// tables, whose handles have no low bits.
pub(crate) fn is_filter(entry: &Entry<'_>) -> bool {
    entry.handle & 0xfff != 0 && entry.attrs.has(TCA_OPTIONS)
}

/// The filters of weirgate's programs at a device, each program's in the order of its row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found(BTreeMap<(Program, usize), FoundFilter>);

impl Found {
    /// Adds a program that is attached by tcx, as if it were a filter at this hook with this
    /// preference.
    pub(crate) fn add(&mut self, hook: ClsactHook, preference: u16, filter: FoundFilter) {
        if let Some(own) = Program::of_filter(hook, preference, &filter.name) {
            self.0.insert(own, filter);
        }
    }

    /// Returns whether a program has the filter at this place of its row.
    fn has(&self, program: Program, at: usize) -> bool {
        self.0.contains_key(&(program, at))
    }

    /// Returns the filters of a program.
    pub(crate) fn of(&self, program: Program) -> Vec<FoundFilter> {
        let own = self.0.range((program, 0)..=(program, usize::MAX));
        own.map(|(_, filter)| filter.clone()).collect()
    }
}

/// Identifies the filters of a device's hooks. The settings of programs are not in the listing.
pub(crate) fn read(payloads: &[Vec<u8>]) -> (HookPrograms, Found) {
    let mut hooks = HookPrograms::default();
    let mut found = Found::default();
    for payload in payloads {
        let Some(entry) = Entry::of(payload).filter(is_filter) else {
            continue;
        };
        if let Some(mask) = restored(payload, &entry) {
            hooks.restore = Some(mask);
        } else if let Some((own, filter)) = program(payload, &entry) {
            found.0.insert(own, filter);
        } else {
            hooks.others = true;
        }
    }
    (hooks, found)
}

/// Returns whether a filter is weirgate's.
pub(crate) fn is_own(payload: &[u8], entry: &Entry<'_>) -> bool {
    restored(payload, entry).is_some() || program(payload, entry).is_some()
}

/// Returns weirgate's program to which a filter belongs; `None` for any other filter.
fn program(payload: &[u8], entry: &Entry<'_>) -> Option<((Program, usize), FoundFilter)> {
    if entry.kind != "bpf" {
        return None;
    }
    let preference = u16::try_from(wire::u32_at(payload, 16)? >> 16).ok()?;
    let hooks = [ClsactHook::Ingress, ClsactHook::Egress];
    let hook = hooks
        .into_iter()
        .find(|hook| parent(*hook) == entry.parent)?;
    let options = entry.attrs.nest(TCA_OPTIONS);
    let name = options.text(TCA_BPF_NAME)?;
    let own = Program::of_filter(hook, preference, &name)?;
    let flags = options.u32(TCA_BPF_FLAGS).unwrap_or_default();
    let filter = FoundFilter {
        id: options.u32(TCA_BPF_ID).unwrap_or_default(),
        // A classic BPF program has no tag.
        direct: flags & TCA_BPF_FLAG_ACT_DIRECT != 0 && options.has(TCA_BPF_TAG),
        name,
    };
    Some((own, filter))
}

/// Returns the mask of weirgate's filter that restores marks; `None` for any other filter.
fn restored(payload: &[u8], entry: &Entry<'_>) -> Option<u32> {
    let preference = wire::u32_at(payload, 16)? >> 16;
    if preference != u32::from(RESTORE_PREFERENCE)
        || entry.parent != CLSACT_INGRESS
        || entry.kind != "matchall"
    {
        return None;
    }
    let actions = entry.attrs.nest(TCA_OPTIONS).nest(TCA_MATCHALL_ACT);
    let mut each = actions.nests();
    let (action, None) = (each.next()?, each.next()) else {
        return None;
    };
    let known = action.text(TCA_ACT_KIND).as_deref() == Some("ctinfo");
    let settings: Attrs<'_> = action.nest(TCA_ACT_OPTIONS);
    let general = settings.bytes(TCA_CTINFO_ACT)?;
    let continues = wire::i32_at(general, 8)? == TC_ACT_UNSPEC;
    let alone = !settings.has(TCA_CTINFO_PARMS_DSCP_MASK)
        && settings
            .bytes(TCA_CTINFO_ZONE)
            .is_none_or(|zone| zone == [0, 0]);
    let own = action.bytes(TCA_ACT_COOKIE) == Some(COOKIE);
    (known && own && continues && alone).then(|| settings.u32(TCA_CTINFO_PARMS_CPMARK_MASK))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::Payload;

    /// Returns a request in the form of the kernel's listing.
    fn listed(message: MessageBuilder) -> Vec<u8> {
        message.finish()[16..].to_vec()
    }

    #[test]
    fn what_is_written_is_read() {
        let (hooks, _) = read(&[listed(restore(7, CLSACT_INGRESS, 0xff_0000))]);
        assert_eq!(hooks.restore, Some(0xff_0000));
        assert!(!hooks.others);
        assert_eq!(read(&[]), (HookPrograms::default(), Found::default()));
    }

    /// Returns a filter in the form of the kernel's listing.
    fn program_listed(slot: (u32, u16), name: &str) -> Vec<u8> {
        let mut message = at(RTM_NEWTFILTER, 0, 7, slot);
        message.append_attr_str(TCA_KIND, "bpf");
        let options = message.nest_start(TCA_OPTIONS);
        message.append_attr_str(TCA_BPF_NAME, name);
        message.append_attr_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
        message.append_attr(TCA_BPF_TAG, &[7; 8]);
        message.append_attr_u32(TCA_BPF_ID, 5);
        message.nest_end(options);
        listed(message)
    }

    /// Hooks whose payload classifier has the label of those below.
    fn looking() -> HookPrograms {
        HookPrograms {
            payload: Some(Payload { lowest: 24 }),
            ..HookPrograms::default()
        }
    }

    #[test]
    fn programs_are_known_by_their_names() {
        for program in Program::ALL {
            let row = program.row();
            for (at, filter) in row.filters.iter().enumerate() {
                let slot = (parent(filter.hook), row.preference);
                let name = filter_name(program, at, &looking());
                let (hooks, found) = read(&[program_listed(slot, &name)]);
                let own = FoundFilter {
                    id: 5,
                    name: name.clone(),
                    direct: true,
                };
                assert_eq!((hooks.others, found.of(program)), (false, vec![own]));
                // A request has no tag yet.
                let (_, asked) = read(&[listed(attach(7, slot, &name, 3))]);
                assert!(asked.of(program).iter().all(|filter| !filter.direct));
                let (hooks, found) = read(&[program_listed(slot, "other")]);
                assert!(hooks.others && found == Found::default());
                // At the other hook it belongs to another program.
                let other = (slot.0 ^ 1, slot.1);
                assert!(read(&[program_listed(other, &name)]).0.others);
            }
        }
    }

    #[test]
    fn a_program_of_another_version_is_stale() {
        for program in Program::ALL {
            let row = program.row();
            let (mut current, mut old) = (Vec::new(), Vec::new());
            for (at, filter) in row.filters.iter().enumerate() {
                let slot = (parent(filter.hook), row.preference);
                current.push(program_listed(slot, &filter_name(program, at, &looking())));
                let name = format!("{}24-00000000", filter.label);
                old.push(program_listed(slot, &name));
            }
            let stale = |listed: &[Vec<u8>]| {
                let (mut hooks, found) = read(listed);
                weirgate_bpf::read_program(program, &found.of(program), 7, &mut hooks);
                hooks.stale.contains(&program)
            };
            assert!(stale(&old));
            // A program that cannot be read has to be replaced too.
            let readable = matches!(program, Program::Payload | Program::Order);
            assert_eq!(stale(&current), !readable);
            if row.filters.len() > 1 {
                assert!(stale(&current[1..]), "one without the other");
            }
        }
    }

    #[test]
    fn filters_of_an_ingress_qdisc_are_those_of_what_arrives() {
        let listed_with = |parent: u32| {
            let mut bytes = listed(restore(7, CLSACT_INGRESS, 0xff_0000));
            bytes[PARENT..PARENT + 4].copy_from_slice(&parent.to_ne_bytes());
            bytes
        };
        // With whatever parent the last request named.
        for parent in [CLSACT_HANDLE, CLSACT_INGRESS, CLSACT_EGRESS] {
            let one = || vec![listed_with(parent)];
            assert_eq!(listed_parent(&one()), Some(parent));
            let all = by_hook(one(), one());
            assert_eq!(all, [listed_with(CLSACT_INGRESS)]);
            let (hooks, _) = read(&all);
            assert_eq!((hooks.restore, hooks.others), (Some(0xff_0000), false));
        }
        let [arrives, leaves] = CLSACT_PARENTS.map(|parent| vec![listed_with(parent)]);
        let both = [arrives.clone(), leaves.clone()].concat();
        assert_eq!(by_hook(arrives, leaves.clone()), both);
        assert_eq!(by_hook(Vec::new(), leaves.clone()), leaves);
    }

    #[test]
    fn another_filter_is_anothers() {
        let mut bytes = listed(restore(7, CLSACT_INGRESS, 0xff_0000));
        let info = 86_u32 << 16;
        bytes[16..20].copy_from_slice(&info.to_ne_bytes());
        let (hooks, _) = read(&[bytes]);
        assert_eq!(hooks.restore, None);
        assert!(hooks.others);
    }

    #[test]
    fn any_bytes_are_harmless() {
        let whole = listed(restore(7, CLSACT_INGRESS, 1));
        for length in 0..whole.len() {
            let _ = read(&[whole[..length].to_vec()]);
            let mut spoiled = whole.clone();
            spoiled[length] ^= 0xff;
            let _ = read(&[spoiled]);
        }
    }
}
