// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the gate's rate over any 100 ms, by the departure times of packets.

use super::net::{self, Far, Flood};
use super::tap::{Tap, settled};
use super::{LINE, class, on_device, sent};
use std::net::UdpSocket;
use std::time::Duration;
use weirgate_aqm::{Discipline, Link};
use weirgate_bpf::{AttachPoint, Classes, Qdisc, Shaper};

/// Must show 1 of the kit: any 100 ms, with a tolerance of one packet and 0.05 %.
const WINDOW_NS: u64 = 100_000_000;
const TOLERANCE: f64 = 0.0005;

/// Returns the bytes on the wire of a packet on [`LINE`]: cells.
fn wire(length: u64) -> u64 {
    (length + LINE.overhead_bytes as u64).div_ceil(48) * 53
}

/// Returns the backlog of each class in packets.
fn queued(shaper: &Shaper, point: AttachPoint) -> Vec<u64> {
    let one = shaper.instance(point).expect("a map").expect("an instance");
    let queued = |class| super::number(class, "queued_packets");
    one.classes.iter().map(queued).collect()
}

/// Returns by how much any 100 ms carried more, and less, than the rate and one packet, relative to
/// the expected amount.
fn worst(seen: &[(u64, u64)], rate_bytes_s: u64) -> (f64, f64) {
    let due = rate_bytes_s as f64 * WINDOW_NS as f64 / 1e9;
    let largest = seen.iter().map(|(_, length)| wire(*length)).max();
    let packet = largest.expect("packets") as f64;
    let ends = seen.last().expect("packets").0;
    let (mut more, mut less) = (f64::MIN, f64::MIN);
    let (mut end, mut within) = (0, 0);
    for (start, (began, length)) in seen.iter().enumerate() {
        if began + WINDOW_NS > ends {
            break;
        }
        // From one packet on, including it and the one at the end of the window; and just after it,
        // excluding both.
        while end < seen.len() && seen[end].0 <= began + WINDOW_NS {
            within += wire(seen[end].1);
            end += 1;
        }
        more = more.max((within as f64 - due - packet) / due);
        let inside: u64 = within - wire(*length);
        let inside = match seen[start..end].last() {
            Some((at, last)) if *at == began + WINDOW_NS => inside - wire(*last),
            _ => inside,
        };
        less = less.max((due - packet - inside as f64) / due);
        within -= wire(*length);
    }
    (more, less)
}

/// A new qdisc begins with an open gate, whatever a former one has sent.
#[test]
#[ignore = "runs in the lab's kernel"]
fn open_at_first() {
    let _far = Far::new(1);
    let droptail = Discipline::named("droptail").expect("a discipline");
    let qdisc = Qdisc::load(droptail).unwrap_or_else(|error| panic!("{error}"));
    on_device(&qdisc, "wan0", 8_000, &[]);
    // It closes the gate for 1.4 s.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket
        .send_to(&[0; 1_400], ("10.0.0.2", 11))
        .expect("a datagram");
    net::run("tc qdisc del dev wan0 root");
    net::run(&format!("tc qdisc replace dev wan0 root {}", qdisc.kind()));
    let trips = net::probe(0, 0, 1, Duration::ZERO);
    println!("{trips:?}");
    assert_eq!(trips.len(), 1);
    assert!(trips[0] < Duration::from_millis(100), "{trips:?}");
}

/// The shaper with three classes, which always have a backlog, at rates from 56 kbit/s to 100
/// Mbit/s.
#[test]
#[ignore = "runs in the lab's kernel"]
fn sweep() {
    let _far = Far::new(1);
    let shaper = Shaper::load().unwrap_or_else(|error| panic!("{error}"));
    let point = AttachPoint::root(net::ifindex("wan0")).expect("an attach point");
    let classes = || {
        vec![
            class(0x10, 3, 0, 1, "droptail"),
            class(0x20, 3, 0, 3, "droptail"),
            class(0x30, 3, 0, 4, "droptail"),
        ]
    };
    // kbit/s, seconds, packets in a burst of each class. A class may deviate by its largest packet,
    // 1,696 bytes. That is less than 1 % of an eighth of the total from 1.36 MB on, which takes 194
    // s at 56 kbit/s.
    let rates = [
        (56, 300, 2),
        (128, 130, 2),
        (512, 35, 3),
        (2_000, 10, 10),
        (10_000, 4, 12),
        (100_000, 2, 60),
    ];
    let mut failed = Vec::new();
    for (kbit, seconds, burst) in rates {
        let rate = kbit * 125;
        let setup = Classes {
            link: Link {
                rate_bytes_s: rate,
                ..LINE
            },
            gate_bytes_s: rate,
            acks: weirgate_state::CakeAckFilter::No,
            classes: classes(),
            other: 2,
        };
        shaper.set(point, &setup).expect("settings");
        net::run(&format!("tc qdisc replace dev wan0 root {}", shaper.kind()));
        // Use packets of every size if these keep the classes backlogged.
        let sizes = if kbit < 10_000 {
            [1_472, 12, 600]
        } else {
            [1_472, 1_472, 1_000]
        };
        let bursts = [
            burst,
            if kbit < 10_000 { 12 * burst } else { burst },
            2 * burst,
        ];
        let floods: Vec<Flood> = [0x1_0010, 0x1_0020, 0x1_0030]
            .into_iter()
            .zip(sizes)
            .zip(bursts)
            .map(|((class, bytes), count)| Flood::bursts(0, class, bytes, count))
            .collect();
        super::seconds(2);
        let tap = Tap::new("wan0");
        let before = sent(&shaper, point);
        super::seconds(seconds);
        let after = sent(&shaper, point);
        let waiting = queued(&shaper, point);
        let seen = settled(tap.end());
        drop(floods);
        let gained: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let all: f64 = gained.iter().sum();
        let shares: Vec<f64> = gained.iter().map(|bytes| bytes / all).collect();
        let (more, less) = worst(&seen, rate);
        println!(
            "{kbit} kbit/s: {} packets; beyond one packet, any 100 ms has at most {:+.4} % more \
             and {:+.4} % less than the rate; shares {shares:.4?}, \
             {waiting:?} packets wait",
            seen.len(),
            more * 100.0,
            less * 100.0
        );
        if more > TOLERANCE || less > TOLERANCE {
            failed.push(kbit);
        }
        for (share, due) in shares.iter().zip([0.125, 0.375, 0.5]) {
            assert!((share - due).abs() < 0.01 * due, "{kbit}: {shares:?}");
        }
        net::run("tc qdisc del dev wan0 root");
        shaper.unset(point).expect("a map");
    }
    assert!(failed.is_empty(), "missed at {failed:?} kbit/s");
}
