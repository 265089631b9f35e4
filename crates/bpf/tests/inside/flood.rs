// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A million flows with a single packet each pass all programs for arriving packets: memory does
//! not grow, and TCP beside them continues.

use super::filter::{frame, setup};
use super::net::{self, Far};
use super::window::tcp::received;
use super::window::{control, edge};
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHookBuilder};
use smoltcp::phy::{Device, Medium, TunTapInterface, TxToken};
use smoltcp::time::Instant as StackInstant;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Instant;
use weirgate_bpf::{Filter, UdpControl};
use weirgate_state::{Datagrams, Windows};
use weirgate_units::{Rate, Size, Span};

const FLOWS: u32 = 1_000_000;

/// From this flow on, every map is full.
const FILLED: u32 = 100_000;

/// The rate of the stream beside them, in bytes a second.
const RATE: u64 = 200_000;

/// Returns the first packet of a flow: a SYN, a segment or a datagram.
fn first(number: u32) -> Vec<u8> {
    let protocol = if number % 3 == 2 { 17 } else { 6 };
    let mut bytes = frame(4, protocol, 0, number as u16, 64);
    bytes[26..30].copy_from_slice(&(0x0b00_0000 + number).to_be_bytes());
    if number.is_multiple_of(3) {
        bytes[34 + 13] = 2;
    }
    bytes
}

/// Makes them arrive at `flood0`; returns the memory when the maps were full, and at the end.
fn flood() -> (u64, u64) {
    let mut device = TunTapInterface::new("flood0", Medium::Ethernet).expect("a device");
    let mut full = 0;
    for number in 0..FLOWS {
        if number == FILLED {
            full = available();
        }
        let bytes = first(number);
        let token = device.transmit(StackInstant::ZERO).expect("a device");
        token.consume(bytes.len(), |space| space.copy_from_slice(&bytes));
    }
    (full, available())
}

/// Returns the available memory, in kB.
fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("a file");
    let line = text.lines().find(|line| line.starts_with("MemAvailable"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.expect("a line").parse().expect("a number")
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn a_million_flows() {
    let _far = Far::with(1, &["ip link set far0 gso_max_segs 1"]);
    net::run("ip tuntap add dev flood0 mode tap");
    net::run("ip link set flood0 up");
    let windows = control(&Windows {
        hold: Span::from_millis(200),
        ..edge(RATE)
    });
    let datagrams = UdpControl::load(&Datagrams {
        rate: Rate::bytes_per_second(RATE),
        burst: Size::bytes(10_000),
        drop: Span::from_secs(2),
        warn: Span::from_secs(2),
        measured: edge(RATE).measured,
        refuse: 1 << 20,
        ..Datagrams::default()
    })
    .expect("a program");
    // A rate above all traffic, so that nothing is dropped.
    let filter = Filter::load(&setup(1_000_000_000, &[]), 5).expect("a program");
    let programs: [(OwnedFd, u32); 4] = [
        (windows.program(true).expect("it is loaded"), 89),
        (filter.program().expect("it is loaded"), 90),
        (datagrams.program().expect("it is loaded"), 91),
        (windows.program(false).expect("it is loaded"), 89),
    ];
    net::run("tc qdisc replace dev wan0 root fq");
    for device in ["wan0", "flood0"] {
        net::run(&format!("tc qdisc replace dev {device} clsact"));
        for (at, (program, preference)) in programs.iter().enumerate() {
            TcHookBuilder::new(program.as_fd())
                .ifindex(net::ifindex(device) as i32)
                .handle(1)
                .priority(*preference)
                .hook(if at == 3 { TC_EGRESS } else { TC_INGRESS })
                .attach()
                .expect("a filter");
        }
    }
    let own = |each: &[Vec<f64>]| each[0].iter().sum::<f64>() / each[0].len() as f64 / RATE as f64;
    let before = own(&received(1, 3));
    let start = Instant::now();
    let flooding = thread::spawn(flood);
    let during = received(1, 3);
    let (full, end) = flooding.join().expect("the flood");
    let took = start.elapsed().as_secs_f64();
    let after = own(&received(1, 3));
    let known = (
        windows.connections().expect("a map"),
        datagrams.streams().expect("a map"),
    );
    let flows = filter.maps().and_then(|maps| maps.flows()).expect("a map");
    println!(
        "{FLOWS} flows in {took:.1} s; memory {full} kB, then {end} kB; the stream has \
         {before:.3}, {:.3} and {after:.3} of its rate; connections and streams known {known:?}, \
         flows {}",
        own(&during),
        flows.len()
    );
    // Memory has not decreased, except for the kernel's usual fluctuation.
    assert!(end + 4_096 > full, "{full} kB, then {end} kB");
    assert!((0.95..=1.05).contains(&before), "{before}");
    assert!((0.95..=1.05).contains(&after), "{after}");
    assert!(during[0].iter().all(|second| *second > 0.0), "{during:?}");
    assert!(known.0 <= 16_384 && known.1 <= 16_384, "{known:?}");
    assert!(flows.len() <= 4_096, "{}", flows.len());
}
