// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The observations of one run, without statistics.
//!
//! All times are in nanoseconds since the start of traffic.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weirgate_units::Direction;

/// Version of the encoding. [`Recording::decode`] refuses others.
const VERSION: u16 = 6;

/// The recording of one run of one arm.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Release and version of the kernel (`uname`).
    pub kernel: String,
    /// The arm's name.
    pub arm: String,
    /// Length of the run.
    pub duration_ns: u64,
    /// Flow names. Other records refer to flows by their index here.
    pub flows: Vec<FlowName>,
    /// Names of sampled queues (`gateway wan 2:10 fq_codel`), by index.
    pub places: Vec<String>,
    /// Probe results. `probe` is the index in the experiment file.
    pub probes: Vec<ProbeReply>,
    /// Every packet that came to the line, in order of arrival.
    pub line: Vec<LinePacket>,
    /// Waiting times of stamped packets in the gateway, by class.
    pub sojourns: Vec<Sojourn>,
    /// Payload that reached receivers.
    pub delivered: Vec<Delivered>,
    /// Connections of short flows and requests.
    pub connections: Vec<Connection>,
    /// Samples of senders' TCP state.
    pub tcp: Vec<TcpSample>,
    /// Samples of queues and classes.
    pub queues: Vec<QueueSample>,
    /// Average queues of the kit's disciplines.
    pub averages: Vec<NumberSample>,
    /// Class names that `Sojourn::class` indexes.
    pub classes: Vec<String>,
    /// Commands run, policies applied, and their output.
    pub transcript: Vec<Transcript>,
    /// The connections in the gateway's connection tracking at the end of the run, in an arm
    /// with a policy.
    pub tracked: Option<Vec<Tracked>>,
    /// Idle times of the machine's processors; empty if the run had no machine of its own.
    pub idle: Vec<IdleSample>,
    /// The stored beginnings of packets; empty unless a capture was requested.
    pub capture: Capture,
    /// Policies that were applied while traffic ran, in order.
    pub changes: Vec<Changed>,
}

/// A policy applied while traffic ran.
///
/// Its times are virtual. They count the instructions that reading, planning, writing and
/// reading back took on one processor, where forwarding has priority, and the kernel's own
/// waiting. Disk accesses and cache misses take no time there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Changed {
    /// The policy's path.
    pub policy: String,
    /// When reading its text began.
    pub began_ns: u64,
    /// When the plan was complete.
    pub planned_ns: u64,
    /// When the kernel's state was found to match the plan.
    pub ended_ns: u64,
    /// The time since when all packets sent to the line pass a root qdisc of the new policy or
    /// of the previous one. It is when the request for the first root on the line's device was
    /// sent, or when the change began.
    pub shaped_ns: u64,
    /// The number of steps in the plan.
    pub steps: u32,
    /// Requests that change something, in order.
    pub requests: Vec<Written>,
    /// Why it failed. The previous state was restored in this case.
    pub failure: Option<String>,
}

/// A netlink request that changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// When it was sent.
    pub at_ns: u64,
    /// A description of what it does.
    pub what: String,
}

/// The first bytes of packets at the line, as Ethernet frames.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capture {
    /// The most bytes stored of a frame; 0 where no capture was requested.
    pub snap_bytes: u16,
    /// Bytes kept of each packet, in the order of [`Recording::line`]. It has fewer entries if
    /// the capture was full before the run ended.
    pub lengths: Vec<u16>,
    /// The kept bytes of all packets, one after the other.
    pub bytes: Vec<u8>,
}

/// A flow: the name of a traffic entry, and the number of the sender in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlowName {
    /// The traffic or probe name.
    pub name: String,
    /// The sender's number, from 0.
    pub instance: u16,
}

/// One probe and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReply {
    /// Index of the probe in the experiment.
    pub probe: u16,
    /// When it was sent.
    pub sent_ns: u64,
    /// Round-trip time; `None` if no reply came before the run ended.
    pub rtt_ns: Option<u64>,
}

