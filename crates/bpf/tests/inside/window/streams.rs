// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the share of a connection with windows beside a stream of datagrams, which no window
//! controls, with the kernel's test runs.

use super::{ACK, SCALE_7, Segment, control, edge, handshake, window};
use crate::inside::filter::checksum;
use crate::inside::net::{self, Far};
use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use weirgate_bpf::Store;
use weirgate_state::Windows;

/// The payload rate in bytes a second that all share.
const RATE: u64 = 1_000_000;
const MSS: u32 = 1_448;
const TICK: Duration = Duration::from_millis(2);
/// The round trip in ticks.
const TRIP: u32 = 10;

/// Returns a datagram of the stream, with this many bytes of payload.
fn datagram(out: bool, payload: usize) -> Vec<u8> {
    let ends = [(4_433_u16, 12_u8), (443, 99)];
    let (from, to) = if out { (0, 1) } else { (1, 0) };
    let mut upper = [ends[from].0.to_be_bytes(), ends[to].0.to_be_bytes()].concat();
    upper.extend(((8 + payload) as u16).to_be_bytes());
    upper.extend([0, 0]);
    upper.resize(8 + payload, 0x5a);
    let mut header = vec![0x45, 0];
    header.extend(((20 + upper.len()) as u16).to_be_bytes());
    header.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, ends[from].1]);
    header.extend([10, 0, 0, ends[to].1]);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0]);
    bytes.extend(header);
    bytes.extend(upper);
    bytes
}

/// Returns the share of a connection that uses its whole window, beside a stream of 0.7 of the
/// rate, in the last three of five seconds. The stream is answered 60 times a second, or never.
fn beside(answered: bool, by_hosts: bool) -> f64 {
    let control = control(&Windows {
        beside_others: true,
        by_hosts,
        ..edge(RATE)
    });
    handshake(&control, 4, 1_001, &SCALE_7, &SCALE_7);
    let run = |ingress: bool, frame: &[u8]| control.run(ingress, frame).expect("a run");
    // The window's edge, by the time at which the sender learns it.
    let mut edges = VecDeque::from([(0, 1 + 10 * MSS)]);
    let (mut ack, mut allowed, mut got) = (1_u32, 0_u32, 0_u32);
    let start = Instant::now();
    for tick in 0.. {
        sleep((TICK * tick).saturating_sub(start.elapsed()));
        let now = start.elapsed();
        if now >= Duration::from_secs(5) {
            break;
        }
        run(true, &datagram(false, 1_358));
        if answered && tick % 8 == 0 {
            run(false, &datagram(true, 40));
        }
        while let Some((_, edge)) = edges.pop_front_if(|(learnt, _)| *learnt <= tick) {
            allowed = edge;
        }
        // The line is half as fast again as the rate.
        for _ in 0..2 {
            if allowed < ack + MSS {
                break;
            }
            let data = Segment {
                version: 4,
                port: 1_001,
                out: false,
                flags: ACK,
                seq: ack,
                ack: 1,
                window: 500,
                options: &[],
                payload: MSS as usize,
            };
            run(true, &data.frame());
            ack += MSS;
            let segment = Segment {
                out: true,
                seq: 1,
                ack,
                window: 60_000,
                payload: 0,
                ..data
            };
            let frame = segment.frame();
            let offered = u32::from(window(&segment, &frame, &run(false, &frame))) << 7;
            edges.push_back((tick + TRIP, ack + offered));
            if now >= Duration::from_secs(2) {
                got += MSS;
            }
        }
    }
    f64::from(got) / 3.0 / RATE as f64
}

/// A connection that began before the programs were loaded is controlled if connection tracking saw
/// its handshake, and otherwise not.
#[test]
#[ignore = "runs in the lab's kernel"]
fn old_connections_are_learnt() {
    drop(Store::open().expect("a BPF file system"));
    let folder = Path::new("/sys/fs/bpf/window");
    let _far = Far::new(1);
    net::run("tc qdisc replace dev wan0 clsact");
    for tracked in [false, true] {
        if tracked {
            net::run("nft add table ip track");
            net::run("nft add chain ip track in { type filter hook input priority 0 ; }");
            net::run("nft add rule ip track in ct state established accept");
        }
        let mut old = TcpStream::connect("10.0.0.2:19").expect("a connection");
        let mut space = vec![0; 1 << 16];
        old.read_exact(&mut space).expect("data");
        let mut control = control(&Windows {
            beside_others: true,
            ..edge(RATE)
        });
        fs::create_dir(folder).expect("a folder");
        control.pin(folder).expect("pins");
        for direction in ["in", "out"] {
            let hook = if direction == "in" {
                "ingress"
            } else {
                "egress"
            };
            net::run(&format!(
                "tc filter add dev wan0 {hook} bpf da object-pinned {}/window_{direction}",
                folder.display()
            ));
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            old.read_exact(&mut space).expect("data");
        }
        let known = control.maps().and_then(|maps| maps.connections());
        let known = known.expect("a map");
        let totals = control.totals().expect("a map");
        println!("tracked: {tracked}: {known:?}, {totals:?}");
        assert_eq!(known.len(), usize::from(tracked));
        assert_eq!(totals.rewritten > 0, tracked);
        for one in known {
            assert!(one.window < one.offered, "{one:?}");
        }
        net::run("tc filter del dev wan0 ingress");
        net::run("tc filter del dev wan0 egress");
        fs::remove_dir_all(folder).expect("a folder");
    }
    net::run("nft delete table ip track");
    net::run("ip link del wan0");
}

/// The queue can limit an answered stream to a share, so the connection gets the rest; an
/// unanswered stream leaves two thirds.
#[test]
#[ignore = "runs in the lab's kernel"]
fn answered_ones_have_a_share() {
    for by_hosts in [false, true] {
        let (answered, silent) = (beside(true, by_hosts), beside(false, by_hosts));
        println!("by hosts: {by_hosts}: {answered:.3} of the rate, {silent:.3} beside silence");
        assert!((0.47..=0.53).contains(&answered), "{answered}");
        assert!((0.30..=0.37).contains(&silent), "{silent}");
    }
}
