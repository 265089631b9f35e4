// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines go on and off a device whose queue is full, again and again:
//! nothing of them stays behind.

use super::inside::{done, far_packets, net, number, objects, settled};
use net::{Far, Flood};
use std::net::{Shutdown, UdpSocket};
use std::thread;
use std::time::Duration;

/// What goes on and off: every discipline of the kit, and the shaper with four
/// of them as queues. Each has a queue of some 20 packets at a rate of which more
/// than ten times as much comes.
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

/// How often packets of ours pause so that what is left can be counted.
const READINGS: usize = 5;

/// Heads of packets that the kernel may keep for reuse and count as in use: 128
/// of each processor (`NAPI_SKB_CACHE_SIZE`, net/core/skbuff.c), and a slab.
const KEPT_HEADS: u64 = 128 + 32;

/// TCP sends this much, in bytes a second, beside the datagrams; without a bound
/// it sends as fast as the machine can while there is no qdisc.
const OFFERED: u32 = 125_000;

/// Every kind in turn.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_every_kind() {
    cycles(&KINDS, 30);
}

/// `WEIRGATE_CYCLES` of one kind, `WEIRGATE_KIND`.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_one_kind() {
    let number = |name: &str| -> usize {
        let text = std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
        text.parse().expect("a number")
    };
    cycles(&[KINDS[number("WEIRGATE_KIND")]], number("WEIRGATE_CYCLES"));
}

/// What is queued and what was dropped, over all classes.
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

/// So many cycles of these in turn, under datagrams in two classes and TCP. Packets
/// pause now and then, and what the kernel then holds is counted, its caches
/// shrunk before: a packet that a cycle leaves behind adds to every later count.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn cycles(kinds: &[&str], count: usize) {
    let _far = Far::new(1);
    the_count_counts();
    let before = objects();
    let mut heads = Vec::new();
    let mut waiting = 0;
    let mut next = kinds.iter().cycle();
    // The first one fills what the kernel keeps, and has no cycle.
    for reading in 0..=READINGS {
        let flow = net::bulk_paced(0, OFFERED);
        let floods = [0x1_0020, 0x1_0030].map(|class| Flood::bursts(0, class, 1_000, 10));
        for cycle in 0..if reading == 0 { 0 } else { count / READINGS } {
            let kind = next.next().expect("a kind");
            done(&format!("load {kind}"));
            thread::sleep(Duration::from_millis(60));
            // Looked at as often as there are kinds.
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

/// Packets that are known to be there are among those that are counted: a count
/// that cannot rise would prove nothing.
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

/// Heads of packets in use. What processors have put by is given back first,
/// because whole slabs of it count as in use (`flush_all`, mm/slub.c).
fn heads_in_use() -> u64 {
    let name = "skbuff_head_cache";
    std::fs::write(format!("/sys/kernel/slab/{name}/shrink"), "1").expect("a cache that shrinks");
    let text = std::fs::read_to_string("/proc/slabinfo").expect("slabinfo");
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    let used = line.split_whitespace().nth(1).expect("a number");
    used.parse().expect("a number")
}
