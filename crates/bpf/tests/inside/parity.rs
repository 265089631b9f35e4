// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the kernel's verdicts with the native host's, packet by packet.

use super::net::{self, Far, Flood};
use super::{number, on_device, read, setup};
use std::net::Shutdown;
use std::path::Path;
use std::time::Instant;
use weirgate_aqm::{Discipline, EventKind, Link, Mirror, Settings, ShaperRule, Taken};
use weirgate_bpf::{AttachPoint, Class, Classes, Qdisc, Recorder, Shaper, kit_number};

/// The size of the ring buffer between kernel and test, in bytes.
const RING: u32 = 1 << 24;

/// The variable with the number of compared packets of each discipline.
pub const PACKETS: &str = "WEIRGATE_PARITY_PACKETS";

/// The variable with the discipline's name.
pub const DISCIPLINE: &str = "WEIRGATE_PARITY_DISCIPLINE";

/// The folder of a test's files in the guest.
const BUILT: &str = "/usr/sbin";

/// The number of parameter changes during a run.
const CHANGES: u64 = 5;

/// The rate in bit/s, low enough for queues to form.
const RATE: u64 = 8_000_000;

/// The counts of a comparison.
#[derive(Debug, Default)]
struct Compared {
    arrivals: u64,
    departures: u64,
    evictions: u64,
    drops: u64,
    marks: u64,
    states: u64,
}

/// Records `packets` arrivals of mixed traffic in the kernel and replays them in the native host,
/// including changes of a parameter by `set`. At the end, the states must be equal, bit for bit.
fn compare(
    discipline: Discipline,
    recorder: &Recorder<'_>,
    packets: u64,
    set: impl Fn(&'static str, u64),
) -> Compared {
    let mut mirror = Mirror::new(discipline);
    let mut compared = Compared::default();
    // The limit alternates between the discipline's default and one that is soon reached.
    let params = discipline.params();
    let limit = params.iter().find(|row| row.name.starts_with("limit"));
    let first = *limit.expect("every discipline has a limit");
    let small = if first.unit == "packets" { 40 } else { 20_000 };
    let changed = |turn: u64| [small, first.default][turn as usize % 2].max(first.least);
    let mut problem = None;
    let mut asked = 0;
    recorder
        .follow(
            |bytes| {
                match mirror.take(bytes) {
                    Ok(Taken::Event(record)) => {
                        let kind = record.kind().expect("a kind");
                        let dropped = record.action == 2;
                        compared.arrivals += u64::from(kind == EventKind::Arrive);
                        compared.departures += u64::from(kind == EventKind::Depart);
                        compared.evictions +=
                            u64::from(kind == EventKind::Evict && record.slot > 0);
                        compared.drops += u64::from(dropped);
                        compared.marks += u64::from(record.action == 1);
                        if compared.arrivals >= (asked + 1) * packets / CHANGES {
                            asked += 1;
                            set(first.name, changed(asked));
                        }
                    }
                    Ok(Taken::Compared) => compared.states += 1,
                    Ok(_) => {}
                    Err(error) => problem = Some(error),
                }
                problem.is_none() && !(asked >= CHANGES && compared.states >= CHANGES)
            },
            || true,
        )
        .expect("a ring");
    if let Some(problem) = problem {
        panic!("{}: {problem}", discipline.name());
    }
    compared
}

/// The code point of expedited forwarding in the DS field, above the ECN bits.
const EXPEDITED: u32 = 46 << 2;

/// Compares every discipline under TCP of several flows and datagrams of three sizes.
fn parity(disciplines: &[Discipline], packets: u64) {
    let _far = Far::new(1);
    for discipline in disciplines {
        parity_of(*discipline, packets, &[]);
    }
}

/// Compares one discipline with these parameters.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn parity_of(discipline: Discipline, packets: u64, with: &[(&str, u64)]) {
    let qdisc = Qdisc::load(discipline).unwrap_or_else(|error| panic!("{error}"));
    let point = on_device(&qdisc, "wan0", RATE, with);
    // Disciplines that request the ECN field get it, and mark.
    let marking = Settings::new(discipline).marks();
    let marker = marking.then(|| qdisc.mark(point).unwrap_or_else(|error| panic!("{error}")));
    let began = Instant::now();
    // Connect before the floods: a flood of ECT(1) may starve every SYN in a dual queue.
    let flows: Vec<_> = [0; 6].map(net::bulk).into();
    let capable = [1, 2].map(|ecn| marking.then(|| Flood::capable(0, 900, ecn)));
    let floods = [40, 600, 1_200].map(|bytes| Flood::paced(0, bytes));
    let recorder = qdisc.record(point, RING).expect("a ring");
    let recorder = recorder.expect("an instance");
    let compared = compare(discipline, &recorder, packets, |name, value| {
        let all = [with, &[(name, value)]].concat();
        let setup = setup(&qdisc, RATE, &all);
        qdisc.set(point, &setup).expect("settings");
    });
    drop(recorder);
    println!(
        "{}: the same for {compared:?}, in {} s of the guest",
        qdisc.kind(),
        began.elapsed().as_secs()
    );
    assert!(compared.arrivals >= packets);
    assert!(compared.departures > packets / 10);
    assert!(compared.drops + compared.evictions > 0);
    assert!(compared.marks > 0 || !marking);
    assert!(compared.evictions > 0 || discipline.name() != "fq_codel");
    let before = number(&read(&qdisc, point), "arrived_packets");
    drop((floods, capable, marker));
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
    assert!(before > 0);
    net::run("tc qdisc del dev wan0 root");
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn quick() {
    parity(&Discipline::all(), 2_500);
}

/// Compares eight times as many packets.
#[test]
#[ignore = "runs in the lab's kernel"]
fn longer() {
    parity(&Discipline::all(), 20_000);
}

/// The laboratory's disciplines, from the files that its program built. Packets of expedited
/// forwarding are held, so that the host's timer releases them.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_the_lab() {
    let _far = Far::new(1);
    let _expedited = Flood::capable(0, 300, EXPEDITED);
    for name in Discipline::lab_names() {
        let file = Path::new(BUILT).join(name).with_extension("so");
        let discipline = Discipline::open(&file, kit_number()).expect(name);
        let holds = discipline.params().iter().any(|row| row.name == "early");
        let with: &[(&str, u64)] = if holds { &[("early", 1)] } else { &[] };
        parity_of(discipline, 5_000, with);
    }
}

