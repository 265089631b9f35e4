// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the headers of an Ethernet frame for the line.
//!
//! Parsing cannot fail: a truncated or unknown packet has a length and no other fields.

use crate::agent::stamp::Stamp;
use weirgate_experiment::TcpSegment;

/// Length of Ethernet's addresses and type. The line does not count them; the experiment's
/// `overhead` states what it counts instead.
pub(super) const ETHERNET: usize = 14;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// SACK, a TCP option (RFC 2018 section 3).
const OPTION_SACK: u8 = 5;

/// Header fields of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// Length without the Ethernet header.
    pub ip_bytes: u16,
    /// Transport protocol, source and destination port.
    pub ports: Option<(u8, u16, u16)>,
    /// Fields of the TCP header.
    pub tcp: Option<TcpSegment>,
    /// The lab's stamp. For the reply to an ICMP echo, it is marked as a reply.
    pub stamp: Option<Stamp>,
}

impl Facts {
    /// Parses the beginning of a frame, which has all headers. `ip_bytes` is the length of the
    /// IP packet.
    #[must_use]
    pub fn read(frame: &[u8], ip_bytes: u32) -> Self {
        let packet = frame.get(ETHERNET..).unwrap_or_default();
        let mut facts = Self {
            ip_bytes: u16::try_from(ip_bytes).unwrap_or(u16::MAX),
            ..Self::default()
        };
        let found = match frame.get(12..ETHERNET) {
            Some([0x08, 0x00]) => ipv4(packet, ip_bytes as usize),
            Some([0x86, 0xdd]) => ipv6(packet, ip_bytes as usize),
            _ => None,
        };
        if let Some((protocol, length, segment)) = found {
            facts.transport(protocol, length, segment);
        }
        facts
    }

    fn transport(&mut self, protocol: u8, length: usize, segment: &[u8]) {
        match (protocol, segment) {
            (TCP | UDP, &[s0, s1, d0, d1, ref rest @ ..]) => {
                let source = u16::from_be_bytes([s0, s1]);
                let destination = u16::from_be_bytes([d0, d1]);
                self.ports = Some((protocol, source, destination));
                if protocol == TCP {
                    self.tcp = tcp(segment, length);
                } else {
                    self.stamp = rest.get(4..).and_then(Stamp::read);
                }
            }
            // Echo request (RFC 792, RFC 4443 section 4) and reply.
            (ICMP, [8, _, _, _, _, _, _, _, data @ ..])
            | (ICMPV6, [128, _, _, _, _, _, _, _, data @ ..]) => self.stamp = Stamp::read(data),
            (ICMP, [0, _, _, _, _, _, _, _, data @ ..])
            | (ICMPV6, [129, _, _, _, _, _, _, _, data @ ..]) => {
                self.stamp = Stamp::read(data).map(Stamp::answer);
            }
            _ => {}
        }
    }
}

/// Returns the protocol of an IPv4 packet, the length of its payload, and the available part of
/// it; `None` for later fragments.
fn ipv4(packet: &[u8], ip_bytes: usize) -> Option<(u8, usize, &[u8])> {
    let header = packet.first_chunk::<20>()?;
    let length = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    let payload = total.checked_sub(length)?;
    (fragment == 0 && length >= 20 && total <= ip_bytes)
        .then(|| packet.get(length..total.min(packet.len())))
        .flatten()
        .map(|there| (header[9], payload, there))
}

/// Returns the next header of an IPv6 packet, the length of its payload, and the available part
/// of it. Extension headers, which the lab does not send, are not parsed.
fn ipv6(packet: &[u8], ip_bytes: usize) -> Option<(u8, usize, &[u8])> {
    let header = packet.first_chunk::<40>()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = packet.len().min(40 + length);
    (40 + length <= ip_bytes)
        .then(|| packet.get(40..end))
        .flatten()
        .map(|there| (header[6], length, there))
}

/// Parses the header of a segment with this length in bytes.
fn tcp(segment: &[u8], bytes: usize) -> Option<TcpSegment> {
    let header = segment.first_chunk::<20>()?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let length = usize::from(header[12] >> 4) * 4;
    let payload = bytes.checked_sub(length)?;
    Some(TcpSegment {
        seq: word(4),
        ack: word(8),
        payload: u16::try_from(payload).unwrap_or(u16::MAX),
        flags: header[13],
        window: u16::from_be_bytes([header[14], header[15]]),
        sack: sack(segment.get(20..length).unwrap_or_default()),
    })
}

