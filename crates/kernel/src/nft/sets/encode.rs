// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets: those of a table, the switches of chains, and the constant ones that
//! tell segments without payload.
//!
//! A TCP segment carries nothing if its IP length is the sum of both header
//! lengths. nf_tables cannot add, so every combination that is possible is in
//! a set: 11 x 11 for IPv4, 11 for IPv6 without extension headers. An IPv6
//! packet with extension headers is taken for one with payload.

use super::control_group;
use super::{family, message};
use crate::netlink::wire::Attrs;
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
use nlink::netlink::{AttrIter, MessageBuilder};
use std::collections::BTreeSet;
use weirgate_state::{
    Content, Hook, IpVersion, Key, Origin, PPPOE_SESSION, Refreshed, Set, Table, TableChange,
    switch_name,
};
use weirgate_units::Handle;

/// Elements in one message; a nest holds less than 64 KiB.
const ELEMENTS_AT_ONCE: usize = 1000;
/// linux/netfilter/nf_tables.h.
const NFTA_SET_ELEM_LIST_SET_ID: u16 = 4;

/// nft's own numbers for types of set keys (`enum datatypes`, include/datatype.h
/// of nftables), so that `nft list` can print them.
const TYPE_NFPROTO: u32 = 2;
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;
const TYPE_MAC: u32 = 9;
const TYPE_INET_PROTOCOL: u32 = 12;
const TYPE_MARK: u32 = 19;
const TYPE_CLASSID: u32 = 23;
const TYPE_ETHERTYPE: u32 = 10;
const TYPE_INET_SERVICE: u32 = 13;
const TYPE_TIME_DATE: u32 = 43;
const TYPE_CGROUPV2: u32 = 46;

/// One of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConstantSet {
    /// `ip length . version-and-header-length . data-offset`, each as the two
    /// bytes where it stands, other bits cleared.
    TcpEmptyV4,
    /// `payload length . data-offset` alike.
    TcpEmptyV6,
}

impl ConstantSet {
    pub(crate) const ALL: [Self; 2] = [Self::TcpEmptyV4, Self::TcpEmptyV6];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TcpEmptyV4 => "tcp_empty_v4",
            Self::TcpEmptyV6 => "tcp_empty_v6",
        }
    }

    fn key_type(self) -> u32 {
        let join = |count| (0..count).fold(0, |all, _| (all << 6) | TYPE_INET_SERVICE);
        match self {
            Self::TcpEmptyV4 => join(3),
            Self::TcpEmptyV6 => join(2),
        }
    }

    fn key_length(self) -> u32 {
        match self {
            Self::TcpEmptyV4 => 12,
            Self::TcpEmptyV6 => 8,
        }
    }

    /// Its elements as the kernel holds them: each part in network order,
    /// padded to four bytes.
    pub(crate) fn elements(self) -> BTreeSet<Vec<u8>> {
        let part = |value: u16| {
            let bytes = value.to_be_bytes();
            [bytes[0], bytes[1], 0, 0]
        };
        // Header lengths in 32-bit words: RFC 791 section 3.1, RFC 9293
        // section 3.1.
        let words = 5_u16..=15;
        match self {
            Self::TcpEmptyV4 => words
                .clone()
                .flat_map(|ip| words.clone().map(move |tcp| (ip, tcp)))
                .map(|(ip, tcp)| [part((ip + tcp) * 4), part(ip << 8), part(tcp << 12)].concat())
                .collect(),
            Self::TcpEmptyV6 => words
                .map(|tcp| [part(tcp * 4), part(tcp << 12)].concat())
                .collect(),
        }
    }

    /// The messages that make it in a transaction; `id` is its number there.
    pub(crate) fn create(self, netdev: bool, table: &str, id: u32) -> [MessageBuilder; 2] {
        let elements = self.elements();
        let mut set = message(NFT_MSG_NEWSET, NLM_F_CREATE, family(netdev));
        set.append_attr_str(NFTA_SET_TABLE, table);
        set.append_attr_str(NFTA_SET_NAME, self.name());
        set.append_attr_u32_be(NFTA_SET_FLAGS, NFT_SET_CONSTANT);
        set.append_attr_u32_be(NFTA_SET_KEY_TYPE, self.key_type());
        set.append_attr_u32_be(NFTA_SET_KEY_LEN, self.key_length());
        let desc = set.nest_start(NFTA_SET_DESC);
        set.append_attr_u32_be(NFTA_SET_DESC_SIZE, elements.len() as u32);
        set.nest_end(desc);
        set.append_attr_u32_be(NFTA_SET_ID, id);
        let mut list = message(NFT_MSG_NEWSETELEM, NLM_F_CREATE, family(netdev));
        list.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
        list.append_attr_str(NFTA_SET_ELEM_LIST_SET, self.name());
        list.append_attr_u32_be(NFTA_SET_ELEM_LIST_SET_ID, id);
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
}

