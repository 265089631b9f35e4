// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transport format of a guest's result: the bytes, then a trailer with their length and
//! CRC. Without a valid trailer, the guest stopped before it finished.
//! [`Recording`](crate::Recording) defines the bytes.

use thiserror::Error;

/// Marks the trailer.
const MAGIC: [u8; 8] = *b"weirgate";

/// Magic, length as `u64`, CRC-32 as `u32`, both little endian.
const TRAILER: usize = MAGIC.len() + 8 + 4;

/// Occurs when bytes are not a complete sealed result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvelopeError {
    /// Occurs when the trailer is absent: the guest wrote nothing or only a part.
    #[error("{received} bytes arrived without the closing trailer")]
    Unfinished {
        /// Bytes that arrived.
        received: usize,
    },
    /// Occurs when the length in the trailer differs from the number of bytes before it.
    #[error("{received} bytes arrived, the trailer says {promised}")]
    Length {
        /// Bytes before the trailer.
        received: usize,
        /// The length in the trailer.
        promised: u64,
    },
    /// Occurs when the checksum of the bytes does not match.
    #[error("the checksum differs: some of the {received} bytes are damaged")]
    Checksum {
        /// Bytes before the trailer.
        received: usize,
    },
}

/// Appends the trailer to a result.
#[must_use]
pub fn seal(mut result: Vec<u8>) -> Vec<u8> {
    let length = result.len() as u64;
    let crc = crc32fast::hash(&result);
    result.extend_from_slice(&MAGIC);
    result.extend_from_slice(&length.to_le_bytes());
    result.extend_from_slice(&crc.to_le_bytes());
    result
}

/// Checks the trailer and removes it.
pub fn unseal(mut sealed: Vec<u8>) -> Result<Vec<u8>, EnvelopeError> {
    let unfinished = EnvelopeError::Unfinished {
        received: sealed.len(),
    };
    let Some(received) = sealed.len().checked_sub(TRAILER) else {
        return Err(unfinished);
    };
    let (result, trailer) = sealed.split_at(received);
    let Some((length, crc)) = trailer
        .strip_prefix(&MAGIC)
        .and_then(|numbers| numbers.split_first_chunk::<8>())
    else {
        return Err(unfinished);
    };
    let promised = u64::from_le_bytes(*length);
    if promised != received as u64 {
        return Err(EnvelopeError::Length { received, promised });
    }
    if crc != crc32fast::hash(result).to_le_bytes() {
        return Err(EnvelopeError::Checksum { received });
    }
    sealed.truncate(received);
    Ok(sealed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_results_come_back() {
        for result in [vec![], vec![0; 5], b"weirgate weirgate".to_vec()] {
            assert_eq!(unseal(seal(result.clone())), Ok(result));
        }
    }

    #[test]
    fn every_cut_and_every_flipped_byte_shows() {
        let sealed = seal((0..40).collect());
        for length in 0..sealed.len() {
            assert!(
                unseal(sealed[..length].to_vec()).is_err(),
                "cut at {length}"
            );
        }
        for index in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[index] ^= 1;
            assert!(unseal(damaged).is_err(), "flipped {index}");
        }
    }
}