/// Returns the first SACK block among TCP options (RFC 9293 section 3.1).
fn sack(mut options: &[u8]) -> Option<(u32, u32)> {
    loop {
        match *options {
            [0, ..] | [] | [_] => return None,
            [1, ref rest @ ..] => options = rest,
            [OPTION_SACK, length, ref rest @ ..] if length >= 10 => {
                let edge = |at: usize| {
                    let bytes = rest.get(at..)?.first_chunk::<4>()?;
                    Some(u32::from_be_bytes(*bytes))
                };
                return edge(0).zip(edge(4));
            }
            [_, length, ..] => options = options.get(usize::from(length.max(2))..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, Stamp};
    use proptest::prelude::*;

    /// Parses a complete frame.
    fn read(frame: &[u8]) -> Facts {
        Facts::read(frame, frame.len().saturating_sub(14) as u32)
    }

    fn frame(ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[0; 12], &ethertype[..], packet].concat()
    }

    fn ipv4(protocol: u8, segment: &[u8]) -> Vec<u8> {
        let total = (20 + segment.len()) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet.extend([0; 10]);
        packet.extend(segment);
        frame([0x08, 0], &packet)
    }

    fn ipv6(next: u8, segment: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, segment.len() as u8, next, 64];
        packet.extend([0; 32]);
        packet.extend(segment);
        frame([0x86, 0xdd], &packet)
    }

    fn echo(kind: u8, stamp: Stamp) -> Vec<u8> {
        let mut segment = vec![kind, 0, 0, 0, 0, 1, 0, 2];
        let mut data = [0; 36];
        stamp.write(&mut data);
        segment.extend(data);
        segment
    }

    #[test]
    fn an_ack_with_sack() {
        let mut segment = vec![0x01, 0xbb, 0x04, 0x00];
        segment.extend(7_u32.to_be_bytes());
        segment.extend(9_u32.to_be_bytes());
        segment.extend([0x80, 0x10, 0x02, 0x00, 0, 0, 0, 0]);
        segment.extend([1, 1, 5, 10]);
        segment.extend(100_u32.to_be_bytes());
        segment.extend(200_u32.to_be_bytes());
        for frame in [ipv4(6, &segment), ipv6(6, &segment)] {
            let facts = read(&frame);
            assert_eq!(usize::from(facts.ip_bytes), frame.len() - 14);
            assert_eq!(facts.ports, Some((6, 443, 1_024)));
            let tcp = facts.tcp.expect("TCP facts");
            assert_eq!((tcp.seq, tcp.ack, tcp.payload), (7, 9, 0));
            assert_eq!((tcp.flags, tcp.window), (0x10, 512));
            assert_eq!(tcp.sack, Some((100, 200)));
        }
    }

    #[test]
    fn the_beginning_of_a_frame_is_enough() {
        let segment = [&[0; 12][..], &[0x50, 0x10], &[0; 1_466]].concat();
        let frame = ipv4(6, &segment);
        let whole = read(&frame);
        assert_eq!(whole.tcp.expect("TCP facts").payload, 1_460);
        assert_eq!(Facts::read(&frame[..128], 1_500), whole);
        // A header whose length exceeds the packet's is invalid.
        assert_eq!(Facts::read(&frame[..128], 1_499).tcp, None);
    }

    #[test]
    fn stamps_in_echoes_and_datagrams() {
        let stamp = Stamp::new(3, 8, 1_000_000);
        for (request, answer) in [
            (ipv4(1, &echo(8, stamp)), ipv4(1, &echo(0, stamp))),
            (ipv6(58, &echo(128, stamp)), ipv6(58, &echo(129, stamp))),
        ] {
            assert_eq!(read(&request).stamp, Some(stamp));
            assert_eq!(read(&answer).stamp, Some(stamp.answer()));
        }
        let mut datagram = vec![0, 7, 0, 9, 0, 20, 0, 0];
        datagram.extend(&echo(0, stamp)[8..20]);
        let facts = read(&ipv4(17, &datagram));
        assert_eq!(facts.ports, Some((17, 7, 9)));
        assert_eq!(facts.stamp, Some(stamp));
        assert_eq!(facts.tcp, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            ethertype in prop_oneof![Just([0x08, 0x00]), Just([0x86, 0xdd]), any::<[u8; 2]>()],
            start in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()],
            protocol in prop_oneof![Just(6_u8), Just(17), Just(1), Just(58), any::<u8>()],
            mut packet in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            for (at, byte) in [(0, start), (6, protocol), (9, protocol)] {
                if let Some(there) = packet.get_mut(at) {
                    *there = byte;
                }
            }
            let facts = read(&frame(ethertype, &packet));
            prop_assert_eq!(usize::from(facts.ip_bytes), packet.len());
        }
    }
}
