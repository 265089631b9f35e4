// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes a whole table, or a change of one, as one transaction.

use super::edit::{Edit, Edits};
use super::rule::{self, End};
use super::{
    HOOK_EGRESS, HOOK_INGRESS, HOOK_OUTPUT, HOOK_POSTROUTING, HOOK_PREROUTING, family, frame,
    label, message, object, sets,
};
use crate::error::KernelError;
use crate::netlink::channel::Request;
use libc::{NF_IP_PRI_MANGLE, NF_IP_PRI_RAW};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_ECHO};
use nlink::netlink::nftables::{
    Expr, NF_ACCEPT, NFT_MSG_DELCHAIN, NFT_MSG_DELRULE, NFT_MSG_DELTABLE, NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY,
    NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_DEV, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY,
    NFTA_RULE_CHAIN, NFTA_RULE_HANDLE, NFTA_RULE_POSITION, NFTA_RULE_TABLE, NFTA_RULE_USERDATA,
    NFTA_TABLE_NAME, write_expressions,
};
use std::collections::BTreeSet;
use weirgate_state::{Chain, DeviceName, Hook, Origin, Table, TableChange, switch_name};
use weirgate_units::Inserted as _;

/// `NFTNL_UDATA_RULE_COMMENT` of libnftnl: shown by nft as the rule's comment.
pub(super) const UDATA_COMMENT: u8 = 0;
/// nft's own limit on a comment, with its NUL (`NFTNL_UDATA_COMMENT_MAXLEN`).
const COMMENT_LENGTH: usize = 128;

/// Returns the requests as one transaction.
pub(crate) fn transaction(requests: Vec<Request>) -> Vec<Request> {
    let (begin, end) = frame();
    let framed = |message| Request {
        message,
        object: String::from("nftables transaction"),
        origin: Origin::default(),
        frame: true,
    };
    let mut all = vec![framed(begin)];
    all.extend(requests);
    all.push(framed(end));
    all
}

fn request(message: MessageBuilder, object: String, origin: &Origin) -> Request {
    Request {
        message,
        object,
        origin: origin.clone(),
        frame: false,
    }
}

/// Switches a chain on or off.
pub(crate) fn switch(netdev: bool, table: &str, chain: &str, on: bool) -> Request {
    let title = label(netdev, table);
    let what = if on { "on" } else { "off" };
    request(
        sets::switch(netdev, table, chain, on),
        format!("switch chain {chain} of {title} {what}"),
        &Origin::default(),
    )
}

/// Removes a table.
pub(crate) fn delete(netdev: bool, name: &str) -> Request {
    let mut message = message(NFT_MSG_DELTABLE, 0, family(netdev));
    message.append_attr_str(NFTA_TABLE_NAME, name);
    request(
        message,
        format!("remove {}", label(netdev, name)),
        &Origin::default(),
    )
}

