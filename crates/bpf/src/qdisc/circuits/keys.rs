// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts keys to and from the form of the maps, and compares rows.

use crate::layout::{
    CIRCUITS_IPV4, CIRCUITS_IPV6, CIRCUITS_MAC, CIRCUITS_PART, CIRCUITS_SESSION, CIRCUITS_VLAN,
    CIRCUITS_WHOLE, circuits_key, circuits_prefix, engine_config,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_circuits::{Key, Mac, Prefix, Session, Vlan};
use zerocopy::IntoBytes;

/// Bits before the address in a key of the trie: the field `kind`.
const BEFORE: u32 = 32;

/// Returns the key of the trie of prefixes. For all other keys, its field `key` is the key of
/// the hash table.
pub(super) fn of(key: &Key) -> circuits_prefix {
    let mut own = circuits_key {
        kind: CIRCUITS_IPV4,
        value: [0; 4],
    };
    let mut length = 0;
    match key {
        Key::Address(prefix) => {
            length = prefix.length().into();
            match prefix.address() {
                IpAddr::V4(address) => fill(&mut own.value, &address.octets()),
                IpAddr::V6(address) => {
                    own.kind = CIRCUITS_IPV6;
                    fill(&mut own.value, &address.octets());
                }
            }
        }
        Key::Session(session) => {
            own.kind = CIRCUITS_SESSION;
            own.value[0] = session.id().into();
            if let Some(mac) = session.mac() {
                fill(&mut own.value[1..], &mac.bytes());
            }
        }
        Key::Vlan(vlan) => {
            own.kind = CIRCUITS_VLAN;
            own.value[0] = vlan.outer().into();
            own.value[1] = vlan.inner().unwrap_or(0).into();
        }
        Key::Mac(mac) => {
            own.kind = CIRCUITS_MAC;
            fill(&mut own.value, &mac.bytes());
        }
    }
    circuits_prefix {
        bits: BEFORE + length,
        key: own,
    }
}

/// Copies bytes in network order and leaves zeros after them.
fn fill(words: &mut [u32], bytes: &[u8]) {
    for (to, from) in words.as_mut_bytes().iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// Converts a key of the hash table.
pub(super) fn whole(key: &circuits_key) -> Option<Key> {
    let mac = |words: &[u32]| Mac::new(*words.as_bytes().first_chunk::<6>()?);
    let number = |word: u32| u16::try_from(word).ok();
    let [first, second, ..] = key.value;
    match key.kind {
        CIRCUITS_SESSION => {
            // A MAC address of zeros means any device.
            let session = Session::new(number(first)?, mac(&key.value[1..]))?;
            Some(Key::Session(session))
        }
        CIRCUITS_VLAN => {
            let inner = number(second)?;
            Vlan::new(number(first)?, (inner > 0).then_some(inner)).map(Key::Vlan)
        }
        CIRCUITS_MAC => mac(&key.value).map(Key::Mac),
        kind => prefix(&circuits_prefix {
            bits: BEFORE + if kind == CIRCUITS_IPV4 { 32 } else { 128 },
            key: circuits_key {
                kind,
                value: key.value,
            },
        }),
    }
}

/// Converts a key of the trie of prefixes.
pub(super) fn prefix(key: &circuits_prefix) -> Option<Key> {
    let bytes = key.key.value.as_bytes();
    let address = match key.key.kind {
        CIRCUITS_IPV4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        CIRCUITS_IPV6 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
        _ => return None,
    };
    let length = u8::try_from(key.bits.checked_sub(BEFORE)?).ok()?;
    Prefix::new(address, length).map(Key::Address)
}

/// Returns the bits of `circuits_rule.kinds` that make the program look up these keys.
pub(super) fn kinds<'k>(keys: impl Iterator<Item = &'k Key>) -> u32 {
    keys.fold(0, |kinds, key| {
        let leaves_open = match key {
            Key::Address(prefix) => !prefix.is_host(),
            Key::Session(session) => session.mac().is_none(),
            Key::Vlan(vlan) => vlan.inner().is_none(),
            Key::Mac(_) => false,
        };
        let bit = if leaves_open {
            CIRCUITS_PART
        } else {
            CIRCUITS_WHOLE
        };
        kinds | bit << of(key).key.kind
    })
}

/// Returns whether two configurations are equal.
pub(super) fn is_same(one: &engine_config, other: &engine_config) -> bool {
    one.as_bytes() == other.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_circuits::KeyKind;

    fn key(kind: KeyKind, text: &str) -> Key {
        kind.read_all(text).unwrap()[0]
    }

    #[test]
    fn keys_are_those_of_their_tables() {
        let all = [
            (
                KeyKind::Address,
                "100.64.0.1 100.64.0.0/10 2001:db8::1 2001:db8::/32",
            ),
            (KeyKind::Session, "77 77:02:00:5e:10:00:01 65534"),
            (KeyKind::Vlan, "1 100.20 4094.4094"),
            (KeyKind::Mac, "02:00:5e:10:00:01 fe:ff:ff:ff:ff:ff"),
        ];
        for (kind, texts) in all {
            for own in kind.read_all(texts).unwrap() {
                let there = of(&own);
                if own.prefix().is_some() {
                    assert_eq!(prefix(&there), Some(own));
                } else {
                    assert_eq!(whole(&there.key), Some(own));
                }
            }
        }
        // The value is in network order.
        let there = of(&key(KeyKind::Address, "1.2.3.4"));
        assert_eq!(there.key.value[0].as_bytes(), [1, 2, 3, 4]);
        assert_eq!((there.bits, there.key.kind), (64, 4));
        let there = of(&key(KeyKind::Session, "258:02:00:5e:10:00:01"));
        assert_eq!(there.key.value[0], 258);
        assert_eq!(
            there.key.value[1..].as_bytes()[..8],
            [2, 0, 0x5e, 0x10, 0, 1, 0, 0]
        );
    }

    #[test]
    fn kinds_are_those_that_a_list_has() {
        let of = |kind: KeyKind, text: &str| kinds(kind.read_all(text).unwrap().iter());
        let bits = [
            of(KeyKind::Address, "10.0.0.1"),
            of(KeyKind::Address, "10.0.0.0/8"),
            of(KeyKind::Address, "2001:db8::1"),
            of(KeyKind::Address, "2001:db8::/32"),
            of(KeyKind::Session, "77"),
            of(KeyKind::Session, "77:02:00:5e:10:00:01"),
            of(KeyKind::Vlan, "100"),
            of(KeyKind::Vlan, "100.20"),
            of(KeyKind::Mac, "02:00:5e:10:00:01"),
        ];
        // Each kind has its own bit.
        assert!(bits.iter().all(|bit| bit.is_power_of_two()));
        assert_eq!(bits.iter().fold(0, |all, bit| all | bit).count_ones(), 9);
        assert_eq!(of(KeyKind::Vlan, "100 100.20 7"), bits[6] | bits[7]);
        assert_eq!(kinds([].iter()), 0);
    }
}
