// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that are written and read back, and compared with the packets that they match.
//!
//! Over 500 lines, because all of it is one property: the generated packets, how they are sent, and
//! the rule that must count them.

use crate::harness::{
    class, htb, in_namespace, name, observe, pfifo, rule, rule as rule_of, whole,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, ipproto, sendto, socket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};
use weirgate_kernel::{DeviceCounters, Kernel};
use weirgate_plan::{plan, verify};
use weirgate_state::{Field, Frame, HtbClass, IpVersion, Match, Rule, State, Variant};
use weirgate_units::{Handle, Rate, Span};

const V4: IpVersion = IpVersion::V4;
const V6: IpVersion = IpVersion::V6;

fn version() -> impl Strategy<Value = IpVersion> {
    prop_oneof![Just(V4), Just(V6)]
}

/// Returns every numeric field with its versions and masks: either those that need connection
/// tracking, which a netdev table lacks, or the others. Some fields are left out, because the
/// kernel matches them only by sets, or only in certain tables.
fn field(needs_connection: bool) -> impl Strategy<Value = Field> {
    let apart = |field: &Field| {
        matches!(
            field,
            Field::EtherType
                | Field::PppProtocol
                | Field::Shape
                | Field::ControlGroup { .. }
                | Field::Class
                | Field::ConnectionId
        )
    };
    let fields = move |(version, mask)| {
        let every = Field::every(Variant {
            version,
            mask,
            level: 1,
        });
        let numbers = every.filter(|field| !field.is_text() && !apart(field));
        let fields = numbers.filter(|field| field.needs_connection() == needs_connection);
        prop::sample::select(fields.collect::<Vec<_>>())
    };
    (version(), any::<u32>()).prop_flat_map(fields)
}

/// Returns a match for a range within the field's values; masked fields are compared as a whole.
fn test_of(field: Field, a: u128, b: u128, point: bool, negated: bool) -> Match {
    let (from, to) = match field {
        Field::Version => {
            let value = if a.is_multiple_of(2) { 4 } else { 6 };
            (value, value)
        }
        Field::TcpFlags { mask } => (a & u128::from(mask), a & u128::from(mask)),
        Field::ConnectionState { mask } => (a & u128::from(mask), a & u128::from(mask)),
        Field::Mark { mask } | Field::ConnectionMark { mask } => {
            let (a, b) = (a & u128::from(mask), b & u128::from(mask));
            if point { (a, a) } else { (a.min(b), a.max(b)) }
        }
        Field::InputKind => (a & 0xffff, a & 0xffff),
        field => {
            let fit = |value: u128| {
                let span = field.greatest() - field.least();
                field.least()
                    + if span == u128::MAX {
                        value
                    } else {
                        value % (span + 1)
                    }
            };
            let (a, b) = (fit(a), fit(b));
            if point { (a, a) } else { (a.min(b), a.max(b)) }
        }
    };
    let found = Match::range(field, from, to);
    if negated { found.negated() } else { found }
}

fn some_test(field: impl Strategy<Value = Field>) -> impl Strategy<Value = Match> {
    (
        field,
        any::<u128>(),
        any::<u128>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(field, a, b, point, negated)| test_of(field, a, b, point, negated))
}

fn any_match() -> impl Strategy<Value = Match> {
    let device = prop_oneof![Just("some0"), Just("other.15-bytes-"), Just("")];
    prop_oneof![
        8 => some_test(field(false)),
        1 => (version(), any::<bool>())
            .prop_map(|(version, negated)| Match::TcpPayloadEmpty { version, negated }),
        1 => (device, any::<bool>()).prop_map(|(device, negated)| {
            let found = Match::text(Field::InputDevice, device);
            if negated { found.negated() } else { found }
        }),
    ]
}

/// Returns plain frames and sessions of PPPoE.
fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![Just(Frame::Plain), version().prop_map(Frame::Session)]
}

