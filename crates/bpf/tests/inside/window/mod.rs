// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests receive-window control with the kernel's test runs of its programs: what is written and
//! what is not, and that no packet makes it write anything else. `window_handshakes` tests
//! handshakes, and `window_tcp` the kernel's own TCP.

mod announced;
mod ask;
mod handshakes;
mod l4s;
mod path;
mod scale;
mod second;
mod streams;
pub mod tcp;

use super::filter::{Chance, checksum};
use weirgate_bpf::WindowControl;
use weirgate_state::{Measured, SparedMark, Windows};
use weirgate_units::{Handle, Rate, Size, Span};

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;

/// A segment of one of many connections, outgoing or arriving.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    pub version: u8,
    pub port: u16,
    pub out: bool,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub options: &'a [u8],
    pub payload: usize,
}

impl Segment<'_> {
    /// Returns its Ethernet frame, with valid checksums.
    pub fn frame(&self) -> Vec<u8> {
        let ends = [(self.port, 11_u8), (443, 99)];
        let (from, to) = if self.out { (0, 1) } else { (1, 0) };
        let mut tcp = [ends[from].0.to_be_bytes(), ends[to].0.to_be_bytes()].concat();
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        let header = 20 + self.options.len();
        tcp.extend([(header / 4 * 16) as u8, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0, 0, 0]);
        tcp.extend(self.options);
        tcp.resize(header + self.payload, 0x5a);
        let mut bytes = vec![2; 12];
        let addresses = if self.version == 4 {
            let mut header = vec![0x45, 0];
            header.extend(((20 + tcp.len()) as u16).to_be_bytes());
            header.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, ends[from].1]);
            header.extend([10, 0, 0, ends[to].1]);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            bytes.extend([8, 0]);
            bytes.extend(&header);
            header[12..].to_vec()
        } else {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend((tcp.len() as u16).to_be_bytes());
            bytes.extend([6, 64]);
            let address = |last: u8| {
                let mut address = [0; 16];
                (address[0], address[7], address[15]) = (0xfd, 1, last);
                address
            };
            let addresses = [address(ends[from].1), address(ends[to].1)].concat();
            bytes.extend(&addresses);
            addresses
        };
        let sum = pseudo(&addresses, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(tcp);
        bytes
    }
}

/// Returns TCP's checksum with its pseudo header (RFC 9293 section 3.1).
pub fn pseudo(addresses: &[u8], tcp: &[u8]) -> u16 {
    let mut all = addresses.to_vec();
    all.extend((tcp.len() as u32).to_be_bytes());
    all.extend([0, 0, 0, 6]);
    all.extend(tcp);
    checksum(&all)
}

/// Returns the offset of the TCP header.
pub fn tcp_at(version: u8) -> usize {
    if version == 4 { 34 } else { 54 }
}

/// Returns a frame's window, after checking that its checksum is right and that nothing else
/// changed.
pub fn window(segment: &Segment<'_>, before: &[u8], after: &[u8]) -> u16 {
    let at = tcp_at(segment.version);
    for index in 0..before.len() {
        let may = [14, 15, 16, 17].contains(&index.wrapping_sub(at));
        assert!(may || before[index] == after[index], "byte {index}");
    }
    let addresses = if segment.version == 4 { 26..34 } else { 22..54 };
    assert_eq!(pseudo(&after[addresses], &after[at..]), 0, "checksum");
    u16::from_be_bytes([after[at + 14], after[at + 15]])
}

/// Returns windows by their edge for this rate of payload, with Shah's chunks (30 of 100 ms;
/// section 6.2).
pub fn edge(rate_bytes_s: u64) -> Windows {
    Windows {
        rate: Rate::bytes_per_second(rate_bytes_s),
        horizon: Span::from_secs(1),
        measured: Measured {
            chunk: Span::from_millis(100),
            chunks: 30,
            age: Span::from_secs(5),
        },
        ..Windows::default()
    }
}

