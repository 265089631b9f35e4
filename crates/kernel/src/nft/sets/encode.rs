// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that create, fill, switch and delete sets.

use super::constant::ConstantSet;
use crate::nft::bytes::of_key;
use crate::nft::{family, message};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::NLM_F_CREATE;
use nlink::netlink::nftables::{
    NFT_DATA_VERDICT, NFT_JUMP, NFT_MSG_DELSET, NFT_MSG_DELSETELEM, NFT_MSG_GETSETELEM,
    NFT_MSG_NEWSET, NFT_MSG_NEWSETELEM, NFT_SET_CONSTANT, NFT_SET_ELEM_INTERVAL_END, NFT_SET_EVAL,
    NFT_SET_INTERVAL, NFT_SET_MAP, NFT_SET_TIMEOUT, NFTA_DATA_VALUE, NFTA_DATA_VERDICT,
    NFTA_LIST_ELEM, NFTA_SET_DATA_LEN, NFTA_SET_DATA_TYPE, NFTA_SET_DESC, NFTA_SET_DESC_SIZE,
    NFTA_SET_ELEM_DATA, NFTA_SET_ELEM_FLAGS, NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_LIST_ELEMENTS,
    NFTA_SET_ELEM_LIST_SET, NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_FLAGS, NFTA_SET_ID,
    NFTA_SET_KEY_LEN, NFTA_SET_KEY_TYPE, NFTA_SET_NAME, NFTA_SET_TABLE, NFTA_SET_TIMEOUT,
    NFTA_VERDICT_CHAIN, NFTA_VERDICT_CODE,
};
use weirgate_state::{Content, PPPOE_SESSION, Set, switch_name};
use weirgate_units::Handle;

/// The most elements in one message, because a nest has less than 64 KiB.
const ELEMENTS_AT_ONCE: usize = 1000;
/// linux/netfilter/nf_tables.h.
const NFTA_SET_ELEM_LIST_SET_ID: u16 = 4;

/// nft's numbers of types that are not a [`Key`](weirgate_state::Key) (`enum datatypes`,
/// include/datatype.h of nftables), so that `nft list` can print them.
const TYPE_NFPROTO: u32 = 2;
const TYPE_ETHERTYPE: u32 = 10;
pub(super) const TYPE_CLASSID: u32 = 23;

/// Returns the messages that create a constant set in a transaction; `id` is its number there.
pub(crate) fn create_constant(
    constant: ConstantSet,
    netdev: bool,
    table: &str,
    id: u32,
) -> [MessageBuilder; 2] {
    let elements = constant.elements();
    let mut set = head(netdev, table, constant.name(), id);
    set.append_attr_u32_be(NFTA_SET_FLAGS, NFT_SET_CONSTANT);
    set.append_attr_u32_be(NFTA_SET_KEY_TYPE, constant.key_type());
    set.append_attr_u32_be(NFTA_SET_KEY_LEN, constant.key_length());
    let desc = set.nest_start(NFTA_SET_DESC);
    set.append_attr_u32_be(NFTA_SET_DESC_SIZE, elements.len() as u32);
    set.nest_end(desc);
    let mut list = element_list(netdev, table, constant.name(), Some(id));
    let nest = list.nest_start(NFTA_SET_ELEM_LIST_ELEMENTS);
    for element in elements {
        let item = list.nest_start(NFTA_LIST_ELEM);
        let key = list.nest_start(NFTA_SET_ELEM_KEY);
        list.append_attr(NFTA_DATA_VALUE, &element);
        list.nest_end(key);
        list.nest_end(item);
    }
    list.nest_end(nest);
    [set, list]
}

/// Returns the message that creates a set, with its names.
fn head(netdev: bool, table: &str, name: &str, id: u32) -> MessageBuilder {
    let mut set = message(NFT_MSG_NEWSET, NLM_F_CREATE, family(netdev));
    set.append_attr_str(NFTA_SET_TABLE, table);
    set.append_attr_str(NFTA_SET_NAME, name);
    set.append_attr_u32_be(NFTA_SET_ID, id);
    set
}

