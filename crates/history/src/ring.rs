// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of chunks: its contents, and the position of the next chunk.

use crate::chunk::{Chunk, HEADER, Head, Outline};
use crate::layout::{Region, UNIT};
use crate::{HistoryError, Storage};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use weirgate_units::Arrange as _;

/// The location of a chunk in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) head: Head,
    /// The offset from the start of the ring.
    at: u64,
}

impl Slot {
    fn end(&self) -> u64 {
        self.at + u64::from(self.head.length).next_multiple_of(UNIT)
    }
}

/// The chunks of one step, oldest first.
#[derive(Clone)]
pub(crate) struct Ring {
    tier: u32,
    region: Region,
    pub(crate) slots: Vec<Slot>,
}

impl Ring {
    /// Finds the chunks. Only the newest may be truncated: the earlier ones were durable before
    /// it was started. Only its body is read here; those of the others are read on demand.
    pub(crate) fn open(
        storage: &impl Storage,
        tier: u32,
        region: Region,
    ) -> Result<Self, HistoryError> {
        let mut ring = Self {
            tier,
            region,
            slots: Vec::new(),
        };
        let end = region
            .size
            .min(storage.size()?.saturating_sub(region.start));
        let mut window = Window::default();
        let mut at = 0;
        while at + HEADER as u64 <= end {
            let bytes = window.at(storage, region.start + at, region.start + end)?;
            match Head::read(bytes) {
                Some((head, _)) if ring.fits(&head, at) && ring.whole(storage, head, at)? => {
                    let slot = Slot { head, at };
                    ring.slots.push(slot);
                    at = slot.end();
                }
                _ => at += UNIT,
            }
        }
        ring.slots.arrange_by_key(|slot| slot.head.number);
        ring.drop_former_laps();
        Ok(ring)
    }

    /// Drops chunks of earlier laps, between which and the others there is a hole. Addresses go back
    /// only once, where the newest lap began, and no chunks are missing there. A single one may be
    /// damaged.
    fn drop_former_laps(&mut self) {
        let mut wrapped = false;
        let pairs = self.slots.windows(2).rev();
        let kept = pairs.take_while(|pair| {
            let goes_back = pair[1].at < pair[0].at;
            let missing = pair[1].head.number - pair[0].head.number - 1;
            let is_former = goes_back && (wrapped || missing > 1);
            wrapped |= goes_back;
            !is_former
        });
        let former = self.slots.len().saturating_sub(kept.count() + 1);
        self.slots.drain(..former);
    }

    fn fits(&self, head: &Head, at: u64) -> bool {
        head.tier == self.tier && at + u64::from(head.length) <= self.region.size
    }

    /// Returns whether a chunk is intact; only the newest needs a check.
    fn whole(&self, storage: &impl Storage, head: Head, at: u64) -> Result<bool, HistoryError> {
        let newest = self.slots.iter().map(|slot| slot.head.number).max();
        if newest.is_some_and(|newest| newest > head.number) {
            return Ok(true);
        }
        Ok(self.load(storage, &Slot { head, at })?.is_some())
    }

    /// Returns the number of the newest chunk; 0 if there is none.
    pub(crate) fn newest(&self) -> u64 {
        self.slots.last().map_or(0, |slot| slot.head.number)
    }

    /// Returns the last chunk of the finer ring that was condensed into one here.
    pub(crate) fn source(&self) -> u64 {
        self.slots.last().map_or(0, |slot| slot.head.source)
    }

    /// Returns whether these chunks use so much of the ring that the next one could overwrite
    /// the first of them.
    pub(crate) fn pressed(&self, slots: &[Slot]) -> bool {
        let size = |slot: &Slot| slot.end() - slot.at;
        slots.iter().map(size).sum::<u64>() >= self.region.size / 4
    }

    /// Returns whether a chunk with a body of this size fits in the ring.
    pub(crate) fn holds(&self, body: usize) -> bool {
        (HEADER + body) as u64 + UNIT <= self.region.size / 2
    }