/// The nft type of a key.
fn key_type(key: Key) -> u32 {
    match key {
        Key::Address(IpVersion::V4) => TYPE_IPV4,
        Key::Address(IpVersion::V6) => TYPE_IPV6,
        Key::Mac => TYPE_MAC,
        Key::Byte => TYPE_INET_PROTOCOL,
        Key::Short => TYPE_INET_SERVICE,
        Key::Long => TYPE_MARK,
        Key::ControlGroup => TYPE_CGROUPV2,
        Key::Moment => TYPE_TIME_DATE,
    }
}

fn key_of(number: u32) -> Option<Key> {
    let all = [
        Key::Address(IpVersion::V4),
        Key::Address(IpVersion::V6),
        Key::Mac,
        Key::Byte,
        Key::Short,
        Key::Long,
        Key::ControlGroup,
        Key::Moment,
    ];
    all.into_iter().find(|key| key_type(*key) == number)
}

fn key_bytes(key: Key, value: u128) -> Vec<u8> {
    match key {
        Key::ControlGroup => control_group::number(value),
        _ => value.to_be_bytes()[16 - key.bytes()..].to_vec(),
    }
}

/// The head of a set and the names that all its messages bear.
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

/// The messages that make a set in a transaction; `id` is its number there.
pub(crate) fn create(set: &Set, netdev: bool, table: &str, id: u32) -> Vec<MessageBuilder> {
    let mut head = head(netdev, table, &set.name, id);
    head.append_attr_u32_be(NFTA_SET_KEY_TYPE, key_type(set.key));
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
            // A flag that no other set of ours has tells it when it is read.
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
        // An interval ends before the key of its end; one without an end
        // reaches to the greatest key.
        if ranges && to < set.key.greatest() {
            keys.push((to + 1, true, None));
        }
    }
    with_elements(head, set, netdev, table, Some(id), &keys)
}

/// The messages that replace what a refreshed set has.
pub(crate) fn refill(set: &Set, netdev: bool, table: &str, found: &[u128]) -> Vec<MessageBuilder> {
    let mut flush = message(NFT_MSG_DELSETELEM, 0, family(netdev));
    flush.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
    flush.append_attr_str(NFTA_SET_ELEM_LIST_SET, &set.name);
    let keys: Vec<_> = found.iter().map(|value| (*value, false, None)).collect();
    with_elements(flush, set, netdev, table, None, &keys)
}

/// A message, and those that add elements; the flag is that of an end.
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
            list.append_attr(NFTA_DATA_VALUE, &key_bytes(set.key, *value));
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

/// The message that removes a set, or a chain's switch by its name.
pub(crate) fn delete(netdev: bool, table: &str, name: &str) -> MessageBuilder {
    let mut set = message(NFT_MSG_DELSET, 0, family(netdev));
    set.append_attr_str(NFTA_SET_TABLE, table);
    set.append_attr_str(NFTA_SET_NAME, name);
    set
}

/// The keys of a switch: IPv4 and IPv6 as the field `Version` is loaded, and
/// sessions of PPPoE where that is the ethertype.
fn switch_keys(netdev: bool) -> Vec<Vec<u8>> {
    let version = |number| super::field::raw(weirgate_state::Field::Version, netdev, number);
    let mut keys = [4, 6].map(version).to_vec();
    if netdev {
        keys.push(PPPOE_SESSION.to_be_bytes().to_vec());
    }
    keys
}

/// The message that makes a chain's switch, off.
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

/// The message that switches a chain on or off.
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

