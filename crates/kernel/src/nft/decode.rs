// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a table from the kernel's listings of chains, rules and set elements.
//!
//! Whatever does not have the form that weirgate writes becomes a rule with [`Match::Other`], so
//! that it shows as a difference and is never overlooked.

use super::encode::UDATA_COMMENT;
use super::read::{self, Known, Read};
use super::rule::End;
use super::sets::Sets;
use super::{HOOK_EGRESS, HOOK_INGRESS, HOOK_OUTPUT, HOOK_POSTROUTING, HOOK_PREROUTING, NFGENMSG};
use crate::netlink::wire::Attrs;
use libc::{NF_IP_PRI_MANGLE, NF_IP_PRI_RAW};
use nlink::netlink::nftables::{
    NF_ACCEPT, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY, NFTA_CHAIN_TABLE,
    NFTA_HOOK_DEV, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS,
    NFTA_RULE_TABLE, NFTA_RULE_USERDATA, parse_expressions,
};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{Chain, DeviceName, Frame, Hook, Match, Origin, Rule, RuleVerdict, Table};
use weirgate_units::{Inserted as _, fnv1a_64};

/// A chain's name, and its hook if it is a base chain.
struct Head {
    name: String,
    hook: Option<(u32, i32, Option<DeviceName>)>,
    accepts: bool,
}

/// Returns the table of that name from listings of all chains and rules of its family, and its
/// sets. `switches` has each chain with a switch, and whether it is on.
pub(crate) fn table(
    netdev: bool,
    name: &str,
    chains: &[Vec<u8>],
    rules: &[Vec<u8>],
    sets: Sets,
    device: impl Fn(u32) -> Option<DeviceName>,
) -> Table {
    let switched: BTreeSet<String> = sets.switches.keys().cloned().inserted();
    let known = Known {
        netdev,
        constants: &sets.constants,
        switched: &switched,
    };
    let heads: Vec<(Head, Vec<(Read, Origin)>)> = chains
        .iter()
        .filter_map(|payload| head(payload, name))
        .map(|head| {
            let read = rules
                .iter()
                .filter_map(|payload| rule_of(payload, (name, &head.name), known))
                .collect();
            (head, read)
        })
        .collect();
    let bases: Vec<Option<(Hook, End)>> = heads
        .iter()
        .map(|(head, read)| base(head, read, &device))
        .collect();
    // Called chains end in the same way as the first base chain.
    let mut ends = bases.iter().flatten().map(|(_, end)| *end);
    let shared = ends.find(|end| matches!(end, End::Forward(_)));
    let shared = shared.unwrap_or(End::Accept);
    let chains = heads
        .into_iter()
        .zip(bases)
        .map(|((head, read), base)| chain(head, read, base, shared, &sets.switches))
        .collect();
    Table {
        netdev,
        name: name.to_owned(),
        sets: sets.own.into(),
        chains,
    }
}

/// Reads one chain. The listing contains one family only.
fn head(payload: &[u8], table: &str) -> Option<Head> {
    let attrs = Attrs::after(payload, NFGENMSG);
    if attrs.text(NFTA_CHAIN_TABLE)? != table {
        return None;
    }
    let hook = attrs.nest(NFTA_CHAIN_HOOK);
    let base = hook.u32_be(NFTA_HOOK_HOOKNUM).map(|number| {
        let priority = hook.u32_be(NFTA_HOOK_PRIORITY).unwrap_or(0) as i32;
        let device = hook.text(NFTA_HOOK_DEV).and_then(DeviceName::new);
        (number, priority, device)
    });
    Some(Head {
        name: attrs.text(NFTA_CHAIN_NAME)?,
        hook: base,
        accepts: attrs
            .u32_be(NFTA_CHAIN_POLICY)
            .is_none_or(|policy| policy == NF_ACCEPT as u32),
    })
}

/// Returns whether a rule belongs to this chain.
pub(super) fn is_of(payload: &[u8], table: &str, chain: &str) -> bool {
    let attrs = Attrs::after(payload, NFGENMSG);
    attrs.text(NFTA_RULE_TABLE).as_deref() == Some(table)
        && attrs.text(NFTA_RULE_CHAIN).as_deref() == Some(chain)
}

/// Reads a single rule of a chain whose rules end like this; `None` if it is not weirgate's.
pub(super) fn one(
    payload: &[u8],
    path: (&str, &str),
    known: Known<'_>,
    expected: End,
) -> Option<Rule> {
    match rule_of(payload, path, known)? {
        (Read::Rule(rule, end), origin) if end.is_none_or(|end| end == expected) => {
            Some(Rule { origin, ..rule })
        }
        _ => None,
    }
}

