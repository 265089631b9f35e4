// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of the file of a user's own discipline: the kit for which it was built, and a check that
//! the file is complete. It is read before any of the file's code runs. It does not prove who wrote
//! the file.
//!
//! The last 32 bytes are [`MAGIC`], the number of the kit's sources, and FNV-1a of all
//! bytes before, both in 64 bits with the lowest byte first. The loader of shared objects
//! does not look there.

use thiserror::Error;
use weirgate_units::fnv1a_64;

const MAGIC: &[u8; 16] = b"weirgate aqm own";

/// What is wrong with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SealError {
    /// It does not end as one.
    #[error("`weirgate-lab aqm build` did not make this file, or it was cut off")]
    Other,
    /// It was changed.
    #[error("it is damaged: its checksum is another one; build or copy it again")]
    Damaged,
}

/// What a file ends in that was built with the kit of this number.
pub fn seal(file: &[u8], kit: u64) -> [u8; 32] {
    let mut end = [0; 32];
    end[..16].copy_from_slice(MAGIC);
    end[16..24].copy_from_slice(&kit.to_le_bytes());
    let digest = fnv1a_64(file.iter().chain(&end[..24]).copied());
    end[24..].copy_from_slice(&digest.to_le_bytes());
    end
}

/// The number of the kit that a file was built with.
pub fn check(file: &[u8]) -> Result<u64, SealError> {
    let (rest, end) = file.split_last_chunk::<32>().ok_or(SealError::Other)?;
    if !end.starts_with(MAGIC) {
        return Err(SealError::Other);
    }
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&end[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let kit = number(16);
    if seal(rest, kit) != *end {
        return Err(SealError::Damaged);
    }
    Ok(kit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_sealed_is_whole(body in prop::collection::vec(any::<u8>(), 0..300), kit: u64) {
            let file = [body.as_slice(), &seal(&body, kit)].concat();
            prop_assert_eq!(check(&file), Ok(kit));
            for end in 0..file.len() {
                prop_assert!(check(&file[..end]).is_err(), "cut off at {}", end);
            }
        }

        #[test]
        fn damage_is_found(body in prop::collection::vec(any::<u8>(), 1..300), at: usize, bit in 0..8_u32) {
            let mut file = [body.as_slice(), &seal(&body, 7)].concat();
            let at = at % body.len();
            file[at] ^= 1 << bit;
            prop_assert_eq!(check(&file), Err(SealError::Damaged));
        }

        #[test]
        fn no_bytes_panic(file in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(check(&file), Err(SealError::Other));
        }
    }
}