/// Asks for the elements of a set or switch.
pub(crate) fn list(netdev: bool, table: &str, name: &str) -> MessageBuilder {
    let mut message = message(NFT_MSG_GETSETELEM, 0, family(netdev));
    message.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
    message.append_attr_str(NFTA_SET_ELEM_LIST_SET, name);
    message
}

/// A set of a table as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listed {
    /// A set of values; its elements are listed apart.
    Fixed {
        name: String,
        key: Key,
        /// Whether it holds ranges.
        interval: bool,
    },
    /// A map to classes; its elements are listed apart.
    Classes {
        name: String,
        key: Key,
        /// Whether it holds ranges.
        interval: bool,
    },
    /// A set whose values are replaced in place; alike.
    Refreshed { name: String, key: Key },
    /// A whole one.
    Meter(Set),
    /// The switch of this chain.
    Switch(String),
    /// One of [`ConstantSet`]'s names, or a set that weirgate does not make.
    Other(String),
}

/// Reads a listing's entry, if it is of the table.
pub(crate) fn listed(payload: &[u8], table: &str) -> Option<Listed> {
    let attrs = Attrs::after(payload, super::NFGENMSG);
    if attrs.text(NFTA_SET_TABLE)? != table {
        return None;
    }
    let name = attrs.text(NFTA_SET_NAME)?;
    let flags = attrs.u32_be(NFTA_SET_FLAGS).unwrap_or(0);
    if ConstantSet::ALL.iter().any(|known| known.name() == name) {
        return Some(Listed::Other(name));
    }
    let switch = switch_name("");
    if let Some(chain) = name.strip_prefix(&switch)
        && flags & NFT_SET_MAP != 0
    {
        return Some(Listed::Switch(chain.to_owned()));
    }
    let key = attrs.u32_be(NFTA_SET_KEY_TYPE).and_then(key_of);
    Some(match key {
        Some(key) if flags & NFT_SET_EVAL != 0 => {
            let size = attrs.nest(NFTA_SET_DESC).u32_be(NFTA_SET_DESC_SIZE);
            let millis = attrs.u64(NFTA_SET_TIMEOUT).map(u64::from_be);
            Listed::Meter(Set {
                name,
                key,
                content: Content::Meter {
                    size: size.unwrap_or(0),
                    timeout: millis
                        .filter(|_| flags & NFT_SET_TIMEOUT != 0)
                        .map(|millis| (millis / 1000) as u32),
                },
                origin: Origin::default(),
            })
        }
        Some(key) if flags == NFT_SET_TIMEOUT => Listed::Refreshed { name, key },
        Some(key) if flags & !NFT_SET_INTERVAL == 0 => Listed::Fixed {
            name,
            key,
            interval: flags & NFT_SET_INTERVAL != 0,
        },
        Some(key)
            if flags & !NFT_SET_INTERVAL == NFT_SET_MAP
                && attrs.u32_be(NFTA_SET_DATA_TYPE) == Some(TYPE_CLASSID) =>
        {
            let interval = flags & NFT_SET_INTERVAL != 0;
            Listed::Classes {
                name,
                key,
                interval,
            }
        }
        _ => Listed::Other(name),
    })
}

/// Takes a listed set or switch from the table as it was, where the change did
/// not touch it; whether it could.
pub(crate) fn keep(
    sets: &mut super::decode::Sets,
    found: &Listed,
    before: &Table,
    change: &TableChange,
) -> bool {
    let (name, key) = match found {
        Listed::Fixed { name, key, .. }
        | Listed::Classes { name, key, .. }
        | Listed::Refreshed { name, key } => (name, *key),
        Listed::Switch(chain) => {
            let touched = change.switches.contains(chain) || change.switched.contains_key(chain);
            let before = before.chain(chain).map(|chain| &chain.hook);
            let Some(Hook::Switched { on }) = before.filter(|_| !touched) else {
                return false;
            };
            sets.switches.insert(chain.clone(), Some(*on));
            return true;
        }
        Listed::Meter(_) | Listed::Other(_) => return false,
    };
    let before = before.set(name).filter(|set| set.key == key);
    let Some(set) = before.filter(|_| !change.sets.contains(name)) else {
        return false;
    };
    let same_kind = matches!(
        (found, &set.content),
        (Listed::Fixed { .. }, Content::Fixed(_))
            | (Listed::Classes { .. }, Content::Classes(_))
            | (Listed::Refreshed { .. }, Content::Refreshed(_))
    );
    if same_kind {
        sets.own.push(set.clone());
    }
    same_kind
}

