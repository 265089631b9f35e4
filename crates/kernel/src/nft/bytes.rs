// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers in the form of registers and sets.

use weirgate_state::Key;

/// Returns the last bytes of a number, in network byte order.
pub(super) fn last(bytes: usize, value: u128) -> Vec<u8> {
    value.to_be_bytes()[16 - bytes..].to_vec()
}

/// Returns the number of these bytes.
pub(super) fn number(bytes: &[u8]) -> u128 {
    let add = |all, byte: &u8| all << 8 | u128::from(*byte);
    bytes.iter().fold(0, add)
}

/// Returns the bytes of a key's value. Numbers that the kernel assigns are in host byte order.
pub(super) fn of_key(key: Key, value: u128) -> Vec<u8> {
    turned(key, last(key.bytes(), value))
}

/// Returns the value of these bytes: the inverse of [`of_key`].
pub(super) fn key_value(key: Key, bytes: &[u8]) -> u128 {
    number(&turned(key, bytes.to_vec()))
}

fn turned(key: Key, mut bytes: Vec<u8>) -> Vec<u8> {
    if key.followed().is_some() && cfg!(target_endian = "little") {
        bytes.reverse();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_key_are_read_back() {
        for key in Key::ALL {
            let value = 0x0102_0304_0506_0708_u128 & key.greatest();
            let bytes = of_key(key, value);
            assert_eq!(bytes.len(), key.bytes(), "{key:?}");
            assert_eq!(key_value(key, &bytes), value, "{key:?}");
        }
        assert_eq!(of_key(Key::Short, 1), [0, 1]);
        let numbered = Key::ALL.into_iter().filter(|key| key.followed().is_some());
        for key in numbered {
            assert_eq!(of_key(key, 1), 1_u64.to_ne_bytes(), "{key:?}");
        }
    }
}
