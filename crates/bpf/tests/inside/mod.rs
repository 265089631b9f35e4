// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests that run in the guest; ignored elsewhere.

mod condition;
mod cost;
mod engine;
mod equal;
mod filter;
mod flood;
mod flows;
mod loaded;
pub mod marks;
mod net;
mod odd;
mod order;
mod packaged;
pub mod parity;
mod passive;
mod payload;
mod prague;
mod rate;
mod tap;
mod udp;
mod window;

use libbpf_rs::query::ProgInfoIter;
use net::{Far, Flood};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_aqm::{Discipline, Link, Settings, ShaperRule};
use weirgate_bpf::{AttachPoint, Class, Classes, Instance, Qdisc, Setup, Shaper};

/// Prints how many of the verifier's 1,000,000 steps each loaded program takes.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn verified() {
    for program in ProgInfoIter::default() {
        println!(
            "  {}: {}",
            program.name.to_string_lossy(),
            program.verified_insns
        );
    }
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn loads() {
    let mut failed = false;
    for discipline in Discipline::all() {
        let began = Instant::now();
        match Qdisc::load(discipline) {
            Ok(qdisc) => {
                println!("{}: loaded in {:?}", qdisc.kind(), began.elapsed());
                verified();
            }
            Err(error) => {
                println!("{error}");
                failed = true;
            }
        }
    }
    let began = Instant::now();
    match Shaper::load() {
        Ok(shaper) => {
            println!("{}: loaded in {:?}", shaper.kind(), began.elapsed());
            verified();
        }
        Err(error) => panic!("{error}"),
    }
    assert!(!failed);
}

/// Sleeps, in seconds of the machine's own time.
fn seconds(count: u64) {
    thread::sleep(Duration::from_secs(count));
}

/// Loads a discipline and puts it on a device with a rate.
fn on_device(qdisc: &Qdisc, device: &str, rate_bits: u64, params: &[(&str, u64)]) -> AttachPoint {
    let point = AttachPoint::root(net::ifindex(device)).expect("an attach point");
    qdisc
        .set(point, &setup(qdisc, rate_bits, params))
        .expect("settings");
    net::run(&format!(
        "tc qdisc replace dev {device} root {}",
        qdisc.kind()
    ));
    point
}

fn setup(qdisc: &Qdisc, rate_bits: u64, params: &[(&str, u64)]) -> Setup {
    let mut settings = Settings::new(qdisc.discipline());
    for (name, value) in params {
        settings.set(name, *value).expect("a parameter");
    }
    Setup {
        settings,
        link: Link {
            rate_bytes_s: rate_bits / 8,
            ..Link::default()
        },
        gate_bytes_s: rate_bits / 8,
    }
}

fn read(qdisc: &Qdisc, point: AttachPoint) -> Instance {
    qdisc.instance(point).expect("a map").expect("an instance")
}

fn number(instance: &Instance, name: &str) -> u64 {
    instance.number(name).unwrap_or_else(|| panic!("no {name}"))
}