fn element_list(netdev: bool, table: &str, name: &str, id: Option<u32>) -> MessageBuilder {
    let mut list = message(NFT_MSG_NEWSETELEM, NLM_F_CREATE, family(netdev));
    list.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
    list.append_attr_str(NFTA_SET_ELEM_LIST_SET, name);
    if let Some(id) = id {
        list.append_attr_u32_be(NFTA_SET_ELEM_LIST_SET_ID, id);
    }
    list
}

/// Returns the messages that create a set in a transaction; `id` is its number there.
pub(crate) fn create(set: &Set, netdev: bool, table: &str, id: u32) -> Vec<MessageBuilder> {
    let mut head = head(netdev, table, &set.name, id);
    head.append_attr_u32_be(NFTA_SET_KEY_TYPE, set.key.type_number());
    head.append_attr_u32_be(NFTA_SET_KEY_LEN, set.key.bytes() as u32);
    let elements = match &set.content {
        Content::Meter { size, timeout } => {
            let timed = if timeout.is_some() {
                NFT_SET_TIMEOUT
            } else {
                0
            };
            head.append_attr_u32_be(NFTA_SET_FLAGS, NFT_SET_EVAL | timed);
            if let Some(seconds) = timeout {
                let millis = u64::from(*seconds) * 1000;
                head.append_attr(NFTA_SET_TIMEOUT, &millis.to_be_bytes());
            }
            let desc = head.nest_start(NFTA_SET_DESC);
            head.append_attr_u32_be(NFTA_SET_DESC_SIZE, *size);
            head.nest_end(desc);
            return vec![head];
        }
        Content::Fixed(elements) => {
            let plain = |&(from, to): &(u128, u128)| (from, to, None);
            elements.iter().map(plain).collect()
        }
        Content::Classes(elements) => {
            let mapped = |&(from, to, class): &(u128, u128, Handle)| (from, to, Some(class));
            elements.iter().map(mapped).collect::<Vec<_>>()
        }
        Content::Refreshed(refreshed) => {
            // This flag, which no other set of weirgate's has, identifies the set when it is read
            // back.
            head.append_attr_u32_be(NFTA_SET_FLAGS, NFT_SET_TIMEOUT);
            let keys = refreshed.found.iter().map(|value| (*value, false, None));
            return with_elements(
                head,
                set,
                netdev,
                table,
                Some(id),
                &keys.collect::<Vec<_>>(),
            );
        }
    };
    let ranges = elements.iter().any(|(from, to, _)| from != to);
    let interval = if ranges { NFT_SET_INTERVAL } else { 0 };
    if matches!(set.content, Content::Classes(_)) {
        head.append_attr_u32_be(NFTA_SET_FLAGS, interval | NFT_SET_MAP);
        head.append_attr_u32_be(NFTA_SET_DATA_TYPE, TYPE_CLASSID);
        head.append_attr_u32_be(NFTA_SET_DATA_LEN, 4);
    } else {
        head.append_attr_u32_be(NFTA_SET_FLAGS, interval);
    }
    let mut keys: Vec<(u128, bool, Option<Handle>)> = Vec::new();
    for (from, to, class) in elements {
        keys.push((from, false, class));
        // An interval ends before the key of its end element; one without an end element reaches to
        // the greatest key.
        if ranges && to < set.key.greatest() {
            keys.push((to + 1, true, None));
        }
    }
    with_elements(head, set, netdev, table, Some(id), &keys)
}

/// Returns the messages that replace the elements of a refreshed set.
pub(crate) fn refill(set: &Set, netdev: bool, table: &str, found: &[u128]) -> Vec<MessageBuilder> {
    let mut flush = message(NFT_MSG_DELSETELEM, 0, family(netdev));
    flush.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
    flush.append_attr_str(NFTA_SET_ELEM_LIST_SET, &set.name);
    let keys: Vec<_> = found.iter().map(|value| (*value, false, None)).collect();
    with_elements(flush, set, netdev, table, None, &keys)
}

