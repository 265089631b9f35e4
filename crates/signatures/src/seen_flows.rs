// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of a device's classifier, with the same steps as `bpf/payload/payload.bpf.c`. Tests
//! compare it with runs of the program in the kernel.

use crate::{EXTENSIONS, HEAD, LOOKS, Signature, Transport, find};
use std::collections::BTreeMap;

/// Ethertypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PPPOE_SESSION: u16 = 0x8864;
/// PPP's protocol numbers of IPv4 and IPv6, and the length of PPPoE's header including that number
/// (RFC 2516 section 4).
const PPP_IPV4: usize = 0x0021;
const PPP_IPV6: usize = 0x0057;
const SESSION_HEADER: usize = 8;
/// The IPv6 extension headers that are skipped: hop-by-hop options, routing, destination options.
const PASSED_OVER: [u8; 3] = [0, 43, 60];
/// The flags SYN and ACK of TCP.
const SYN_ACK: u8 = 0x12;
const SYN: u8 = 0x02;

/// An address, IPv4 in the first four bytes, and a port.
type End = ([u8; 16], u16);

/// Both ends, the smaller first, so that both directions are one flow; and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    ends: [End; 2],
    protocol: u8,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    looks: u8,
    found: Option<Signature>,
}

/// The result for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// The protocol of its flow, as far as it is known.
    pub found: Option<Signature>,
    /// Whether the captured part of the packet was too short for the examination.
    pub cut_off: bool,
}

/// The flows that a classifier has seen. This model never evicts; the kernel's map does after
/// [`FLOWS`](crate::FLOWS).
#[derive(Debug, Clone, Default)]
pub struct SeenFlows {
    flows: BTreeMap<Flow, Known>,
}

/// A packet from its network header on, with its captured bytes and its length.
struct Bytes<'a> {
    known: &'a [u8],
    length: usize,
    cut_off: bool,
}

impl Bytes<'_> {
    fn load<const N: usize>(&mut self, at: usize) -> Option<[u8; N]> {
        self.some(at, N)?.try_into().ok()
    }

    fn some(&mut self, at: usize, length: usize) -> Option<&[u8]> {
        let end = at.checked_add(length)?;
        let found = self.known.get(at..end);
        self.cut_off |= found.is_none() && end <= self.length;
        found
    }

    /// Returns the end of a packet, from the length after its header. A merged packet may be too
    /// long for the field, which is 0 then.
    fn end(&self, at: usize, length: usize) -> usize {
        match length {
            0 => self.length,
            length => at + length,
        }
    }
}

/// The start of the transport header, and the packet's end by its IP header.
struct Bounds {
    transport: usize,
    end: usize,
}

fn short(bytes: &[u8], at: usize) -> usize {
    let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
    byte(at) << 8 | byte(at + 1)
}

/// Parses the IP packet, which may be in a PPPoE session.
fn ip(ethertype: u16, bytes: &mut Bytes<'_>) -> Option<(Flow, Bounds)> {
    match ethertype {
        IPV4 => ipv4(bytes, 0),
        IPV6 => ipv6(bytes, 0),
        PPPOE_SESSION => {
            let session: [u8; SESSION_HEADER] = bytes.load(0)?;
            match short(&session, 6) {
                PPP_IPV4 => ipv4(bytes, SESSION_HEADER),
                PPP_IPV6 => ipv6(bytes, SESSION_HEADER),
                _ => None,
            }
        }
        _ => None,
    }
}

fn ipv4(bytes: &mut Bytes<'_>, at: usize) -> Option<(Flow, Bounds)> {
    let header: [u8; 20] = bytes.load(at)?;
    // A fragment: it has the more-fragments flag or an offset.
    if short(&header, 6) & 0x3fff != 0 {
        return None;
    }
    let address = |at: usize| {
        let mut whole = [0; 16];
        whole[..4].copy_from_slice(&header[at..at + 4]);
        whole
    };
    let flow = Flow {
        ends: [(address(12), 0), (address(16), 0)],
        protocol: header[9],
    };
    let bounds = Bounds {
        transport: at + usize::from(header[0] & 0xf) * 4,
        end: bytes.end(at, short(&header, 2)),
    };
    Some((flow, bounds))
}

