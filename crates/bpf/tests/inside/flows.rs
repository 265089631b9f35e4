// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the programs distinguish flows: repeated datagrams of a few sockets are as many flows
//! as there are sockets.

use super::net::{self, Far};
use super::{class, number, on_device, read, seconds, shaper_on};
use std::net::{Shutdown, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weirgate_aqm::{Discipline, EventKind, Mirror, Taken};
use weirgate_bpf::{AttachPoint, Instance, Qdisc, Shaper};

/// The number of sockets for each IP version.
const SOCKETS: u64 = 6;

/// Multicast groups that the kernel itself occasionally announces.
const OTHERS: u64 = 2;

/// Sends from all sockets, 20 times a second, until it is ended.
fn talk(from: &'static str, to: &'static str, ended: &Arc<AtomicBool>) {
    for _ in 0..SOCKETS {
        let ended = Arc::clone(ended);
        thread::spawn(move || {
            let socket = UdpSocket::bind((from, 0)).expect("a socket");
            socket.connect((to, 11)).expect("an address");
            while !ended.load(Ordering::Relaxed) {
                let _ = socket.send(&[0; 100]);
                thread::sleep(Duration::from_millis(50));
            }
        });
    }
}

/// Returns the flows that sent something in the last whole second.
fn active(qdisc: &Qdisc, point: AttachPoint) -> u64 {
    number(&read(qdisc, point), "active")
}

/// Besides UDP, whose packets have no hash until it is requested, one TCP connection, whose socket
/// has one.
#[test]
#[ignore = "runs in the lab's kernel"]
fn told_apart() {
    let _far = Far::new(1);
    for line in [
        "ip -6 addr add fd00::1/64 dev wan0 nodad",
        "ip neigh replace fd00::2 lladdr 02:00:00:00:00:02 dev wan0 nud permanent",
    ] {
        net::run(line);
    }
    for name in ["mered", "meredt"] {
        let discipline = Discipline::named(name).expect("a discipline");
        let qdisc = Qdisc::load(discipline).unwrap_or_else(|error| panic!("{error}"));
        let point = on_device(&qdisc, "wan0", 8_000_000, &[]);
        let ended = Arc::new(AtomicBool::new(false));
        for (to, due) in [("10.0.0.2", SOCKETS), ("fd00::2", 2 * SOCKETS)] {
            let from = if due == SOCKETS { "0.0.0.0" } else { "::" };
            talk(from, to, &ended);
            seconds(4);
            let flows = active(&qdisc, point);
            println!("{name}: {flows} flows where {due} sockets send");
            assert!((due..=due + OTHERS).contains(&flows), "{flows} of {due}");
        }
        let flow = net::bulk(0);
        seconds(4);
        let flows = active(&qdisc, point);
        let due = 2 * SOCKETS + 1;
        assert!((due..=due + OTHERS).contains(&flows), "{flows} of {due}");
        let _ = flow.shutdown(Shutdown::Both);
        ended.store(true, Ordering::Relaxed);
        net::run("tc qdisc del dev wan0 root");
        seconds(2);
    }
}

/// The definition of a flow is a parameter: with fewer parts of the headers, the same datagrams are
/// fewer flows, immediately and without loss.
#[test]
#[ignore = "runs in the lab's kernel"]
fn by_parts() {
    let _far = Far::new(1);
    for line in [
        "ip -6 addr add fd00::1/64 dev wan0 nodad",
        "ip neigh replace fd00::2 lladdr 02:00:00:00:00:02 dev wan0 nud permanent",
        "ip neigh replace 10.0.0.3 lladdr 02:00:00:00:00:02 dev wan0 nud permanent",
    ] {
        net::run(line);
    }
    let (all, pairs, senders, ports) = (31, 3, 1, 8);
    let ended = Arc::new(AtomicBool::new(false));
    let sockets = [
        ("0.0.0.0", "10.0.0.2"),
        ("0.0.0.0", "10.0.0.3"),
        ("::", "fd00::2"),
    ];
    for (from, to) in sockets {
        talk(from, to, &ended);
    }
    // Three receivers, of which one sender addresses two in the same way. One port for both
    // versions is one flow of either version.
    let due = [
        (all, 3 * SOCKETS),
        (pairs, 3),
        (senders, 2),
        (ports, 2),
        (all, 3 * SOCKETS),
    ];
    for name in ["mered", "meredt"] {
        let discipline = Discipline::named(name).expect("a discipline");
        let qdisc = Qdisc::load(discipline).unwrap_or_else(|error| panic!("{error}"));
        let point = on_device(&qdisc, "wan0", 8_000_000, &[]);
        for (parts, due) in due {
            let setup = super::setup(&qdisc, 8_000_000, &[("flows", parts)]);
            qdisc.set(point, &setup).expect("settings");
            seconds(4);
            let one = read(&qdisc, point);
            check_flows(name, &one, parts, due);
        }
        net::run("tc qdisc del dev wan0 root");
    }
    // The shaper reads the parts of each class.
    let shaper = Shaper::load().unwrap_or_else(|error| panic!("{error}"));
    for (parts, due) in due {
        let mut one = class(0x10, 0, 102, 1, "meredt");
        one.settings.set("flows", parts).expect("a parameter");
        let point = shaper_on(&shaper, "wan0", vec![one]);
        seconds(4);
        let there = shaper.instance(point).expect("a map").expect("an instance");
        check_flows("a class", &there.classes[0], parts, due);
        net::run("tc qdisc del dev wan0 root");
    }
    ended.store(true, Ordering::Relaxed);
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn check_flows(name: &str, one: &Instance, parts: u64, due: u64) {
    let flows = number(one, "active");
    println!("{name}: {flows} flows by parts {parts}, of {due}");
    assert!((due..=due + OTHERS).contains(&flows), "{flows} of {due}");
}

/// On a line of unknown rate, a discipline is told of an empty queue when the line asks for a
/// packet. So a lone flow is new again after each pause. The native host decides the same.
#[test]
#[ignore = "runs in the lab's kernel"]
fn new_after_a_pause() {
    const PROBES: usize = 20;
    let _far = Far::new(1);
    let discipline = Discipline::named("fq_codel").expect("a discipline");
    let qdisc = Qdisc::load(discipline).unwrap_or_else(|error| panic!("{error}"));
    let point = on_device(&qdisc, "wan0", 0, &[]);
    let recorder = qdisc.record(point, 1 << 20).expect("a ring");
    let recorder = recorder.expect("an instance");
    let mut mirror = Mirror::new(discipline);
    let mut told = 0;
    thread::scope(|scope| {
        let probes = || net::probe(0, 0, PROBES + 1, Duration::from_millis(20));
        let probes = scope.spawn(probes);
        let take = |bytes: &[u8]| {
            let taken = mirror.take(bytes).unwrap_or_else(|error| panic!("{error}"));
            if let Taken::Event(record) = taken {
                let asked = record.kind() == Some(EventKind::Depart);
                told += u64::from(asked && record.slot == 0);
            }
            true
        };
        recorder
            .follow(take, || !probes.is_finished())
            .expect("a ring");
    });
    drop(recorder);
    let new = number(&read(&qdisc, point), "new_flows");
    println!("told {told} times; {new} flows were new");
    assert!(told >= PROBES as u64, "told {told} times");
    assert!(new >= PROBES as u64, "{new} flows were new");
    net::run("tc qdisc del dev wan0 root");
}
