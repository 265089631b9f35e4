// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's memory is sufficient for the largest recording: records are made and encoded as the
//! guest does, and the memory is measured.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs;
use weirgate_experiment::{
    Delivered, Direction, Experiment, Fate, LinePacket, Recording, Sojourn, TcpSegment, parse, seal,
};

/// Returns the peak memory of this process, in bytes (proc(5)).
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

fn packet(number: u64) -> LinePacket {
    let at_ns = 300_000_000_000 + number * 1_000_003;
    LinePacket {
        direction: Direction::Up,
        flow: Some(7),
        arrived_ns: at_ns,
        fate: Fate::Sent {
            start_ns: at_ns + 1_000_000,
            end_ns: at_ns + 2_000_000,
        },
        ip_bytes: 1500,
        wire_bytes: 1696,
        ahead_packets: 40,
        ahead_bytes: 60_000,
        tcp: Some(TcpSegment {
            seq: u32::MAX,
            ack: u32::MAX,
            payload: 1448,
            flags: 0x10,
            window: 65_535,
            sack: Some((u32::MAX, u32::MAX)),
        }),
    }
}

/// Returns a file with one flow of `packets` datagrams.
fn experiment(packets: u64) -> Experiment {
    let interval = 100_000_000_000 / packets;
    let text = fs::read_to_string("tests/good.toml").unwrap();
    let (experiment, problems) = parse(&text);
    let mut experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
    let mut flood = experiment.traffic.swap_remove(0);
    flood.kind = weirgate_experiment::TrafficKind::Udp {
        interval: weirgate_units::Span::from_nanos(interval),
        packet: 100,
        packets: Some(packets),
    };
    flood.count = 1;
    flood.runs = vec![Default::default()];
    flood.runs[0].1 = weirgate_units::Span::from_nanos(interval * packets);
    experiment.traffic = vec![flood];
    experiment.probes.clear();
    experiment.sampling.capture = false;
    experiment
}

/// A single test, because tests of a program share its memory.
#[test]
fn memory_is_enough_for_what_is_recorded() {
    const PACKETS: u64 = 1_000_000;
    let before = peak();
    let mut recording = Recording::default();
    for number in 0..PACKETS {
        let packet = packet(number);
        recording.line.push(packet);
        recording.delivered.push(Delivered {
            flow: 7,
            at_ns: packet.arrived_ns,
            bytes: 1448,
            datagram: Some(u32::MAX),
            transit_ns: Some(1_000_000_000),
        });
        recording.sojourns.push(Sojourn {
            direction: Direction::Up,
            class: 3,
            at_ns: packet.arrived_ns,
            wait_ns: 1_000_000_000,
        });
    }
    let result = seal(recording.encode().unwrap());
    let taken = peak() - before;
    drop((recording, result));

    let few = experiment(10);
    assert_eq!(few.memory_mib(), 512);
    let (some, more) = (experiment(2_000_000), experiment(3_000_000));
    assert_eq!(some.packets(), 2_000_000);
    let granted = u64::from(more.memory_mib() - some.memory_mib()) << 20;
    assert!(taken < granted, "{taken} of {granted}");
    assert!(taken * 2 > granted, "far more is granted than needed");
    // The maximum that a file may request, with a capture.
    let mut most = experiment(4_500_000);
    most.sampling.capture = true;
    assert!(most.memory_mib() <= 1536, "{}", most.memory_mib());
}