/// A packet at the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinePacket {
    /// Its direction.
    pub direction: Direction,
    /// Its flow, where known (probes and traffic entries). ACKs belong to the flow whose data
    /// they acknowledge.
    pub flow: Option<u16>,
    /// When it arrived at the line's queue.
    pub arrived_ns: u64,
    /// Whether it was sent, dropped or left in the queue.
    pub fate: Fate,
    /// IP packet length.
    pub ip_bytes: u16,
    /// Length on the line in bytes, with framing.
    pub wire_bytes: u32,
    /// Number of packets that waited or were in transmission when it arrived.
    pub ahead_packets: u32,
    /// IP bytes of those packets.
    pub ahead_bytes: u32,
    /// Fields of its TCP header.
    pub tcp: Option<TcpSegment>,
}

/// The fate of a packet at the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It was sent.
    Sent {
        /// When the transmission of its first bit began.
        start_ns: u64,
        /// When the transmission of its last bit ended, before the fixed delay.
        end_ns: u64,
    },
    /// It was dropped because the queue was full.
    Dropped,
    /// It was still in the queue when the run ended.
    Left,
}

/// TCP header fields for time-sequence plots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSegment {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Payload bytes.
    pub payload: u16,
    /// The flags, byte 14 of the header.
    pub flags: u8,
    /// Advertised window, unscaled.
    pub window: u16,
    /// Left and right edge of the first SACK block.
    pub sack: Option<(u32, u32)>,
}

/// How long a stamped packet waited in the gateway. The wait begins when it leaves the host
/// (upstream) or the line (downstream), and ends when it leaves the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sojourn {
    /// Its direction.
    pub direction: Direction,
    /// Index in [`Recording::classes`].
    pub class: u16,
    /// When it left the gateway.
    pub at_ns: u64,
    /// How long it waited.
    pub wait_ns: u64,
}

/// Payload that a receiver has read since the previous record of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// The flow.
    pub flow: u16,
    /// When it was read.
    pub at_ns: u64,
    /// Bytes of payload; for UDP, of the datagram.
    pub bytes: u32,
    /// Sequence number of a datagram; `None` for TCP.
    pub datagram: Option<u32>,
    /// One-way transit time of a datagram.
    pub transit_ns: Option<u64>,
}

/// A short connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The flow.
    pub flow: u16,
    /// When it was scheduled to start.
    pub due_ns: u64,
    /// When it started.
    pub start_ns: u64,
    /// When it was established.
    pub connected_ns: Option<u64>,
    /// When the last byte arrived.
    pub finished_ns: Option<u64>,
    /// Payload bytes requested.
    pub bytes: u64,
}

/// A sender's TCP state (`struct tcp_info`, linux/tcp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    /// The flow.
    pub flow: u16,
    /// When the sample was taken.
    pub at_ns: u64,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Bytes sent and not acknowledged.
    pub outstanding_bytes: u64,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Segments retransmitted so far.
    pub retransmits: u32,
}

/// A sample of the counters of a qdisc or class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Index in [`Recording::places`].
    pub place: u16,
    /// When the sample was taken.
    pub at_ns: u64,
    /// Bytes sent so far.
    pub bytes: u64,
    /// Packets sent so far.
    pub packets: u64,
    /// Packets dropped so far.
    pub drops: u64,
    /// Packets marked so far.
    pub marks: u64,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub backlog_packets: u32,
}

/// A sample of a discipline's average queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberSample {
    /// Index in [`Recording::places`].
    pub place: u16,
    /// When the sample was taken.
    pub at_ns: u64,
    /// The average, in bytes.
    pub value: u64,
}

/// A sample of the idle time of the machine's processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleSample {
    /// When the sample was taken.
    pub at_ns: u64,
    /// Idle time since boot, the mean over the processors.
    pub idle_ns: u64,
}

/// A connection in connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracked {
    /// The transport protocol.
    pub protocol: u8,
    /// The destination port of the first packet; 0 if the protocol has no ports.
    pub port: u16,
    /// Whether a reply was seen.
    pub answered: bool,
    /// Its connection mark, in which a rule with `keep` stores its decision.
    pub mark: u32,
}

/// The output of a command or an applied policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// The node and the command line, or the policy's name.
    pub what: String,
    /// Its output, or the plan of the policy.
    pub output: String,
    /// Its exit status; 0 for a policy.
    pub status: i32,
}

/// Occurs when bytes are not a recording of this version.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// Occurs when the bytes come from another version of weirgate.
    #[error("the recording has version {found}, this weirgate reads version {VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// Occurs when bytes are missing or damaged.
    #[error("the recording {}", damage(.0))]
    Damaged(#[from] postcard::Error),
}

