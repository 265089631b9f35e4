// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The times at which packets arrived at the gateway from its hosts, from which their waits in the
//! gateway follow.
//!
//! A stamp does not show this: it is written before the sender's system call. If the processor
//! is busy, a packet may wait longer in its host than in the gateway, and all nodes share one
//! processor here.
//!
//! A packet socket on the gateway's LAN device sees packets arrive. The kernel takes their
//! timestamps as they leave the host's device (`net.core.netdev_tstamp_prequeue`), so that the
//! wait for the gateway's softirq counts. The socket has no task. The line reads it whenever
//! such a packet arrives there, and finds the packet among those seen.

use super::packet::{ETHERNET, Facts};
use crate::agent::clock::Clock;
use crate::agent::nodes::{LAN, Nodes};
use crate::agent::stamp;
use crate::agent::traffic::endpoint::Noted;
use crate::agent::traffic::options;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use weirgate_experiment::Node;

/// The largest number of packets to remember. Older ones were lost in queues.
const REMEMBERED: usize = 1 << 17;

/// Lengths in bytes of an IPv4 header without options, an IPv6 header, and an ICMP or UDP
/// header.
const HEADERS: [u32; 3] = [20, 40, 8];

/// The key that identifies a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// The flow and sequence number of a stamp.
    Stamp(u16, u32),
    /// A segment's ports, sequence and acknowledgement number, payload length, and IPv4
    /// identification. A retransmission has a new identification. A later packet with an equal
    /// key replaces the earlier one.
    Segment(u16, u16, u32, u32, u16, u16),
}

/// Observes the gateway's device to the hosts.
#[derive(Debug)]
pub struct Entry {
    socket: OwnedFd,
    /// Whether TCP segments are recorded, in addition to stamped packets.
    segments: bool,
    noted: Noted,
    came: BTreeMap<Key, u64>,
    buffer: Vec<u8>,
}

impl Entry {
    /// Observes the gateway's LAN device for stamped packets, and for TCP segments if requested.
    pub fn open(nodes: &Nodes, segments: bool) -> Result<Self> {
        let socket = nodes
            .enter(Node::Gateway, || options::open_arrivals(LAN))
            .context("watch what comes to the gateway from the hosts")?;
        Self::of(socket, segments)
    }

    fn of(socket: OwnedFd, segments: bool) -> Result<Self> {
        if !segments {
            options::set_filter(&socket, &stamped()).context("see stamped packets only")?;
        }
        Ok(Self {
            socket,
            segments,
            noted: Noted::default(),
            came: BTreeMap::new(),
            buffer: vec![0; 2_048],
        })
    }

    /// Returns the nanoseconds that a packet, now at the line, spent in the gateway. `None` for
    /// packets that are not observed or did not come from a host.
    pub fn waited(
        &mut self,
        facts: &Facts,
        frame: &[u8],
        now_ns: u64,
        clock: &Clock,
    ) -> io::Result<Option<u64>> {
        let Some(key) = self.key(facts, frame) else {
            return Ok(None);
        };
        self.read(clock)?;
        let came = self.came.remove(&key);
        Ok(came.map(|came_ns| now_ns.saturating_sub(came_ns)))
    }

    fn key(&self, facts: &Facts, frame: &[u8]) -> Option<Key> {
        match facts.stamp {
            Some(stamp) => (!stamp.reply).then_some(Key::Stamp(stamp.flow, stamp.seq)),
            None if self.segments => segment(facts, frame),
            None => None,
        }
    }

