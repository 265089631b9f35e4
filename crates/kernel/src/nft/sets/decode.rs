// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads sets from the kernel's listings.

use super::constant::ConstantSet;
use super::encode::{TYPE_CLASSID, switch_keys};
use crate::netlink::wire::Attrs;
use crate::nft::NFGENMSG;
use crate::nft::bytes::key_value;
use nlink::netlink::AttrIter;
use nlink::netlink::nftables::{
    NFT_SET_ELEM_INTERVAL_END, NFT_SET_EVAL, NFT_SET_INTERVAL, NFT_SET_MAP, NFT_SET_TIMEOUT,
    NFTA_DATA_VALUE, NFTA_SET_DATA_TYPE, NFTA_SET_DESC, NFTA_SET_DESC_SIZE, NFTA_SET_ELEM_DATA,
    NFTA_SET_ELEM_FLAGS, NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_FLAGS,
    NFTA_SET_KEY_TYPE, NFTA_SET_NAME, NFTA_SET_TABLE, NFTA_SET_TIMEOUT,
};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{Content, Hook, Key, Origin, Refreshed, Set, Table, TableChange, switch_name};
use weirgate_units::{Arrange as _, Handle, Inserted as _};

/// Returns the key whose type has this number.
fn key_of(number: u32) -> Option<Key> {
    Key::ALL.into_iter().find(|key| key.type_number() == number)
}

/// The parts of a table other than chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sets {
    /// Constant sets that have the right elements.
    pub(crate) constants: BTreeSet<ConstantSet>,
    /// The sets of the state, with their elements.
    pub(crate) own: Vec<Set>,
    /// Chains with a switch, and whether it is on; `None` if it is only partly on.
    pub(crate) switches: BTreeMap<String, Option<bool>>,
}

/// Returns the elements in the listing of a set.
pub(crate) fn elements(payloads: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    payloads
        .iter()
        .filter_map(|payload| Attrs::after(payload, NFGENMSG).bytes(NFTA_SET_ELEM_LIST_ELEMENTS))
        .flat_map(AttrIter::new)
        .filter_map(|(_, element)| {
            let key = Attrs::of(element).nest(NFTA_SET_ELEM_KEY);
            key.bytes(NFTA_DATA_VALUE).map(<[u8]>::to_vec)
        })
        .inserted()
}

/// A set of a table in the kernel's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listed {
    /// A set of values; its elements are listed separately.
    Fixed {
        name: String,
        key: Key,
        /// Whether it contains ranges.
        interval: bool,
    },
    /// A map to classes; its elements are listed separately.
    Classes {
        name: String,
        key: Key,
        /// Whether it contains ranges.
        interval: bool,
    },
    /// A set whose values are replaced in place; its elements are listed separately.
    Refreshed { name: String, key: Key },
    /// A meter, completely read.
    Meter(Set),
    /// The switch of this chain.
    Switch(String),
    /// A constant set, or a set that weirgate does not create.
    Other(String),
}

/// Reads an entry of a listing, if it belongs to the table.
pub(crate) fn listed(payload: &[u8], table: &str) -> Option<Listed> {
    let attrs = Attrs::after(payload, NFGENMSG);
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

/// Takes a listed set or switch from the former table, if the change did not touch it. Returns
/// whether it did.
pub(crate) fn keep(sets: &mut Sets, found: &Listed, before: &Table, change: &TableChange) -> bool {
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

/// Returns the set with these listed elements.
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

/// Returns the map to classes with these listed elements.
pub(crate) fn classes(name: String, key: Key, interval: bool, payloads: &[Vec<u8>]) -> Set {
    let mapped = |(from, to, class): (u128, u128, Option<u32>)| {
        // An element without data or with class 0 cannot be weirgate's.
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

/// Returns listed elements as ranges, each with its data; single keys if the set's flags do not say
/// that it contains ranges. A range up to the greatest key has no end element.
fn ranges(key: Key, interval: bool, payloads: &[Vec<u8>]) -> Vec<(u128, u128, Option<u32>)> {
    let mut keys: Vec<(u128, bool, Option<u32>)> = payloads
        .iter()
        .filter_map(|payload| Attrs::after(payload, NFGENMSG).bytes(NFTA_SET_ELEM_LIST_ELEMENTS))
        .flat_map(AttrIter::new)
        .filter_map(|(_, element)| {
            let element = Attrs::of(element);
            let bytes = element.nest(NFTA_SET_ELEM_KEY).bytes(NFTA_DATA_VALUE)?;
            let bytes = bytes.get(..key.bytes())?;
            let value = key_value(key, bytes);
            let end = element.u32_be(NFTA_SET_ELEM_FLAGS).unwrap_or(0);
            let data = element.nest(NFTA_SET_ELEM_DATA);
            let data = data
                .bytes(NFTA_DATA_VALUE)
                .and_then(|data| Some(u32::from_ne_bytes(data.get(..4)?.try_into().ok()?)));
            Some((value, end & NFT_SET_ELEM_INTERVAL_END != 0, data))
        })
        .collect();
    // If an end and a beginning have the same key, the end comes first.
    keys.arrange_by_key(|(value, end, _)| (*value, !end));
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

/// Returns the refreshed set with these listed elements.
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

/// Returns whether the listed elements of a switch mean that the chain is on; `None` if only some
/// of them are present.
pub(crate) fn is_on(netdev: bool, payloads: &[Vec<u8>]) -> Option<bool> {
    let found = elements(payloads);
    let wanted: BTreeSet<Vec<u8>> = switch_keys(netdev).into_iter().inserted();
    if found.is_empty() {
        Some(false)
    } else {
        (found == wanted).then_some(true)
    }
}
