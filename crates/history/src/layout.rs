// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the file, and its header.
//!
//! There are two equal headers, so that no single write can damage both. Then follow the halves
//! of the journal and the rings. The finest ring is last, so that a file grows to its full size
//! only once that ring is full.

use crate::bits::{u32_at, u64_at};
use crate::{HistoryError, Storage};

/// The durations of steps into which old rows are condensed, in milliseconds; 0 stands for rows
/// as recorded.
pub const STEPS: [i64; 4] = [0, 60_000, 600_000, 7_200_000];

/// How many chunks of the finer ring are condensed into one. With a row a second, chunks cover
/// four hours, 40 hours and 20 days.
pub(crate) const SOURCES: [usize; 4] = [0, 16, 10, 12];

/// The smallest size of a history in bytes.
pub const LEAST: u64 = 1 << 20;
const MOST: u64 = 1 << 40;

/// The alignment of chunks.
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

/// The parts of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    pub(crate) journal: [Region; 2],
    pub(crate) rings: [Region; 4],
}

impl Layout {
    /// Returns the layout of a file of at most this size.
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

    /// Writes an empty history.
    pub(crate) fn create(&self, storage: &mut impl Storage) -> Result<(), HistoryError> {
        let header = self.header();
        storage.write(0, &header)?;
        storage.write(SECOND, &header)?;
        storage.sync()?;
        Ok(())
    }

    /// Reads the layout of an existing file; `None` if it is empty, or a crash interrupted its
    /// first write.
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

/// Returns the size in an intact header, or its format if that is unknown.
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
