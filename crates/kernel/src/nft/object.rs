// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named counters: created with the table, read by name.

use super::{NFGENMSG, family, message};
use crate::netlink::wire::Attrs;
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::NLM_F_CREATE;
use nlink::netlink::nftables::{
    NFT_MSG_DELOBJ, NFT_MSG_GETOBJ, NFT_MSG_NEWOBJ, NFTA_COUNTER_BYTES, NFTA_COUNTER_PACKETS,
    NFTA_OBJ_DATA, NFTA_OBJ_NAME, NFTA_OBJ_TABLE, NFTA_OBJ_TYPE,
};

const NFT_OBJECT_COUNTER: u32 = 1;

/// The values of a rule's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounter {
    /// Packets that the rule matched.
    pub packets: u64,
    /// Their bytes, including IP headers.
    pub bytes: u64,
}

/// Creates a counter with value zero.
pub(crate) fn create(netdev: bool, table: &str, name: &str) -> MessageBuilder {
    let mut object = message(NFT_MSG_NEWOBJ, NLM_F_CREATE, family(netdev));
    object.append_attr_str(NFTA_OBJ_TABLE, table);
    object.append_attr_str(NFTA_OBJ_NAME, name);
    object.append_attr_u32_be(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
    let data = object.nest_start(NFTA_OBJ_DATA);
    object.nest_end(data);
    object
}

/// Deletes a counter.
pub(crate) fn delete(netdev: bool, table: &str, name: &str) -> MessageBuilder {
    let mut object = message(NFT_MSG_DELOBJ, 0, family(netdev));
    object.append_attr_str(NFTA_OBJ_TABLE, table);
    object.append_attr_str(NFTA_OBJ_NAME, name);
    object.append_attr_u32_be(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
    object
}

/// Requests all objects of a family.
pub(crate) fn list(netdev: bool) -> MessageBuilder {
    message(NFT_MSG_GETOBJ, 0, family(netdev))
}

/// Reads a counter of the table from an entry of a listing.
pub(crate) fn counter(payload: &[u8], table: &str) -> Option<(String, RuleCounter)> {
    let attrs = Attrs::after(payload, NFGENMSG);
    let own = attrs.text(NFTA_OBJ_TABLE)? == table;
    if !own || attrs.u32_be(NFTA_OBJ_TYPE)? != NFT_OBJECT_COUNTER {
        return None;
    }
    let data = attrs.nest(NFTA_OBJ_DATA);
    let number = |kind| data.u64(kind).map(u64::from_be);
    let counter = RuleCounter {
        packets: number(NFTA_COUNTER_PACKETS)?,
        bytes: number(NFTA_COUNTER_BYTES)?,
    };
    Some((attrs.text(NFTA_OBJ_NAME)?, counter))
}
