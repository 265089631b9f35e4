// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefixes as keys of maps, and rows compared.

use crate::layout::{circuits_host, circuits_prefix, engine_config};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_circuits::Prefix;
use zerocopy::IntoBytes;

/// Bits before an address: those of its version.
const BEFORE: u32 = 32;

/// The key of a prefix; its `host` is the key of a single address.
pub(super) fn of(prefix: &Prefix) -> circuits_prefix {
    let mut host = circuits_host {
        version: 4,
        address: [0; 4],
    };
    match prefix.address() {
        IpAddr::V4(own) => host.address[0] = u32::from_ne_bytes(own.octets()),
        IpAddr::V6(own) => {
            host.version = 6;
            let octets = own.octets();
            for (word, bytes) in host.address.iter_mut().zip(octets.as_chunks::<4>().0) {
                *word = u32::from_ne_bytes(*bytes);
            }
        }
    }
    circuits_prefix {
        bits: BEFORE + u32::from(prefix.length()),
        host,
    }
}

/// The address of a key.
pub(super) fn host(key: &circuits_host) -> Option<Prefix> {
    let bits = if key.version == 4 { 32 } else { 128 };
    prefix(&circuits_prefix {
        bits: BEFORE + bits,
        host: circuits_host {
            version: key.version,
            address: key.address,
        },
    })
}

/// The prefix of a key.
pub(super) fn prefix(key: &circuits_prefix) -> Option<Prefix> {
    let mut octets = [0; 16];
    octets.copy_from_slice(key.host.address.as_bytes());
    let address = match key.host.version {
        4 => Ipv4Addr::from(*octets.first_chunk::<4>()?).into(),
        _ => Ipv6Addr::from(octets).into(),
    };
    Prefix::new(address, u8::try_from(key.bits.checked_sub(BEFORE)?).ok()?)
}

/// Whether the configuration is the same.
pub(super) fn is_same(one: &engine_config, other: &engine_config) -> bool {
    one.as_bytes() == other.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_their_prefixes() {
        let prefixes: [(&str, u8); 4] = [
            ("100.64.0.1", 32),
            ("100.64.0.0", 10),
            ("2001:db8::1", 128),
            ("2001:db8::", 32),
        ];
        for (address, length) in prefixes {
            let own = Prefix::new(address.parse().unwrap(), length).unwrap();
            let key = of(&own);
            assert_eq!(prefix(&key), Some(own));
            if own.is_host() {
                assert_eq!(host(&key.host), Some(own));
            }
        }
        // Bytes are as in a packet, behind the version.
        let key = of(&Prefix::new("1.2.3.4".parse().unwrap(), 32).unwrap());
        assert_eq!(key.host.address[0].as_bytes(), [1, 2, 3, 4]);
        assert_eq!((key.bits, key.host.version), (64, 4));
    }
}