    /// Reads the packets that have arrived since the last call.
    fn read(&mut self, clock: &Clock) -> io::Result<()> {
        loop {
            let (length, noted_ns) = match options::receive_stamped(&self.socket, &mut self.buffer)
            {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
            let frame = &self.buffer[..length.min(self.buffer.len())];
            let ip_bytes = length.saturating_sub(ETHERNET) as u32;
            let Some(key) = self.key(&Facts::read(frame, ip_bytes), frame) else {
                continue;
            };
            let now_ns = clock.now_ns();
            let at_ns = noted_ns.map_or(now_ns, |noted_ns| self.noted.at(noted_ns, now_ns, clock));
            if self.came.len() >= REMEMBERED {
                self.came.clear();
            }
            self.came.insert(key, at_ns);
        }
    }
}

fn segment(facts: &Facts, frame: &[u8]) -> Option<Key> {
    let (_, source, destination) = facts.ports?;
    let tcp = facts.tcp?;
    let identification = match frame.get(12..20)? {
        [0x08, 0x00, .., high, low] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    Some(Key::Segment(
        source,
        destination,
        tcp.seq,
        tcp.ack,
        tcp.payload,
        identification,
    ))
}

/// Returns a filter for frames with a stamp at the start of the payload of ICMP or UDP.
fn stamped() -> [libc::sock_filter; 9] {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let [ipv4, ipv6, transport] = HEADERS;
    let payload = |header: u32| ETHERNET as u32 + header + transport;
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    [
        step(LOAD, 0, 0, ETHERNET as u32 - 2),
        step(EQUAL, 2, 0, libc::ETH_P_IPV6 as u32),
        // A frame that is too short is rejected.
        step(LOAD, 0, 0, payload(ipv4)),
        step(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
        step(LOAD, 0, 0, payload(ipv6)),
        step(AND, 0, 0, u32::from(!stamp::REPLY)),
        step(EQUAL, 0, 1, u32::from(stamp::MAGIC)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::log::{Arrival, Log};
    use super::{Clock, ETHERNET, Entry, Facts, Key, segment};
    use crate::agent::recorder::Recorder;
    use crate::agent::stamp::Stamp;
    use std::os::unix::net::UnixDatagram;
    use weirgate_experiment::Direction;

    /// Returns a frame of a UDP datagram with a stamp.
    fn datagram(ipv6: bool, stamp: &Stamp) -> Vec<u8> {
        let header = if ipv6 { 40 } else { 20 };
        let mut frame = vec![0; ETHERNET + header + 8 + 12];
        let length = (frame.len() - ETHERNET) as u8;
        if ipv6 {
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            (frame[14], frame[19], frame[20]) = (0x60, length - 40, 17);
        } else {
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            (frame[14], frame[17], frame[23]) = (0x45, length, 17);
        }
        stamp.write(&mut frame[ETHERNET + header + 8..]);
        frame
    }

    fn facts(frame: &[u8]) -> Facts {
        Facts::read(frame, (frame.len() - ETHERNET) as u32)
    }

    #[test]
    fn a_packet_waits_from_its_arrival_not_from_its_stamp() {
        const IN_ITS_HOST_NS: u64 = 100_000_000_000;
        let (lan, gateway) = UnixDatagram::pair().unwrap();
        gateway.set_nonblocking(true).unwrap();
        let (recorder, clock) = (Recorder::new(), Clock::new());
        clock.start();
        let flow = recorder.flow("probe", 0, Some("urgent"));
        let entry = Entry::of(gateway.into(), false).unwrap();
        let mut log = Log::new(recorder.clone(), clock.clone(), entry);
        let mut arrived = |seq: u32, ipv6, seen: bool| {
            let sent_ns = clock.now_ns().wrapping_sub(IN_ITS_HOST_NS);
            let frame = datagram(ipv6, &Stamp::new(flow, seq, sent_ns));
            if seen {
                lan.send(&frame).unwrap();
            }
            let arrival = Arrival {
                direction: Direction::Up,
                at_ns: clock.now_ns(),
                facts: facts(&frame),
                frame: &frame,
                wire_bytes: 122,
                ahead: (0, 0),
            };
            log.arrived(&arrival).unwrap();
        };
        arrived(0, false, true);
        arrived(1, true, true);
        // A packet of the gateway itself, which was not seen to arrive.
        arrived(2, false, false);
        let waits: Vec<bool> = recorder
            .take()
            .sojourns
            .iter()
            .map(|sojourn| sojourn.wait_ns < IN_ITS_HOST_NS / 2)
            .collect();
        assert_eq!(waits, [true, true, false]);
    }

    #[test]
    fn only_stamped_packets_are_seen_where_segments_are_not_asked_for() {
        let (lan, gateway) = UnixDatagram::pair().unwrap();
        gateway.set_nonblocking(true).unwrap();
        let seen = gateway.try_clone().unwrap();
        let _entry = Entry::of(gateway.into(), false).unwrap();
        let sent = datagram(false, &Stamp::new(7, 1, 0));
        for other in [tcp(7, 100), vec![0; 40], sent[..42].to_vec()] {
            // The sender gets an error if the filter drops the packet; ignore it.
            let _ = lan.send(&other);
        }
        lan.send(&sent).unwrap();
        let mut buffer = [0; 128];
        assert_eq!(seen.recv(&mut buffer).unwrap(), sent.len());
        assert!(seen.recv(&mut buffer).is_err());
    }

    fn tcp(identification: u16, sequence: u32) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&40_u16.to_be_bytes());
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        frame[23] = 6;
        frame[34..38].copy_from_slice(&[0x4e, 0x20, 0x00, 0x16]);
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        frame[46] = 0x50;
        frame
    }

    #[test]
    fn a_segment_sent_again_is_another() {
        let key_of = |frame: &[u8]| segment(&facts(frame), frame);
        let first = key_of(&tcp(7, 100));
        assert_eq!(first, Some(Key::Segment(20_000, 22, 100, 0, 0, 7)));
        assert_ne!(first, key_of(&tcp(8, 100)));
        assert_ne!(first, key_of(&tcp(7, 101)));
        // Time to live and code point change on the way.
        let mut forwarded = tcp(7, 100);
        forwarded[15] = 0x28;
        forwarded[22] = 63;
        assert_eq!(first, key_of(&forwarded));
        let mut datagram = tcp(7, 100);
        datagram[23] = 17;
        assert_eq!(key_of(&datagram), None);
    }
}
