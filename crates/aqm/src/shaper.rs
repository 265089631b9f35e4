// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shaper with classes (`aqm/host/shaper.h`) on this machine: one rate limit, and any
//! discipline as the queue of each class.

use crate::chance::Chance;
use crate::ffi::{EVICT_CALLS, Link, Packet, RawDescriptor, RawVerdict};
use crate::queue::{AGAIN, Action, Arrival, Queue, Verdict, verdict};
use crate::settings::Settings;
use std::ffi::c_void;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The largest number of classes (`SHAPER_CLASSES`).
const CLASSES: usize = 8;

/// The configuration of a class (`struct shaper_rule`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, Immutable, IntoBytes)]
pub struct ShaperRule {
    /// The guaranteed rate in bytes a second on the wire, which precedes any sharing of the
    /// excess; 0 for none.
    pub guarantee_bytes_s: u64,
    /// The maximum rate in bytes a second on the wire; 0 for that of the link.
    pub ceiling_bytes_s: u64,
    /// The weight, from 1, for sharing the excess among classes of the same priority.
    pub weight: u64,
    /// How far it may fall behind its guarantee without losing credit, in nanoseconds; 0 for two
    /// packets.
    pub credit_ns: u64,
    /// The priority, from 0, the most urgent, to 7.
    pub priority: u32,
    /// The class identifier that packets name.
    pub classid: u32,
}

/// The result of a request for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShaperDeparture<T> {
    /// The packet to send, with its class and verdict.
    pub sent: Option<(usize, Verdict, Packet, T)>,
    /// Packets that were dropped before that, with their classes.
    pub dropped: Vec<(usize, Verdict, T)>,
    /// If no packet is sent, the time at which the next one may be; `None` if nothing is queued.
    pub opens_ns: Option<u64>,
}

/// A shaper with its packets; each carries a `T` for the caller. The caller supplies the time,
/// which must not decrease.
#[derive(Debug)]
pub struct Shaper<T> {
    /// `struct native_shaper`; `u64` for the alignment that C needs.
    memory: Vec<u64>,
    queues: Vec<Queue<T>>,
    /// Random words for departures.
    chance: Chance,
}

/// `struct native_class`.
#[repr(C)]
struct RawClass {
    kind: *const RawDescriptor,
    memory: *mut c_void,
}

/// `struct native_departure`.
#[repr(C)]
#[derive(Default)]
struct RawDeparture {
    verdict: RawVerdict,
    class: u32,
    pad: u32,
    opens_ns: u64,
}

unsafe extern "C" {
    static aqm_shaper_layout: [u32; 9];
    fn aqm_shaper_setup(
        shaper: *mut c_void,
        link: *const Link,
        gate_bytes_s: u64,
        rules: *const ShaperRule,
        classes: u32,
        other: u32,
    );
    fn aqm_shaper_classify(shaper: *const c_void, priority: u32) -> u32;
    fn aqm_shaper_arrive(
        shaper: *mut c_void,
        queue: *const RawClass,
        class: u32,
        packet: *const Packet,
        random: u32,
        verdict: *mut RawVerdict,
    ) -> u32;
    fn aqm_shaper_evict(
        shaper: *mut c_void,
        queue: *const RawClass,
        class: u32,
        now_ns: u64,
    ) -> u32;
    fn aqm_shaper_open(shaper: *mut c_void, now_ns: u64, opens_ns: *mut u64) -> i32;
    fn aqm_shaper_depart(
        shaper: *mut c_void,
        queues: *const RawClass,
        now_ns: u64,
        random: u32,
        departure: *mut RawDeparture,
    ) -> u32;
}

/// Bytes of `struct native_shaper`.
fn bytes() -> usize {
    // SAFETY: a constant.
    let [size, ..] = unsafe { aqm_shaper_layout };
    size as usize
}

impl<T> Shaper<T> {
    /// Makes an empty shaper with the rate `link.rate_bytes_s`, and with a rule and a discipline
    /// for each class. `other` is the index of the default class in `classes`.
    ///
    /// # Panics
    ///
    /// Panics if there are no classes or more than eight, or if the class `other` does not
    /// exist.
    pub fn new(link: &Link, classes: &[(ShaperRule, Settings)], other: usize) -> Self {
        assert!((1..=CLASSES).contains(&classes.len()), "one to 8 classes");
        let queues = classes.iter();
        let mut shaper = Self {
            memory: vec![0; bytes().div_ceil(8)],
            queues: queues.map(|(_, own)| Queue::new(own, link)).collect(),
            chance: Chance(1),
        };
        shaper.change(link, classes, other);
        shaper
    }

    /// Changes all settings. Packets and counters stay. Each class must keep its index and its
    /// discipline.
    ///
    /// # Panics
    ///
    /// Panics if a class does not, or as [`Shaper::new`] does.
    pub fn change(&mut self, link: &Link, classes: &[(ShaperRule, Settings)], other: usize) {
        assert_eq!(classes.len(), self.queues.len(), "the same classes");
        assert!(other < classes.len(), "one of the classes");
        let rules: Vec<ShaperRule> = classes.iter().map(|(rule, _)| *rule).collect();
        // SAFETY: the memory is a shaper's; there are as many rules as `rules.len()`.
        unsafe {
            aqm_shaper_setup(
                self.memory.as_mut_ptr().cast(),
                link,
                link.rate_bytes_s,
                rules.as_ptr(),
                rules.len() as u32,
                other as u32,
            );
        }
        for (queue, (_, settings)) in self.queues.iter_mut().zip(classes) {
            queue.change(settings, link);
        }
    }