/// Returns a message and those that add elements. The flag of an element says that it is the end of
/// an interval.
fn with_elements(
    first: MessageBuilder,
    set: &Set,
    netdev: bool,
    table: &str,
    id: Option<u32>,
    keys: &[(u128, bool, Option<Handle>)],
) -> Vec<MessageBuilder> {
    let mut messages = vec![first];
    for chunk in keys.chunks(ELEMENTS_AT_ONCE) {
        let mut list = element_list(netdev, table, &set.name, id);
        let nest = list.nest_start(NFTA_SET_ELEM_LIST_ELEMENTS);
        for (value, end, class) in chunk {
            let item = list.nest_start(NFTA_LIST_ELEM);
            let key = list.nest_start(NFTA_SET_ELEM_KEY);
            list.append_attr(NFTA_DATA_VALUE, &of_key(set.key, *value));
            list.nest_end(key);
            if *end {
                list.append_attr_u32_be(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
            }
            if let Some(class) = class {
                let data = list.nest_start(NFTA_SET_ELEM_DATA);
                list.append_attr(NFTA_DATA_VALUE, &class.as_u32().to_ne_bytes());
                list.nest_end(data);
            }
            list.nest_end(item);
        }
        list.nest_end(nest);
        messages.push(list);
    }
    messages
}

/// Returns the message that deletes a set, or by its name the switch of a chain.
pub(crate) fn delete(netdev: bool, table: &str, name: &str) -> MessageBuilder {
    let mut set = message(NFT_MSG_DELSET, 0, family(netdev));
    set.append_attr_str(NFTA_SET_TABLE, table);
    set.append_attr_str(NFTA_SET_NAME, name);
    set
}

/// Returns the keys of a switch: IPv4 and IPv6 in the form of the field `Version`. If that is the
/// ethertype, PPPoE sessions too.
pub(super) fn switch_keys(netdev: bool) -> Vec<Vec<u8>> {
    let version = |number| crate::nft::field::raw(weirgate_state::Field::Version, netdev, number);
    let mut keys = [4, 6].map(version).to_vec();
    if netdev {
        keys.push(PPPOE_SESSION.to_be_bytes().to_vec());
    }
    keys
}

/// Returns the message that creates a chain's switch, switched off.
pub(crate) fn create_switch(netdev: bool, table: &str, chain: &str, id: u32) -> MessageBuilder {
    let mut map = head(netdev, table, &switch_name(chain), id);
    let (kind, length) = if netdev {
        (TYPE_ETHERTYPE, 2)
    } else {
        (TYPE_NFPROTO, 1)
    };
    map.append_attr_u32_be(NFTA_SET_FLAGS, NFT_SET_MAP);
    map.append_attr_u32_be(NFTA_SET_KEY_TYPE, kind);
    map.append_attr_u32_be(NFTA_SET_KEY_LEN, length);
    map.append_attr_u32_be(NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT);
    map
}

/// Returns the message that switches a chain on or off.
pub(crate) fn switch(netdev: bool, table: &str, chain: &str, on: bool) -> MessageBuilder {
    let name = switch_name(chain);
    let mut list = if on {
        element_list(netdev, table, &name, None)
    } else {
        let mut list = message(NFT_MSG_DELSETELEM, 0, family(netdev));
        list.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
        list.append_attr_str(NFTA_SET_ELEM_LIST_SET, &name);
        list
    };
    let nest = list.nest_start(NFTA_SET_ELEM_LIST_ELEMENTS);
    for value in switch_keys(netdev) {
        let item = list.nest_start(NFTA_LIST_ELEM);
        let key = list.nest_start(NFTA_SET_ELEM_KEY);
        list.append_attr(NFTA_DATA_VALUE, &value);
        list.nest_end(key);
        if on {
            let data = list.nest_start(NFTA_SET_ELEM_DATA);
            let verdict = list.nest_start(NFTA_DATA_VERDICT);
            list.append_attr_u32_be(NFTA_VERDICT_CODE, NFT_JUMP as u32);
            list.append_attr_str(NFTA_VERDICT_CHAIN, chain);
            list.nest_end(verdict);
            list.nest_end(data);
        }
        list.nest_end(item);
    }
    list.nest_end(nest);
    list
}

/// Requests the elements of a set or switch.
pub(crate) fn list(netdev: bool, table: &str, name: &str) -> MessageBuilder {
    let mut message = message(NFT_MSG_GETSETELEM, 0, family(netdev));
    message.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
    message.append_attr_str(NFTA_SET_ELEM_LIST_SET, name);
    message
}
