// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests announced sessions with the kernel's test runs of the programs for receive windows: which
//! handshakes get a smaller MSS, which connections are reset, and the reaction of the kernel's own
//! TCP.

use super::{ACK, SYN, Segment, edge, pseudo, tcp_at};
use crate::inside::filter::Chance;
use crate::inside::net::{self, Far};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use weirgate_bpf::{Store, WindowControl};
use weirgate_state::Windows;
use weirgate_units::{Handle, Rate};

const RST: u8 = 4;
const VIDEO: u32 = 0x2_0011;
const LONG: Duration = Duration::from_hours(1);

fn control(segment: u16, resets: bool) -> WindowControl {
    super::control(&Windows {
        classes: vec![(Handle::from_u32(VIDEO), Rate::default())],
        announced_segment: segment,
        announced_resets: resets,
        ..edge(0)
    })
}

fn announce(control: &WindowControl, lease: Duration) {
    let maps = control.maps().expect("maps");
    maps.announce(lease).expect("a map");
}

/// Returns whether a frame's TCP checksum is right.
pub(super) fn right(version: u8, frame: &[u8]) -> bool {
    let addresses = if version == 4 { 26..34 } else { 22..54 };
    pseudo(&frame[addresses], &frame[tcp_at(version)..]) == 0
}

/// Returns an outgoing SYN with these options.
pub(super) fn syn(version: u8, port: u16, options: &[u8]) -> Segment<'_> {
    Segment {
        version,
        port,
        out: true,
        flags: SYN,
        seq: 1,
        ack: 0,
        window: 64_240,
        options,
        payload: 0,
    }
}

/// The MSS is lowered while a session is announced, at any offset in the header, except for
/// protected connections and for smaller values.
#[test]
#[ignore = "runs in the lab's kernel"]
fn segments() {
    let control = control(536, false);
    let (even, odd) = ([2, 4, 5, 0xb4], [1, 2, 4, 5, 0xb4, 1, 1, 1]);
    let small = [2, 4, 1, 0x90];
    let send = |segment: &Segment<'_>, class| {
        let after = control.run_as(false, &segment.frame(), (0, class));
        after.expect("a run")
    };
    for version in [4, 6] {
        let plain = syn(version, 1, &even);
        assert_eq!(send(&plain, 0), plain.frame(), "nothing is announced");
    }
    announce(&control, LONG);
    for version in [4, 6] {
        for (options, at) in [(&even[..], 22), (&odd[..], 23)] {
            for flags in [SYN, SYN | ACK] {
                let asks = Segment {
                    flags,
                    ..syn(version, 2, options)
                };
                let (before, after) = (asks.frame(), send(&asks, 0));
                let at = tcp_at(version) + at;
                assert_eq!(after[at..at + 2], 536_u16.to_be_bytes());
                assert!(right(version, &after), "checksum");
                let sum = tcp_at(version) + 16;
                let changed = (0..before.len()).filter(|byte| before[*byte] != after[*byte]);
                let may = [at, at + 1, sum, sum + 1];
                assert!(changed.into_iter().all(|byte| may.contains(&byte)));
            }
        }
        let protected = syn(version, 3, &even);
        assert_eq!(send(&protected, VIDEO), protected.frame());
        let asks_less = syn(version, 4, &small);
        assert_eq!(send(&asks_less, 0), asks_less.frame());
    }
    announce(&control, Duration::ZERO);
    let after = syn(4, 5, &even);
    assert_eq!(send(&after, 0), after.frame(), "the session is over");
    announce(&control, Duration::from_millis(50));
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(send(&after, 0), after.frame(), "nobody announced it again");
}