    /// Returns the index of the class with this identifier, or of the default class.
    pub fn classify(&self, classid: u32) -> usize {
        // SAFETY: the memory is a shaper's.
        let class = unsafe { aqm_shaper_classify(self.memory.as_ptr().cast(), classid) };
        class as usize
    }

    /// Enqueues a packet into a class at `packet.arrived_ns`. `random` must be a fresh uniform
    /// number.
    ///
    /// # Panics
    ///
    /// Panics if there is no such class.
    pub fn arrive(&mut self, class: usize, packet: &Packet, random: u32, item: T) -> Arrival<T> {
        let own = self.queues[class].class();
        let memory: *mut c_void = self.memory.as_mut_ptr().cast();
        let mut raw = RawVerdict::default();
        // SAFETY: the memory is a shaper's, and the class's an instance of the
        // discipline with all its slots.
        let slot = unsafe {
            aqm_shaper_arrive(
                memory,
                &raw const own,
                class as u32,
                packet,
                random,
                &raw mut raw,
            )
        };
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
        self.queues[class].keep(slot, item);
        for _ in 0..EVICT_CALLS {
            if raw.evict == 0 {
                break;
            }
            // SAFETY: as above.
            let slot = unsafe {
                aqm_shaper_evict(memory, &raw const own, class as u32, packet.arrived_ns)
            };
            if slot == 0 {
                break;
            }
            arrival.evicted.extend(self.queues[class].take(slot).1);
        }
        arrival
    }

    /// Requests a packet, at a time that may be before the line is free.
    pub fn depart(&mut self, now_ns: u64) -> ShaperDeparture<T> {
        let mut departure = ShaperDeparture {
            sent: None,
            dropped: Vec::new(),
            opens_ns: None,
        };
        let memory: *mut c_void = self.memory.as_mut_ptr().cast();
        let mut opens = 0;
        // SAFETY: the memory is a shaper's.
        if unsafe { aqm_shaper_open(memory, now_ns, &raw mut opens) } == 0 {
            departure.opens_ns = Some(opens);
            return departure;
        }
        let classes = self.queues.iter_mut().map(Queue::class);
        let mut classes: Vec<RawClass> = classes.collect();
        // C reads only the existing classes; the rest fills its array.
        classes.resize_with(CLASSES, || RawClass {
            kind: std::ptr::null(),
            memory: std::ptr::null_mut(),
        });
        // Each iteration sends or drops a packet or ends a flow's turn.
        let most = self.queues.iter().map(Queue::rounds).sum();
        for _ in 0..most {
            let mut raw = RawDeparture::default();
            let random = self.chance.word();
            // SAFETY: the memory is a shaper's, and each class's that of its
            // discipline.
            let slot = unsafe {
                aqm_shaper_depart(memory, classes.as_ptr(), now_ns, random, &raw mut raw)
            };
            if slot == 0 {
                if raw.verdict.action == AGAIN {
                    continue;
                }
                departure.opens_ns = (raw.opens_ns != u64::MAX).then_some(raw.opens_ns);
                break;
            }
            let class = raw.class as usize;
            let (packet, item) = self.queues[class].take(slot);
            let verdict = verdict(raw.verdict);
            match (verdict.action, item) {
                (Action::Drop, Some(item)) => departure.dropped.push((class, verdict, item)),
                (_, Some(item)) => {
                    departure.sent = Some((class, verdict, packet, item));
                    break;
                }
                (_, None) => {}
            }
        }
        departure
    }

    /// Returns the queue of a class.
    ///
    /// # Panics
    ///
    /// Panics if there is no such class.
    pub fn queue(&self, class: usize) -> &Queue<T> {
        &self.queues[class]
    }

    /// Returns the number of packets queued in all classes.
    pub fn packets(&self) -> u64 {
        self.queues.iter().map(Queue::packets).sum()
    }
}

impl<T> Queue<T> {
    fn class(&mut self) -> RawClass {
        RawClass {
            kind: self.discipline.raw,
            memory: self.raw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn layouts_are_those_that_c_has() {
        // SAFETY: a constant.
        let [bytes, theirs @ ..] = unsafe { aqm_shaper_layout };
        assert_eq!(bytes % 8, 0);
        let own = [
            CLASSES,
            size_of::<ShaperRule>(),
            offset_of!(ShaperRule, guarantee_bytes_s),
            offset_of!(ShaperRule, ceiling_bytes_s),
            offset_of!(ShaperRule, weight),
            offset_of!(ShaperRule, credit_ns),
            offset_of!(ShaperRule, priority),
            offset_of!(ShaperRule, classid),
        ];
        assert_eq!(own.map(|number| number as u32), theirs);
    }
}