pub fn control(windows: &Windows) -> WindowControl {
    WindowControl::load(windows).unwrap_or_else(|error| panic!("{error}"))
}

pub const SCALE_7: [u8; 12] = [2, 4, 5, 0xb4, 1, 3, 3, 7, 1, 1, 4, 2];

/// Makes a handshake, and returns the window that the SYN finally offers.
pub fn handshake(control: &WindowControl, version: u8, port: u16, own: &[u8], peer: &[u8]) -> u16 {
    let syn = Segment {
        version,
        port,
        out: true,
        flags: SYN,
        seq: 1,
        ack: 0,
        window: 64_240,
        options: own,
        payload: 0,
    };
    let frame = syn.frame();
    let after = control.run(false, &frame).expect("a run");
    let offered = window(&syn, &frame, &after);
    let answer = Segment {
        out: false,
        flags: SYN | ACK,
        ack: syn.seq + 1,
        options: peer,
        ..syn
    };
    control.run(true, &answer.frame()).expect("a run");
    offered
}

/// The initial and the maximum window, with a rate and without.
#[test]
#[ignore = "runs in the lab's kernel"]
fn begins() {
    for rate in [0, 1_000_000] {
        let control = control(&Windows {
            initial: Size::bytes(7_300),
            limit: Size::bytes(20_000),
            ..edge(rate)
        });
        assert_eq!(handshake(&control, 4, 1_001, &SCALE_7, &SCALE_7), 7_300);
        let offered = |ack, out| {
            let segment = Segment {
                version: 4,
                port: 1_001,
                out,
                flags: ACK,
                seq: 1,
                ack,
                window: 60_000,
                options: &[],
                payload: if out { 0 } else { 1_448 },
            };
            let frame = segment.frame();
            let after = control.run(!out, &frame).expect("a run");
            u32::from(window(&segment, &frame, &after)) << 7
        };
        let first = 7_300_u32.div_ceil(128) * 128;
        assert_eq!(offered(1, true), first);
        offered(1, false);
        let next = offered(1_449, true);
        assert!(1_449 + next > first, "{next}: nothing is taken back");
        assert!(next <= 20_096, "{next}");
        if rate == 0 {
            assert_eq!(next, 20_096);
        }
    }
}

/// The fixed window, which is exact to the byte: scaled or not, with either IP version, and only if
/// the handshake was seen.
#[test]
#[ignore = "runs in the lab's kernel"]
fn writes() {
    let control = control(&Windows {
        fixed: Size::bytes(4_000),
        ..edge(1_000_000)
    });
    for version in [4, 6] {
        let plain = [2, 4, 5, 0xb4];
        let cases: [(u16, &[u8], &[u8], u32); 3] = [
            (1_001, &SCALE_7, &SCALE_7, 7),
            (1_002, &SCALE_7, &plain, 0),
            (1_003, &plain, &SCALE_7, 0),
        ];
        for (port, own, peer, shift) in cases {
            // From the SYN on, whose window is never scaled.
            assert_eq!(handshake(&control, version, port, own, peer), 4_000);
            let data = Segment {
                version,
                port,
                out: false,
                flags: ACK,
                seq: 1,
                ack: 1,
                window: 500,
                options: &[],
                payload: 1_448,
            };
            let acknowledged = |ack| Segment {
                out: true,
                ack,
                window: 60_000,
                payload: 0,
                ..data
            };
            let first = acknowledged(5_000);
            let offered = |segment: &Segment<'_>| {
                let frame = segment.frame();
                window(segment, &frame, &control.run(false, &frame).expect("a run"))
            };
            let expected = 4_000_u32.div_ceil(1 << shift) as u16;
            // Before data arrived, and after.
            assert_eq!(offered(&first), expected);
            let arrived = data.frame();
            assert_eq!(control.run(true, &arrived).expect("a run"), arrived);
            assert_eq!(offered(&first), expected);
            // An old acknowledgement takes nothing back: 1000 bytes are missing.
            let edge = 5_000 + (u32::from(expected) << shift);
            let old = u32::from(offered(&acknowledged(4_000))) << shift;
            assert!(4_000 + old >= edge, "{old}");
            // The receiver's own window is the maximum, and data segments are written too.
            let narrow = Segment {
                window: 10,
                ack: 20_000,
                payload: 99,
                ..first
            };
            let most = 10_u32 << shift;
            assert_eq!(
                u32::from(offered(&narrow)) << shift,
                most.min(4_000_u32.div_ceil(1 << shift) << shift)
            );
        }
        // A connection that existed before.
        let unknown = Segment {
            version,
            port: 2_000,
            out: true,
            flags: ACK,
            seq: 1,
            ack: 1,
            window: 60_000,
            options: &[],
            payload: 0,
        };
        let frame = unknown.frame();
        assert_eq!(control.run(false, &frame).expect("a run"), frame);
    }
    let totals = control.totals().expect("a map");
    assert!(totals.rewritten > 6 && totals.unknown > 0, "{totals:?}");
}

