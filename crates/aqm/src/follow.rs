// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to the memory of an instance: calls single functions of its host, and copies whole
//! states in and out, for [`crate::Mirror`].

use crate::ffi::{LAST_BYTES, Link, Packet, RawVerdict, SLOT_BYTES};
use crate::queue::Queue;
use crate::settings::Settings;
use weirgate_units::Arrange as _;
use zerocopy::{FromBytes, IntoBytes};

impl Queue<()> {
    /// Calls `NAME_host_arrive()`.
    pub(crate) fn call_arrive(
        &mut self,
        packet: &Packet,
        random: u32,
        verdict: &mut RawVerdict,
    ) -> u32 {
        // SAFETY: the memory holds an instance and all its slots; C checks every number in it
        // before using it as an index.
        unsafe { (self.discipline.raw.arrive)(self.raw(), packet, random, verdict) }
    }

    /// Calls `NAME_host_evict()`.
    pub(crate) fn call_evict(&mut self, now_ns: u64) -> u32 {
        // SAFETY: as above.
        unsafe { (self.discipline.raw.evict)(self.raw(), now_ns) }
    }

    /// Calls `NAME_host_depart()`.
    pub(crate) fn call_depart(
        &mut self,
        now_ns: u64,
        random: u32,
        verdict: &mut RawVerdict,
    ) -> u32 {
        // SAFETY: as above.
        unsafe { (self.discipline.raw.depart)(self.raw(), now_ns, random, verdict) }
    }

    /// Returns its parameters.
    pub fn settings(&self) -> Settings {
        let own = &self.memory[self.layout.params.start / 8..self.layout.params.end / 8];
        // An instance only accepts parameters within their ranges.
        Settings::from_values(self.discipline, own)
            .unwrap_or_else(|| Settings::new(self.discipline))
    }

    /// Returns the link that it was configured with.
    pub fn link(&self) -> Link {
        let words = &self.memory[self.layout.link.start / 8..self.layout.link.end / 8];
        Link::read_from_bytes(words.as_bytes()).unwrap_or_default()
    }

    /// Returns the queued packets, queue by queue, each in order of arrival.
    pub fn waiting(&self) -> Vec<Packet> {
        let fifos = self.discipline.raw.room_offset as usize / 8 + 2;
        let heads = self.memory[fifos..]
            .iter()
            .take(self.discipline.queues() as usize);
        let mut found = Vec::new();
        for head in heads {
            // Bound the length by the number of slots, in case the list is corrupt.
            let first = *head as u32;
            let next = |index: &u32| Some(self.slot(*index)?.1);
            let slots = std::iter::successors(Some(first), next);
            let own = slots.take(self.discipline.packets() as usize);
            found.extend(own.map_while(|index| Some(self.slot(index)?.0)));
        }
        found.arrange_by_key(|packet| packet.arrived_ns);
        found
    }

    /// Returns the packet in a slot, and the index of the next slot.
    fn slot(&self, index: u32) -> Option<(Packet, u32)> {
        let at = (self.layout.size + (index as usize).checked_sub(1)? * SLOT_BYTES) / 8;
        let words = self.memory.get(at..at + SLOT_BYTES / 8)?;
        let half = |word: u64, high: bool| (if high { word >> 32 } else { word }) as u32;
        let packet = Packet {
            arrived_ns: words[0],
            len: half(words[1], false),
            wire: half(words[1], true),
            flow: half(words[2], false),
            ecn: half(words[2], true),
        };
        Some((packet, half(words[3], false)))
    }

    /// Empties the queue as the kernel does on a reset of the qdisc; counters stay.
    pub(crate) fn reset(&mut self) {
        let layout = &self.layout;
        let room = self.discipline.raw.room_offset as usize;
        // `struct aqm_last` precedes the room.
        let last = room - LAST_BYTES;
        let fifos = room + 16;
        let fifos = fifos..fifos + 8 * self.discipline.queues() as usize;
        for part in [layout.vars.clone(), last..room + 8, fifos] {
            self.memory[part.start / 8..part.end.div_ceil(8)].fill(0);
        }
        for name in ["queued_packets", "queued_bytes", "queued_wire_bytes"] {
            let rows = crate::Discipline::counters();
            if let Some(index) = rows.iter().position(|row| row.name == name) {
                self.memory[self.layout.counts.start / 8 + index] = 0;
            }
        }
        // SAFETY: as above.
        unsafe { (self.discipline.raw.setup)(self.raw()) };
    }

