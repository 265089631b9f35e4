// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs packets on the line to the recorder, for every kind of line.

use super::entry::Entry;
use super::packet::Facts;
use crate::agent::clock::Clock;
use crate::agent::recorder::Recorder;
use std::io;
use weirgate_experiment::{Direction, Fate, LinePacket};

/// Records packets on the line.
#[derive(Debug)]
pub struct Log {
    recorder: Recorder,
    clock: Clock,
    entry: Entry,
}

/// A packet that arrived at the line.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'f> {
    /// Its direction.
    pub direction: Direction,
    /// When it arrived.
    pub at_ns: u64,
    /// Its header fields.
    pub facts: Facts,
    /// The beginning of its frame, with all headers.
    pub frame: &'f [u8],
    /// Length on the line in bytes, with framing.
    pub wire_bytes: u32,
    /// Number of packets that waited or were in transmission, and their IP bytes.
    pub ahead: (u32, u32),
}

/// A packet in the log.
#[derive(Debug, Clone, Copy)]
pub struct Logged {
    /// Its number in the recorder.
    number: usize,
    /// Flow and sequence number of a stamped packet.
    stamp: Option<(u16, u32)>,
}

impl Log {
    /// Returns a log. `entry` observes packets that arrive at the gateway.
    pub const fn new(recorder: Recorder, clock: Clock, entry: Entry) -> Self {
        Self {
            recorder,
            clock,
            entry,
        }
    }

    /// Records a packet that arrived.
    pub fn arrived(&mut self, arrival: &Arrival<'_>) -> io::Result<Logged> {
        let Arrival {
            direction,
            at_ns,
            facts,
            frame,
            ..
        } = *arrival;
        let stamp = facts.stamp;
        let flow = self.flow_of(direction, &facts);
        if direction == Direction::Up {
            let waited_ns = self.entry.waited(&facts, frame, at_ns, &self.clock)?;
            match (stamp, facts.tcp, waited_ns) {
                (Some(stamp), ..) if !stamp.reply => {
                    // A packet of the gateway itself: its wait begins at its stamp.
                    let waited_ns = waited_ns.unwrap_or_else(|| stamp.age_ns(at_ns));
                    self.recorder.waited_up(stamp.flow, at_ns, waited_ns);
                }
                (None, Some(tcp), Some(waited_ns)) => {
                    let ack = tcp.is_pure_ack();
                    self.recorder.segment_waited(flow, ack, at_ns, waited_ns);
                }
                _ => {}
            }
        }
        let packet = LinePacket {
            direction,
            flow,
            arrived_ns: at_ns,
            fate: Fate::Left,
            ip_bytes: facts.ip_bytes,
            wire_bytes: arrival.wire_bytes,
            ahead_packets: arrival.ahead.0,
            ahead_bytes: arrival.ahead.1,
            tcp: facts.tcp,
        };
        Ok(Logged {
            number: self.recorder.line(packet, frame),
            stamp: stamp.map(|stamp| (stamp.flow, stamp.seq)),
        })
    }

    /// Records that a packet was dropped.
    pub fn dropped(&self, packet: Logged) {
        self.recorder.line_fate(packet.number, Fate::Dropped);
    }

    /// Records when a packet's transmission began and ended.
    pub fn sent(&self, packet: Logged, start_ns: u64, end_ns: u64) {
        let sent = Fate::Sent { start_ns, end_ns };
        self.recorder.line_fate(packet.number, sent);
    }

    /// Records that a packet was passed to the gateway.
    pub fn left(&self, packet: Logged, at_ns: u64) {
        if let Some((flow, seq)) = packet.stamp {
            self.recorder.left_line(flow, seq, at_ns);
        }
    }

    fn flow_of(&self, direction: Direction, facts: &Facts) -> Option<u16> {
        if let Some(stamp) = facts.stamp {
            return Some(stamp.flow);
        }
        let (protocol, source, destination) = facts.ports?;
        match direction {
            Direction::Up => self.recorder.label_of(protocol, destination, source),
            Direction::Down => self.recorder.label_of(protocol, source, destination),
        }
    }
}