fn damage(error: &postcard::Error) -> String {
    match error {
        postcard::Error::DeserializeUnexpectedEnd => "is cut off".to_owned(),
        other => format!("is damaged: {other}"),
    }
}

impl Capture {
    /// Bytes kept of a frame: room for the headers of Ethernet (14), IPv6 (40)
    /// and TCP with all options (60), and for the lab's stamp in a datagram.
    pub const SNAP_BYTES: u16 = 128;

    /// The largest number of bytes kept of all packets together. The guest holds them twice
    /// while it encodes its recording.
    pub const MOST_BYTES: usize = 32 << 20;

    /// Returns an empty capture that keeps packets.
    #[must_use]
    pub fn started() -> Self {
        Self {
            snap_bytes: Self::SNAP_BYTES,
            // Reserve all of it now, so that growing never copies. Untouched pages take no
            // memory.
            lengths: Vec::with_capacity(Self::MOST_BYTES / 64),
            bytes: Vec::with_capacity(Self::MOST_BYTES),
        }
    }

    /// Keeps the beginning of the frame of the line's packet `number`. It does nothing if no
    /// capture was requested. Once a packet has found no room, it keeps no later ones either, so
    /// that the capture has no gaps.
    pub fn keep(&mut self, number: usize, frame: &[u8]) {
        let kept = &frame[..frame.len().min(self.snap_bytes.into())];
        let room = self.bytes.len() + kept.len() <= Self::MOST_BYTES;
        if self.snap_bytes > 0 && number == self.lengths.len() && room {
            self.lengths.push(kept.len() as u16);
            self.bytes.extend_from_slice(kept);
        }
    }

    /// Returns the kept bytes of each packet, in the order of [`Recording::line`]. If the
    /// capture is damaged, packets whose bytes are incomplete are left out.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map_while(move |&length| {
            let (packet, after) = rest.split_at_checked(length.into())?;
            rest = after;
            Some(packet)
        })
    }
}

impl TcpSegment {
    /// Returns whether it is a pure ACK: no data, no SYN, FIN or RST (RFC 9293 section 3.1).
    #[must_use]
    pub const fn is_pure_ack(&self) -> bool {
        self.payload == 0 && self.flags & 0x17 == 0x10
    }
}

impl Recording {
    /// Returns the number of packets at the line that a capture had no room for; 0 if none was
    /// requested.
    #[must_use]
    pub fn not_captured(&self) -> usize {
        if self.capture.snap_bytes == 0 {
            return 0;
        }
        self.line.len().saturating_sub(self.capture.lengths.len())
    }

    /// Encodes the recording.
    pub fn encode(&self) -> Result<Vec<u8>, RecordingError> {
        Ok(postcard::to_stdvec(&(VERSION, self))?)
    }

    /// Decodes a recording.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordingError> {
        let (found, rest): (u16, &[u8]) = postcard::take_from_bytes(bytes)?;
        if found != VERSION {
            return Err(RecordingError::Version { found });
        }
        Ok(postcard::from_bytes(rest)?)
    }
}

#[cfg(test)]
mod tests {
    use super::Capture;

    #[test]
    fn a_capture_keeps_beginnings() {
        let mut capture = Capture::started();
        for (number, frame) in [&[1; 40][..], &[], &[3; 1_514]].into_iter().enumerate() {
            capture.keep(number, frame);
        }
        let packets: Vec<&[u8]> = capture.packets().collect();
        assert_eq!(packets, [&[1; 40][..], &[], &[3; 128]]);
        capture.bytes.truncate(100);
        assert_eq!(capture.packets().count(), 2, "the third is not whole");
    }

    #[test]
    fn nothing_is_kept_unasked() {
        let mut capture = Capture::default();
        capture.keep(0, &[1; 40]);
        assert_eq!(capture, Capture::default());
    }

    #[test]
    fn a_full_capture_has_no_gaps() {
        let mut capture = Capture::started();
        capture.bytes.resize(Capture::MOST_BYTES - 100, 0);
        capture.keep(0, &[1; 60]);
        capture.keep(1, &[2; 60]);
        // The capture would have room for this packet.
        capture.keep(2, &[3; 20]);
        assert_eq!(capture.lengths, [60]);
        assert_eq!(capture.bytes.len(), Capture::MOST_BYTES - 40);
    }
}
