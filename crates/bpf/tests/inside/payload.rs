// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the filter of payload signatures packet by packet, with the kernel's test runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_bpf::Payload;
use weirgate_signatures::Signature;

const TCP: u8 = 6;
const UDP: u8 = 17;
const LOWEST: u32 = 24;

/// A flow's packets; each test has its own flow, by port.
#[derive(Clone, Copy)]
struct Flow {
    version: u8,
    protocol: u8,
    port: u16,
}

/// Returns the Ethernet frame of a packet of a flow; `back` is from the server.
fn frame(flow: Flow, back: bool, flags: u8, payload: &[u8]) -> Vec<u8> {
    let (mut source, mut destination) = match flow.version {
        4 => (
            IpAddr::from(Ipv4Addr::new(192, 168, 1, 10)),
            IpAddr::from(Ipv4Addr::new(203, 0, 113, 5)),
        ),
        _ => (
            IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 10)),
            IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 5)),
        ),
    };
    let (mut from, mut to) = (flow.port, 6_881_u16);
    if back {
        (source, destination, from, to) = (destination, source, to, from);
    }
    let mut upper = [from.to_be_bytes(), to.to_be_bytes()].concat();
    if flow.protocol == TCP {
        upper.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x80, flags, 0x20, 0, 0, 0, 0, 0]);
        // Timestamps, so that the header is not the shortest.
        upper.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    } else {
        upper.extend(((8 + payload.len()) as u16).to_be_bytes());
        upper.extend([0, 0]);
    }
    upper.extend(payload);
    let mut bytes = vec![2; 12];
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            bytes.extend([8, 0, 0x45, 0]);
            bytes.extend(((20 + upper.len()) as u16).to_be_bytes());
            bytes.extend([0, 1, 0x40, 0, 64, flow.protocol, 0, 0]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            // A destination options header precedes.
            bytes.extend(((8 + upper.len()) as u16).to_be_bytes());
            bytes.extend([60, 64]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            bytes.extend([flow.protocol, 0, 1, 4, 0, 0, 0, 0]);
        }
        _ => unreachable!("both are of one version"),
    }
    bytes.extend(upper);
    bytes
}

/// Returns the number that the filter writes into the mark of a packet, which has other bits set.
fn of(filter: &Payload, frame: &[u8]) -> u32 {
    let before = 0xf800_1234;
    let after = filter.run(frame, before).expect("a run");
    assert_eq!(
        after & !(7 << LOWEST),
        before & !(7 << LOWEST),
        "other bits stay"
    );
    after >> LOWEST & 7
}

fn utp() -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[0] = 1;
    bytes.extend(b"\x13BitTorrent protocol");
    bytes
}

/// A packet with a long header.
fn quic(first: u8, version: [u8; 4]) -> Vec<u8> {
    [&[first][..], &version, &[8; 1_195]].concat()
}

fn signed() -> Vec<(u8, &'static str, Vec<u8>)> {
    let mut with_address = b"d2:ip6:".to_vec();
    with_address.extend([7; 6]);
    with_address.extend(b"1:rd2:id20:01234567890123456789");
    let mut with_long_address = b"d2:ip18:".to_vec();
    with_long_address.extend([7; 18]);
    with_long_address.extend(b"1:rd2:id20:01234567890123456789");
    vec![
        (
            TCP,
            "bittorrent",
            b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0".to_vec(),
        ),
        (TCP, "bittorrent", b"\x13BitTorrent protocol".to_vec()),
        (
            UDP,
            "bittorrent",
            b"d1:ad2:id20:01234567890123456789e1:q4:ping".to_vec(),
        ),
        (
            UDP,
            "bittorrent",
            b"d1:rd2:id20:01234567890123456789e1:t2:aa".to_vec(),
        ),
        (UDP, "bittorrent", with_address),
        (UDP, "bittorrent", with_long_address),
        (
            UDP,
            "bittorrent",
            b"\0\0\x04\x17\x27\x10\x19\x80\0\0\0\0abcd".to_vec(),
        ),
        (UDP, "bittorrent", utp()),
        (TCP, "edonkey", b"\xe3\x05\0\0\0\x01abcd".to_vec()),
        (TCP, "edonkey", b"\xc5\x02\0\0\0\x02a".to_vec()),
        (TCP, "edonkey", b"\xd4\x02\0\0\0\x15a".to_vec()),
        (TCP, "gnutella", b"GNUTELLA CONNECT/0.6\r\n".to_vec()),
        (TCP, "gnutella", b"GNUTELLA/0.6 200 OK\r\n".to_vec()),
        (
            TCP,
            "gnutella",
            b"GET /uri-res/N2R?urn:sha1:PLSTHIPQ HTTP/1.1\r\n".to_vec(),
        ),
        (TCP, "directconnect", b"$Lock EXTENDEDPROTOCOL|".to_vec()),
        (TCP, "directconnect", b"$MyNick someone|".to_vec()),
        (TCP, "directconnect", b"HSUP ADBASE ADTIGR\n".to_vec()),
        (UDP, "quic", quic(0xc7, [0, 0, 0, 1])),
        (UDP, "quic", quic(0xec, [0, 0, 0, 1])),
        (UDP, "quic", quic(0xd1, [0x6b, 0x33, 0x43, 0xcf])),
    ]
}

