// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repairs a record of the journal with one wrong bit, by its checksum.
//!
//! Each wrong bit changes a CRC-32 in a unique way, so the difference of two checksums
//! identifies the bit. The last record is never repaired: a power failure may have truncated it,
//! and it was not committed then.

use crate::bits::u32_at;
use crate::journal::{CHECK, HEADER, LENGTH, check, record};

/// The polynomial of CRC-32, reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Returns the record at the front of these bytes with one bit repaired, if that makes it valid
/// and the next record is intact.
pub(crate) fn mended(bytes: &[u8], index: u32) -> Option<Vec<u8>> {
    let stored = u32_at(bytes, LENGTH)?;
    let lengths = (0..32).map(|bit| stored ^ (1 << bit));
    [stored].into_iter().chain(lengths).find_map(|length| {
        let whole = HEADER.checked_add(length as usize)?;
        let (own, behind) = bytes.split_at_checked(whole)?;
        let (number, _) = record(behind, index + 1)?;
        let mut own = own.to_vec();
        own[LENGTH..LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        // If the length was wrong, everything else is right.
        if length == stored {
            put_right(&mut own)?;
        }
        let same = record(&own, index)?.0 == number;
        same.then_some(own)
    })
}

/// Inverts the wrong bit of a record.
fn put_right(own: &mut [u8]) -> Option<()> {
    let difference = u32_at(own, CHECK)? ^ check(&own[..CHECK], &own[HEADER..]);
    if difference.is_power_of_two() {
        // The wrong bit is in the checksum itself.
        let right = u32_at(own, CHECK)? ^ difference;
        own[CHECK..HEADER].copy_from_slice(&right.to_le_bytes());
        return Some(());
    }
    let mut wrong: [u32; 8] = std::array::from_fn(|bit| reduced(1 << bit));
    let covered = (0..CHECK).chain(HEADER..own.len());
    for at in covered.rev() {
        if let Some(bit) = wrong.iter().position(|wrong| *wrong == difference) {
            own[at] ^= 1 << bit;
            return Some(());
        }
        // Advance by one byte away from the end.
        wrong = wrong.map(|wrong| (wrong >> 8) ^ reduced(wrong & 0xff));
    }
    None
}

/// Returns the contribution of a byte to the checksum.
fn reduced(byte: u32) -> u32 {
    (0..8).fold(byte, |left, _| (left >> 1) ^ (POLYNOMIAL * (left & 1)))
}
