// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the engine on a device of the lab's kernel.

use super::net::{self, Far, Flood};
use super::parity::PACKETS;
use super::seconds;
use std::cell::Cell;
use std::net::{Shutdown, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant;
use weirgate_aqm::{EngineMirror, EngineSize, EngineTaken, Link, NodeRow, NodeRule};
use weirgate_bpf::{AttachPoint, Engine, EngineSetup};

const SIZE: EngineSize = EngineSize {
    nodes: 64,
    inner: 8,
    queues: 32,
    slots: 2_000,
    limit_bytes: 2_000_000,
    hosts: 64,
};

const LINK: Link = Link {
    rate_bytes_s: 0,
    mtu_bytes: 1_514,
    overhead_bytes: 24,
    mpu_bytes: 84,
    framing: 0,
    queue_packets: 0,
    room_packets: 0,
};

/// Rows: the root, a site, three circuits below it, and a default leaf.
const ROOT: u32 = 1;
const SITE: u32 = 2;
const CIRCUITS: [u32; 3] = [3, 4, 5];
const REST: u32 = 6;

/// A cap that circuits share.
const CAP: u32 = 8;

fn rule(ceiling_bits: u64) -> NodeRule {
    NodeRule {
        ceiling_bytes_s: ceiling_bits / 8,
        quantum: 1_538,
        ..NodeRule::default()
    }
}

fn leaf(parent: u32, ceiling_bits: u64) -> NodeRow {
    NodeRow {
        parent,
        fork: 0,
        rule: rule(ceiling_bits),
    }
}

fn inner(parent: u32, fork: u32, ceiling_bits: u64) -> NodeRow {
    NodeRow {
        fork,
        ..leaf(parent, ceiling_bits)
    }
}

/// Returns the bytes that each node sent in `span` seconds, and the exact time.
fn sent(engine: &Engine, nodes: &[u32], span: u64) -> (Vec<f64>, f64) {
    let now = || -> Vec<u64> {
        let of = |id: &u32| engine.counts(*id).expect("a row").sent_wire_bytes;
        nodes.iter().map(of).collect()
    };
    let (before, start) = (now(), Instant::now());
    seconds(span);
    let (after, elapsed) = (now(), start.elapsed().as_secs_f64());
    let gained = after.iter().zip(&before).map(|(a, b)| (a - b) as f64);
    (gained.collect(), elapsed)
}

/// Loads the engine within the promised time.
#[expect(clippy::print_stdout, reason = "how long it took")]
fn load(size: EngineSize, host_parts: u32) -> Engine {
    let began = Instant::now();
    let engine = Engine::load(size).unwrap_or_else(|error| panic!("{error}"));
    let took = began.elapsed();
    println!("loaded in {took:?}");
    assert!(took.as_secs_f64() <= 1.5, "{took:?}");
    let setup = EngineSetup {
        link: LINK,
        root: ROOT,
        other: REST,
        host_parts,
    };
    engine.set(&setup).expect("settings");
    engine
}

/// Three circuits at their own rates; then a rate is changed by a store; then they share the site's
/// ceiling; the qdisc is removed under traffic, and put there again.
#[test]
#[ignore = "runs in the lab's kernel"]
fn shapes() {
    let _far = Far::new(1);
    let engine = load(SIZE, 0);
    let rates = [1_000_000, 2_000_000, 3_500_000];
    engine.put(ROOT, &inner(0, 1, 20_000_000));
    engine.put(SITE, &inner(ROOT, 2, 10_000_000));
    engine.put(REST, &leaf(ROOT, 0));
    for (id, rate) in CIRCUITS.iter().zip(rates) {
        engine.put(*id, &leaf(SITE, rate));
    }
    assert!(!engine.put(0, &leaf(ROOT, 0)) && !engine.put(65, &leaf(ROOT, 0)));
    // Rows of the other kind begin after these.
    let beyond = [leaf(65, 0), inner(ROOT, SIZE.inner + 1, 1_000_000)];
    for row in beyond {
        assert!(!engine.put(SITE, &row) && !engine.change(SITE, &row));
    }
    let full = 1_538.0;
    for _ in 0..2 {
        net::run(&format!("tc qdisc replace dev wan0 root {}", Engine::KIND));
        let floods = CIRCUITS.map(|id| Flood::new(0, id, 1_472));
        seconds(1);
        let (had, elapsed) = sent(&engine, &CIRCUITS, 4);
        println!("circuits at {rates:?} bit/s: {had:?} bytes in {elapsed} s");
        for (had, rate) in had.iter().zip(rates) {
            let due = rate as f64 / 8.0 * elapsed;
            // One packet at either end, and the difference between the two clocks.
            assert!(
                (had - due).abs() <= 2.0 * full + 0.0005 * due,
                "{had} of {due}"
            );
        }
        // A single store changes a rate.
        engine.put(CIRCUITS[0], &leaf(SITE, 2_500_000));
        seconds(1);
        let (had, elapsed) = sent(&engine, &CIRCUITS[..1], 2);
        let due = 2_500_000.0 / 8.0 * elapsed;
        assert!(
            (had[0] - due).abs() <= 2.0 * full + 0.0005 * due,
            "{had:?} of {due}"
        );
        // The site's ceiling limits, and its circuits share it equally.
        for id in CIRCUITS {
            engine.put(id, &leaf(SITE, 8_000_000));
        }
        engine.put(SITE, &inner(ROOT, 2, 6_000_000));
        seconds(1);
        let (had, elapsed) = sent(&engine, &[SITE, CIRCUITS[0], CIRCUITS[1], CIRCUITS[2]], 4);
        println!("site at 6 Mbit/s, and its circuits: {had:?} bytes in {elapsed} s");
        let due = 6_000_000.0 / 8.0 * elapsed;
        assert!(
            (had[0] - due).abs() <= 2.0 * full + 0.0005 * due,
            "{had:?} of {due}"
        );
        for circuit in &had[1..] {
            assert!(
                (circuit - due / 3.0).abs() <= 2.0 * full + 0.0005 * due,
                "{had:?}"
            );
        }
        // Two circuits at different places share a cap.
        engine.put(CAP, &leaf(0, 3_000_000));
        let capped = |parent| {
            let row = leaf(parent, 0);
            let rule = NodeRule {
                cap: CAP,
                ..row.rule
            };
            NodeRow { rule, ..row }
        };
        engine.put(CIRCUITS[0], &capped(SITE));
        engine.put(CIRCUITS[1], &capped(ROOT));
        seconds(1);
        let (had, elapsed) = sent(&engine, &[CAP, CIRCUITS[0], CIRCUITS[1]], 4);
        println!("a cap of 3 Mbit/s, and its circuits: {had:?} bytes in {elapsed} s");
        let due = 3_000_000.0 / 8.0 * elapsed;
        for (had, due) in [(had[0], due), (had[1] + had[2], due)] {
            assert!(
                (had - due).abs() <= 3.0 * full + 0.0005 * due,
                "{had} of {due}"
            );
        }
        // Neither starves, although one's parent is blocked each time that the cap opens.
        assert!(had[1..].iter().all(|had| *had > 0.4 * due), "{had:?}");
        // Removed with a backlog.
        net::run("tc qdisc del dev wan0 root");
        drop(floods);
        for (id, rate) in CIRCUITS.iter().zip(rates) {
            engine.put(*id, &leaf(SITE, rate));
        }
        engine.put(SITE, &inner(ROOT, 2, 10_000_000));
    }
}

/// Datagrams of a flow that are sent in order.
const IN_ORDER: u16 = 120;

/// Numbered packets of equal length leave a circuit in order; two sockets are used, so that the
/// leaf has two flows.
#[test]
#[ignore = "runs in the lab's kernel"]
fn keeps_order() {
    let _far = Far::new(1);
    let engine = load(SIZE, 0);
    engine.put(ROOT, &inner(0, 1, 20_000_000));
    // CoDel must not drop any.
    let patient = NodeRule {
        target_ns: 1_000_000_000,
        ..rule(1_000_000)
    };
    let rest = NodeRow {
        rule: patient,
        ..leaf(ROOT, 0)
    };
    engine.put(REST, &rest);
    net::run(&format!("tc qdisc replace dev wan0 root {}", Engine::KIND));
    let sockets = [0, 1].map(|_| {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
        socket.connect(("10.0.0.2", 7)).expect("an address");
        socket
            .set_read_timeout(Some(std::time::Duration::from_secs(2)))
            .expect("a socket");
        socket
    });
    for number in 0..IN_ORDER {
        for socket in &sockets {
            socket.send(&number.to_be_bytes()).expect("a datagram");
        }
    }
    // The far side returns each; packets of 84 bytes on the wire wait for 161 ms.
    for socket in &sockets {
        let mut space = [0; 2];
        let back: Vec<u16> = std::iter::from_fn(|| socket.recv(&mut space).ok().map(|_| space))
            .map(u16::from_be_bytes)
            .take(IN_ORDER.into())
            .collect();
        assert_eq!(back, (0..IN_ORDER).collect::<Vec<_>>());
    }
    let counts = engine.counts(REST).expect("a row");
    assert_eq!((counts.packets, counts.drops), (0, 0));
    assert!(counts.sent_packets >= 240, "{counts:?}");
}

/// Returns the bytes of a socket's packets that are in this machine, as the kernel charges them
/// (`SIOCOUTQ`).
fn charged(socket: &UdpSocket) -> i32 {
    let mut count = 0;
    #[expect(unsafe_code, reason = "std has no such question")]
    // SAFETY: the kernel writes an int to this place.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    assert_eq!(status, 0);
    count
}

/// Returns sockets that have filled the pool to the last slot, through circuits that send nothing.
fn filled(engine: &Engine) -> Vec<UdpSocket> {
    let sockets: Vec<UdpSocket> = (0..30)
        .map(|number| {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
            socket.connect(("10.0.0.2", 11)).expect("an address");
            net::classify(&socket, CIRCUITS[number % 3]);
            socket.set_nonblocking(true).expect("a socket");
            socket
        })
        .collect();
    for _ in 0..200 {
        for socket in &sockets {
            let _ = socket.send(&[0; 64]);
        }
    }
    let queued = CIRCUITS.map(|id| engine.counts(id).expect("a row").packets);
    // Flooding leaves leave as much room to others as each of them has.
    let all: u32 = queued.iter().sum();
    assert!(all >= SIZE.slots * 3 / 4 - 3, "{queued:?}");
    assert!(sockets.iter().all(|socket| charged(socket) > 0));
    sockets
}

/// With a full pool, the qdisc is removed, then first its programs, then the device. No packet
/// remains, and the next one finds rows in their initial state.
#[test]
#[ignore = "runs in the lab's kernel"]
fn leaves_nothing() {
    for removal in 0..3 {
        let _far = Far::new(1);
        let mut loaded = Some(load(SIZE, 0));
        if let Some(engine) = &loaded {
            engine.put(ROOT, &inner(0, 1, 20_000_000));
            engine.put(SITE, &inner(ROOT, 2, 10_000_000));
            for id in CIRCUITS {
                engine.put(id, &leaf(SITE, 800));
            }
        }
        for turn in 0..2 {
            net::run(&format!("tc qdisc replace dev wan0 root {}", Engine::KIND));
            let sockets = filled(loaded.as_ref().expect("an engine"));
            if removal == 0 || turn == 0 {
                net::run("tc qdisc del dev wan0 root");
                let engine = loaded.as_ref().expect("an engine");
                let counts = CIRCUITS.map(|id| engine.counts(id).expect("a row"));
                assert_eq!(counts, <[_; 3]>::default());
            } else if removal == 1 {
                loaded = None;
                assert!(sockets.iter().all(|socket| charged(socket) > 0));
                net::run("tc qdisc del dev wan0 root");
            } else {
                net::run("ip link del wan0");
            }
            let began = Instant::now();
            let held = || sockets.iter().map(charged).sum::<i32>();
            while held() > 0 && began.elapsed().as_secs() < 5 {
                std::thread::yield_now();
            }
            assert_eq!(held(), 0, "bytes of packets that nobody has");
        }
    }
}

/// The size of the compared engines: small, so that leaves evict packets.
const SMALL: EngineSize = EngineSize {
    slots: 300,
    limit_bytes: 200_000,
    ..SIZE
};

/// A second site.
const OTHER_SITE: u32 = 7;

/// Returns a change of a circuit; every seventh is of a site.
fn changed(turn: u64) -> (u32, NodeRow) {
    let pick = |of: u64| (turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) / of;
    if turn % 7 == 6 {
        return (SITE, inner(ROOT, 2, 4_000_000 + pick(3) % 4 * 2_000_000));
    }
    let id = CIRCUITS[turn as usize % 3];
    let site = [SITE, OTHER_SITE][(pick(5) % 2) as usize];
    let row = leaf(site, pick(7) % 5 * 1_000_000);
    let rule = NodeRule {
        guarantee_bytes_s: pick(11) % 3 * 60_000,
        priority: (pick(13) % 3) as u16,
        quantum: 1_538 * (1 + pick(17) % 3) as u32,
        limit_bytes: (pick(19) % 2 * 30_000) as u32,
        cap: (pick(23) % 3 / 2) as u32 * CAP,
        hosts: pick(29) % 2 == 1,
        ..row.rule
    };
    (id, NodeRow { rule, ..row })
}

/// Returns the initial rows of a comparison. One of the leaves distinguishes hosts.
fn compared() -> Vec<(u32, NodeRow)> {
    let mut rows = vec![
        (ROOT, inner(0, 1, 9_000_000)),
        (SITE, inner(ROOT, 2, 8_000_000)),
        (OTHER_SITE, inner(ROOT, 3, 5_000_000)),
        (REST, leaf(ROOT, 0)),
        (CAP, leaf(0, 2_500_000)),
    ];
    rows.extend(CIRCUITS.map(|id| (id, leaf(SITE, 3_000_000))));
    if let Some((_, row)) = rows.last_mut() {
        row.rule.hosts = true;
    }
    rows
}

/// Records `packets` packets of mixed traffic, during changes of rates, shares, guarantees and
/// parents, and replays them in the native engine. Every verdict must be equal, and at the end
/// every row, bit for bit.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn compare(packets: u64, changes: u64) {
    let _far = Far::new(1);
    // A host is a port of the far side here; some leaves distinguish hosts.
    let engine = load(SMALL, 8);
    let rows = compared();
    assert!(rows.iter().all(|(id, row)| engine.put(*id, row)));
    let recorder = engine.record(1 << 24).expect("a ring");
    let point = AttachPoint::root(net::ifindex("wan0")).expect("an attach point");
    let marker = engine.mark(point).unwrap_or_else(|error| panic!("{error}"));
    net::run(&format!("tc qdisc replace dev wan0 root {}", Engine::KIND));
    let began = Instant::now();
    let mut mirror = EngineMirror::new(SMALL, rows);
    let mut traffic = Some((
        CIRCUITS.map(|id| [net::bulk_in(0, id), net::bulk_in(0, id)]),
        CIRCUITS.map(|id| Flood::bursts(0, id, 600, 20)),
        Flood::bursts(0, CIRCUITS[0], 1_200, 20),
        Flood::capable(0, 900, 2),
    ));
    let [
        arrived,
        sent,
        to_mark,
        dropped,
        evicted,
        vain,
        made,
        asked,
        placed,
    ] = [const { Cell::new(0_u64) }; 9];
    let add = |to: &Cell<u64>, more: u64| to.set(to.get() + more);
    let (quiet, problem) = (Cell::new(0), Cell::new(None));
    let take = |bytes: &[u8]| {
        quiet.set(0);
        match mirror.take(bytes) {
            Ok(EngineTaken::Arrived(_)) => add(&arrived, 1),
            Ok(EngineTaken::Evicted) => add(&evicted, 1),
            Ok(EngineTaken::Placed(own)) => add(&placed, own.into()),
            Ok(EngineTaken::Changed) => add(&made, 1),
            Ok(EngineTaken::Departed {
                sent: s,
                marked: m,
                dropped: d,
            }) => {
                add(&sent, s.into());
                add(&to_mark, m.into());
                add(&dropped, d.into());
                add(&vain, u64::from(!s && !d));
            }
            Ok(EngineTaken::Part | EngineTaken::Ruled) => {}
            Err(error) => problem.set(Some(error)),
        }
        if arrived.get() >= (asked.get() + 1) * packets / (changes + 1) && asked.get() < changes {
            let (id, row) = changed(asked.get());
            add(&asked, u64::from(engine.change(id, &row)));
        }
        let going = problem.take();
        let fine = going.is_none();
        problem.set(going);
        fine
    };
    let more = || {
        if arrived.get() >= packets
            && let Some((flows, ..)) = traffic.take()
        {
            for flow in flows.into_iter().flatten() {
                let _ = flow.shutdown(Shutdown::Both);
            }
        }
        add(&quiet, 1);
        traffic.is_some() || quiet.get() < 10
    };
    recorder.follow(take, more).expect("a ring");
    if let Some(problem) = problem.take() {
        panic!("{problem}");
    }
    println!(
        "{}: the same for {} packets, {} sent, of which {} to be marked, {} dropped on the way out, {} evicted, {} times \
         nothing to send, {} changes, {} in leaves of hosts, in {} s of the guest",
        Engine::KIND,
        arrived.get(),
        sent.get(),
        to_mark.get(),
        dropped.get(),
        evicted.get(),
        vain.get(),
        made.get(),
        placed.get(),
        began.elapsed().as_secs()
    );
    assert!(arrived.get() >= packets && made.get() == changes);
    assert!(placed.get() > packets / 50);
    assert!(sent.get() > packets / 50 && dropped.get() > 0 && evicted.get() > 0);
    let count = engine.marks().count(point).expect("maps");
    println!("{count:?}");
    assert!(to_mark.get() > 0 && count.expect("an attach point").made > 0);
    drop(marker);
    for id in 1..=SMALL.nodes + SMALL.hosts {
        let own = engine.bytes(id).expect("a row");
        assert_eq!(Some(own), mirror.row(id), "node {id}");
    }
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn agrees() {
    compare(20_000, 40);
}

/// The environment sets the number of packets, for `cargo xtask aqm-parity`.
#[test]
#[ignore = "runs in the lab's kernel"]
fn agrees_on_many() {
    let asked = std::env::var(PACKETS).expect("how many packets");
    let packets = asked.parse().expect("a number");
    compare(packets, packets / 500);
}