/// Returns the requests that replace any table of this name. `index` finds the devices to which
/// packets are redirected.
pub(crate) fn set(
    table: &Table,
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<Vec<Request>, KernelError> {
    let none = Origin::default();
    let title = label(table.netdev, &table.name);
    let create = || {
        let mut message = message(NFT_MSG_NEWTABLE, NLM_F_CREATE, family(table.netdev));
        message.append_attr_str(NFTA_TABLE_NAME, &table.name);
        request(message, format!("create {title}"), &none)
    };
    // Deleting a missing table fails, so create it first.
    let mut out = vec![create(), delete(table.netdev, &table.name), create()];
    let (none, change) = (table.emptied(), table.made());
    make(
        &mut out,
        &none,
        table,
        &change,
        (&Edits::new(), false),
        index,
    )?;
    Ok(out)
}

/// Returns the requests that turn `before`, which is in force, into `after` in place. With `echo`,
/// the kernel echoes the rules of edits.
pub(crate) fn change(
    before: &Table,
    after: &Table,
    change: &TableChange,
    (edits, echo): (&Edits, bool),
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<Vec<Request>, KernelError> {
    let mut out = Vec::new();
    unmake(&mut out, before, after, change, edits);
    make(&mut out, before, after, change, (edits, echo), index)?;
    Ok(out)
}

/// Deletes the old parts, in an order in which nothing is deleted that is still used.
fn unmake(
    out: &mut Vec<Request>,
    before: &Table,
    after: &Table,
    change: &TableChange,
    edits: &Edits,
) {
    let none = Origin::default();
    let (netdev, table) = (before.netdev, before.name.as_str());
    let title = label(netdev, table);
    let mut push = |message, what: &str, name: &str| {
        out.push(request(message, format!("{title} {what} {name}"), &none));
    };
    for chain in &change.emptied {
        let all_or_one = |handle: Option<u64>| {
            let mut message = message(NFT_MSG_DELRULE, 0, family(netdev));
            message.append_attr_str(NFTA_RULE_TABLE, table);
            message.append_attr_str(NFTA_RULE_CHAIN, chain);
            if let Some(handle) = handle {
                message.append_attr(NFTA_RULE_HANDLE, &handle.to_be_bytes());
            }
            message
        };
        match edits.get(chain) {
            None => push(all_or_one(None), "rules of chain", chain),
            Some(edit) => {
                for handle in &edit.gone {
                    push(all_or_one(Some(*handle)), "a rule of chain", chain);
                }
            }
        }
    }
    for name in &change.gone_switches {
        let on = before
            .chain(name)
            .is_some_and(|c| c.hook == Hook::Switched { on: true });
        if on {
            push(sets::switch(netdev, table, name, false), "switch of", name);
        }
        let map = sets::delete(netdev, table, &switch_name(name));
        push(map, "switch of", name);
    }
    for (name, on) in &change.switched {
        if !on {
            push(sets::switch(netdev, table, name, false), "switch of", name);
        }
    }
    let constants = constants(before);
    for set in constants.difference(&self::constants(after)) {
        push(sets::delete(netdev, table, set.name()), "set", set.name());
    }
    for name in &change.gone_sets {
        push(sets::delete(netdev, table, name), "set", name);
    }
    for name in &change.gone_counters {
        push(object::delete(netdev, table, name), "counter", name);
    }
    for chain in &change.gone_chains {
        let mut message = message(NFT_MSG_DELCHAIN, 0, family(netdev));
        message.append_attr_str(NFTA_CHAIN_TABLE, table);
        message.append_attr_str(NFTA_CHAIN_NAME, chain);
        push(message, "chain", chain);
    }
}

/// Creates the new parts; objects come before the rules that name them.
fn make(
    out: &mut Vec<Request>,
    before: &Table,
    after: &Table,
    change: &TableChange,
    (edits, echo): (&Edits, bool),
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<(), KernelError> {
    let none = Origin::default();
    let (netdev, name) = (after.netdev, after.name.as_str());
    let title = label(netdev, name);
    let mut ids = 1_u32..;
    let mut next = || ids.next().unwrap_or(0);
    for set in constants(after).difference(&constants(before)) {
        for message in sets::create_constant(*set, netdev, name, next()) {
            let object = format!("{title} set {}", set.name());
            out.push(request(message, object, &none));
        }
    }
    let sets = after.canonical().sets;
    for set in sets.iter().filter(|set| change.sets.contains(&set.name)) {
        for message in sets::create(set, netdev, name, next()) {
            let object = format!("{title} set {}", set.name);
            out.push(request(message, object, &set.origin));
        }
    }
    for counter in &change.counters {
        let message = object::create(netdev, name, counter);
        out.push(request(
            message,
            format!("{title} counter {counter}"),
            &none,
        ));
    }
    // Create chains first, so that rules and switches can jump to them.
    let of = |names: &BTreeSet<String>| {
        let named = |chain: &&Chain| names.contains(&chain.name);
        after.chains.iter().filter(named).collect::<Vec<_>>()
    };
    for chain in of(&change.chains) {
        out.push(chain_head(after, chain, &title)?);
    }
    for chain in &change.switches {
        let map = sets::create_switch(netdev, name, chain, next());
        out.push(request(map, format!("{title} switch of {chain}"), &none));
    }
    for (chain, _) in change.switched.iter().filter(|(_, on)| **on) {
        let message = sets::switch(netdev, name, chain, true);
        out.push(request(
            message,
            format!("{title} switch of {chain}"),
            &none,
        ));
    }
    let has_switch = |chain: &&Chain| matches!(chain.hook, Hook::Switched { .. });
    let switched = after.chains.iter().filter(has_switch);
    let switched = switched.map(|chain| chain.name.clone()).inserted();
    for chain in of(&change.written) {
        let edit = edits.get(&chain.name);
        chain_rules(out, after, chain, (edit, echo), &switched, &index)?;
    }
    Ok(())
}

/// Returns the constant sets that a table's rules use.
fn constants(table: &Table) -> BTreeSet<sets::ConstantSet> {
    rule::sets_used(table.chains.iter().flat_map(|chain| &chain.rules))
}

fn chain_head(table: &Table, chain: &Chain, title: &str) -> Result<Request, KernelError> {
    let path = format!("{title} chain {}", chain.name);
    let mut head = message(NFT_MSG_NEWCHAIN, NLM_F_CREATE, family(table.netdev));
    head.append_attr_str(NFTA_CHAIN_TABLE, &table.name);
    head.append_attr_str(NFTA_CHAIN_NAME, &chain.name);
    let number = match &chain.hook {
        Hook::Other(text) => {
            return Err(KernelError::Unwritable(format!("{path} at {text}")));
        }
        Hook::Called | Hook::Switched { .. } => {
            return Ok(request(head, path, &Origin::default()));
        }
        // Before source NAT, so that rules see inside addresses.
        Hook::Postrouting { .. } => (HOOK_POSTROUTING, NF_IP_PRI_MANGLE, None),
        // Before connection tracking, so that an ICMP error to a sender has the addresses that the
        // sender knows.
        Hook::Prerouting => (HOOK_PREROUTING, NF_IP_PRI_RAW, None),
        Hook::Output => (HOOK_OUTPUT, NF_IP_PRI_MANGLE, None),
        Hook::Ingress { device, .. } => (HOOK_INGRESS, 0, Some(device)),
        Hook::Egress { device } => (HOOK_EGRESS, 0, Some(device)),
    };
    let (hook, priority, device) = number;
    let nest = head.nest_start(NFTA_CHAIN_HOOK);
    head.append_attr_u32_be(NFTA_HOOK_HOOKNUM, hook);
    head.append_attr_u32_be(NFTA_HOOK_PRIORITY, priority as u32);
    if let Some(device) = device {
        head.append_attr_str(NFTA_HOOK_DEV, device.as_str());
    }
    head.nest_end(nest);
    head.append_attr_u32_be(NFTA_CHAIN_POLICY, NF_ACCEPT as u32);
    head.append_attr_str(NFTA_CHAIN_TYPE, "filter");
    Ok(request(head, path, &Origin::default()))
}

/// Returns where a `Final` rule of a chain sends packets. For a called chain, this is where the
/// first base chain sends them.
pub(super) fn end_of(
    table: &Table,
    chain: &Chain,
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<End, KernelError> {
    let own = matches!(chain.hook, Hook::Ingress { .. });
    let chains = table.chains.iter().filter(|other| !own || *other == chain);
    let target = chains.into_iter().find_map(|chain| match &chain.hook {
        Hook::Ingress { redirect_to, .. } => Some(redirect_to),
        _ => None,
    });
    match target {
        Some(device) => index(device)
            .map(End::Forward)
            .ok_or_else(|| KernelError::NoDevice(device.to_string())),
        None => Ok(End::Accept),
    }
}

/// Encodes the rules of a chain: all of them, or those that an edit inserts.
fn chain_rules(
    out: &mut Vec<Request>,
    table: &Table,
    chain: &Chain,
    (edit, echo): (Option<&Edit>, bool),
    switched: &BTreeSet<String>,
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<(), KernelError> {
    let none = Origin::default();
    let end = end_of(table, chain, index)?;
    let path = format!("{} chain {}", label(table.netdev, &table.name), chain.name);
    let before = edit.and_then(Edit::before);
    let mut push = |exprs: &[Expr], origin: &Origin| {
        // With a position, a rule without the append flag is inserted before it.
        let append = if before.is_some() { 0 } else { NLM_F_APPEND };
        let echo = if echo && edit.is_some() {
            NLM_F_ECHO
        } else {
            0
        };
        let flags = NLM_F_CREATE | append | echo;
        let mut message = message(NFT_MSG_NEWRULE, flags, family(table.netdev));
        message.append_attr_str(NFTA_RULE_TABLE, &table.name);
        message.append_attr_str(NFTA_RULE_CHAIN, &chain.name);
        if let Some(handle) = before {
            message.append_attr(NFTA_RULE_POSITION, &handle.to_be_bytes());
        }
        write_expressions(&mut message, exprs);
        if origin.line != 0 || !origin.reason.is_empty() {
            message.append_attr(NFTA_RULE_USERDATA, &comment(&origin.to_string()));
        }
        out.push(request(message, format!("{path} rule"), origin));
    };
    if let (Hook::Postrouting { device }, None) = (&chain.hook, edit) {
        push(&rule::write_other_devices(device), &none);
    }
    let netdev = table.netdev;
    let come = edit.map_or(0..chain.rules.len(), |edit| edit.come.clone());
    for rule in chain.rules.get(come).unwrap_or_default() {
        let written = rule::write(
            rule,
            rule::RuleContext {
                netdev,
                end,
                switched,
            },
        );
        let exprs = written.ok_or_else(|| KernelError::Unwritable(format!("{path} rule")))?;
        push(&exprs, &rule.origin);
    }
    if matches!((&chain.hook, edit), (Hook::Ingress { .. }, None)) {
        push(&rule::write_end(end), &none);
    }
    Ok(())
}

/// Returns a comment as libnftnl stores it: type, length, text, NUL.
pub(crate) fn comment(text: &str) -> Vec<u8> {
    let mut end = text.len().min(COMMENT_LENGTH - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = vec![UDATA_COMMENT, end as u8 + 1];
    bytes.extend_from_slice(&text.as_bytes()[..end]);
    bytes.push(0);
    bytes
}