fn ipv6(bytes: &mut Bytes<'_>, at: usize) -> Option<(Flow, Bounds)> {
    let header: [u8; 40] = bytes.load(at)?;
    let mut protocol = header[6];
    let mut at = at + 40;
    let end = bytes.end(at, short(&header, 4));
    for _ in 0..EXTENSIONS {
        if !PASSED_OVER.contains(&protocol) {
            break;
        }
        let next: [u8; 2] = bytes.load(at)?;
        protocol = next[0];
        at += (usize::from(next[1]) + 1) * 8;
    }
    let address = |from: usize| {
        let mut whole = [0; 16];
        whole.copy_from_slice(&header[from..from + 16]);
        whole
    };
    let flow = Flow {
        ends: [(address(8), 0), (address(24), 0)],
        protocol,
    };
    let bounds = Bounds { transport: at, end };
    Some((flow, bounds))
}

impl SeenFlows {
    /// Processes a packet: its ethertype, its captured bytes from the network header on, and its
    /// length.
    pub fn see(&mut self, ethertype: u16, known: &[u8], length: usize) -> Look {
        let mut bytes = Bytes {
            known,
            length,
            cut_off: false,
        };
        let found = self.found(ethertype, &mut bytes);
        Look {
            found,
            cut_off: bytes.cut_off,
        }
    }

    fn found(&mut self, ethertype: u16, bytes: &mut Bytes<'_>) -> Option<Signature> {
        let (mut flow, bounds) = ip(ethertype, bytes)?;
        let transport = Transport::of(flow.protocol)?;
        let (ports, begin, flags) = match transport {
            Transport::Tcp => {
                let header: [u8; 14] = bytes.load(bounds.transport)?;
                let begin = bounds.transport + usize::from(header[12] >> 4) * 4;
                (
                    [header[0], header[1], header[2], header[3]],
                    begin,
                    header[13],
                )
            }
            Transport::Udp => (bytes.load(bounds.transport)?, bounds.transport + 8, 0),
        };
        flow.ends[0].1 = short(&ports, 0) as u16;
        flow.ends[1].1 = short(&ports, 2) as u16;
        if flow.ends[0] > flow.ends[1] {
            flow.ends.swap(0, 1);
        }
        // SYN without ACK: the ports may have belonged to another flow.
        if flags & SYN_ACK == SYN {
            self.flows.remove(&flow);
            return None;
        }
        let before = self.flows.get(&flow).copied().unwrap_or_default();
        if before.found.is_some() || before.looks >= LOOKS {
            return before.found;
        }
        let length = bounds.end.checked_sub(begin).filter(|length| *length > 0)?;
        let head = bytes.some(begin, length.min(HEAD));
        let found = head.and_then(|head| find(transport, head, length as u32));
        let looks = before.looks + 1;
        self.flows.insert(flow, Known { looks, found });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merged packet whose length field is 0 ends where it ends.
    #[test]
    fn longer_than_it_says() {
        let segment = |payload: &[u8]| {
            let mut header = vec![0; 20];
            (header[1], header[3], header[12], header[13]) = (7, 9, 5 << 4, 0x18);
            [&header, payload].concat()
        };
        let payload = [&b"\x13BitTorrent protocol"[..], &[0; 1_000]].concat();
        let mut four = vec![0; 20];
        (four[0], four[9]) = (0x45, 6);
        let mut six = vec![0; 40];
        (six[0], six[6]) = (0x60, 6);
        for (ethertype, header) in [(IPV4, four), (IPV6, six)] {
            let bytes = [header, segment(&payload)].concat();
            let look = SeenFlows::default().see(ethertype, &bytes, bytes.len());
            assert!(look.found.is_some(), "{ethertype:#x}");
        }
    }
}