/// Two devices, two rates, two sets of parameters, real TCP through both. Each has its own state,
/// keeps its own rate, and is changed without loss.
#[test]
#[ignore = "runs in the lab's kernel"]
fn two_devices() {
    let _far = Far::new(2);
    for discipline in Discipline::all() {
        let name = discipline.name();
        let qdisc = Qdisc::load(discipline).unwrap_or_else(|error| panic!("{error}"));
        let (slow, fast) = (1_000_000, 4_000_000);
        // Three flows of this machine keep some 25 packets queued, due to TCP's own limit; the
        // queue must be shorter for drops to occur.
        let tight: &[(&str, u64)] = match name {
            "droptail" => &[("limit_packets", 15)],
            "red" | "ared" | "mered" | "meredt" | "wred" => {
                &[("min_bytes", 5_000), ("max_bytes", 15_000)]
            }
            // The least important class would only have a sixth of the queue.
            "drt" => &[("other", 6)],
            _ => &[],
        };
        let points = [
            on_device(&qdisc, "wan0", slow, tight),
            on_device(&qdisc, "wan1", fast, tight),
        ];
        assert_eq!(qdisc.instances().expect("a map").len(), 2);
        let flows: Vec<_> = [0, 0, 0, 1, 1, 1].map(net::bulk).into();
        seconds(4);
        let before = points.map(|point| read(&qdisc, point));
        let start = Instant::now();
        seconds(10);
        let after = points.map(|point| read(&qdisc, point));
        let elapsed = start.elapsed().as_secs_f64();
        for (index, rate) in [slow, fast].into_iter().enumerate() {
            let (before, after) = (&before[index], &after[index]);
            let gained = |what| number(after, what) - number(before, what);
            let sent = gained("sent_wire_bytes") as f64;
            let due = rate as f64 / 8.0 * elapsed;
            println!(
                "{name} wan{index}: {:.4} of the rate, mean wait {:.1} ms, longest queue {}, \
                 drops {:?}",
                sent / due,
                gained("waited_ns") as f64 / gained("sent_packets") as f64 / 1e6,
                number(after, "queued_most_packets"),
                after
                    .drops()
                    .iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(row, count)| (row.name, *count))
                    .collect::<Vec<_>>(),
            );
            // The gate never sends more than its rate; the sampling may be off by a packet at
            // either end. Sending less is not the gate's fault: a discipline that drops early lets
            // the queue run empty at times.
            assert!(sent - due < 3_100.0 + due * 0.0005, "{sent} of {due}");
            let least = if name == "droptail" {
                0.9995 * due - 3_100.0
            } else {
                0.98 * due
            };
            assert!(sent > least, "{sent} of {due}");
            let dropped: u64 = after.drops().iter().map(|(_, count)| *count).sum();
            assert!(dropped > 0, "{name} dropped nothing");
            assert_eq!(
                number(after, "arrived_packets"),
                number(after, "sent_packets") + dropped + number(after, "queued_packets")
            );
        }
        // Changing one does not affect the other, and empties neither.
        let limit = discipline.params()[0];
        let mut changed = vec![(limit.name, 20_000)];
        if name == "drt" {
            changed.extend(tight);
        }
        let sent_before = number(&read(&qdisc, points[0]), "sent_packets");
        qdisc
            .set(points[0], &setup(&qdisc, 2 * slow, &changed))
            .expect("settings");
        seconds(2);
        let changed = points.map(|point| read(&qdisc, point));
        assert_eq!(changed[0].params()[0].1, 20_000, "{}", limit.name);
        assert_ne!(changed[1].params()[0].1, 20_000, "{}", limit.name);
        let gained = number(&changed[0], "sent_packets") - sent_before;
        // 2 s at 2 Mbit/s are 330 packets of 1514 bytes.
        assert!(
            (300..360).contains(&gained),
            "{gained} packets in 2 s at twice the rate"
        );
        // Removed under traffic, one by one.
        net::run("tc qdisc del dev wan0 root");
        assert_eq!(qdisc.instances().expect("a map").len(), 1);
        net::run("tc qdisc del dev wan1 root");
        assert_eq!(qdisc.instances().expect("a map").len(), 0);
        for flow in flows {
            let _ = flow.shutdown(Shutdown::Both);
        }
        for point in points {
            qdisc.unset(point).expect("a map");
        }
    }
}

/// Brouer's line: 512 kbit/s of ATM cells, 28 bytes of overhead, of which a device counts 14.
const LINE: Link = Link {
    rate_bytes_s: 64_000,
    mtu_bytes: 0,
    overhead_bytes: 14,
    mpu_bytes: 0,
    framing: 1,
    queue_packets: 0,
    room_packets: 0,
};

fn class(minor: u32, priority: u32, kbit: u64, weight: u64, name: &str) -> Class {
    Class {
        rule: ShaperRule {
            classid: 0x1_0000 + minor,
            guarantee_bytes_s: kbit * 125,
            weight,
            priority,
            ..ShaperRule::default()
        },
        settings: Settings::new(Discipline::named(name).expect("a discipline")),
    }
}

fn shaper_on(shaper: &Shaper, device: &str, classes: Vec<Class>) -> AttachPoint {
    let point = AttachPoint::root(net::ifindex(device)).expect("an attach point");
    let other = classes.len() - 1;
    let setup = Classes {
        link: LINE,
        gate_bytes_s: LINE.rate_bytes_s,
        acks: weirgate_state::CakeAckFilter::No,
        classes,
        other,
    };
    shaper.set(point, &setup).expect("settings");
    net::run(&format!(
        "tc qdisc replace dev {device} root {}",
        shaper.kind()
    ));
    point
}

/// Returns the bytes on the wire that each class has sent.
fn sent(shaper: &Shaper, point: AttachPoint) -> Vec<f64> {
    let one = shaper.instance(point).expect("a map").expect("an instance");
    let wire = |class| number(class, "sent_wire_bytes") as f64;
    one.classes.iter().map(wire).collect()
}