/// Arriving segments of old connections that receive much become resets, at a limited rate; new,
/// small and protected connections continue.
#[test]
#[ignore = "runs in the lab's kernel"]
fn resets() {
    let control = control(0, true);
    let plain = [2, 4, 5, 0xb4];
    let open = |port, class| {
        let first = syn(4, port, &plain);
        control
            .run_as(false, &first.frame(), (0, class))
            .expect("a run");
        let answer = Segment {
            out: false,
            flags: SYN | ACK,
            ack: first.seq + 1,
            ..first
        };
        control.run(true, &answer.frame()).expect("a run");
    };
    let data = |port| Segment {
        out: false,
        flags: ACK,
        payload: 1_448,
        options: &[],
        ..syn(4, port, &plain)
    };
    let come = |port, count: usize| {
        for _ in 0..count {
            let frame = data(port).frame();
            assert_eq!(control.run(true, &frame).expect("a run"), frame);
        }
    };
    let (much, little, video, new) = (1, 2, 3, 4);
    for (port, class) in [(much, 0), (little, 0), (video, VIDEO)] {
        open(port, class);
    }
    come(much, 80);
    come(little, 5);
    come(video, 80);
    announce(&control, LONG);
    open(new, 0);
    come(new, 80);
    come(little, 5);
    come(video, 80);
    let frame = data(much).frame();
    let after = control.run(true, &frame).expect("a run");
    assert_eq!(after[tcp_at(4) + 13], RST | ACK);
    assert_eq!(after.len(), frame.len());
    assert!(right(4, &after), "checksum");
    // The receiver answers later segments itself.
    come(much, 1);
    std::thread::sleep(Duration::from_millis(110));
    assert_ne!(control.run(true, &frame).expect("a run"), frame);
    announce(&control, Duration::ZERO);
    std::thread::sleep(Duration::from_millis(110));
    come(much, 1);
}

/// Truncated and corrupted segments with options of every kind, while a session is announced: a
/// whole one has a right checksum afterwards, and no length changes.
#[test]
#[ignore = "runs in the lab's kernel"]
fn any_packet_while_announced() {
    let control = control(536, true);
    announce(&control, LONG);
    let mut chance = Chance(4_321);
    let mut options = Vec::new();
    let mut changed = 0;
    for _ in 0..20_000 {
        options.clear();
        let asks = chance.below(2) == 0;
        if asks {
            options.extend([[2, 4, 5, 0xb4], [1, 2, 4, 5]][chance.below(2) as usize]);
        }
        for _ in 0..4 * chance.below(10) {
            options.push([0, 1, 2, 3, 4, 5, 8, 10, 255][chance.below(9) as usize]);
        }
        let port = 1 + chance.below(20) as u16;
        let segment = Segment {
            flags: [ACK, ACK | 8, SYN | ACK, SYN, RST][chance.below(5) as usize],
            out: chance.below(2) == 0,
            ack: [0, 2][chance.below(2) as usize],
            payload: chance.below(3) as usize * 1_448,
            ..syn(4 + 2 * (port % 2) as u8, port, &options)
        };
        let mut bytes = segment.frame();
        let spoiled = chance.spoils(&mut bytes);
        // For a session that begins now, all connections are old.
        if chance.below(50) == 0 {
            announce(&control, Duration::ZERO);
            announce(&control, LONG);
        }
        let Ok(after) = control.run(!segment.out, &bytes) else {
            assert!(spoiled, "the kernel runs what is whole");
            continue;
        };
        assert_eq!(after.len(), bytes.len());
        changed += u64::from(after != bytes);
        assert!(spoiled || right(segment.version, &after), "checksum");
    }
    println!("{changed} packets changed");
    assert!(changed > 500, "{changed}");
}

/// The kernel's own TCP: an old download ends with a reset, and one that begins after the
/// announcement continues.
#[test]
#[ignore = "runs in the lab's kernel"]
fn ends_downloads() {
    let _far = Far::new(1);
    drop(Store::open().expect("a BPF file system"));
    let folder = Path::new("/sys/fs/bpf/announced");
    fs::create_dir_all(folder).expect("a folder");
    let mut control = control(536, true);
    control.pin(folder).expect("pins");
    net::run("tc qdisc replace dev wan0 clsact");
    for (place, name) in [("ingress", "window_in"), ("egress", "window_out")] {
        net::run(&format!(
            "tc filter add dev wan0 {place} bpf direct-action object-pinned {}/{name}",
            folder.display()
        ));
    }
    let mut space = vec![0; 1 << 14];
    let mut read_for = |stream: &mut TcpStream, time: Duration| {
        let start = Instant::now();
        let mut bytes = 0;
        while start.elapsed() < time {
            bytes += stream.read(&mut space)?;
        }
        Ok::<usize, std::io::Error>(bytes)
    };
    let mut old = TcpStream::connect("10.0.0.2:19").expect("a connection");
    let before = read_for(&mut old, Duration::from_millis(300)).expect("data");
    assert!(before > 100_000, "{before}");
    announce(&control, LONG);
    let mut new = TcpStream::connect("10.0.0.2:19").expect("a connection");
    let ended = read_for(&mut old, Duration::from_secs(5)).expect_err("a reset");
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
    let after = read_for(&mut new, Duration::from_millis(500)).expect("data");
    assert!(after > 100_000, "{after}");
    println!("{before} bytes, then {ended}; the new one got {after}");
}
