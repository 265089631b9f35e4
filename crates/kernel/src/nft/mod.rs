// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classification tables over nf_tables. A whole table or a change of one is sent in one
//! transaction; rules are read back expression by expression; switches and counters have requests
//! of their own.

mod bytes;
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
use nlink::netlink::message::NLM_F_REQUEST;
use nlink::netlink::nftables::{NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFNL_SUBSYS_NFTABLES};

/// `sizeof(struct nfgenmsg)`.
pub(crate) const NFGENMSG: usize = 4;
/// Hooks of the family inet (linux/netfilter.h).
pub(crate) const HOOK_POSTROUTING: u32 = libc::NF_INET_POST_ROUTING as u32;
pub(crate) const HOOK_PREROUTING: u32 = libc::NF_INET_PRE_ROUTING as u32;
pub(crate) const HOOK_OUTPUT: u32 = libc::NF_INET_LOCAL_OUT as u32;
/// Hooks of the family netdev: `NF_NETDEV_INGRESS`, `NF_NETDEV_EGRESS`
/// (linux/netfilter.h).
pub(crate) const HOOK_INGRESS: u32 = 0;
pub(crate) const HOOK_EGRESS: u32 = 1;

/// Returns the family of a table.
pub(crate) fn family(netdev: bool) -> u8 {
    if netdev {
        libc::NFPROTO_NETDEV as u8
    } else {
        libc::NFPROTO_INET as u8
    }
}

/// Returns family and name as nft writes them.
pub(crate) fn label(netdev: bool, name: &str) -> String {
    format!("table {} {name}", if netdev { "netdev" } else { "inet" })
}

/// Returns an nf_tables message with its `struct nfgenmsg`.
pub(crate) fn message(kind: u8, flags: u16, family: u8) -> MessageBuilder {
    let kind = (NFNL_SUBSYS_NFTABLES << 8) | u16::from(kind);
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    message.append_bytes(&[family, 0, 0, 0]);
    message
}

/// Returns the begin and end messages of a transaction.
pub(crate) fn frame() -> (MessageBuilder, MessageBuilder) {
    let of = |kind| {
        let mut message = MessageBuilder::new(kind, NLM_F_REQUEST);
        message.append_bytes(&[0, 0, 0, NFNL_SUBSYS_NFTABLES as u8]);
        message
    };
    (of(NFNL_MSG_BATCH_BEGIN), of(NFNL_MSG_BATCH_END))
}