/// Returns a shaper with a class of 4 Mbit/s with the discipline, and a default class.
fn classes(discipline: Discipline, params: &[(&str, u64)]) -> Classes {
    let mut settings = Settings::new(discipline);
    for (name, value) in params {
        settings.set(name, *value).expect("a parameter");
    }
    let class = |classid, settings| Class {
        rule: ShaperRule {
            classid,
            guarantee_bytes_s: RATE / 16,
            weight: 1,
            ..ShaperRule::default()
        },
        settings,
    };
    Classes {
        link: Link {
            rate_bytes_s: RATE / 8,
            ..Link::default()
        },
        gate_bytes_s: RATE / 8,
        acks: weirgate_state::CakeAckFilter::No,
        classes: vec![
            class(0x1_0010, Settings::new(Discipline::all()[0])),
            class(0x1_0020, settings),
        ],
        other: 1,
    }
}

/// Each discipline as the queue of a shaper's class.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_classes() {
    let _far = Far::new(1);
    let shaper = Shaper::load().unwrap_or_else(|error| panic!("{error}"));
    let point = AttachPoint::root(net::ifindex("wan0")).expect("an attach point");
    for discipline in Discipline::all() {
        let set = |params: &[(&str, u64)]| {
            let classes = classes(discipline, params);
            shaper.set(point, &classes).expect("settings");
        };
        set(&[]);
        net::run(&format!("tc qdisc replace dev wan0 root {}", Shaper::KIND));
        // Disciplines that request the ECN field get it, and mark.
        let marking = Settings::new(discipline).marks();
        let marker = marking.then(|| shaper.mark(point).unwrap_or_else(|error| panic!("{error}")));
        // Connect before the floods: a flood of ECT(1) may starve every SYN in a dual queue.
        let flows: Vec<_> = [0; 6].map(net::bulk).into();
        let capable = [1, 2].map(|ecn| marking.then(|| Flood::capable(0, 900, ecn)));
        let floods = [40, 600, 1_200].map(|bytes| Flood::paced(0, bytes));
        assert!(
            shaper
                .record(point, 0x1_0030, RING)
                .expect("maps")
                .is_none()
        );
        let found = shaper.record(point, 0x1_0020, RING).expect("a ring");
        let (of, recorder) = found.expect("a class");
        assert_eq!(of, discipline);
        let compared = compare(discipline, &recorder, 10_000, |name, value| {
            set(&[(name, value)]);
        });
        println!("{}: the same for {compared:?}", discipline.name());
        assert!(compared.arrivals >= 10_000);
        assert!(compared.drops + compared.evictions > 0);
        assert!(compared.marks > 0 || !marking);
        drop((recorder, floods, capable, marker));
        for flow in flows {
            let _ = flow.shutdown(Shutdown::Both);
        }
        net::run("tc qdisc del dev wan0 root");
    }
}

/// The environment sets the number of packets and the discipline, for `cargo xtask aqm-parity`.
#[test]
#[ignore = "runs in the lab's kernel"]
fn many() {
    let asked = std::env::var(PACKETS).expect("how many packets");
    let name = std::env::var(DISCIPLINE).expect("a discipline");
    let discipline = Discipline::named(&name).expect("one of the kit");
    parity(&[discipline], asked.parse().expect("a number"));
}
