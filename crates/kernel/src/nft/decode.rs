// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table from the kernel's listings of chains, rules and set elements.
//!
//! Whatever is not of the form that weirgate writes becomes a rule with
//! [`Match::Other`], so that it shows as a difference and is never overlooked.

use super::encode::UDATA_COMMENT;
use super::read::{self, Read};
use super::rule::End;
use super::sets::{ConstantSet, NFTA_DATA_VALUE, NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_LIST_ELEMENTS};
use super::{
    HOOK_INGRESS, HOOK_POSTROUTING, NFGENMSG, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY,
    NFTA_CHAIN_TABLE, NFTA_HOOK_DEV, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, PRIORITY_MANGLE,
};
use crate::wire::Attrs;
use nlink::netlink::AttrIter;
use nlink::netlink::nftables::parse_expressions;
use std::collections::BTreeSet;
use weirgate_state::{Chain, DeviceName, Hook, Match, Origin, Rule, Table};
use weirgate_units::Handle;

const NFTA_RULE_USERDATA: u16 = 7;
const NF_ACCEPT: u32 = 1;

/// Where a base chain hangs, as the kernel says it.
struct Head {
    name: String,
    hook: Option<(u32, i32, Option<DeviceName>)>,
    accepts: bool,
}

/// The elements of a set listing.
pub(crate) fn elements(payloads: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    payloads
        .iter()
        .filter_map(|payload| Attrs::after(payload, NFGENMSG).bytes(NFTA_SET_ELEM_LIST_ELEMENTS))
        .flat_map(AttrIter::new)
        .filter_map(|(_, element)| {
            let key = Attrs::of(element).nest(NFTA_SET_ELEM_KEY);
            key.bytes(NFTA_DATA_VALUE).map(<[u8]>::to_vec)
        })
        .collect()
}

/// The table of that name from listings of all chains and rules of its family.
pub(crate) fn table(
    netdev: bool,
    name: &str,
    chains: &[Vec<u8>],
    rules: &[Vec<u8>],
    sets: &BTreeSet<ConstantSet>,
    device: impl Fn(u32) -> Option<DeviceName>,
) -> Table {
    let chains = chains
        .iter()
        .filter_map(|payload| head(payload, name))
        .map(|head| {
            let read: Vec<(Read, Origin)> = rules
                .iter()
                .filter_map(|payload| rule_of(payload, netdev, (name, &head.name), sets))
                .collect();
            chain(head, &read, &device)
        })
        .collect();
    Table {
        netdev,
        name: name.to_owned(),
        chains,
    }
}

/// The listing is of one family already.
fn head(payload: &[u8], table: &str) -> Option<Head> {
    let attrs = Attrs::after(payload, NFGENMSG);
    if attrs.text(NFTA_CHAIN_TABLE)? != table {
        return None;
    }
    let hook = attrs.nest(NFTA_CHAIN_HOOK);
    let place = hook.u32_be(NFTA_HOOK_HOOKNUM).map(|number| {
        let priority = hook.u32_be(NFTA_HOOK_PRIORITY).unwrap_or(0) as i32;
        let device = hook.text(NFTA_HOOK_DEV).and_then(DeviceName::new);
        (number, priority, device)
    });
    Some(Head {
        name: attrs.text(NFTA_CHAIN_NAME)?,
        hook: place,
        accepts: attrs.u32_be(NFTA_CHAIN_POLICY).unwrap_or(NF_ACCEPT) == NF_ACCEPT,
    })
}

fn rule_of(
    payload: &[u8],
    netdev: bool,
    (table, chain): (&str, &str),
    sets: &BTreeSet<ConstantSet>,
) -> Option<(Read, Origin)> {
    let attrs = Attrs::after(payload, NFGENMSG);
    let own = attrs.text(NFTA_RULE_TABLE)? == table && attrs.text(NFTA_RULE_CHAIN)? == chain;
    if !own {
        return None;
    }
    let exprs = parse_expressions(attrs.bytes(NFTA_RULE_EXPRESSIONS).unwrap_or_default());
    let origin = attrs.bytes(NFTA_RULE_USERDATA).map(origin);
    Some((read::read(&exprs, netdev, sets), origin.unwrap_or_default()))
}

/// The policy line out of a rule's comment.
fn origin(userdata: &[u8]) -> Origin {
    let text = match userdata {
        [UDATA_COMMENT, length, rest @ ..] => {
            let text = rest.get(..usize::from(*length).saturating_sub(1));
            String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
        }
        _ => return Origin::default(),
    };
    let numbered = text
        .strip_prefix("line ")
        .and_then(|rest| rest.split_once(": "))
        .and_then(|(line, reason)| Some(Origin::new(line.parse().ok()?, reason)));
    numbered.unwrap_or_else(|| Origin::new(0, text.as_str()))
}

fn chain(head: Head, read: &[(Read, Origin)], device: impl Fn(u32) -> Option<DeviceName>) -> Chain {
    let postrouting = matches!(head.hook, Some((HOOK_POSTROUTING, PRIORITY_MANGLE, None)));
    let arriving = match &head.hook {
        Some((HOOK_INGRESS, 0, Some(device))) => Some(device.clone()),
        _ => None,
    };
    let mut rest = read;
    let hook = if postrouting {
        match rest.split_first() {
            Some(((Read::OtherDevices(device), _), after)) => {
                rest = after;
                Some((
                    Hook::Postrouting {
                        device: device.clone(),
                    },
                    End::Accept,
                ))
            }
            _ => None,
        }
    } else if let Some(own) = arriving {
        match rest.split_last() {
            Some(((Read::Tail(end @ End::Forward(index)), _), before)) => {
                rest = before;
                device(*index).map(|redirect_to| {
                    (
                        Hook::Ingress {
                            device: own,
                            redirect_to,
                        },
                        *end,
                    )
                })
            }
            _ => None,
        }
    } else {
        None
    };
    let expected = hook.as_ref().map(|(_, end)| *end);
    let mut rules: Vec<Rule> = rest
        .iter()
        .map(|(read, origin)| match read {
            Read::Rule(rule, end) if Some(*end) == expected => Rule {
                origin: origin.clone(),
                ..rule.clone()
            },
            other => foreign(format!("{other:?}")),
        })
        .collect();
    if !head.accepts {
        rules.push(foreign(String::from("the chain drops by policy")));
    }
    let hook = hook.map_or_else(|| Hook::Other(format!("{:?}", head.hook)), |(hook, _)| hook);
    Chain {
        name: head.name,
        hook,
        rules,
    }
}

fn foreign(text: String) -> Rule {
    Rule {
        matches: vec![Match::Other(text)],
        class: Handle::default(),
        origin: Origin::default(),
    }
}