fn rule_of(
    payload: &[u8],
    (table, chain): (&str, &str),
    known: Known<'_>,
) -> Option<(Read, Origin)> {
    if !is_of(payload, table, chain) {
        return None;
    }
    let attrs = Attrs::after(payload, NFGENMSG);
    let exprs = parse_expressions(attrs.bytes(NFTA_RULE_EXPRESSIONS).unwrap_or_default());
    let origin = attrs.bytes(NFTA_RULE_USERDATA).map(origin);
    Some((read::read(&exprs, known), origin.unwrap_or_default()))
}

/// Returns the policy line from a rule's comment.
fn origin(userdata: &[u8]) -> Origin {
    let Some(text) = comment_of(userdata) else {
        return Origin::default();
    };
    let numbered = text
        .strip_prefix("line ")
        .and_then(|rest| rest.split_once(": "))
        .and_then(|(line, reason)| Some(Origin::new(line.parse().ok()?, reason)));
    numbered.unwrap_or_else(|| Origin::new(0, text.as_str()))
}

/// Returns a rule's comment, as libnftnl stores it.
pub(crate) fn comment_of(userdata: &[u8]) -> Option<String> {
    let [UDATA_COMMENT, length, rest @ ..] = userdata else {
        return None;
    };
    let text = rest.get(..usize::from(*length).saturating_sub(1));
    Some(String::from_utf8_lossy(text.unwrap_or_default()).into_owned())
}

/// Returns the hook of a base chain and how its rules end; `None` for called chains and for hooks
/// that weirgate never uses.
fn base(
    head: &Head,
    read: &[(Read, Origin)],
    device: impl Fn(u32) -> Option<DeviceName>,
) -> Option<(Hook, End)> {
    match head.hook.as_ref()? {
        (HOOK_POSTROUTING, NF_IP_PRI_MANGLE, None) => match read.first()? {
            (Read::OtherDevices(device), _) => {
                let device = device.clone();
                Some((Hook::Postrouting { device }, End::Accept))
            }
            _ => None,
        },
        (HOOK_PREROUTING, NF_IP_PRI_RAW, None) => Some((Hook::Prerouting, End::Accept)),
        (HOOK_OUTPUT, NF_IP_PRI_MANGLE, None) => Some((Hook::Output, End::Accept)),
        (HOOK_INGRESS, 0, Some(own)) => match read.last()? {
            (Read::Rule(rule, Some(end @ End::Forward(index))), _) if is_tail(rule) => {
                let redirect_to = device(*index)?;
                let device = own.clone();
                Some((
                    Hook::Ingress {
                        device,
                        redirect_to,
                    },
                    *end,
                ))
            }
            _ => None,
        },
        (HOOK_EGRESS, 0, Some(device)) => {
            let device = device.clone();
            Some((Hook::Egress { device }, End::Accept))
        }
        _ => None,
    }
}

/// Returns whether a rule is an end and nothing else.
fn is_tail(rule: &Rule) -> bool {
    rule.matches.is_empty() && rule.effects.is_empty() && rule.counter.is_none()
}

fn chain(
    head: Head,
    mut read: Vec<(Read, Origin)>,
    base: Option<(Hook, End)>,
    shared: End,
    switches: &BTreeMap<String, Option<bool>>,
) -> Chain {
    let hook = match (&base, &head.hook) {
        (Some((hook, _)), _) => hook.clone(),
        (None, None) => match switches.get(&head.name) {
            None => Hook::Called,
            Some(Some(on)) => Hook::Switched { on: *on },
            Some(None) => Hook::Other(String::from("a switch of a foreign form")),
        },
        (None, Some((number, priority, device))) => Hook::Other(format!(
            "hook {number} with priority {priority}{}, which weirgate does not use",
            device
                .as_ref()
                .map_or_else(String::new, |device| format!(" of {device}"))
        )),
    };
    match hook {
        Hook::Postrouting { .. } => {
            read.remove(0);
        }
        Hook::Ingress { .. } => {
            read.pop();
        }
        _ => {}
    }
    let expected = base.map_or(shared, |(_, end)| end);
    let mut rules: Vec<Rule> = read
        .into_iter()
        .map(|(read, origin)| match read {
            Read::Rule(rule, end) if end.is_none_or(|end| end == expected) => {
                Rule { origin, ..rule }
            }
            // The number tells one such rule from another.
            other => foreign(format!(
                "a rule that weirgate does not write ({:016x})",
                fnv1a_64(format!("{other:?}").into_bytes())
            )),
        })
        .collect();
    if !head.accepts {
        rules.push(foreign(String::from("the chain drops by policy")));
    }
    Chain {
        name: head.name,
        hook,
        rules: rules.into(),
    }
}

fn foreign(text: String) -> Rule {
    Rule {
        frame: Frame::Plain,
        matches: vec![Match::Other(text)],
        counter: None,
        effects: Vec::new(),
        verdict: RuleVerdict::Continue,
        origin: Origin::default(),
    }
}
