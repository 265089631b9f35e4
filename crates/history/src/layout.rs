// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things lie in the file, and the header that says so.
//!
//! Two equal headers, so that no single write can spoil both; then the halves
//! of the journal, then the rings, the finest last, so that a file grows to its
//! full size only where the finest ring is filled.

use crate::bits::{u32_at, u64_at};
use crate::{HistoryError, Storage};

/// The steps that old rows are condensed into, in milliseconds; 0 stands for
/// rows as they came.
pub const STEPS: [i64; 4] = [0, 60_000, 600_000, 7_200_000];

/// Chunks of the ring before that one chunk is made of: with rows of a second,
/// chunks of four hours, 40 hours and 20 days.
pub(crate) const SOURCES: [usize; 4] = [0, 16, 10, 12];

/// Bytes that a history has at least.
pub const LEAST: u64 = 1 << 20;
const MOST: u64 = 1 << 40;

/// Chunks begin at multiples of this.
pub(crate) const UNIT: u64 = 512;
const MAGIC: &[u8; 16] = b"weirgate history";
const FORMAT: u32 = 1;
const HEADER: usize = 36;
const SECOND: u64 = 2048;
const START: u64 = 4096;

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) size: u64,
}

/// All parts of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    pub(crate) journal: [Region; 2],
    pub(crate) rings: [Region; 4],
}

impl Layout {
    /// The layout of a file of at most this size.
    pub(crate) fn of(size: u64) -> Result<Self, HistoryError> {
        if !(LEAST..=MOST).contains(&size) {
            return Err(HistoryError::Small(size));
        }
        let part = |of: u64, parts: u64| (size * of / parts) & !(UNIT - 1);
        let mut start = START;
        let mut next = |size| {
            let region = Region { start, size };
            start += size;
            region
        };
        let half = part(1, 40);
        let journal = [next(half), next(half)];
        let ring = part(16, 100);
        let thin = [next(ring), next(ring), next(ring)];
        let rest = (size - start) & !(UNIT - 1);
        let rows = Region { start, size: rest };
        Ok(Self {
            size,
            journal,
            rings: [rows, thin[0], thin[1], thin[2]],
        })
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        let check = crc32fast::hash(&bytes);
        bytes.extend(check.to_le_bytes());
        bytes
    }

    /// Makes an empty history.
    pub(crate) fn create(&self, storage: &mut impl Storage) -> Result<(), HistoryError> {
        let header = self.header();
        storage.write(0, &header)?;
        storage.write(SECOND, &header)?;
        storage.sync()?;
        Ok(())
    }

    /// The layout of a file that is there; `None` where there is none yet, or a
    /// crash cut short its first write.
    pub(crate) fn read(storage: &impl Storage) -> Result<Option<Self>, HistoryError> {
        let mut found = None;
        let mut begun = true;
        for at in [0, SECOND] {
            let mut bytes = [0; HEADER];
            let there = storage.read(at, &mut bytes)?;
            match check(&bytes) {
                Some(Ok(size)) => return Self::of(size).map(Some),
                Some(Err(version)) => found = Some(version),
                None => {}
            }
            let like = |(byte, magic): (&u8, &u8)| byte == magic || *byte == 0;
            begun &= bytes.iter().take(there).zip(MAGIC).all(like);
        }
        match found {
            Some(version) => Err(HistoryError::Version(version)),
            None if begun => Ok(None),
            None => Err(HistoryError::Foreign),
        }
    }
}

/// The size in a sound header, or its format where that is another.
fn check(bytes: &[u8; HEADER]) -> Option<Result<u64, u32>> {
    let sound = u32_at(bytes, 32)? == crc32fast::hash(&bytes[..32]);
    if !sound || !bytes.starts_with(MAGIC) {
        return None;
    }
    match u32_at(bytes, 16)? {
        FORMAT => u64_at(bytes, 20).map(Ok),
        other => Some(Err(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_within_the_size() {
        for size in [LEAST, 7_654_321, 128 << 20, 1 << 33] {
            let layout = Layout::of(size).unwrap();
            let [rows, thin @ ..] = layout.rings;
            let all = layout.journal.into_iter().chain(thin).chain([rows]);
            let mut end = START;
            for region in all {
                assert_eq!(region.start, end);
                assert_eq!(region.start % UNIT, 0);
                end += region.size;
            }
            assert!(end <= size && size - end < UNIT);
        }
        let day = Layout::of(128 << 20).unwrap().rings[0].size;
        assert!(day <= 64 << 20, "{day}");
    }
}