/// Returns the share of the time until `over` in which a class has no backlog, sampled every 2 ms.
fn dry(shaper: &Shaper, point: AttachPoint, class: usize, over: &AtomicBool) -> f64 {
    let (mut looks, mut empty) = (0_u32, 0_u32);
    while !over.load(Ordering::Relaxed) {
        let one = shaper.instance(point).expect("a map").expect("an instance");
        looks += 1;
        empty += u32::from(number(&one.classes[class], "queued_bytes") == 0);
        thread::sleep(Duration::from_millis(2));
    }
    f64::from(empty) / f64::from(looks)
}

/// ADSL-6.2: a probe with bulk TCP and as many small packets as fit, with exact counting of cells.
#[test]
#[ignore = "runs in the lab's kernel"]
fn shaper_holds_the_line() {
    let _far = Far::new(1);
    let shaper = Shaper::load().unwrap_or_else(|error| panic!("{error}"));
    for bulk in ["droptail", "red", "meredt", "fq_codel"] {
        let classes = vec![
            class(0x10, 0, 102, 1, "droptail"),
            class(0x30, 4, 204, 1, bulk),
            class(0x50, 5, 204, 1, "codel"),
        ];
        let point = shaper_on(&shaper, "wan0", classes);
        let flows = [0; 2].map(|_| net::bulk_in(0, 0x1_0030));
        let flood = Flood::new(0, 0x1_0050, 12);
        seconds(3);
        let start = Instant::now();
        let before = sent(&shaper, point);
        let over = AtomicBool::new(false);
        let (mut trips, dry) = thread::scope(|scope| {
            let dry = scope.spawn(|| dry(&shaper, point, 1, &over));
            let trips = net::probe(0, 0x1_0010, 200, Duration::from_millis(47));
            over.store(true, Ordering::Relaxed);
            (trips, dry.join().expect("the counting thread"))
        });
        let after = sent(&shaper, point);
        let due = 64_000.0 * start.elapsed().as_secs_f64();
        let gained: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let all: f64 = gained.iter().sum();
        trips.sort();
        let ms = |trip: &Duration| trip.as_secs_f64() * 1e3;
        println!(
            "{bulk}: probe p50 {:.2}, p99 {:.2}, max {:.2} ms; {:.4} of the line; classes {:?}; bulk dry for {dry:.3}",
            ms(&trips[100]),
            ms(&trips[198]),
            ms(&trips[199]),
            all / due,
            gained
                .iter()
                .map(|bytes| (bytes / due * 512.0).round())
                .collect::<Vec<_>>(),
        );
        // One packet of 32 cells in transmission takes 26.5 ms; the probe itself leaves at once,
        // and veth takes no time.
        assert!(
            ms(&trips[199]) < 26.8,
            "the slowest probe took {:?}",
            trips[199]
        );
        assert!(
            (all - due).abs() < 1_696.0 * 2.0 + due * 0.0005,
            "{all} of {due}"
        );
        // Both get their guarantee, and the flood no more: class 4 gets the excess while it has a
        // backlog.
        let [bulk_share, flood_share] = [gained[1], gained[2]].map(|it| it / due * 512.0);
        assert!(bulk_share / 204.0 > 0.99, "{bulk_share} kbit/s");
        assert!(flood_share / 204.0 > 0.99, "{flood_share} kbit/s");
        assert!(
            flood_share < 204.0 * 1.01 + 512.0 * dry,
            "{flood_share} kbit/s"
        );
        drop(flood);
        for flow in flows {
            let _ = flow.shutdown(Shutdown::Both);
        }
        net::run("tc qdisc del dev wan0 root");
    }
}

/// Shares are of bytes on the wire, for any size of packets.
#[test]
#[ignore = "runs in the lab's kernel"]
fn shaper_shares_the_wire() {
    let _far = Far::new(1);
    let shaper = Shaper::load().unwrap_or_else(|error| panic!("{error}"));
    let classes = vec![
        class(0x10, 3, 0, 1, "droptail"),
        class(0x20, 3, 0, 3, "droptail"),
        class(0x30, 3, 0, 4, "droptail"),
    ];
    let point = shaper_on(&shaper, "wan0", classes);
    let _floods = [(0x1_0010, 1_472), (0x1_0020, 12), (0x1_0030, 600)]
        .map(|(class, bytes)| Flood::new(0, class, bytes));
    seconds(3);
    let before = sent(&shaper, point);
    seconds(60);
    let after = sent(&shaper, point);
    let gained: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let all: f64 = gained.iter().sum();
    let shares: Vec<f64> = gained.iter().map(|bytes| bytes / all).collect();
    println!("shares of the wire: {shares:.4?}");
    for (share, due) in shares.iter().zip([0.125, 0.375, 0.5]) {
        assert!((share / due - 1.0).abs() < 0.01, "{shares:?}");
    }
    net::run("tc qdisc del dev wan0 root");
}
