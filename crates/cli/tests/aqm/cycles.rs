// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines are loaded and removed repeatedly on a device whose queue is full: nothing of them
//! stays behind.

use super::inside::{done, far_packets, net, number, objects, settled};
use net::{Far, Flood};
use std::net::{Shutdown, UdpSocket};
use std::thread;
use std::time::Duration;

/// The qdiscs that are loaded and removed: every discipline of the kit, and the shaper with four of
/// them as queues. Each has a queue of some 20 packets, and a load of more than ten times its rate.
const KINDS: [&str; 12] = [
    "droptail wan0 --rate 1mbit limit_packets=20",
    "red wan0 --rate 1mbit limit_bytes=20kB",
    "ared wan0 --rate 1mbit limit_bytes=20kB",
    "mered wan0 --rate 1mbit limit_bytes=20kB",
    "meredt wan0 --rate 1mbit limit_bytes=20kB",
    "codel wan0 --rate 1mbit limit_packets=20",
    "fq_codel wan0 --rate 1mbit limit_packets=20",
    "pie wan0 --rate 1mbit limit_packets=20",
    "wred wan0 --rate 1mbit limit_bytes=20kB",
    "fuzzy wan0 --rate 1mbit limit_packets=20",
    "drt wan0 --rate 1mbit limit_bytes=200kB",
    "droptail wan0 limit_packets=20 --rate 1mbit \
     --class 1:10,priority=0,guarantee=100kbit,queue=meredt,limit_bytes=20kB \
     --class 1:20,weight=3,queue=fq_codel,limit_packets=20 \
     --class 1:30,weight=2,queue=codel,limit_packets=20 \
     --class 1:40",
];

/// How often the test's senders pause so that leaked packets can be counted.
const READINGS: usize = 5;

/// Packet heads that the kernel may cache and count as in use: 128 per processor
/// (`NAPI_SKB_CACHE_SIZE`, net/core/skbuff.c), and a slab.
const KEPT_HEADS: u64 = 128 + 32;

/// TCP load in bytes a second beside the datagrams. Without a bound TCP sends as fast as the
/// machine can while there is no qdisc.
const OFFERED: u32 = 125_000;

/// All kinds in turn.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_every_kind() {
    cycles(&KINDS, 30);
}

/// `WEIRGATE_CYCLES` cycles of one kind, `WEIRGATE_KIND`.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_one_kind() {
    let number = |name: &str| -> usize {
        let text = std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
        text.parse().expect("a number")
    };
    cycles(&[KINDS[number("WEIRGATE_KIND")]], number("WEIRGATE_CYCLES"));
}

/// Returns the packets queued and dropped, over all classes.
fn load_of_the_queue() -> (u64, u64) {
    let text = done("show wan0 --json");
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let classes = all["queues"].as_array().expect("queues");
    let queued = |one| number(one, "statistics", "queued_packets");
    let dropped = |one: &serde_json::Value| -> u64 {
        let reasons = one["drops"].as_object().expect("drops");
        reasons.values().filter_map(serde_json::Value::as_u64).sum()
    };
    (
        classes.iter().map(queued).sum(),
        classes.iter().map(dropped).sum(),
    )
}

/// Runs `count` cycles of these kinds in turn, under datagrams in two classes and TCP. Senders
/// pause now and then, and the packets in the kernel are counted after its caches were shrunk. A
/// packet that a cycle leaks adds to every later count.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn cycles(kinds: &[&str], count: usize) {
    let _far = Far::new(1);
    the_count_counts();
    let before = objects();
    let mut heads = Vec::new();
    let mut waiting = 0;
    let mut next = kinds.iter().cycle();
    // The first reading fills the kernel's caches, and runs no cycle.
    for reading in 0..=READINGS {
        let flow = net::bulk_paced(0, OFFERED);
        let floods = [0x1_0020, 0x1_0030].map(|class| Flood::bursts(0, class, 1_000, 10));
        for cycle in 0..if reading == 0 { 0 } else { count / READINGS } {
            let kind = next.next().expect("a kind");
            done(&format!("load {kind}"));
            thread::sleep(Duration::from_millis(60));
            // Read once for each kind.
            if cycle < kinds.len() {
                let (queued, dropped) = load_of_the_queue();
                assert!(queued >= 5 && dropped > 20, "{kind}: {queued}, {dropped}");
                waiting += queued;
            }
            done("unload wan0");
        }
        thread::sleep(Duration::from_millis(200));
        drop(floods);
        let _ = flow.shutdown(Shutdown::Both);
        drop(flow);
        settled(before);
        thread::sleep(Duration::from_secs(2));
        heads.push(heads_in_use());
        println!(
            "after {} cycles: {} packets sent, {} heads in use, {:?}",
            reading * (count / READINGS),
            far_packets(0),
            heads[heads.len() - 1],
            objects()
        );
    }
    assert!(waiting > 0 && far_packets(0) > count as u64);
    let pinned = std::fs::read_dir("/sys/fs/bpf/weirgate").map_or(0, Iterator::count);
    assert_eq!(pinned, 0, "pins below /sys/fs/bpf/weirgate");
    let (first, last) = (heads[0], heads[heads.len() - 1]);
    assert!(last <= first + KEPT_HEADS, "{heads:?}");
}

/// Checks that the count includes packets that are known to be queued: a count that cannot rise
/// would prove nothing.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn the_count_counts() {
    const HELD: u64 = 250;
    net::run("ip link set lo up");
    let holder = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    let to = holder.local_addr().expect("an address");
    let sender = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    let before = heads_in_use();
    for _ in 0..HELD {
        sender.send_to(&[0; 16], to).expect("room");
    }
    let after = heads_in_use();
    println!("{HELD} packets that nobody reads: {before} heads, then {after}");
    assert!(after >= before + HELD / 2, "{before}, then {after}");
}

/// Returns the packet heads in use. The caches of processors are flushed first, because their whole
/// slabs count as in use (`flush_all`, mm/slub.c).
fn heads_in_use() -> u64 {
    let name = "skbuff_head_cache";
    std::fs::write(format!("/sys/kernel/slab/{name}/shrink"), "1").expect("a cache that shrinks");
    let text = std::fs::read_to_string("/proc/slabinfo").expect("slabinfo");
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    let used = line.split_whitespace().nth(1).expect("a number");
    used.parse().expect("a number")
}
