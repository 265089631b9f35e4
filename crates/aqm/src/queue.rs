// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One instance of a discipline, with its packets.

use crate::chance::Chance;
use crate::discipline::{Discipline, Layout, reasons};
use crate::ffi::{EVICT_CALLS, Link, NEEDS_RANDOM_OUT, Packet, RawVerdict, SLOT_BYTES};
use crate::settings::Settings;
use std::ffi::c_void;

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is queued, or sent.
    Pass,
    /// It is queued or sent with the codepoint CE (congestion experienced).
    Mark,
    /// It is dropped.
    Drop,
}

/// A decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The action.
    pub action: Action,
    /// The reason, as an index into [`reasons`].
    pub reason: u32,
}

impl Verdict {
    /// Returns the word for the reason.
    pub fn why(&self) -> &'static str {
        reasons()
            .get(self.reason as usize)
            .map_or("unknown", |row| row.name)
    }
}

/// The result of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<T> {
    /// The verdict on the arriving packet.
    pub verdict: Verdict,
    /// The arriving packet, if it was dropped.
    pub refused: Option<T>,
    /// Packets that were evicted for it.
    pub evicted: Vec<T>,
}

/// The result of a request for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure<T> {
    /// The packet to send, with its verdict.
    pub sent: Option<(Verdict, Packet, T)>,
    /// Packets that were dropped before that.
    pub dropped: Vec<(Verdict, T)>,
}

/// An instance with its packets; each carries a `T` for the caller.
///
/// The caller supplies the time: `now_ns` must not decrease.
#[derive(Debug)]
pub struct Queue<T> {
    pub(crate) discipline: Discipline,
    pub(crate) layout: Layout,
    /// The instance, followed by its slots; `u64` for the alignment that C needs.
    pub(crate) memory: Vec<u64>,
    /// The value in each slot.
    items: Vec<Option<T>>,
    /// Random words for departures.
    chance: Chance,
}

impl<T> Queue<T> {
    /// Makes an empty queue in front of `link`.
    pub fn new(settings: &Settings, link: &Link) -> Self {
        let discipline = settings.discipline();
        let slots = discipline.packets() as usize;
        let layout = discipline.layout();
        let bytes = layout.size + slots * SLOT_BYTES;
        let mut queue = Self {
            discipline,
            layout,
            memory: vec![0; bytes.div_ceil(8)],
            items: (0..slots).map(|_| None).collect(),
            chance: Chance(1),
        };
        queue.change(settings, link);
        queue
    }

    /// Changes parameters and link. Packets and state stay.
    ///
    /// # Panics
    ///
    /// Panics if the settings are those of another discipline.
    pub fn change(&mut self, settings: &Settings, link: &Link) {
        assert_eq!(settings.discipline(), self.discipline, "another discipline");
        let first = self.layout.params.start / 8;
        self.memory[first..first + settings.values().len()].copy_from_slice(settings.values());
        let mut link = *link;
        // One slot is for the packet that arrives.
        let most = self.discipline.packets() - 1;
        if link.room_packets == 0 || link.room_packets > most {
            link.room_packets = most;
        }
        // SAFETY: the instance begins with room for a Link at this offset, a multiple of 8,
        // inside the memory; Link is plain data.
        unsafe {
            self.memory
                .as_mut_ptr()
                .add(self.layout.link.start / 8)
                .cast::<Link>()
                .write(link);
        }
        // SAFETY: the memory holds an instance, as all calls below require.
        unsafe { (self.discipline.raw.setup)(self.raw()) };
    }

    /// Enqueues a packet at `packet.arrived_ns`. `random` must be a fresh uniform number.
    pub fn arrive(&mut self, packet: &Packet, random: u32, item: T) -> Arrival<T> {
        let mut raw = RawVerdict::default();
        // SAFETY: the memory holds an instance and all its slots.
        let slot =
            unsafe { (self.discipline.raw.arrive)(self.raw(), packet, random, &raw mut raw) };
        let mut arrival = Arrival {
            verdict: verdict(raw),
            refused: None,
            evicted: Vec::new(),
        };
        if slot == 0 {
            arrival.verdict.action = Action::Drop;
            arrival.refused = Some(item);
            return arrival;
        }
        self.keep(slot, item);
        if raw.evict != 0 {
            for _ in 0..EVICT_CALLS {
                // SAFETY: as above.
                let slot = unsafe { (self.discipline.raw.evict)(self.raw(), packet.arrived_ns) };
                if slot == 0 {
                    break;
                }
                arrival.evicted.extend(self.take(slot).1);
            }
        }
        arrival
    }

    /// Sets the seed of the random words for departures. The initial seed is 1.
    pub fn seed(&mut self, seed: u64) {
        self.chance = Chance(seed);
    }

