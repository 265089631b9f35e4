// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of classes: in order, with flows in turn, and in the worst order for one packet.

use crate::htb::Packet;
use std::collections::{BTreeMap, VecDeque};
use weirgate_aqm::{Discipline, Link, Settings};

/// Packets of a class.
pub enum Queue {
    /// First in, first out.
    Fifo(VecDeque<Packet>),
    /// All others before the packet with this number.
    Last(VecDeque<Packet>, u64),
    /// `sfq_enqueue` and `sfq_dequeue` of net/sched/sch_sfq.c, with a separate slot for every flow,
    /// without its limits.
    Sfq(Sfq),
    /// The kit's own code (aqm/fq_codel.c).
    FqCodel(Box<weirgate_aqm::Queue<Packet>>),
}

/// Flows in a ring, the next one first, each with its allotment.
#[derive(Default)]
pub struct Sfq {
    quantum: i64,
    ring: VecDeque<u32>,
    flows: BTreeMap<u32, (i64, VecDeque<Packet>)>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::Fifo(VecDeque::new())
    }
}

impl Queue {
    pub fn sfq(quantum: u32) -> Self {
        Self::Sfq(Sfq {
            quantum: i64::from(quantum),
            ..Sfq::default()
        })
    }

    /// Makes a queue with CoDel's times so long that nothing is dropped, because a drop shortens
    /// waits.
    pub fn fq_codel(quantum: u32, bytes_per_second: u64) -> Self {
        let discipline = Discipline::named("fq_codel").expect("one of the kit's");
        let settings = Settings::new(discipline)
            .with("quantum_bytes", u64::from(quantum))
            .and_then(|own| own.with("interval_ns", 1_000_000_000))
            .and_then(|own| own.with("target_ns", 1_000_000_000))
            .expect("within its ranges");
        let link = Link {
            rate_bytes_s: bytes_per_second,
            mtu_bytes: quantum,
            ..Link::default()
        };
        Self::FqCodel(Box::new(weirgate_aqm::Queue::new(&settings, &link)))
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) | Self::Last(queue, _) => queue.len(),
            Self::Sfq(sfq) => sfq.flows.values().map(|flow| flow.1.len()).sum(),
            Self::FqCodel(queue) => queue.packets() as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Fifo(queue) | Self::Last(queue, _) => queue.is_empty(),
            Self::Sfq(sfq) => sfq.ring.is_empty(),
            Self::FqCodel(queue) => queue.packets() == 0,
        }
    }

    pub fn push(&mut self, packet: Packet) {
        match self {
            Self::Fifo(queue) | Self::Last(queue, _) => queue.push_back(packet),
            Self::Sfq(sfq) => sfq.push(packet),
            Self::FqCodel(queue) => {
                let seen = weirgate_aqm::Packet {
                    arrived_ns: packet.arrived,
                    len: packet.bytes,
                    wire: packet.bytes,
                    flow: packet.flow,
                    ecn: 0,
                };
                let arrival = queue.arrive(&seen, 0, packet);
                assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
            }
        }
    }

    pub fn pop(&mut self, now: u64) -> Option<Packet> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::Last(queue, last) => {
                let at = queue.iter().position(|packet| packet.number != *last);
                queue.remove(at.unwrap_or(0))
            }
            Self::Sfq(sfq) => sfq.pop(),
            Self::FqCodel(queue) => queue.depart(now).sent.map(|sent| sent.2),
        }
    }
}

impl Sfq {
    fn push(&mut self, packet: Packet) {
        let quantum = self.quantum;
        let flow = self
            .flows
            .entry(packet.flow)
            .or_insert_with(|| (quantum, VecDeque::new()));
        if flow.1.is_empty() {
            flow.0 = quantum;
            self.ring.push_back(packet.flow);
        }
        flow.1.push_back(packet);
    }

    fn pop(&mut self) -> Option<Packet> {
        loop {
            let head = *self.ring.front()?;
            let flow = self.flows.get_mut(&head)?;
            if flow.0 <= 0 {
                flow.0 += self.quantum;
                self.ring.rotate_left(1);
                continue;
            }
            let packet = flow.1.pop_front()?;
            if flow.1.is_empty() {
                self.ring.pop_front();
            } else {
                flow.0 -= i64::from(packet.bytes);
            }
            return Some(packet);
        }
    }
}