    /// Replaces the state by that of another host: an instance and its first slots. The setup
    /// then runs as on that host, so that values derived from link and parameters are equal.
    /// Returns false if parameters are out of range, or if the instance could hold more packets
    /// than there are slots.
    pub(crate) fn take_over(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() < self.layout.size || !bytes.len().is_multiple_of(8) {
            return false;
        }
        let words = words(bytes);
        let params = &words[self.layout.params.start / 8..self.layout.params.end / 8];
        let room = self.layout.link.end - 4;
        let room = bytes[room..]
            .first_chunk()
            .map(|four| u32::from_ne_bytes(*four));
        let fits = room.is_some_and(|room| room <= self.discipline.packets());
        if Settings::from_values(self.discipline, params).is_none()
            || !fits
            || words.len() > self.memory.len()
        {
            return false;
        }
        self.memory[..words.len()].copy_from_slice(&words);
        // SAFETY: as above.
        unsafe { (self.discipline.raw.setup)(self.raw()) };
        true
    }

    /// Copies link and parameters and runs the setup, as the other host did before it recorded
    /// this state.
    pub(crate) fn take_over_settings(&mut self, bytes: &[u8]) {
        let params = self.layout.params.clone();
        let own = words(&bytes[params.clone()]);
        if Settings::from_values(self.discipline, &own).is_none() {
            // The comparison will report it.
            return;
        }
        let link = self.layout.link.clone();
        for part in [link, params] {
            let words = words(&bytes[part.clone()]);
            self.memory[part.start / 8..part.end / 8].copy_from_slice(&words);
        }
        // SAFETY: as above.
        unsafe { (self.discipline.raw.setup)(self.raw()) };
    }

    /// Describes the first difference from another host's state; `None` if all bits are equal,
    /// including the slots. The word of the instance that is private to the host is ignored.
    pub(crate) fn difference(&self, bytes: &[u8]) -> Option<String> {
        let host = self.discipline.raw.room_offset as usize / 8 + 1;
        let other = words(bytes);
        let differs = |at: &usize| *at != host && self.memory.get(*at) != other.get(*at);
        let at = (0..other.len()).find(differs)?;
        let name = self.place(at * 8);
        let own = self.memory.get(at).copied().unwrap_or_default();
        Some(format!("{name} is {own} here, {} there", other[at]))
    }

    /// Describes what is stored at an offset of the memory.
    fn place(&self, at: usize) -> String {
        let layout = &self.layout;
        let one = self.discipline;
        let named = [
            (&layout.params, one.params()),
            (&layout.vars, one.vars()),
            (&layout.stats, one.stats()),
            (&layout.counts, crate::Discipline::counters()),
        ];
        for (part, rows) in named {
            if part.contains(&at) {
                let row = rows.get((at - part.start) / 8);
                return row.map_or_else(|| format!("state byte {at}"), |row| row.name.to_owned());
            }
        }
        match at.checked_sub(layout.size) {
            Some(behind) => format!("slot {}", behind / SLOT_BYTES + 1),
            None => format!("byte {at}"),
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let chunks = bytes.as_chunks::<8>().0;
    chunks
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::ffi::RawVerdict;
    use crate::{Discipline, Link, Packet, Queue, Settings};

    #[test]
    fn a_state_without_what_follows_from_parameters_is_set_up() {
        for discipline in Discipline::all() {
            let mut queue: Queue<()> = Queue::new(&Settings::new(discipline), &Link::default());
            let layout = discipline.layout();
            let mut bytes: Vec<u8> = queue.memory[..layout.size / 8]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            bytes[layout.vars.clone()].fill(0);
            assert!(queue.take_over(&bytes), "{}", discipline.name());
            for second in 1..100 {
                let packet = Packet {
                    arrived_ns: second * 1_000_000_000,
                    len: 1514,
                    wire: 1514,
                    ..Packet::default()
                };
                let mut verdict = RawVerdict::default();
                let slot = queue.call_arrive(&packet, u32::MAX, &mut verdict);
                assert!(slot > 0, "{}: {verdict:?}", discipline.name());
                queue.call_depart(packet.arrived_ns + 1, u32::MAX, &mut verdict);
            }
        }
    }
}
