// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual queue (`aqm/host/virtual.h`), by which a filter of arriving packets decides, with any
//! discipline that does not track single waiting packets.

use crate::discipline::Discipline;
use crate::ffi::{Link, NEEDS_QUEUE, Packet, RawVerdict};
use crate::queue::{Verdict, verdict};
use crate::settings::Settings;

/// The parameter by which a discipline has several queues, one before the other.
const BANDS: &str = "bands";

/// An instance. The caller keeps time, and gives a new random number to every
/// arrival.
#[derive(Debug, Clone)]
pub struct VirtualQueue {
    discipline: Discipline,
    /// `struct virtual_queue`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl VirtualQueue {
    /// Why there is no virtual queue of a discipline; `None` where there is one.
    pub fn refusal(discipline: Discipline) -> Option<String> {
        (discipline.raw.needs & NEEDS_QUEUE != 0).then(|| {
            format!(
                "`{}` keeps account of the packets that wait, and at ingress none do",
                discipline.name()
            )
        })
    }

    /// Settings as they apply to it: nothing waits, so no packet can go first, and there is one
    /// band.
    pub fn in_force(settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        // A discipline without bands has nothing to be set.
        let _ = settings.set(BANDS, 1);
        settings
    }

    /// Bytes of an instance, and where in it the discipline's begins.
    pub fn layout(discipline: Discipline) -> (usize, usize) {
        let raw = discipline.raw;
        (raw.virtual_size as usize, raw.virtual_offset as usize)
    }

    /// An empty one of the rate `link.rate_bytes_s`.
    ///
    /// # Panics
    ///
    /// Where the discipline is refused, which is the caller's mistake.
    pub fn new(settings: &Settings, link: &Link, now_ns: u64) -> Self {
        let discipline = settings.discipline();
        assert_eq!(Self::refusal(discipline), None);
        let mut queue = Self {
            discipline,
            memory: vec![0; Self::layout(discipline).0.div_ceil(8)],
        };
        queue.change(settings, link, now_ns);
        queue
    }

    /// Sets parameters and the link; what is queued stays, in bytes.
    ///
    /// # Panics
    ///
    /// Where the settings are another discipline's, which is the caller's
    /// mistake.
    pub fn change(&mut self, settings: &Settings, link: &Link, now_ns: u64) {
        let discipline = self.discipline;
        assert_eq!(settings.discipline(), discipline, "another discipline");
        let settings = Self::in_force(settings);
        let first = (Self::layout(discipline).1 + discipline.layout().params.start) / 8;
        self.memory[first..first + settings.values().len()].copy_from_slice(settings.values());
        // SAFETY: the memory holds a virtual queue; a Link is as C has it.
        unsafe { (discipline.raw.virtual_setup)(self.memory.as_mut_ptr().cast(), link, now_ns) };
    }

    /// What is to happen to a packet of a flow.
    pub fn arrive(&mut self, packet: &Packet, random: u32) -> Verdict {
        let mut raw = RawVerdict::default();
        let memory = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a virtual queue.
        unsafe { (self.discipline.raw.virtual_arrive)(memory, packet, random, &raw mut raw) };
        verdict(raw)
    }

    /// A packet of no flow came, to which nothing is done.
    pub fn count(&mut self, packet: &Packet) {
        // SAFETY: the memory holds a virtual queue.
        unsafe { (self.discipline.raw.virtual_count)(self.memory.as_mut_ptr().cast(), packet) };
    }

    /// The whole instance, to compare with another host's.
    pub fn bytes(&self) -> Vec<u8> {
        let words = self.memory.iter().flat_map(|word| word.to_ne_bytes());
        words.take(Self::layout(self.discipline).0).collect()
    }

    /// One number of the discipline's state or of what is counted, by name.
    pub fn number(&self, name: &str) -> Option<u64> {
        let discipline = self.discipline;
        let own = Self::layout(discipline).1;
        let layout = discipline.layout();
        let tables = [
            (Discipline::counters(), layout.counts.start),
            (discipline.stats(), layout.stats.start),
            (discipline.vars(), layout.vars.start),
        ];
        tables.into_iter().find_map(|(rows, start)| {
            let index = rows.iter().position(|row| row.name == name)?;
            self.memory.get((own + start) / 8 + index).copied()
        })
    }
}
