// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the kit's codel, fq_codel and pie with the kernel's own.
//!
//! The kernel's discipline works on a device. Every arrival and departure is recorded with the time
//! that the discipline used. Then the kit's discipline gets the same arrivals and dequeue calls, at
//! the same times.

use super::net::{self, Flood};
use super::seconds;
use std::collections::{BTreeMap, VecDeque};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use weirgate_aqm::{Discipline, Link, Packet, Queue, Settings};
use weirgate_bpf::{QdiscTrace, Seen, SeenKind, Watched};

/// The largest packet that the kernel's qdiscs assume for an Ethernet device.
const MTU: u32 = 1_514;

/// Runs one of the kernel's disciplines behind a rate, under TCP and datagrams, and returns the
/// recording. `bursts` is how much the datagrams increase from one quarter of the time to the next.
fn seen(of: Watched, queue: &str, seconds_long: u64, bursts: [usize; 4]) -> Vec<Seen> {
    let _far = net::Far::new(1);
    // The module must be loaded before its functions can be traced; it stays loaded afterwards.
    net::run(&format!("tc qdisc add dev wan0 root {queue}"));
    net::run("tc qdisc del dev wan0 root");
    let watch = QdiscTrace::begin(of).unwrap_or_else(|error| panic!("{error}"));
    net::run("tc qdisc replace dev wan0 root handle 1: htb default 10");
    net::run(
        "tc class add dev wan0 parent 1: classid 1:10 htb rate 4mbit ceil 4mbit burst 1600 \
         cburst 1600",
    );
    net::run(&format!(
        "tc qdisc add dev wan0 parent 1:10 handle 10: {queue}"
    ));
    let going = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&going);
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        let more = || asked.load(Ordering::Relaxed);
        watch.follow(|seen| all.push(seen), more).expect("a ring");
        assert_eq!(watch.lost().expect("a map"), 0, "events were lost");
        all
    });
    // PIE's timer starts half a second after the qdisc.
    seconds(1);
    let flows: Vec<_> = [0; 4].map(net::bulk).into();
    for count in bursts {
        // At times more than the line's rate, in packets of two sizes.
        let floods = [600, 1_200].map(|bytes| Flood::bursts(0, 0, bytes, count));
        seconds(seconds_long / 8);
        drop(floods);
        seconds(seconds_long / 8);
    }
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
    seconds(1);
    going.store(false, Ordering::Relaxed);
    reader.join().expect("the reader")
}

/// Returns the kit's discipline with the kernel's settings.
fn native(name: &str, settings: &[(&str, u64)], mtu_bytes: u32) -> Queue<usize> {
    let discipline = Discipline::named(name).expect("a discipline");
    let mut own = Settings::new(discipline);
    for (name, value) in settings {
        own.set(name, *value).expect("a parameter");
    }
    let link = Link {
        mtu_bytes,
        ..Link::default()
    };
    Queue::new(&own, &link)
}

fn packet(seen: &Seen, at_ns: u64) -> Packet {
    Packet {
        arrived_ns: at_ns,
        len: seen.len,
        wire: seen.len,
        flow: seen.hash,
        ecn: 0,
    }
}

/// Nanoseconds of a time in CoDel's unit.
const CODEL_UNIT: u64 = 1 << 10;

