// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A whole table as one transaction.

use super::rule::{self, End};
use super::{
    DELTABLE, HOOK_INGRESS, HOOK_POSTROUTING, NEWCHAIN, NEWRULE, NEWTABLE, NFTA_CHAIN_HOOK,
    NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY, NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_DEV,
    NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN, NFTA_RULE_TABLE, NFTA_TABLE_NAME,
    PRIORITY_MANGLE, family, frame, label, message,
};
use crate::channel::Request;
use crate::error::KernelError;
use nlink::netlink::MessageBuilder;
use nlink::netlink::nftables::{Expr, write_expressions};
use weirgate_state::{Chain, DeviceName, Hook, Origin, Table};

const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NFTA_RULE_USERDATA: u16 = 7;
/// `NFTNL_UDATA_RULE_COMMENT` of libnftnl: shown by nft as the rule's comment.
pub(super) const UDATA_COMMENT: u8 = 0;
/// nft's own limit on a comment, with its NUL (`NFTNL_UDATA_COMMENT_MAXLEN`).
const COMMENT_LENGTH: usize = 128;
const NF_ACCEPT: u32 = 1;

/// One transaction of requests.
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

/// Removes a table.
pub(crate) fn delete(netdev: bool, name: &str) -> Request {
    let mut message = message(DELTABLE, 0, family(netdev));
    message.append_attr_str(NFTA_TABLE_NAME, name);
    request(
        message,
        format!("remove {}", label(netdev, name)),
        &Origin::default(),
    )
}

/// Puts the table in place of any of its name. `index` finds the devices that
/// packets are redirected to.
pub(crate) fn set(
    table: &Table,
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<Vec<Request>, KernelError> {
    let none = Origin::default();
    let title = label(table.netdev, &table.name);
    let create = || {
        let mut message = message(NEWTABLE, NLM_F_CREATE, family(table.netdev));
        message.append_attr_str(NFTA_TABLE_NAME, &table.name);
        request(message, format!("create {title}"), &none)
    };
    // A deletion fails without a table, so one is made first.
    let mut out = vec![create(), delete(table.netdev, &table.name), create()];
    let rules = table.chains.iter().flat_map(|chain| &chain.rules);
    for (id, set) in (1_u32..).zip(rule::sets_used(rules, table.netdev)) {
        for message in set.create(table.netdev, &table.name, id) {
            let object = format!("{title} set {}", set.name());
            out.push(request(message, object, &none));
        }
    }
    for chain in &table.chains {
        chain_requests(&mut out, table, chain, &title, &index)?;
    }
    Ok(out)
}

fn chain_requests(
    out: &mut Vec<Request>,
    table: &Table,
    chain: &Chain,
    title: &str,
    index: impl Fn(&DeviceName) -> Option<u32>,
) -> Result<(), KernelError> {
    let none = Origin::default();
    let place = format!("{title} chain {}", chain.name);
    let mut head = message(NEWCHAIN, NLM_F_CREATE, family(table.netdev));
    head.append_attr_str(NFTA_CHAIN_TABLE, &table.name);
    head.append_attr_str(NFTA_CHAIN_NAME, &chain.name);
    let hook = head.nest_start(NFTA_CHAIN_HOOK);
    let (first, end, last) = match &chain.hook {
        Hook::Other(text) => {
            return Err(KernelError::Unwritable(format!("{place} at {text}")));
        }
        Hook::Postrouting { device } => {
            head.append_attr_u32_be(NFTA_HOOK_HOOKNUM, HOOK_POSTROUTING);
            head.append_attr_u32_be(NFTA_HOOK_PRIORITY, PRIORITY_MANGLE as u32);
            (Some(rule::write_other_devices(device)), End::Accept, None)
        }
        Hook::Ingress {
            device,
            redirect_to,
        } => {
            head.append_attr_u32_be(NFTA_HOOK_HOOKNUM, HOOK_INGRESS);
            head.append_attr_u32_be(NFTA_HOOK_PRIORITY, 0);
            head.append_attr_str(NFTA_HOOK_DEV, device.as_str());
            let target =
                index(redirect_to).ok_or_else(|| KernelError::NoDevice(redirect_to.to_string()))?;
            let end = End::Forward(target);
            (None, end, Some(rule::write_end(end)))
        }
    };
    head.nest_end(hook);
    head.append_attr_u32_be(NFTA_CHAIN_POLICY, NF_ACCEPT);
    head.append_attr_str(NFTA_CHAIN_TYPE, "filter");
    out.push(request(head, place.clone(), &none));
    let mut push = |exprs: &[Expr], origin: &Origin| {
        let mut message = message(NEWRULE, NLM_F_CREATE | NLM_F_APPEND, family(table.netdev));
        message.append_attr_str(NFTA_RULE_TABLE, &table.name);
        message.append_attr_str(NFTA_RULE_CHAIN, &chain.name);
        write_expressions(&mut message, exprs);
        if origin.line != 0 || !origin.reason.is_empty() {
            message.append_attr(NFTA_RULE_USERDATA, &comment(&origin.to_string()));
        }
        out.push(request(message, format!("{place} rule"), origin));
    };
    if let Some(exprs) = first {
        push(&exprs, &none);
    }
    for rule in &chain.rules {
        push(&rule::write(rule, table.netdev, end), &rule.origin);
    }
    if let Some(exprs) = last {
        push(&exprs, &none);
    }
    Ok(())
}

/// A comment as libnftnl stores it: type, length, text, NUL.
fn comment(text: &str) -> Vec<u8> {
    let mut end = text.len().min(COMMENT_LENGTH - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = vec![UDATA_COMMENT, end as u8 + 1];
    bytes.extend_from_slice(&text.as_bytes()[..end]);
    bytes.push(0);
    bytes
}
