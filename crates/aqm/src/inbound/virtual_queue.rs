// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual queues (`aqm/host/virtual.h`), by which a filter decides about arriving packets. They
//! support every discipline that does not track individual queued packets.

use crate::discipline::Discipline;
use crate::ffi::{Link, NEEDS_QUEUE, Packet, RawVerdict};
use crate::queue::{Verdict, verdict};
use crate::settings::Settings;

/// The parameter for the number of bands, which a virtual queue sets to 1.
const BANDS: &str = "bands";

/// An instance. The caller supplies the time, and a fresh random number for every arrival.
#[derive(Debug, Clone)]
pub struct VirtualQueue {
    discipline: Discipline,
    /// `struct virtual_queue`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl VirtualQueue {
    /// Returns why a discipline cannot have a virtual queue; `None` if it can.
    pub fn refusal(discipline: Discipline) -> Option<String> {
        (discipline.raw.needs & NEEDS_QUEUE != 0).then(|| {
            format!(
                "`{}` tracks single queued packets, and at ingress none are queued",
                discipline.name()
            )
        })
    }

    /// Returns the effective settings. No packet waits, so none can overtake another: there is
    /// only one band.
    pub fn in_force(settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        // Ignore: a discipline without bands has no such parameter.
        let _ = settings.set(BANDS, 1);
        settings
    }

    /// Returns the size of an instance in bytes, and the offset of the discipline's part.
    pub fn layout(discipline: Discipline) -> (usize, usize) {
        let raw = discipline.raw;
        (raw.virtual_size as usize, raw.virtual_offset as usize)
    }

    /// Makes an empty instance with the rate `link.rate_bytes_s`.
    ///
    /// # Panics
    ///
    /// Panics if the discipline cannot have a virtual queue.
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

    /// Changes parameters and link. The bytes in the virtual queue stay.
    ///
    /// # Panics
    ///
    /// Panics if the settings are those of another discipline.
    pub fn change(&mut self, settings: &Settings, link: &Link, now_ns: u64) {
        let discipline = self.discipline;
        assert_eq!(settings.discipline(), discipline, "another discipline");
        let settings = Self::in_force(settings);
        let first = (Self::layout(discipline).1 + discipline.layout().params.start) / 8;
        self.memory[first..first + settings.values().len()].copy_from_slice(settings.values());
        // SAFETY: the memory holds a virtual queue; the layout of the link is that of C.
        unsafe { (discipline.raw.virtual_setup)(self.memory.as_mut_ptr().cast(), link, now_ns) };
    }

    /// Decides on a packet.
    pub fn arrive(&mut self, packet: &Packet, random: u32) -> Verdict {
        let mut raw = RawVerdict::default();
        let memory = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a virtual queue.
        unsafe { (self.discipline.raw.virtual_arrive)(memory, packet, random, &raw mut raw) };
        verdict(raw)
    }

    /// Counts a packet without a flow, which is always accepted.
    pub fn count(&mut self, packet: &Packet) {
        // SAFETY: the memory holds a virtual queue.
        unsafe { (self.discipline.raw.virtual_count)(self.memory.as_mut_ptr().cast(), packet) };
    }

    /// Puts a measured queue in place of the modelled one: what a packet waits at the far end of
    /// the line, in nanoseconds. Arrivals and time change it from there.
    pub fn measured(&mut self, waits_ns: u64, now_ns: u64) {
        let memory = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a virtual queue.
        unsafe { (self.discipline.raw.virtual_measured)(memory, waits_ns, now_ns) };
    }

    /// Returns the whole instance, to compare it with that of another host.
    pub fn bytes(&self) -> Vec<u8> {
        let words = self.memory.iter().flat_map(|word| word.to_ne_bytes());
        words.take(Self::layout(self.discipline).0).collect()
    }

    /// Returns a state variable or a counter of the discipline by name.
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
