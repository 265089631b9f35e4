// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual queue (`aqm/host/virtual.h`): what a filter of arriving packets
//! decides by.

use crate::discipline::Discipline;
use crate::ffi::{self, Link, Packet, RawVerdict};
use crate::queue::{Verdict, verdict};
use crate::settings::Settings;

/// The discipline that decides on it.
const DISCIPLINE: &str = "meredt";

/// An instance. The caller keeps time, and gives a new random number to every
/// arrival.
#[derive(Debug, Clone)]
pub struct VirtualQueue {
    /// `struct virtual_queue`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
}

impl VirtualQueue {
    /// The discipline whose parameters it takes.
    ///
    /// # Panics
    ///
    /// Never: the kit has it.
    pub fn discipline() -> Discipline {
        Discipline::named(DISCIPLINE).expect("one of the kit")
    }

    /// Bytes of an instance, and where in it the discipline's begins.
    pub fn layout() -> (usize, usize) {
        // SAFETY: two constants.
        let (size, own) = unsafe { (ffi::aqm_virtual_size, ffi::aqm_virtual_instance) };
        (size as usize, own as usize)
    }

    /// An empty one of the rate `link.rate_bytes_s`.
    ///
    /// # Panics
    ///
    /// Where the settings are another discipline's, which is the caller's
    /// mistake.
    pub fn new(settings: &Settings, link: &Link, now_ns: u64) -> Self {
        let mut queue = Self {
            memory: vec![0; Self::layout().0.div_ceil(8)],
        };
        queue.change(settings, link, now_ns);
        queue
    }

    /// Sets parameters and the link; what is queued stays, in bytes.
    ///
    /// # Panics
    ///
    /// As [`VirtualQueue::new`].
    pub fn change(&mut self, settings: &Settings, link: &Link, now_ns: u64) {
        let discipline = Self::discipline();
        assert_eq!(settings.discipline(), discipline, "another discipline");
        let first = (Self::layout().1 + discipline.layout().params.start) / 8;
        self.memory[first..first + settings.values().len()].copy_from_slice(settings.values());
        // SAFETY: the memory holds a virtual queue; a Link is as C has it.
        unsafe { ffi::aqm_virtual_setup(self.memory.as_mut_ptr().cast(), link, now_ns) };
    }

    /// What is to happen to a packet of a flow.
    pub fn arrive(&mut self, packet: &Packet, random: u32) -> Verdict {
        let mut raw = RawVerdict::default();
        let memory = self.memory.as_mut_ptr().cast();
        // SAFETY: the memory holds a virtual queue.
        unsafe { ffi::aqm_virtual_arrive(memory, packet, random, &raw mut raw) };
        verdict(raw)
    }

    /// A packet of no flow came, to which nothing is done.
    pub fn count(&mut self, packet: &Packet) {
        // SAFETY: the memory holds a virtual queue.
        unsafe { ffi::aqm_virtual_count(self.memory.as_mut_ptr().cast(), packet) };
    }

    /// The whole instance, to compare with another host's.
    pub fn bytes(&self) -> Vec<u8> {
        let words = self.memory.iter().flat_map(|word| word.to_ne_bytes());
        words.take(Self::layout().0).collect()
    }

    /// One number of the discipline's state or of what is counted, by name.
    pub fn number(&self, name: &str) -> Option<u64> {
        let (discipline, own) = (Self::discipline(), Self::layout().1);
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
