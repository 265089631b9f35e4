// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One instance of a discipline and the packets in it.

use crate::chance::Chance;
use crate::discipline::{Discipline, Layout, reasons};
use crate::ffi::{EVICT_CALLS, Link, NEEDS_RANDOM_OUT, Packet, RawVerdict, SLOT_BYTES};
use crate::settings::Settings;
use std::ffi::c_void;

/// What is to happen to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Kept, or sent.
    Pass,
    /// The same, with congestion experienced set.
    Mark,
    /// Dropped.
    Drop,
}

/// A decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What happens.
    pub action: Action,
    /// Why, as an index into [`reasons`].
    pub reason: u32,
}

impl Verdict {
    /// The reason's word.
    pub fn why(&self) -> &'static str {
        reasons()
            .get(self.reason as usize)
            .map_or("unknown", |row| row.name)
    }
}

/// What an arrival led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<T> {
    /// About the packet that came.
    pub verdict: Verdict,
    /// The packet itself, where it was dropped.
    pub refused: Option<T>,
    /// Packets that had to make room for it.
    pub evicted: Vec<T>,
}

/// What an opportunity to send led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure<T> {
    /// The packet to send, and how.
    pub sent: Option<(Verdict, Packet, T)>,
    /// Packets that were dropped on the way to it.
    pub dropped: Vec<(Verdict, T)>,
}

/// An instance with its packets, each of which is a `T` to its owner.
///
/// The caller keeps time: `now_ns` must not go backwards.
#[derive(Debug)]
pub struct Queue<T> {
    pub(crate) discipline: Discipline,
    pub(crate) layout: Layout,
    /// The instance, then its slots; `u64` for the alignment that C needs.
    pub(crate) memory: Vec<u64>,
    /// What lies in each slot.
    items: Vec<Option<T>>,
    /// Words for departures.
    chance: Chance,
}

impl<T> Queue<T> {
    /// An empty queue in front of `link`.
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

    /// Sets parameters and link, and keeps all packets and state.
    ///
    /// # Panics
    ///
    /// Where the settings are another discipline's, which is the caller's
    /// mistake.
    pub fn change(&mut self, settings: &Settings, link: &Link) {
        assert_eq!(settings.discipline(), self.discipline, "another discipline");
        let first = self.layout.params.start / 8;
        self.memory[first..first + settings.values().len()].copy_from_slice(settings.values());
        let mut link = *link;
        let most = self.discipline.packets();
        if link.room_packets == 0 || link.room_packets > most {
            link.room_packets = most;
        }
        // SAFETY: the instance begins with room for a Link at this offset, a
        // multiple of 8, inside the memory; Link is plain data.
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

    /// A packet comes, at `packet.arrived_ns`. `random` is uniform and new.
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

    /// Begins the words that departures get anew, by a seed. They begin with 1.
    pub fn seed(&mut self, seed: u64) {
        self.chance = Chance(seed);
    }

    /// A word for a departure; 0 where the discipline asks for none.
    pub(crate) fn word(&mut self) -> u32 {
        match self.discipline.raw.needs & NEEDS_RANDOM_OUT {
            0 => 0,
            _ => self.chance.word(),
        }
    }

    /// The link is free: which packet goes? A discipline that decides by chance here
    /// gets words by [`Queue::seed`].
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

    /// Packets queued now.
    pub fn packets(&self) -> u64 {
        self.count("queued_packets").unwrap_or(0)
    }

    /// Bytes queued now, as the device counts.
    pub fn bytes(&self) -> u64 {
        self.count("queued_bytes").unwrap_or(0)
    }

    /// One of the numbers that every host counts.
    pub fn count(&self, name: &str) -> Option<u64> {
        let rows = Discipline::counters();
        let index = rows.iter().position(|row| row.name == name)?;
        Some(self.number(self.layout.counts.start, index))
    }

    /// Packets dropped for a reason.
    pub fn drops(&self, reason: &str) -> Option<u64> {
        self.by_reason(reason, 0)
    }

    /// Packets marked for a reason.
    pub fn marks(&self, reason: &str) -> Option<u64> {
        self.by_reason(reason, reasons().len())
    }

    fn by_reason(&self, reason: &str, skip: usize) -> Option<u64> {
        let index = reasons().iter().position(|row| row.name == reason)?;
        let first = Discipline::counters().len() + skip;
        Some(self.number(self.layout.counts.start, first + index))
    }

    /// A number of the discipline's state.
    pub fn var(&self, name: &str) -> Option<u64> {
        let index = self
            .discipline
            .vars()
            .iter()
            .position(|row| row.name == name)?;
        Some(self.number(self.layout.vars.start, index))
    }

    /// One of the discipline's own statistics.
    pub fn stat(&self, name: &str) -> Option<u64> {
        let index = self
            .discipline
            .stats()
            .iter()
            .position(|row| row.name == name)?;
        Some(self.number(self.layout.stats.start, index))
    }

    /// The whole state, to compare with another host's.
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

    /// Each round of a departure drops a packet or ends a flow's turn, so there
    /// are fewer than this.
    pub(crate) fn rounds(&self) -> u32 {
        4 * (self.discipline.packets() + self.discipline.queues()) + 4
    }

    /// What lies in a slot that C has given to a packet.
    pub(crate) fn keep(&mut self, slot: u32, item: T) {
        self.items[slot as usize - 1] = Some(item);
    }

    /// What lies in a slot that C has taken out of its queue.
    pub(crate) fn take(&mut self, slot: u32) -> (Packet, Option<T>) {
        let index = slot as usize - 1;
        let at = self.layout.size + index * SLOT_BYTES;
        // SAFETY: a slot that C names lies within the memory, aligned to 8,
        // and begins with a Packet.
        let packet = unsafe { self.memory.as_ptr().add(at / 8).cast::<Packet>().read() };
        (packet, self.items[index].take())
    }

    pub(crate) fn raw(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }
}

/// `enum aqm_action`.
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