/// Replays the recording in the kit. At every dequeue both must send the same packet, and must have
/// dropped the same packets before: in each flow, those that arrived before one that left and have
/// not left themselves.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn compare(all: &[Seen], mut kit: Queue<usize>, name: &str) {
    let mut queued: BTreeMap<u64, usize> = BTreeMap::new();
    let mut flow_of = Vec::new();
    // In each flow, the kernel's packets that have neither left nor are known to be dropped, in
    // order.
    let mut waiting: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut kit_dropped = Vec::new();
    let mut kernel_dropped = Vec::new();
    let mut now = 0;
    let mut sent = 0_u64;
    for (number, seen) in all.iter().enumerate() {
        match seen.kind {
            SeenKind::Came(taken) => {
                assert!(taken, "{name}: the kernel's limit was reached");
                let which = flow_of.len();
                now = now.max(seen.time * CODEL_UNIT);
                let came = kit.arrive(&packet(seen, seen.time * CODEL_UNIT), 0, which);
                assert!(came.refused.is_none() && came.evicted.is_empty());
                let flow = ((u64::from(seen.hash) * 1_024) >> 32) as u32;
                flow_of.push(flow);
                waiting.entry(flow).or_default().push(which);
                queued.insert(seen.packet, which);
            }
            SeenKind::Left => {
                if seen.packet != 0 {
                    now = seen.time * CODEL_UNIT;
                }
                let left = kit.depart(now);
                kit_dropped.extend(left.dropped.iter().map(|(_, which)| *which));
                let kit_sent = left.sent.map(|(_, _, which)| which);
                let kernel_sent = queued.get(&seen.packet).copied();
                if seen.packet != 0 {
                    queued.remove(&seen.packet);
                }
                assert_eq!(
                    kit_sent, kernel_sent,
                    "{name}: event {number}, after {sent} packets: {seen:?}"
                );
                let Some(which) = kernel_sent else { continue };
                sent += 1;
                let own = waiting.entry(flow_of[which]).or_default();
                let place = own.iter().position(|it| *it == which).expect("it waits");
                kernel_dropped.extend(own.drain(..=place).filter(|it| *it != which));
            }
            SeenKind::Updated => {}
        }
    }
    // It is unknown whether the kernel dropped packets of flows that sent nothing afterwards; all
    // other drops must be equal.
    let unknown: Vec<usize> = waiting.into_values().flatten().collect();
    kit_dropped.retain(|which| !unknown.contains(which));
    kit_dropped.sort_unstable();
    kernel_dropped.sort_unstable();
    println!(
        "{name}: {} arrivals, {sent} sent alike, {} dropped alike, {} events",
        flow_of.len(),
        kernel_dropped.len(),
        all.len()
    );
    assert_eq!(kit_dropped, kernel_dropped, "{name}: the same are dropped");
    assert!(
        sent > 10_000 && kernel_dropped.len() > 100,
        "{name}: too few"
    );
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn codel() {
    let all = seen(Watched::Codel, "codel limit 4000", 40, [1, 2, 3, 4]);
    // With a single queue, the hash is not decisive.
    let all: Vec<Seen> = all
        .into_iter()
        .map(|seen| Seen { hash: 0, ..seen })
        .collect();
    let kit = native("codel", &[("limit_packets", 4_000)], MTU);
    compare(&all, kit, "codel");
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn fq_codel() {
    let all = seen(
        Watched::FqCodel,
        "fq_codel limit 10240 flows 1024 noecn",
        40,
        [1, 2, 3, 4],
    );
    let kit = native("fq_codel", &[("ecn", 0)], MTU);
    compare(&all, kit, "fq_codel");
}

/// PIE never drops if fewer than two of the largest packets wait (RFC 8033, section 4.1): with this
/// size it never drops.
const ENDLESS: u32 = 1 << 30;

/// The permitted deviation of an update from its due time: the timer's softirq may be delayed.
const JITTER_NS: u64 = 1_000_000;

/// Returns when the kernel's updates are due, from the observed ones: the first time, and the
/// interval. A timer of n ticks expires at the n+1st tick, because the first may be imminent
/// (`calc_index`, kernel/time/timer.c). So 16 ms are 4 ticks at 250 Hz, and the updates are 20 ms
/// apart. Updates are delayed by different times: the due time is chosen so that half of them are
/// later.
fn due(all: &[Seen]) -> (u64, u64) {
    let updates: Vec<u64> = all
        .iter()
        .filter(|seen| seen.kind == SeenKind::Updated)
        .map(|seen| seen.time)
        .collect();
    let (first, last) = (updates[0], updates[updates.len() - 1]);
    let count = updates.len() as u64 - 1;
    let tick = 1_000_000;
    let period = (last - first + count * tick / 2) / count / tick * tick;
    let numbered = updates.iter().zip(0..);
    let mut starts: Vec<u64> = numbered.map(|(at, number)| at - number * period).collect();
    starts.sort_unstable();
    let start = starts[starts.len() / 2];
    for (at, number) in updates.iter().zip(0..) {
        let due = start + number * period;
        assert!(at.abs_diff(due) < JITTER_NS, "update {number}: {at}, {due}");
    }
    (start, period)
}

/// The maximum delay of the hook after a departure.
const SKEW_NS: u64 = 200_000;

/// Returns the delay of the last departure before each update, by packet number, in nanoseconds.
fn before_updates(all: &[Seen]) -> BTreeMap<usize, u64> {
    let mut exact = BTreeMap::new();
    let mut last = None;
    for (number, seen) in all.iter().enumerate() {
        match seen.kind {
            SeenKind::Left if seen.packet != 0 => last = Some(number),
            SeenKind::Updated => {
                let delay = seen.packet * 64;
                exact.extend(last.take().filter(|_| delay > 0).map(|at| (at, delay)));
            }
            _ => {}
        }
    }
    exact
}

/// Compares the probability of the kernel's PIE and of the kit's, with the kernel's queue. Packets
/// that the kernel dropped are left out, and the kit drops none itself. So both see the same
/// delays, and update their probability at the same times.
///
/// The kit has no timer: it makes up for an update at the next arrival or departure, and only then
/// are the two compared. It does not see packets that the kernel refused. If the kernel's timer was
/// early or late, events in between are moved to the other side of the due time, so that both have
/// them before the update, or both after it.
///
/// For the last departure before an update, the kernel reports the delay that it used (in 64 ns),
/// and the packet leaves the kit after the same delay, because the hook is some microseconds behind
/// the kernel's clock reading. That difference matters only if the probability is close to a tenth.
/// There the next step is doubled or limited (`pie_calculate_probability`), and the difference
/// persists, because the probability is a sum.
///
/// The kernel's probability is only bounded by 64 bits, at 256 (`pie_calculate_probability`); that
/// of RFC 8033, section 4.2, and of the kit is at most one. The datagrams are few enough not to
/// reach that.
#[test]
#[ignore = "runs in the lab's kernel"]
fn pie() {
    pie_under([1, 2, 3, 3]);
}

/// The same with a drop of the load in between.
#[test]
#[ignore = "runs in the lab's kernel"]
fn pie_twice() {
    pie_under([2, 1, 3, 2]);
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn pie_under(bursts: [usize; 4]) {
    let of = "pie limit 1000 target 15ms tupdate 16ms";
    let all = seen(Watched::Pie, of, 40, bursts);
    let (start, period) = due(&all);
    let mut kit = native("pie", &[("update_ns", period)], ENDLESS);
    let (mut compared, mut off, mut kernel_sum, mut kit_sum) = (0_u64, 0.0_f64, 0.0, 0.0);
    let mut worst = 0.0_f64;
    let one = (1_u64 << 56) as f64;
    let mut probability = None;
    let mut begun = false;
    let mut updates = 0;
    // The kernel's own packets may come before the first update; the queue is empty again when the
    // comparison begins.
    let mut before = 0;
    let exact = before_updates(&all);
    let mut arrived = VecDeque::new();
    let mut latest = 0;
    for (number, seen) in all.iter().enumerate() {
        // Between the kernel's last update and the next one.
        let now = match updates {
            0 => seen.time,
            made => seen
                .time
                .clamp(start + (made - 1) * period, start + made * period - 1),
        };
        let now = match (exact.get(&number), arrived.front()) {
            (Some(delay), Some(came)) if begun => {
                (came + delay).clamp(now - SKEW_NS.min(now), now + SKEW_NS)
            }
            _ => now,
        };
        let now = now.max(latest);
        let notified = match seen.kind {
            SeenKind::Updated => {
                updates += 1;
                if !begun && before == 0 {
                    // The kit counts updates from its first packet: send one that leaves at once,
                    // before all others.
                    let at = start + (updates - 1) * period;
                    let first = Seen { len: 64, ..*seen };
                    let came = kit.arrive(&packet(&first, at), 0, number);
                    assert!(came.refused.is_none() && kit.depart(at).sent.is_some());
                    assert_eq!((seen.probability, kit.packets()), (0, 0));
                    begun = true;
                } else if begun {
                    probability = Some(seen.probability);
                }
                false
            }
            SeenKind::Came(taken) if !begun => {
                before += i32::from(taken);
                false
            }
            SeenKind::Left if !begun => {
                before -= i32::from(seen.packet != 0);
                false
            }
            SeenKind::Came(false) => false,
            SeenKind::Came(true) => {
                let came = kit.arrive(&packet(seen, now), 0, number);
                assert!(came.refused.is_none(), "the kit drops none by itself");
                arrived.push_back(now);
                true
            }
            SeenKind::Left => {
                let sent = kit.depart(now).sent.is_some();
                if sent {
                    arrived.pop_front();
                }
                sent
            }
        };
        if notified {
            latest = now;
        }
        let Some(kernel) = probability.filter(|_| notified) else {
            continue;
        };
        probability = None;
        let kernel = kernel as f64 / one;
        assert!(kernel < 1.0, "the kernel's probability is {kernel}");
        let own = kit.var("probability").expect("a number") as f64 / one;
        // Below a thousandth, hardly any packet is dropped.
        if kernel > 0.001 {
            compared += 1;
            kernel_sum += kernel;
            kit_sum += own;
            off += (own - kernel).abs() / kernel;
            worst = worst.max((own - kernel).abs() / kernel);
        }
    }
    let mean = |sum: f64| sum / compared as f64;
    println!(
        "pie: {compared} updates, {} ms apart; mean probability {:.6} in the kernel, {:.6} in the \
         kit; apart {:.4} % in the mean, {:.4} % at most",
        period / 1_000_000,
        mean(kernel_sum),
        mean(kit_sum),
        mean(off) * 100.0,
        worst * 100.0
    );
    assert!(compared > 500);
    assert!((kit_sum / kernel_sum - 1.0).abs() < 0.01);
    assert!(mean(off) < 0.01);
}
