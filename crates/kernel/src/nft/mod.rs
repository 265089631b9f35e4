// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classification tables over nf_tables: whole tables, or what differs of them,
//! out in one transaction, rules read back expression by expression; switches and counters by
//! themselves.

mod control_group;
pub(crate) mod decode;
pub(crate) mod edit;
pub(crate) mod encode;
mod field;
pub(crate) mod handle;
pub(crate) mod narrow;
pub(crate) mod object;
pub(crate) mod read;
pub(crate) mod rule;
pub(crate) mod sets;

use nlink::netlink::MessageBuilder;

/// Messages of nf_tables (linux/netfilter/nf_tables.h).
pub(crate) const NEWTABLE: u16 = 0;
pub(crate) const GETTABLE: u16 = 1;
pub(crate) const DELTABLE: u16 = 2;
pub(crate) const NEWCHAIN: u16 = 3;
pub(crate) const GETCHAIN: u16 = 4;
pub(crate) const DELCHAIN: u16 = 5;
pub(crate) const NEWRULE: u16 = 6;
pub(crate) const GETRULE: u16 = 7;
pub(crate) const DELRULE: u16 = 8;
pub(crate) const NEWSET: u16 = 9;
pub(crate) const GETSET: u16 = 10;
pub(crate) const DELSET: u16 = 11;
pub(crate) const NEWSETELEM: u16 = 12;
pub(crate) const GETSETELEM: u16 = 13;
pub(crate) const DELSETELEM: u16 = 14;
pub(crate) const NEWOBJ: u16 = 18;
pub(crate) const GETOBJ: u16 = 19;
pub(crate) const DELOBJ: u16 = 20;

/// Attributes of tables, chains and rules; the same numbers mean the table's
/// name in all of them.
pub(crate) const NFTA_TABLE_NAME: u16 = 1;
pub(crate) const NFTA_CHAIN_TABLE: u16 = 1;
pub(crate) const NFTA_CHAIN_NAME: u16 = 3;
pub(crate) const NFTA_CHAIN_HOOK: u16 = 4;
pub(crate) const NFTA_CHAIN_POLICY: u16 = 5;
pub(crate) const NFTA_CHAIN_TYPE: u16 = 7;
pub(crate) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(crate) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(crate) const NFTA_HOOK_DEV: u16 = 3;
pub(crate) const NFTA_RULE_TABLE: u16 = 1;
pub(crate) const NFTA_RULE_CHAIN: u16 = 2;
pub(crate) const NFTA_RULE_HANDLE: u16 = 3;
pub(crate) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(crate) const NFTA_RULE_POSITION: u16 = 6;

/// `sizeof(struct nfgenmsg)`.
pub(crate) const NFGENMSG: usize = 4;
/// `NF_INET_POST_ROUTING`.
pub(crate) const HOOK_POSTROUTING: u32 = 4;
/// `NF_INET_PRE_ROUTING`.
pub(crate) const HOOK_PREROUTING: u32 = 0;
/// `NF_INET_LOCAL_OUT`.
pub(crate) const HOOK_OUTPUT: u32 = 3;
/// `NF_NETDEV_INGRESS`.
pub(crate) const HOOK_INGRESS: u32 = 0;
/// `NF_NETDEV_EGRESS`.
pub(crate) const HOOK_EGRESS: u32 = 1;
/// `NF_IP_PRI_MANGLE`: before source NAT, so inside addresses are seen.
pub(crate) const PRIORITY_MANGLE: i32 = -150;
/// `NF_IP_PRI_RAW`: before connection tracking, so what a sender is told has the
/// addresses that he knows.
pub(crate) const PRIORITY_RAW: i32 = -300;

const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const NLM_F_REQUEST: u16 = 1;

/// `NFPROTO_NETDEV` or `NFPROTO_INET`.
pub(crate) fn family(netdev: bool) -> u8 {
    if netdev { 5 } else { 1 }
}

/// Family and name as nft writes them.
pub(crate) fn label(netdev: bool, name: &str) -> String {
    format!("table {} {name}", if netdev { "netdev" } else { "inet" })
}

/// An nf_tables message with its `struct nfgenmsg`.
pub(crate) fn message(kind: u16, flags: u16, family: u8) -> MessageBuilder {
    let kind = (NFNL_SUBSYS_NFTABLES << 8) | kind;
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    message.append_bytes(&[family, 0, 0, 0]);
    message
}

/// The begin and end of a transaction.
pub(crate) fn frame() -> (MessageBuilder, MessageBuilder) {
    let of = |kind| {
        let mut message = MessageBuilder::new(kind, NLM_F_REQUEST);
        message.append_bytes(&[0, 0, 0, NFNL_SUBSYS_NFTABLES as u8]);
        message
    };
    (of(NFNL_MSG_BATCH_BEGIN), of(NFNL_MSG_BATCH_END))
}