/// The set of these listed elements.
pub(crate) fn fixed(name: String, key: Key, interval: bool, payloads: &[Vec<u8>]) -> Set {
    let plain = |(from, to, _)| (from, to);
    Set {
        content: Content::Fixed(
            ranges(key, interval, payloads)
                .into_iter()
                .map(plain)
                .collect(),
        ),
        name,
        key,
        origin: Origin::default(),
    }
}

/// The map to classes of these listed elements.
pub(crate) fn classes(name: String, key: Key, interval: bool, payloads: &[Vec<u8>]) -> Set {
    let mapped = |(from, to, class): (u128, u128, Option<u32>)| {
        // One without data cannot be ours, nor class 0.
        (from, to, Handle::from_u32(class.unwrap_or(0)))
    };
    Set {
        content: Content::Classes(
            ranges(key, interval, payloads)
                .into_iter()
                .map(mapped)
                .collect(),
        ),
        name,
        key,
        origin: Origin::default(),
    }
}

/// Listed elements as ranges, each with its data; single keys where the set's
/// flags do not say that it holds ranges. A range that reaches to the greatest
/// key has no end.
fn ranges(key: Key, interval: bool, payloads: &[Vec<u8>]) -> Vec<(u128, u128, Option<u32>)> {
    let mut keys: Vec<(u128, bool, Option<u32>)> = payloads
        .iter()
        .filter_map(|payload| {
            Attrs::after(payload, super::NFGENMSG).bytes(NFTA_SET_ELEM_LIST_ELEMENTS)
        })
        .flat_map(AttrIter::new)
        .filter_map(|(_, element)| {
            let element = Attrs::of(element);
            let bytes = element.nest(NFTA_SET_ELEM_KEY).bytes(NFTA_DATA_VALUE)?;
            let bytes = bytes.get(..key.bytes())?;
            let value = match key {
                Key::ControlGroup => control_group::value(bytes)?,
                _ => bytes
                    .iter()
                    .fold(0, |all, byte| all << 8 | u128::from(*byte)),
            };
            let end = element.u32_be(NFTA_SET_ELEM_FLAGS).unwrap_or(0);
            let data = element.nest(NFTA_SET_ELEM_DATA);
            let data = data
                .bytes(NFTA_DATA_VALUE)
                .and_then(|data| Some(u32::from_ne_bytes(data.get(..4)?.try_into().ok()?)));
            Some((value, end & NFT_SET_ELEM_INTERVAL_END != 0, data))
        })
        .collect();
    // An end and a beginning of one key: the end comes first.
    keys.sort_by_key(|(value, end, _)| (*value, !end));
    let mut elements: Vec<(u128, u128, Option<u32>)> = Vec::new();
    let mut open = None;
    for (value, end, data) in keys {
        match (end, open) {
            (false, _) if !interval => elements.push((value, value, data)),
            (false, _) => open = Some((value, data)),
            (true, Some((from, data))) => {
                elements.push((from, value.saturating_sub(1), data));
                open = None;
            }
            (true, None) => {}
        }
    }
    if let Some((from, data)) = open {
        elements.push((from, key.greatest(), data));
    }
    elements
}

/// The refreshed set of these listed elements.
pub(crate) fn refreshed(name: String, key: Key, payloads: &[Vec<u8>]) -> Set {
    let plain = fixed(name, key, false, payloads);
    let found = match plain.content {
        Content::Fixed(elements) => elements.into_iter().map(|(value, _)| value).collect(),
        _ => Vec::new(),
    };
    let content = Content::Refreshed(Refreshed {
        found,
        ..Refreshed::default()
    });
    Set { content, ..plain }
}

/// Whether listed elements of a switch are those of a chain that is on;
/// `None` where they are neither all nor none.
pub(crate) fn is_on(netdev: bool, payloads: &[Vec<u8>]) -> Option<bool> {
    let found = super::decode::elements(payloads);
    let wanted: BTreeSet<Vec<u8>> = switch_keys(netdev).into_iter().collect();
    if found.is_empty() {
        Some(false)
    } else {
        (found == wanted).then_some(true)
    }
}