/// Windows that are not changed: by the class of what a connection sends, except pure
/// acknowledgements, and by marks. The classes' configuration may change.
#[test]
#[ignore = "runs in the lab's kernel"]
fn spares() {
    const ACKS: u32 = 0x2_0010;
    const VIDEO: u32 = 0x2_0011;
    let other = Windows {
        fixed: Size::bytes(4_000),
        ..edge(0)
    };
    let wanted = Windows {
        spared: SparedMark {
            mark: 0x100,
            mask: 0xf00,
        },
        acknowledgements: Handle::from_u32(ACKS),
        classes: [0x2_0012, VIDEO]
            .map(|class| (Handle::from_u32(class), Rate::default()))
            .to_vec(),
        ..other.clone()
    };
    let control = control(&wanted);
    let plain = [2, 4, 5, 0xb4];
    handshake(&control, 4, 3_001, &plain, &plain);
    let out = Segment {
        version: 4,
        port: 3_001,
        out: true,
        flags: ACK,
        seq: 1,
        ack: 1,
        window: 60_000,
        options: &[],
        payload: 0,
    };
    let data = Segment {
        out: false,
        payload: 1_448,
        ..out
    };
    let mut ack = 1_u32;
    let mut offered_after = |step: u32, payload, mark, class| {
        control.run(true, &data.frame()).expect("a run");
        ack = ack.wrapping_add(step);
        let segment = Segment {
            ack,
            payload,
            ..out
        };
        let frame = segment.frame();
        let after = control.run_as(false, &frame, (mark, class));
        window(&segment, &frame, &after.expect("a run"))
    };
    let mut offered = |payload, mark, class| offered_after(10_000, payload, mark, class);
    // What was on offer before is not taken back.
    let falls = [50_000, 40_000, 30_000, 20_000, 10_000, 4_000];
    assert_eq!(offered(0, 0, ACKS), 4_000, "no class yet");
    assert_eq!(offered(9, 0, VIDEO), 60_000);
    assert_eq!(offered(0, 0, ACKS), 60_000, "as before");
    assert_eq!(
        falls.map(|_| offered(9, 0, 0x2_0013)),
        falls,
        "another class"
    );
    assert_eq!(offered(0, 0x5100, ACKS), 60_000, "marked");
    assert_eq!(
        falls.map(|_| offered(0, 0x5200, ACKS)),
        falls,
        "marked otherwise"
    );
    assert_eq!(offered(9, 0, VIDEO), 60_000);
    let maps = control.maps().expect("maps");
    let all = maps.connections().expect("a map");
    let [one] = all[..] else { panic!("{all:?}") };
    assert_eq!(
        (one.receiver.to_string(), one.sender.to_string()),
        ("10.0.0.11:3001".to_owned(), "10.0.0.99:443".to_owned())
    );
    assert_eq!((one.class, one.spared), (VIDEO, false));
    // Data that arrived while a mark spared the connection is not counted.
    assert_eq!(one.bytes, 16 * 1_448);
    assert_eq!(maps.settings().expect("a map"), wanted);
    // However much has arrived since.
    for _ in 0..3 {
        assert_eq!(offered_after(1 << 30, 0, 0, ACKS), 60_000);
    }
    maps.set(&other).expect("a map");
    assert_eq!(
        falls.map(|_| offered_after(10_000, 0, 0, ACKS)),
        falls,
        "no class is distinguished any more"
    );
}

