// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FNV-1a (RFC 9923), the hash for numbers of names, tables and programs that must be the same on
//! every machine and in every release.

/// Returns the 32-bit hash of bytes.
#[must_use]
pub fn fnv1a_32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the 64-bit hash of bytes.
#[must_use]
pub fn fnv1a_64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    fnv1a_64_more(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues the 64-bit hash `hash` with more bytes.
#[must_use]
pub fn fnv1a_64_more(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // RFC 9923, appendix C.
        assert_eq!(fnv1a_32(*b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(*b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(*b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1a_64(*b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(*b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(
            fnv1a_64_more(fnv1a_64(*b"foo"), *b"bar"),
            fnv1a_64(*b"foobar")
        );
    }
}
