// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MSS of a SYN from outside when it reaches an inside host, if a class's `delay` requires
//! smaller packets upstream; and the effect of a rule's `segment` on outgoing SYNs. The MSS is read
//! from the forwarded frame.

use crate::router::{Router, in_namespace};
use weirgate_compile::compile;
use weirgate_explain::Packet;
use weirgate_state::Capabilities;

/// A full packet takes 26.5 ms at 512 kbit/s. 12 ms are 14 cells, 672 bytes less 10: an IP packet
/// of 662 bytes, segments of 622. The minimum for IPv6 is 1220. The class's name has a number that
/// the router can show in an IP header.
const POLICY: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"512kbit\"\n\
    down = \"2mbit\"\nlayer = \"adsl:pppoa-vc\"\ninbound = \"INBOUND\"\n\
    [[class]]\nname = \"all-2\"\nshare = \"100%\"\ndelay = \"12ms\"\ndefault = true\n";

/// The TCP flags SYN and ACK.
const SYN: u8 = 2;
const ACK: u8 = 16;

fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

/// Returns the Internet checksum of a sum (RFC 1071).
fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the sum of the pseudo header of a TCP checksum: addresses, protocol, length.
fn pseudo(packet: &[u8]) -> u32 {
    let v4 = packet[0] >> 4 == 4;
    let addresses = if v4 { &packet[12..20] } else { &packet[8..40] };
    sum(addresses) + 6 + (packet.len() - head(packet)) as u32
}

fn head(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { 20 } else { 40 }
}

/// Returns a segment with an MSS option after a no-operation, so that its offset differs from the
/// usual one.
fn segment(v6: bool, up: bool, flags: u8, size: u16) -> Packet {
    let mut tcp = vec![0; 20];
    let ports: (u16, u16) = if up { (40_000, 80) } else { (80, 40_000) };
    tcp[..2].copy_from_slice(&ports.0.to_be_bytes());
    tcp[2..4].copy_from_slice(&ports.1.to_be_bytes());
    tcp[4..8].copy_from_slice(&0x0102_0304_u32.to_be_bytes());
    tcp[12] = 7 << 4;
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&0x4000_u16.to_be_bytes());
    let value = size.to_be_bytes();
    tcp.extend([1, 1, 2, 4, value[0], value[1], 1, 0]);
    let mut packet = if v6 {
        let inside = "2001:db8:1::5".parse::<std::net::Ipv6Addr>().unwrap();
        let outside = "2001:db8:2::9".parse::<std::net::Ipv6Addr>().unwrap();
        let (from, to) = if up {
            (inside, outside)
        } else {
            (outside, inside)
        };
        let mut packet = vec![0x60, 0, 0, 0, 0, tcp.len() as u8, 6, 64];
        packet.extend(from.octets());
        packet.extend(to.octets());
        packet
    } else {
        let (inside, outside) = ([192, 168, 1, 5], [203, 0, 113, 9]);
        let (from, to) = if up {
            (inside, outside)
        } else {
            (outside, inside)
        };
        let length = (20 + tcp.len()) as u8;
        let mut packet = vec![0x45, 0, 0, length, 0, 0, 0x40, 0, 64, 6, 0, 0];
        packet.extend(from);
        packet.extend(to);
        let check = folded(sum(&packet)).to_be_bytes();
        packet[10..12].copy_from_slice(&check);
        packet
    };
    let at = packet.len();
    packet.extend(tcp);
    let check = folded(pseudo(&packet) + sum(&packet[at..])).to_be_bytes();
    packet[at + 16..at + 18].copy_from_slice(&check);
    Packet::whole(if v6 { 0x86dd } else { 0x0800 }, packet)
}

/// Returns the MSS in a packet's option; its checksum must be right.
fn stated(packet: &Packet) -> u16 {
    let at = head(&packet.bytes);
    let tcp = &packet.bytes[at..];
    assert_eq!(folded(pseudo(&packet.bytes) + sum(tcp)), 0, "checksum");
    assert_eq!(tcp[22..24], [2, 4], "where the option was");
    u16::from_be_bytes([tcp[24], tcp[25]])
}

fn router(inbound: &str) -> Router {
    router_of(&POLICY.replace("INBOUND", inbound))
}

fn router_of(text: &str) -> Router {
    let (policy, problems) = weirgate_policy::parse(text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    let (state, problems) = compile(&policy, &Capabilities::all());
    Router::new(&state.unwrap_or_else(|| panic!("{problems:#?}")).tables)
}

#[test]
fn segments_upstream_are_lowered_by_what_arrives() {
    for inbound in ["lan", "ifb"] {
        in_namespace(move || {
            let router = router(inbound);
            let passed = |up, v6, flags, size| {
                let sent = segment(v6, up, flags, size);
                let (seen, ..) = router.pass(up, &[&sent]);
                let seen = seen.unwrap_or_else(|| panic!("{inbound}: nothing came out"));
                stated(&seen.packet)
            };
            // The MSS of inside hosts limits the downstream, and is unchanged.
            assert_eq!(passed(true, false, SYN, 1460), 1460, "{inbound}");
            assert_eq!(passed(true, true, SYN, 1440), 1440, "{inbound}");
            for flags in [SYN, SYN | ACK, SYN | 0xc0] {
                assert_eq!(passed(false, false, flags, 1460), 622, "{inbound}");
                assert_eq!(passed(false, true, flags, 1440), 1220, "{inbound}");
                // A lower value is unchanged.
                assert_eq!(passed(false, false, flags, 600), 600, "{inbound}");
                assert_eq!(passed(false, true, flags, 1000), 1000, "{inbound}");
            }
        });
    }
}

/// A rule's `segment` does the same for its packets when they leave.
#[test]
fn segments_downstream_are_lowered_by_a_rule() {
    let plain = POLICY.replace("delay = \"12ms\"\n", "");
    let rule = "[[rule]]\nclass = \"all-2\"\ndirection = \"up\"\nremote-port = PORT\n\
                protocol = [\"tcp\", \"udp\"]\nmss = 700\n";
    for (port, v4, v6) in [("[80, 443]", 700, 1220), ("443", 1460, 1440)] {
        let text = plain.replace("INBOUND", "lan") + &rule.replace("PORT", port);
        in_namespace(move || {
            let router = router_of(&text);
            let passed = |up, v6, flags, size| {
                let (seen, ..) = router.pass(up, &[&segment(v6, up, flags, size)]);
                stated(&seen.expect("comes out").packet)
            };
            for flags in [SYN, SYN | ACK] {
                assert_eq!(passed(true, false, flags, 1460), v4, "{port}");
                assert_eq!(passed(true, true, flags, 1440), v6, "{port}");
            }
            assert_eq!(passed(true, false, SYN, 600), 600, "{port}");
            assert_eq!(passed(false, false, SYN, 1460), 1460, "{port}");
        });
    }
}