/// Nor is an offer of an exempt connection taken back that it made before data arrived.
#[test]
#[ignore = "runs in the lab's kernel"]
fn spared_at_first() {
    const SPARED: u32 = 0x2_0011;
    let control = control(&Windows {
        fixed: Size::bytes(4_000),
        classes: vec![(Handle::from_u32(SPARED), Rate::default())],
        ..edge(0)
    });
    let plain = [2, 4, 5, 0xb4];
    handshake(&control, 4, 3_002, &plain, &plain);
    let offered = |ack, class| {
        let segment = Segment {
            version: 4,
            port: 3_002,
            out: true,
            flags: ACK,
            seq: 1,
            ack,
            window: 60_000,
            options: &[],
            payload: 9,
        };
        let frame = segment.frame();
        let after = control.run_as(false, &frame, (0, class));
        let arrived = Segment {
            out: false,
            payload: 1_448,
            ..segment
        };
        control.run(true, &arrived.frame()).expect("a run");
        window(&segment, &frame, &after.expect("a run"))
    };
    assert_eq!(offered(1, SPARED), 60_000);
    assert_eq!(offered(10_001, 0x2_0013), 50_000);
}

/// Truncated and corrupted segments with options of every kind: only the window and the checksum
/// ever change, and a valid checksum stays valid. A flood of connections does not enlarge the map.
#[test]
#[ignore = "runs in the lab's kernel"]
fn any_packet() {
    let control = control(&edge(50_000));
    let mut chance = Chance(1_234);
    for port in 1..50 {
        handshake(&control, 4 + 2 * (port % 2) as u8, port, &SCALE_7, &SCALE_7);
    }
    let mut options = Vec::new();
    let mut changed = 0;
    for _ in 0..20_000 {
        options.clear();
        for _ in 0..4 * chance.below(11) {
            options.push([0, 1, 2, 3, 4, 5, 8, 10, 255][chance.below(9) as usize]);
        }
        let port = 1 + chance.below(49) as u16;
        let segment = Segment {
            version: 4 + 2 * (port % 2) as u8,
            port,
            out: chance.below(2) == 0,
            flags: [ACK, ACK, ACK, ACK | 8, SYN | ACK, SYN, 1, 4][chance.below(8) as usize],
            seq: 1,
            ack: [2, chance.below(1 << 32) as u32][chance.below(2) as usize],
            window: chance.below(1 << 16) as u16,
            options: &options,
            payload: chance.below(3) as usize * 724,
        };
        let mut bytes = segment.frame();
        let spoiled = chance.spoils(&mut bytes);
        let Ok(after) = control.run(!segment.out, &bytes) else {
            assert!(spoiled, "the kernel runs what is whole");
            continue;
        };
        changed += u64::from(after != bytes);
        if !spoiled {
            window(&segment, &bytes, &after);
        }
        let differs = (0..bytes.len()).filter(|at| bytes[*at] != after[*at]);
        assert!(differs.count() <= 4);
        assert!(
            segment.out || after == bytes,
            "what arrives is not written to"
        );
    }
    assert!(changed > 500, "{changed}");
    for port in 0..40_000 {
        handshake(&control, 4 + 2 * (port % 2) as u8, port, &SCALE_7, &SCALE_7);
    }
    let known = control.connections().expect("a map");
    println!("{changed} packets changed; of 40,000 connections {known} are known");
    assert!((8_000..=16_384).contains(&known), "{known}");
}
