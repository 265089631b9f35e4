// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs in the guest. Ignored elsewhere.

mod net;

use net::Far;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_aqm::{Discipline, Link, Settings};
use weirgate_bpf::{Instance, Place, Qdisc, Setup};

#[test]
#[ignore = "runs in the lab's kernel"]
fn loads() {
    let mut failed = false;
    for discipline in Discipline::all() {
        match Qdisc::load(discipline) {
            Ok(qdisc) => println!("{}: loaded", qdisc.kind()),
            Err(error) => {
                println!("{error}");
                failed = true;
            }
        }
    }
    assert!(!failed);
}

/// A second of the machine's own time.
fn seconds(count: u64) {
    thread::sleep(Duration::from_secs(count));
}

/// Loads a discipline and puts it on a device, held to a rate.
fn on_device(qdisc: &Qdisc, device: &str, rate_bits: u64, params: &[(&str, u64)]) -> Place {
    let place = Place::root(net::ifindex(device)).expect("a place");
    qdisc.set(place, &setup(qdisc, rate_bits, params)).expect("settings");
    net::run(&format!("tc qdisc replace dev {device} root {}", qdisc.kind()));
    place
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

fn read(qdisc: &Qdisc, place: Place) -> Instance {
    qdisc.instance(place).expect("a map").expect("an instance")
}

fn number(instance: &Instance, name: &str) -> u64 {
    instance.number(name).unwrap_or_else(|| panic!("no {name}"))
}

/// Two devices, two rates, two sets of parameters, real TCP through both: each
/// has its own state, keeps its own rate, and takes a change without loss.
#[test]
#[ignore = "runs in the lab's kernel"]
fn two_devices() {
    let _far = Far::new(2);
    for discipline in Discipline::all() {
        let name = discipline.name();
        let qdisc = Qdisc::load(discipline).unwrap_or_else(|error| panic!("{error}"));
        let (slow, fast) = (1_000_000, 4_000_000);
        // Three flows of this machine keep some 25 packets queued, by TCP's
        // own limit; a queue must be shorter for anything to be dropped.
        let tight: &[(&str, u64)] = match name {
            "droptail" => &[("limit_packets", 15)],
            "red" | "ared" => &[("min_bytes", 5_000), ("max_bytes", 15_000)],
            _ => &[],
        };
        let places = [
            on_device(&qdisc, "wan0", slow, tight),
            on_device(&qdisc, "wan1", fast, tight),
        ];
        assert_eq!(qdisc.instances().expect("a map").len(), 2);
        let flows: Vec<_> = [0, 0, 0, 1, 1, 1].map(net::bulk).into();
        seconds(4);
        let before = places.map(|place| read(&qdisc, place));
        let start = Instant::now();
        seconds(10);
        let after = places.map(|place| read(&qdisc, place));
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
            // The sampling itself may be off by a packet at either end.
            assert!((sent - due).abs() < 3_100.0 + due * 0.0005, "{sent} of {due}");
            let dropped: u64 = after.drops().iter().map(|(_, count)| *count).sum();
            assert!(dropped > 0, "{name} dropped nothing");
            assert_eq!(
                number(after, "arrived_packets"),
                number(after, "sent_packets") + dropped + number(after, "queued_packets")
            );
        }
        // A change of one leaves the other alone and empties neither.
        let limit = discipline.params()[0];
        let sent_before = number(&read(&qdisc, places[0]), "sent_packets");
        qdisc
            .set(places[0], &setup(&qdisc, 2 * slow, &[(limit.name, 20_000)]))
            .expect("settings");
        seconds(2);
        let changed = places.map(|place| read(&qdisc, place));
        assert_eq!(changed[0].params()[0].1, 20_000, "{}", limit.name);
        assert_ne!(changed[1].params()[0].1, 20_000, "{}", limit.name);
        let gained = number(&changed[0], "sent_packets") - sent_before;
        // 2 s at 2 Mbit/s are 330 packets of 1514 bytes.
        assert!((300..360).contains(&gained), "{gained} packets in 2 s at twice the rate");
        // Taken off while traffic flows, one by one.
        net::run("tc qdisc del dev wan0 root");
        assert_eq!(qdisc.instances().expect("a map").len(), 1);
        net::run("tc qdisc del dev wan1 root");
        assert_eq!(qdisc.instances().expect("a map").len(), 0);
        for flow in flows {
            let _ = flow.shutdown(Shutdown::Both);
        }
        for place in places {
            qdisc.unset(place).expect("a map");
        }
    }
}