/// Returns a rule with those matches that packets in the frame can fulfil. A session gets two more
/// matches, which exist only there.
fn framed(mut matches: Vec<Match>, class: Handle, frame: Frame) -> Rule {
    if let Frame::Session(version) = frame {
        matches.retain(|one| one.version().is_none_or(|own| own == version));
        matches.push(Match::range(Field::PppProtocol, 0x8000, 0xffff));
        if version == V4 {
            matches.push(Match::one(Field::Shape, Field::PLAIN_SHAPE.into()));
        }
    }
    rule(matches, class).in_frame(frame)
}

#[test]
fn any_rules_are_read_back_as_they_were_written() {
    in_namespace(|kernel| async move {
        // A packet cannot be both ICMP and ICMPv6; the reader does not distinguish the two in one
        // rule.
        let both = |matches: &Vec<Match>| {
            let has = |version| {
                let field = Field::IcmpType(version);
                matches.iter().any(|m| m.field() == Some(field))
            };
            !(has(V4) && has(V6))
        };
        let matches = prop::collection::vec(any_match(), 0..4).prop_filter("one ICMP", both);
        let rule = (matches, any::<u32>(), frame())
            .prop_map(|(matches, class, frame)| framed(matches, Handle::from_u32(class), frame));
        let rules = prop::collection::vec(rule, 200..201);
        let tracked = some_test(field(true)).prop_map(|one| rule_of(vec![one], Handle::new(1, 1)));
        let tracked = prop::collection::vec(tracked, 40..41);
        let mut runner = TestRunner::deterministic();
        for _ in 0..4 {
            let mut desired = whole(&rules.new_tree(&mut runner).unwrap().current());
            let outgoing = &mut desired.tables[0].chains[0].rules;
            outgoing.extend(tracked.new_tree(&mut runner).unwrap().current());
            let before = observe(&kernel, &[&desired]).await;
            kernel
                .apply(&plan(&before, &desired).unwrap())
                .await
                .unwrap();
            let after = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&after, &desired), vec![]);
            let lines = |state: &State| -> Vec<u32> {
                let rules = state.tables.iter().flat_map(|t| &t.chains[0].rules);
                rules.map(|rule| rule.origin.line).collect()
            };
            assert_eq!(lines(&after), lines(&desired));
        }
    });
}

/// The parts of a packet. Checksums stay 0, because no process receives it.
#[derive(Clone, Copy)]
pub struct Packet {
    pub version: IpVersion,
    pub protocol: u8,
    pub dscp: u8,
    /// The two bits of ECN (RFC 3168 section 5).
    pub ecn: u8,
    pub ip_options: usize,
    pub tcp_options: usize,
    pub flags: u8,
    pub ports: (u16, u16),
    pub payload: usize,
}