/// Returns payloads that resemble a signature but are none.
fn unsigned() -> Vec<(u8, Vec<u8>)> {
    vec![
        (TCP, b"\x13BitTorrent protoco".to_vec()),
        (TCP, b"x\x13BitTorrent protocol".to_vec()),
        (UDP, b"\x13BitTorrent protocol".to_vec()),
        (TCP, b"d1:ad2:id20:01234567890123456789".to_vec()),
        (UDP, b"\0\0\x04\x17\x27\x10\x19\x80\0\0\0\0abcde".to_vec()),
        (TCP, b"\xe3\x05\0\0\0\x01abc".to_vec()),
        (TCP, b"\xe3\x05\0\0\0\x77abcd".to_vec()),
        (TCP, b"GET /index.html HTTP/1.1\r\n".to_vec()),
        (TCP, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec()),
        (UDP, b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example".to_vec()),
        (TCP, b"$".to_vec()),
        (TCP, quic(0xc7, [0, 0, 0, 1])),
        (UDP, quic(0x87, [0, 0, 0, 1])),
        (UDP, quic(0x47, [0, 0, 0, 1])),
        (UDP, quic(0xc7, [0, 0, 0, 2])),
        (UDP, b"\xc7\0\0\0".to_vec()),
    ]
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn signatures() {
    let filter = Payload::load(LOWEST).unwrap_or_else(|error| panic!("{error}"));
    let mut port = 10_000;
    let mut next = |version, protocol| {
        port += 1;
        Flow {
            version,
            protocol,
            port,
        }
    };
    for version in [4, 6] {
        for (protocol, name, payload) in signed() {
            let flow = next(version, protocol);
            let is = Signature::ALL.into_iter().find(|one| one.name() == name);
            let is = is.expect("a name").number();
            let place = format!("{name} over IPv{version}: {payload:?}");
            let data = |back, payload: &[u8]| of(&filter, &frame(flow, back, 0x18, payload));
            assert_eq!(data(false, b""), 0, "{place}: nothing yet");
            assert_eq!(data(true, &payload), is, "{place}");
            // Both directions from then on, with and without payload.
            assert_eq!(data(false, b"whatever"), is, "{place}");
            assert_eq!(data(true, b""), is, "{place}");
            // A truncated packet is not recognised, and is not an error.
            let whole = frame(flow, false, 0x18, &payload);
            for length in 14..whole.len() {
                let _ = filter.run(&whole[..length], 0);
            }
        }
        for (protocol, payload) in unsigned() {
            let flow = next(version, protocol);
            let found = of(&filter, &frame(flow, false, 0x18, &payload));
            assert_eq!(found, 0, "IPv{version}: {payload:?}");
        }
        eight_packets_and_no_more(&filter, next(version, TCP), next(version, TCP));
        new_flow_of_old_ports(&filter, next(version, TCP));
        longer_than_it_says(&filter, next(version, TCP));
    }
    fragments(&filter, next(4, UDP));
}

fn eight_packets_and_no_more(filter: &Payload, late: Flow, too_late: Flow) {
    let handshake = b"\x13BitTorrent protocol";
    let packet = |flow, payload: &[u8]| of(filter, &frame(flow, false, 0x18, payload));
    for _ in 0..7 {
        assert_eq!(packet(late, b"something else"), 0);
        // Packets without payload do not count.
        assert_eq!(packet(late, b""), 0);
    }
    assert_eq!(packet(late, handshake), 1, "the eighth is looked at");
    for _ in 0..8 {
        assert_eq!(packet(too_late, b"something else"), 0);
    }
    assert_eq!(packet(too_late, handshake), 0, "the ninth is not");
}

fn new_flow_of_old_ports(filter: &Payload, flow: Flow) {
    let packet = |flags, payload: &[u8]| of(filter, &frame(flow, false, flags, payload));
    assert_eq!(packet(0x18, b"$Lock x"), 4);
    assert_eq!(packet(0x12, b""), 4, "SYN with ACK begins nothing");
    assert_eq!(packet(0x02, b""), 0, "SYN does");
    assert_eq!(packet(0x18, b"GET / HTTP/1.1"), 0);
}

/// A GSO packet whose length field is 0.
fn longer_than_it_says(filter: &Payload, flow: Flow) {
    let payload = [&b"\x13BitTorrent protocol"[..], &[0; 1_000]].concat();
    let mut bytes = frame(flow, false, 0x18, &payload);
    let length_at = if flow.version == 4 { 16 } else { 18 };
    bytes[length_at..length_at + 2].fill(0);
    assert_eq!(of(filter, &bytes), 1);
}

fn fragments(filter: &Payload, flow: Flow) {
    let mut bytes = frame(flow, false, 0, b"d1:ad2:id20:01234567890123456789");
    bytes[20] = 0x20;
    assert_eq!(of(filter, &bytes), 0, "more fragments follow");
    (bytes[20], bytes[21]) = (0, 3);
    assert_eq!(of(filter, &bytes), 0, "no ports in it");
    (bytes[20], bytes[21]) = (0x40, 0);
    assert_eq!(of(filter, &bytes), 1, "whole");
}