    /// Returns a random word for a departure; 0 if the discipline needs none.
    pub(crate) fn word(&mut self) -> u32 {
        match self.discipline.raw.needs & NEEDS_RANDOM_OUT {
            0 => 0,
            _ => self.chance.word(),
        }
    }

    /// Requests a packet for the free link. A discipline that decides at random gets words from
    /// the seed of [`Queue::seed`].
    pub fn depart(&mut self, now_ns: u64) -> Departure<T> {
        let mut departure = Departure {
            sent: None,
            dropped: Vec::new(),
        };
        for _ in 0..self.rounds() {
            let mut raw = RawVerdict::default();
            let random = self.word();
            // SAFETY: the memory holds an instance and all its slots.
            let slot =
                unsafe { (self.discipline.raw.depart)(self.raw(), now_ns, random, &raw mut raw) };
            if slot == 0 {
                if raw.action == AGAIN {
                    continue;
                }
                break;
            }
            let (packet, item) = self.take(slot);
            let verdict = verdict(raw);
            match (verdict.action, item) {
                (Action::Drop, Some(item)) => departure.dropped.push((verdict, item)),
                (_, Some(item)) => {
                    departure.sent = Some((verdict, packet, item));
                    break;
                }
                (_, None) => {}
            }
        }
        departure
    }

    /// Returns the number of queued packets.
    pub fn packets(&self) -> u64 {
        self.count("queued_packets").unwrap_or(0)
    }

    /// Returns the number of queued bytes, as the device counts them.
    pub fn bytes(&self) -> u64 {
        self.count("queued_bytes").unwrap_or(0)
    }

    /// Returns one of the statistics that every host keeps.
    pub fn count(&self, name: &str) -> Option<u64> {
        let rows = Discipline::counters();
        let index = rows.iter().position(|row| row.name == name)?;
        Some(self.number(self.layout.counts.start, index))
    }

    /// Returns the number of packets dropped for a reason.
    pub fn drops(&self, reason: &str) -> Option<u64> {
        self.by_reason(reason, 0)
    }

    /// Returns the number of packets marked for a reason.
    pub fn marks(&self, reason: &str) -> Option<u64> {
        self.by_reason(reason, reasons().len())
    }

    fn by_reason(&self, reason: &str, skip: usize) -> Option<u64> {
        let index = reasons().iter().position(|row| row.name == reason)?;
        let first = Discipline::counters().len() + skip;
        Some(self.number(self.layout.counts.start, first + index))
    }

    /// Returns a state variable of the discipline.
    pub fn var(&self, name: &str) -> Option<u64> {
        let index = self
            .discipline
            .vars()
            .iter()
            .position(|row| row.name == name)?;
        Some(self.number(self.layout.vars.start, index))
    }

    /// Returns one of the discipline's own statistics.
    pub fn stat(&self, name: &str) -> Option<u64> {
        let index = self
            .discipline
            .stats()
            .iter()
            .position(|row| row.name == name)?;
        Some(self.number(self.layout.stats.start, index))
    }

    /// Returns the whole state, to compare it with that of another host.
    pub fn state(&self) -> Vec<u8> {
        let vars = self.layout.vars.clone();
        self.memory[vars.start / 8..vars.end.div_ceil(8)]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect()
    }

    fn number(&self, start: usize, index: usize) -> u64 {
        self.memory[start / 8 + index]
    }

    /// Returns a bound on the iterations of a departure: each one drops a packet or ends a
    /// flow's turn.
    pub(crate) fn rounds(&self) -> u32 {
        4 * (self.discipline.packets() + self.discipline.queues()) + 4
    }

    /// Stores the value of a packet in the slot that C has assigned.
    pub(crate) fn keep(&mut self, slot: u32, item: T) {
        self.items[slot as usize - 1] = Some(item);
    }

    /// Returns the packet and the value in a slot that C has dequeued.
    pub(crate) fn take(&mut self, slot: u32) -> (Packet, Option<T>) {
        let index = slot as usize - 1;
        let at = self.layout.size + index * SLOT_BYTES;
        // SAFETY: a slot that C names lies within the memory, is aligned to 8, and begins with a
        // Packet.
        let packet = unsafe { self.memory.as_ptr().add(at / 8).cast::<Packet>().read() };
        (packet, self.items[index].take())
    }

    pub(crate) fn raw(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }
}

/// Values of `enum aqm_action`.
const MARK: u32 = 1;
const DROP: u32 = 2;
pub(crate) const AGAIN: u32 = 4;

pub(crate) fn verdict(raw: RawVerdict) -> Verdict {
    Verdict {
        action: match raw.action {
            DROP => Action::Drop,
            MARK => Action::Mark,
            _ => Action::Pass,
        },
        reason: raw.reason,
    }
}