pub const SEGMENT: Packet = Packet {
    version: V4,
    protocol: 6,
    dscp: 0,
    ecn: 0,
    ip_options: 0,
    tcp_options: 0,
    flags: 0x10,
    ports: (1000, 2000),
    payload: 0,
};

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut upper = Vec::new();
        upper.extend(self.ports.0.to_be_bytes());
        upper.extend(self.ports.1.to_be_bytes());
        if self.protocol == 6 {
            upper.extend([0; 8]);
            upper.push((((20 + self.tcp_options) / 4) << 4) as u8);
            upper.extend([self.flags, 0, 0, 0, 0, 0, 0]);
            upper.extend(vec![1; self.tcp_options]);
        } else {
            // Conntrack ignores datagrams with a wrong length.
            let udp = if self.protocol == 17 {
                8 + self.payload
            } else {
                0
            };
            upper.extend((udp as u16).to_be_bytes());
            upper.extend([0; 2]);
        }
        upper.extend(vec![0; self.payload]);
        let mut packet = Vec::new();
        match self.version {
            V4 => {
                let header = 20 + self.ip_options;
                let total = (header + upper.len()) as u16;
                packet.push(0x40 | (header / 4) as u8);
                packet.push(self.dscp << 2 | self.ecn);
                packet.extend(total.to_be_bytes());
                packet.extend([0, 1, 0, 0, 64, self.protocol, 0, 0]);
                packet.extend([10, 9, 0, 1, 10, 9, 0, 2]);
                packet.extend(vec![1; self.ip_options]);
            }
            V6 => {
                let class = u32::from(self.dscp << 2 | self.ecn);
                packet.extend((0x6000_0000 | class << 20).to_be_bytes());
                packet.extend((upper.len() as u16).to_be_bytes());
                packet.extend([self.protocol, 64]);
                for last in [1, 2_u16] {
                    let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
                    packet.extend(address.octets());
                }
            }
        }
        packet.extend(upper);
        packet
    }

    pub fn send(&self) {
        let raw = Some(Protocol::from_raw(ipproto::RAW.as_raw()));
        let bytes = self.bytes();
        let sent = match self.version {
            V4 => {
                let fd = socket(AddressFamily::INET, SocketType::RAW, raw).unwrap();
                let to = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 2), 0);
                sendto(fd, &bytes, SendFlags::empty(), &to).unwrap()
            }
            V6 => {
                let fd = socket(AddressFamily::INET6, SocketType::RAW, raw).unwrap();
                let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
                let to = SocketAddrV6::new(address, 0, 0, 0);
                sendto(fd, &bytes, SendFlags::empty(), &to).unwrap()
            }
        };
        assert_eq!(sent, bytes.len());
    }
}

/// Returns the packets that entered a class, sent or waiting.
fn packets(counters: &DeviceCounters, minor: u16) -> u64 {
    let id = Handle::new(1, minor);
    let class = counters.classes.iter().find(|class| class.handle == id);
    let class = class.unwrap();
    class.packets + u64::from(class.queued_packets)
}

/// Returns a state with class 1:10 for packets that the matches select, and 1:20 for the rest, on
/// both paths.
fn sieve(matches: &[Match]) -> State {
    let rules: Vec<Rule> = vec![rule(matches.to_vec(), Handle::new(1, 0x10))];
    let mut state = whole(&rules);
    let fast = |minor| HtbClass {
        rate: Rate::kbit(1_000_000),
        ceil: Rate::kbit(1_000_000),
        buffer: Span::from_millis(100),
        cbuffer: Span::from_millis(100),
        ..class(1, minor, 0, Some(pfifo(minor, 100)))
    };
    let tree = htb(1, 0x20, vec![fast(0x10), fast(0x20)]);
    for device in ["wan", "ifb-far"] {
        state.devices.get_mut(&name(device)).unwrap().root = Some(tree.clone());
    }
    state
}

async fn counters(kernel: &Kernel, device: &str) -> DeviceCounters {
    let index = kernel.device(&name(device)).await.unwrap();
    kernel.stats(index).await.unwrap()
}

/// Sends a packet that leaves `wan` and arrives at `far`, and asserts on both paths whether the
/// rule matched.
async fn try_packet(kernel: &Kernel, packet: &Packet, hit: bool, text: &str) {
    let (expected, other) = if hit { (0x10, 0x20) } else { (0x20, 0x10) };
    let devices = ["wan", "ifb-far"];
    let before = [
        counters(kernel, devices[0]).await,
        counters(kernel, devices[1]).await,
    ];
    packet.send();
    for (device, before) in devices.iter().zip(before) {
        let limit = Instant::now() + Duration::from_secs(2);
        let mut after = counters(kernel, device).await;
        // Arrival is handled in a softirq, which may run after the send has returned.
        while packets(&after, expected) == packets(&before, expected) {
            assert!(
                Instant::now() < limit,
                "{device}: not in 1:{expected:x}: {text}"
            );
            after = counters(kernel, device).await;
        }
        if !hit {
            assert_eq!(
                packets(&after, other),
                packets(&before, other),
                "{device}: {text}"
            );
        }
    }
}

