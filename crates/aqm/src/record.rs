// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of a host (`aqm/host/record.h`).

use crate::ffi::Packet;
use crate::queue::Verdict;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A state; the instance and its slots follow.
    State,
    /// The arrival of a packet.
    Arrive,
    /// A request to evict a packet.
    Evict,
    /// A request for a packet to send.
    Depart,
    /// A reset, which empties the queue.
    Reset,
}

/// One call of a host's function (`struct aqm_record`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// The time of the host in nanoseconds.
    pub now_ns: u64,
    /// The kind of call (`enum aqm_event`); [`Record::kind`] converts it.
    pub event: u32,
    /// A number that increases by one with every record.
    pub sequence: u32,
    /// The result of the host's function: a slot, or 0.
    pub slot: u32,
    /// Arrival: the size in bytes, as the device counts it.
    pub len: u32,
    /// Arrival: the size on the wire in bytes.
    pub wire: u32,
    /// Arrival: the hash of the flow.
    pub flow: u32,
    /// Arrival: the ECN bits that the discipline received.
    pub ecn: u32,
    /// Arrival and departure: the random word.
    pub random: u32,
    /// The action of the verdict.
    pub action: u32,
    /// The reason of the verdict.
    pub reason: u32,
    /// The queue that the verdict names.
    pub queue: u32,
    /// Whether the verdict asks for evictions.
    pub evict: u32,
}

/// The size of a record in bytes.
pub const RECORD_BYTES: usize = size_of::<Record>();

/// The number of 32-bit fields after `now_ns`.
const WORDS: usize = (RECORD_BYTES - 8) / 4;

impl Record {
    /// Makes the record of an arrival without a verdict.
    pub fn of_packet(packet: &Packet, random: u32, sequence: u32) -> Self {
        Self {
            now_ns: packet.arrived_ns,
            event: EventKind::Arrive as u32 + 1,
            sequence,
            len: packet.len,
            wire: packet.wire,
            flow: packet.flow,
            ecn: packet.ecn,
            random,
            ..Self::default()
        }
    }

    /// Returns the kind; `None` if this version does not know it.
    pub fn kind(&self) -> Option<EventKind> {
        Some(match self.event {
            1 => EventKind::State,
            2 => EventKind::Arrive,
            3 => EventKind::Evict,
            4 => EventKind::Depart,
            5 => EventKind::Reset,
            _ => return None,
        })
    }

    /// Returns the packet of an arrival.
    pub fn packet(&self) -> Packet {
        Packet {
            arrived_ns: self.now_ns,
            len: self.len,
            wire: self.wire,
            flow: self.flow,
            ecn: self.ecn,
        }
    }

    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        crate::queue::verdict(self.raw())
    }

    pub(crate) fn raw(&self) -> crate::ffi::RawVerdict {
        crate::ffi::RawVerdict {
            action: self.action,
            reason: self.reason,
            queue: self.queue,
            evict: self.evict,
        }
    }

    /// Parses a record of exactly [`RECORD_BYTES`] bytes in this machine's byte order.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != RECORD_BYTES {
            return None;
        }
        let words = bytes[8..].as_chunks::<4>().0;
        let word = |at: usize| words.get(at).map_or(0, |word| u32::from_ne_bytes(*word));
        Some(Self {
            now_ns: u64::from_ne_bytes(*bytes.first_chunk()?),
            event: word(0),
            sequence: word(1),
            slot: word(2),
            len: word(3),
            wire: word(4),
            flow: word(5),
            ecn: word(6),
            random: word(7),
            action: word(8),
            reason: word(9),
            queue: word(10),
            evict: word(11),
        })
    }

    /// Returns the bytes that [`Record::from_bytes`] parses.
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let words: [u32; WORDS] = [
            self.event,
            self.sequence,
            self.slot,
            self.len,
            self.wire,
            self.flow,
            self.ecn,
            self.random,
            self.action,
            self.reason,
            self.queue,
            self.evict,
        ];
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.now_ns.to_ne_bytes());
        for (place, word) in bytes[8..].chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_structure() {
        let bytes: Vec<u8> = (0..RECORD_BYTES as u8).collect();
        let record = Record::from_bytes(&bytes).expect("a record");
        assert_eq!(record.to_bytes().to_vec(), bytes);
        assert_eq!(Record::from_bytes(&bytes[1..]), None);
        let packet = Record::of_packet(&Packet::default(), 7, 3);
        assert_eq!(packet.kind(), Some(EventKind::Arrive));
    }
}