    /// Overwrites the oldest chunks with a new one, and waits until it is on stable storage.
    pub(crate) fn add(
        &mut self,
        storage: &mut impl Storage,
        mut head: Head,
        body: &[u8],
    ) -> Result<(), HistoryError> {
        head.tier = self.tier;
        head.length = (HEADER + body.len()) as u32;
        let size = u64::from(head.length).next_multiple_of(UNIT);
        let end = self.slots.last().map_or(0, Slot::end);
        let mut at = end;
        if at + size > self.region.size {
            at = 0;
            // What is behind the newest chunk is of the lap before. From now on, chunks between the
            // two are overwritten.
            self.slots.retain(|other| other.at < end);
        }
        let slot = Slot { head, at };
        // The overwritten chunks are lost from the first byte on, even if the write fails.
        self.slots
            .retain(|other| other.end() <= at || at + size <= other.at);
        storage.write(self.region.start + at, &head.bytes(body))?;
        storage.sync()?;
        self.slots.push(slot);
        Ok(())
    }

    /// Reads a chunk; returns `None` if it is damaged.
    pub(crate) fn load(
        &self,
        storage: &impl Storage,
        slot: &Slot,
    ) -> Result<Option<Chunk>, HistoryError> {
        let mut bytes = vec![0; slot.head.length as usize];
        fill(storage, self.region.start + slot.at, &mut bytes)?;
        let found = Head::read(&bytes).filter(|(head, _)| *head == slot.head);
        let body = bytes.get(HEADER..).unwrap_or_default();
        let sound = found.is_some_and(|(_, check)| check == crc32fast::hash(body));
        Ok(if sound { Chunk::read(body) } else { None })
    }
}

impl Ring {
    /// Reads a chunk without its columns; `names` contains the names that are known so far.
    pub(crate) fn outline(
        &self,
        storage: &impl Storage,
        slot: &Slot,
        names: &mut BTreeSet<Arc<str>>,
    ) -> Result<Option<Outline>, HistoryError> {
        let end = self.region.start + slot.at + u64::from(slot.head.length);
        let chunk = self.load(storage, slot)?;
        Ok(chunk.map(|chunk| chunk.outline(end, names)))
    }
}

/// Reads until the buffer is full or the storage ends; returns the number of bytes read.
pub(crate) fn fill(storage: &impl Storage, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match storage.read(at + done as u64, &mut into[done..])? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}

/// A section of the file in which to look for headers.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    const SIZE: usize = 1 << 18;

    /// Returns the bytes from an offset on, at least those of a header, but not beyond `end`.
    fn at(&mut self, storage: &impl Storage, at: u64, end: u64) -> io::Result<&[u8]> {
        let inside = at >= self.start && at + HEADER as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            let size = (end - at).min(Self::SIZE as u64);
            self.bytes.resize(size as usize, 0);
            let read = fill(storage, at, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.start = at;
        }
        Ok(self
            .bytes
            .get((at - self.start) as usize..)
            .unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that nobody keeps: only the places of chunks matter.
    struct Nothing;

    impl Storage for Nothing {
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }
    }

    fn consecutive(slots: &[Slot]) -> bool {
        let mut pairs = slots.windows(2);
        pairs.all(|pair| pair[0].head.number + 1 == pair[1].head.number)
    }

    /// Chunks of a day are larger than those of a night. The ring never has a hole between two
    /// chunks, also if it was left with one by an earlier version.
    #[test]
    fn chunks_of_any_sizes_leave_no_hole() {
        let region = Region {
            start: 0,
            size: 1 << 20,
        };
        let mut ring = Ring {
            tier: 0,
            region,
            slots: Vec::new(),
        };
        let mut written = Vec::new();
        for number in 1..2_000_u64 {
            let size = if number / 11 % 2 == 0 { 30_000 } else { 90_000 } + number * 7_919 % 9_000;
            let head = Head {
                tier: 0,
                number,
                source: 0,
                first: 0,
                last: 0,
                length: 0,
            };
            let body = vec![0; size as usize];
            ring.add(&mut Nothing, head, &body).unwrap();
            assert!(consecutive(&ring.slots), "after {number}");
            // What the former version kept: all that is not overwritten.
            let new = *ring.slots.last().unwrap();
            written.retain(|old: &Slot| old.end() <= new.at || new.end() <= old.at);
            written.push(new);
            let mut found = Ring {
                slots: written.clone(),
                ..ring.clone()
            };
            found.drop_former_laps();
            assert!(consecutive(&found.slots), "found after {number}");
            assert_eq!(found.newest(), number);
        }
        assert!(ring.slots.len() > 5);
    }
}