/// A packet, and whether the rule must match it.
type Trial = (Packet, bool);

/// Asserts on both paths which of the packets the matches select.
fn check(cases: Vec<(Vec<Match>, Vec<Trial>)>) {
    in_namespace(|kernel| async move {
        for (matches, packets) in cases {
            let desired = sieve(&matches);
            let before = observe(&kernel, &[&desired]).await;
            kernel
                .apply(&plan(&before, &desired).unwrap())
                .await
                .unwrap();
            for (packet, hit) in packets {
                let head = packet.bytes();
                let text = format!("{matches:?}: {:02x?}", &head[..head.len().min(80)]);
                try_packet(&kernel, &packet, hit, &text).await;
            }
        }
    });
}

fn v6(packet: Packet) -> Packet {
    Packet {
        version: V6,
        ..packet
    }
}

fn empty(version: IpVersion) -> Match {
    Match::TcpPayloadEmpty {
        version,
        negated: false,
    }
}

/// Returns a match for the addresses with the first `prefix` bits of an address.
fn network(field: fn(IpVersion) -> Field, text: &str, prefix: u32) -> Match {
    let (version, value, bits) = match text.parse().unwrap() {
        IpAddr::V4(v4) => (V4, u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (V6, u128::from(v6), 128),
    };
    let rest = (1_u128 << (bits - prefix)) - 1;
    Match::range(field(version), value & !rest, value | rest)
}

#[test]
fn segments_without_payload_are_told_from_others() {
    let with = |ip_options, tcp_options, payload| Packet {
        ip_options,
        tcp_options,
        payload,
        ..SEGMENT
    };
    let udp = Packet {
        protocol: 17,
        ..SEGMENT
    };
    check(vec![
        (
            vec![empty(V4)],
            vec![
                (with(0, 0, 0), true),
                (with(0, 12, 0), true),
                (with(8, 40, 0), true),
                (with(40, 40, 0), true),
                (with(0, 0, 1), false),
                (with(0, 12, 12), false),
                (with(12, 0, 12), false),
                (udp, false),
                (v6(with(0, 0, 0)), false),
            ],
        ),
        (
            vec![empty(V6)],
            vec![
                (v6(with(0, 0, 0)), true),
                (v6(with(0, 40, 0)), true),
                (v6(with(0, 12, 1)), false),
                (v6(udp), false),
                (with(0, 0, 0), false),
            ],
        ),
    ]);
}

#[test]
fn header_fields_are_matched_in_both_versions() {
    let ef = Packet {
        dscp: 46,
        ..SEGMENT
    };
    let long = Packet {
        payload: 960,
        ..SEGMENT
    };
    let syn = Packet {
        flags: 0x02,
        ..SEGMENT
    };
    let synack = Packet {
        flags: 0x12,
        ..SEGMENT
    };
    let dscp = |version| vec![Match::one(Field::Dscp(version), 46)];
    let flags = Match::tcp_flags(0x12, 0x02);
    check(vec![
        (
            dscp(V4),
            vec![(ef, true), (SEGMENT, false), (v6(ef), false)],
        ),
        (
            dscp(V6),
            vec![(v6(ef), true), (v6(SEGMENT), false), (ef, false)],
        ),
        (
            vec![Match::range(Field::Length(V4), 1000, 1000)],
            vec![(long, true), (SEGMENT, false)],
        ),
        (
            vec![Match::range(Field::Length(V6), 1020, 1500)],
            vec![(v6(long), true), (v6(SEGMENT), false)],
        ),
        (
            vec![flags],
            vec![
                (syn, true),
                (v6(syn), true),
                (synack, false),
                (SEGMENT, false),
            ],
        ),
        (
            vec![Match::version_is(V6), Match::one(Field::Protocol, 6)],
            vec![(v6(SEGMENT), true), (SEGMENT, false)],
        ),
    ]);
}

#[test]
fn addresses_and_ports_are_matched() {
    let source = |text, prefix| network(Field::Source, text, prefix);
    let destination = |text, prefix| network(Field::Destination, text, prefix);
    // An ICMP echo whose first bytes could be mistaken for a port.
    let icmp = Packet {
        protocol: 1,
        ..SEGMENT
    };
    let udp = Packet {
        protocol: 17,
        ..SEGMENT
    };
    check(vec![
        (
            vec![source("10.9.0.0", 22), destination("10.9.0.2", 32)],
            vec![(SEGMENT, true), (v6(SEGMENT), false)],
        ),
        (vec![source("10.9.0.2", 31)], vec![(SEGMENT, false)]),
        (
            vec![source("2001:db8::", 33), destination("2001:db8::2", 128)],
            vec![(v6(SEGMENT), true), (SEGMENT, false)],
        ),
        (
            vec![destination("2001:db8::3", 128)],
            vec![(v6(SEGMENT), false)],
        ),
        (
            vec![Match::range(Field::SourcePort, 1000, 1000)],
            vec![
                (SEGMENT, true),
                (v6(SEGMENT), true),
                (udp, true),
                (icmp, false),
            ],
        ),
        (
            vec![Match::range(Field::DestinationPort, 2001, 65535)],
            vec![(SEGMENT, false)],
        ),
        (
            vec![
                Match::range(Field::DestinationPort, 1, 2000),
                Match::one(Field::Protocol, 17),
            ],
            vec![(udp, true), (SEGMENT, false)],
        ),
        (vec![], vec![(SEGMENT, true), (v6(SEGMENT), true)]),
    ]);
}

#[test]
fn thousands_of_rules_and_classes_go_in_one_transaction() {
    in_namespace(|kernel| async move {
        let rules: Vec<Rule> = (1..=2_000)
            .map(|port| {
                rule(
                    vec![Match::one(Field::SourcePort, u128::from(port))],
                    Handle::new(1, port),
                )
            })
            .collect();
        let mut desired = whole(&rules);
        let classes = (1..=1_000)
            .map(|minor| class(1, minor, 0, Some(pfifo(0x1000 + minor, 10))))
            .collect();
        desired.devices.get_mut(&name("wan")).unwrap().root = Some(htb(1, 1, classes));
        let before = observe(&kernel, &[&desired]).await;
        let plan = plan(&before, &desired).unwrap();
        kernel.apply(&plan).await.unwrap();
        let after = observe(&kernel, &[&desired]).await;
        assert_eq!(verify(&after, &desired), vec![]);
    });
}

/// Sends a datagram from a socket with this mark.
fn send_marked(mark: u32) {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    // SAFETY: the descriptor is open, and the kernel reads four bytes.
    #[expect(unsafe_code, reason = "no crate of the tree has this option")]
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw const mark).cast(),
            4,
        )
    };
    assert_eq!(outcome, 0);
    socket.send_to(b"x", "10.9.0.2:9").unwrap();
}

/// The kernel compares ranges byte by byte, and holds marks in the order of the processor.
#[test]
fn marks_are_compared_as_numbers() {
    in_namespace(|kernel| async move {
        let mask = 0x00ff_0000;
        let desired = sieve(&[Match::range(Field::Mark { mask }, 0, 0x0001_ffff)]);
        let before = observe(&kernel, &[&desired]).await;
        kernel
            .apply(&plan(&before, &desired).unwrap())
            .await
            .unwrap();
        for (mark, hit) in [
            (0, true),
            (0x0001_0000, true),
            (0xff01_00ff, true),
            (0x0002_0000, false),
            (0x00ff_0000, false),
        ] {
            let before = packets(&counters(&kernel, "wan").await, 0x10);
            send_marked(mark);
            let after = packets(&counters(&kernel, "wan").await, 0x10);
            assert_eq!(after > before, hit, "{mark:#x}");
        }
    });
}
