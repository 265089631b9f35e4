// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that the kernel's helpers of FTP and SIP expect: a client's real control messages
//! pass a router whose firewall uses the helper, and the packets of the expected connections get
//! the services' class.

use crate::router::{Router, feed, in_namespace, path};
use crate::services::{name, state};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_explain::{Direction, Packet, Simulator, parse_line};

/// The helpers are used on TCP ports 21 and 2121 and UDP ports 5060 and 5070, so that the port of
/// the control connection is not decisive.
const LISTEN: &str = "table inet listen {
    ct helper files { type \"ftp\" protocol tcp; }
    ct helper calls { type \"sip\" protocol udp; }
    chain pre { type filter hook prerouting priority -150; policy accept;
        tcp dport { 21, 2121 } ct helper set \"files\"
        udp dport { 5060, 5070 } ct helper set \"calls\"
    }
}
";

/// Returns a line of a packet; `data` is in Rust's notation.
fn line(head: &str, data: &str, tail: &str) -> String {
    let mut text = format!("{head} data ");
    for byte in data.bytes() {
        let _ = write!(text, "\\x{byte:02x}");
    }
    format!("{text} {tail}")
}

/// Returns a passive transfer: the server names the port in its answer to EPSV.
fn ftp(control: u16, inside: &str, outside: &str) -> Vec<String> {
    let up = |from: u16, to: u16| format!("up tcp {inside}:{from} > {outside}:{to}");
    let down = |from: u16, to: u16| format!("down tcp {outside}:{from} > {inside}:{to}");
    let class = if control == 21 { "=> hit" } else { "=> rest" };
    vec![
        format!("{} syn {class}", up(40_000, control)),
        format!("{} syn,ack {class}", down(control, 40_000)),
        format!("{} ack {class}", up(40_000, control)),
        line(&down(control, 40_000), "220 ready\r\n", class),
        line(&up(40_000, control), "EPSV\r\n", class),
        line(
            &down(control, 40_000),
            "229 Entering Extended Passive Mode (|||50000|)\r\n",
            class,
        ),
        format!("{} syn helper ftp => hit", up(40_001, 50_000)),
        format!("{} syn,ack => hit", down(50_000, 40_001)),
        format!("{} payload 1400 => hit", up(40_001, 50_000)),
        format!("{} payload 1400 => hit", down(50_000, 40_001)),
        // This connection was not announced.
        format!("{} syn => rest", up(40_002, 50_001)),
        format!("{} syn,ack => rest", down(50_001, 40_002)),
    ]
}

/// Returns a call: the caller names its port for the voice.
fn sip(control: u16, version: u8, inside: &str, outside: &str) -> Vec<String> {
    let bare_in = inside.trim_matches(['[', ']']);
    let body = format!(
        "v=0\r\no=a 1 1 IN IP{version} {bare_in}\r\ns=call\r\nc=IN IP{version} {bare_in}\r\n\
         t=0 0\r\nm=audio 20000 RTP/AVP 0\r\n"
    );
    let invite = format!(
        "INVITE sip:b@{outside}:{control} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {inside}:{control};branch=z9hG4bK1\r\n\
         From: <sip:a@{inside}>;tag=1\r\nTo: <sip:b@{outside}>\r\nCall-ID: 1@{bare_in}\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:a@{inside}:{control}>\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let class = if control == 5060 { "=> hit" } else { "=> rest" };
    vec![
        line(
            &format!("up udp {inside}:{control} > {outside}:{control}"),
            &invite,
            class,
        ),
        format!("down udp {outside}:30000 > {inside}:20000 payload 160 helper sip => hit"),
        format!("up udp {inside}:20000 > {outside}:30000 payload 160 => hit"),
        format!("down udp {outside}:30000 > {inside}:20000 payload 160 => hit"),
        format!("down udp {outside}:30002 > {inside}:20002 payload 160 => rest"),
    ]
}

/// The next sequence number of each end of a connection: the FTP helper parses a line only if it
/// directly follows the previous one.
#[derive(Default)]
struct Numbers(BTreeMap<Vec<u8>, u32>);

impl Numbers {
    /// Writes a TCP segment's sequence number, and advances it.
    fn write(&mut self, packet: &mut Packet) {
        let bytes = &mut packet.bytes;
        let (protocol, at, ends) = if bytes[0] >> 4 == 4 {
            (bytes[9], 20, 12..24)
        } else {
            (bytes[6], 40, 8..44)
        };
        if protocol != 6 {
            return;
        }
        let next = self.0.entry(bytes[ends].to_vec()).or_insert(1000);
        bytes[at + 4..at + 8].copy_from_slice(&next.to_be_bytes());
        let (header, flags) = (usize::from(bytes[at + 12] >> 4) * 4, bytes[at + 13]);
        // SYN and FIN take one number each.
        let payload = bytes.len() - at - header;
        *next += payload as u32 + u32::from(flags & 2 > 0) + u32::from(flags & 1 > 0);
    }
}

fn check(conditions: &str, lines: &[String]) {
    let state = state(conditions);
    let router = Router::with(&state.tables, &state.hooks);
    feed("nft -f -", LISTEN);
    let mut simulator = Simulator::new(&state.tables).with_hooks(&state.hooks);
    let mut numbers = Numbers::default();
    for text in lines {
        let line = parse_line(text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        let mut line = line.unwrap();
        numbers.write(&mut line.packet);
        let up = line.direction == Some(Direction::Up);
        let (seen, ..) = router.pass(up, &[&line.packet]);
        let fate = simulator.pass(line.packet, &path(up), 0, None);
        let own = fate.passes.iter().rev().find_map(|pass| pass.class);
        let kernel = seen
            .unwrap_or_else(|| panic!("nothing came out: {text}"))
            .class;
        let expected = line.expected.as_deref().unwrap();
        assert_eq!(name(&state.tables, kernel), expected, "kernel: {text}");
        assert_eq!(name(&state.tables, own), expected, "explain: {text}");
    }
}

#[test]
fn what_the_helper_of_ftp_announces_is_of_the_service() {
    for control in [21, 2121] {
        in_namespace(move || {
            let mut lines = ftp(control, "192.168.0.2", "203.0.113.6");
            lines.extend(ftp(control, "[2001:db8:1::2]", "[2001:db8:9::1]"));
            check("service = \"ftp\"", &lines);
        });
    }
    // Only the data, without even the control connection on its own port.
    in_namespace(|| {
        check(
            "service = \"ftp-data\"",
            &ftp(2121, "192.168.0.2", "203.0.113.6"),
        );
    });
}

#[test]
fn what_the_helper_of_sip_announces_is_of_the_service() {
    for control in [5060, 5070] {
        in_namespace(move || {
            let mut lines = sip(control, 4, "192.168.0.2", "203.0.113.6");
            lines.extend(sip(control, 6, "[2001:db8:1::2]", "[2001:db8:9::1]"));
            check("service = \"voice\"", &lines);
        });
    }
}
