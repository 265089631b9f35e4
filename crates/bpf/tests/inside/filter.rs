// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the virtual queue's filter: compares its verdicts with the native host's, and runs it on
//! packets of every kind with the kernel's test runs.

use super::loaded;
use std::net::Ipv4Addr;
use std::time::Duration;
use weirgate_aqm::{Action, Discipline, Link, Packet, Record, Settings, VirtualQueue};
use weirgate_bpf::{Filter, FilterFlow, FilterMaps, FilterSetup};

/// The number of packets in a run.
const PACKETS: usize = 20_000;

/// The number of packets between two reads of the recording.
const BATCH: usize = 500;

/// A simple pseudo-random generator.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Corrupts a frame after its addresses, one time in three; returns whether it did.
    pub fn spoils(&mut self, bytes: &mut Vec<u8>) -> bool {
        let spoils = self.below(3) == 0;
        if spoils {
            for _ in 0..self.below(5) {
                let at = 12 + self.below(bytes.len() as u64 - 12) as usize;
                bytes[at] = self.below(256) as u8;
            }
            if self.below(2) == 0 {
                bytes.truncate(14 + self.below(bytes.len() as u64 - 13) as usize);
            }
        }
        spoils
    }
}

pub fn setup(rate_bytes_s: u64, params: &[(&str, u64)]) -> FilterSetup {
    setup_of(Filter::of_policies(), rate_bytes_s, params)
}

fn setup_of(discipline: Discipline, rate_bytes_s: u64, params: &[(&str, u64)]) -> FilterSetup {
    let mut settings = Settings::new(discipline);
    for (name, value) in params {
        settings.set(name, *value).expect("a parameter");
    }
    FilterSetup {
        link: Link {
            rate_bytes_s,
            mtu_bytes: 1_514,
            overhead_bytes: 14,
            framing: 1,
            ..Link::default()
        },
        parts: 31,
        settings,
    }
}

/// Returns an Ethernet frame of UDP or TCP.
pub fn frame(version: u8, protocol: u8, ecn: u8, flow: u16, payload: usize) -> Vec<u8> {
    let mut upper = [flow.to_be_bytes(), 443_u16.to_be_bytes()].concat();
    if protocol == 6 {
        upper.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    } else {
        upper.extend(((8 + payload) as u16).to_be_bytes());
        upper.extend([0, 0]);
    }
    upper.resize(upper.len() + payload, 0x5a);
    let mut bytes = vec![2; 12];
    if version == 4 {
        let mut header = vec![0x45, ecn];
        header.extend(((20 + upper.len()) as u16).to_be_bytes());
        header.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 11, 10, 0, 0]);
        header.push((flow & 0xff) as u8);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([8, 0]);
        bytes.extend(header);
    } else {
        bytes.extend([0x86, 0xdd, 0x60, ecn << 4, 0, 0]);
        bytes.extend((upper.len() as u16).to_be_bytes());
        bytes.extend([protocol, 64]);
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]);
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        bytes.extend(flow.to_be_bytes());
    }
    bytes.extend(upper);
    bytes
}

/// Returns the Internet checksum (RFC 1071); 0 for a header with a valid one.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Who answers probes.
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);

/// An answer to a probe is never dropped, and only it. A measured queue is in force at once.
#[test]
#[ignore = "runs in the lab's kernel"]
fn measured() {
    // Drops whatever finds more than 30 ms.
    let params = [("limit_bytes", 300_000)];
    let bucket = Discipline::named("droptail").expect("one of the kit");
    let setup = setup_of(bucket, 10_000_000, &params);
    let filter = Filter::load(&setup, 3).unwrap_or_else(|error| panic!("{error}"));
    let maps = filter.maps().expect("maps");
    let passes = |protocol| filter.run(&frame(4, protocol, 0, 7, 100)).expect("a run").0;
    assert!(passes(17) && passes(1));
    let measure = |waits, peer: Ipv4Addr| maps.measure(waits, peer.into()).expect("a map");
    measure(Duration::from_secs(9), PEER);
    assert!(!passes(17), "the queue is full");
    assert!(passes(1), "the answer of a probe");
    measure(Duration::from_secs(9), Ipv4Addr::new(192, 0, 2, 12));
    assert!(!passes(1), "the answer of another host");
    measure(Duration::ZERO, PEER);
    assert!(passes(17) && passes(1), "the queue is empty");
    assert_eq!(maps.measured().expect("a map"), Some((3, Duration::ZERO)));
}

/// Replays recorded decisions in the native host with the same random numbers.
#[test]
#[ignore = "runs in the lab's kernel"]
fn parity() {
    // Rates above and below what the machine generates a second.
    for mark in [0, 2] {
        let params = [
            ("mark", mark),
            ("min_bytes", 8_000),
            ("max_bytes", 30_000),
            ("knot1_bytes", 20_000),
            ("fairness", 1 << 15),
            ("measure", 2),
            ("bands", 1),
            ("gentle", 2),
        ];
        // First so few that most marks are due to coupling.
        let marks = |number| [&params[..], &[("l4s_marks", mark / 2 * number)]].concat();
        let changed = setup(4_000_000, &marks(12));
        let wanted = setup(12_000_000, &marks(1));
        let (maps, counts) = agreed(&wanted, &changed, PACKETS, 77 + mark);
        assert!(counts[2] > 100, "drops");
        assert_eq!(counts[1] > 100, mark != 0, "marks");
        for name in ["l4s_ramp_marks", "l4s_coupled_marks"] {
            let marks = stat(&maps, name);
            println!("{name}: {marks}");
            assert_eq!(marks > 20, mark != 0, "{name}: {marks}");
        }
        known_flows(&maps);
    }
}

/// Returns one of the discipline's counters.
fn stat(maps: &FilterMaps, name: &str) -> u64 {
    let stats = maps.state().expect("a map").instance.stats();
    let found = stats.into_iter().find(|(row, _)| row.name == name);
    found.expect("a statistic").1
}

/// Replays decisions of every discipline that can decide without a queue, with marks if it makes
/// any, including those that decide at departure.
#[test]
#[ignore = "runs in the lab's kernel"]
fn parity_of_all() {
    for discipline in Discipline::all() {
        if VirtualQueue::refusal(discipline).is_some() {
            assert!(Filter::load(&setup_of(discipline, 1, &[]), 1).is_err());
            continue;
        }
        let has = |name: &str| discipline.params().iter().any(|row| row.name == name);
        let mut params = Vec::new();
        for (name, value) in [
            ("ecn", 1),
            ("mark", 2),
            ("limit_packets", 60),
            ("interval_ns", 20_000_000),
        ] {
            if has(name) && (name != "interval_ns" || has("ce_threshold_ns")) {
                params.push((name, value));
            }
        }
        let wanted = setup_of(discipline, 12_000_000, &params);
        let changed = setup_of(discipline, 4_000_000, &params);
        let (_, counts) = agreed(&wanted, &changed, PACKETS / 2, 5);
        assert!(counts[2] > 50, "{discipline:?}: {counts:?}");
    }
}

/// Checks that the native host decides as the filter did, including a change of settings and
/// measurements of the queue at the far end. Returns
/// the filter's maps, and how many packets passed, were marked, and were dropped.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn agreed(
    wanted: &FilterSetup,
    changed: &FilterSetup,
    packets: usize,
    random: u64,
) -> (FilterMaps, [u64; 3]) {
    let name = wanted.settings.discipline().name();
    let filter =
        Filter::load_recording(wanted, 0x1234_5678).unwrap_or_else(|error| panic!("{error}"));
    let maps = filter.maps().expect("maps");
    let read = maps.setup().expect("a map").expect("a setup");
    assert_eq!(read.settings, VirtualQueue::in_force(&wanted.settings));
    let mut native: Option<VirtualQueue> = None;
    let mut chance = Chance(random);
    let mut counts = [0_u64; 3];
    let mut compared = 0;
    let mut now_set = wanted.clone();
    let mut renewed = true;
    let mut measured = None;
    while compared < packets {
        let mut results = Vec::new();
        for _ in 0..BATCH {
            let small = chance.below(4) == 0;
            let size = if small { chance.below(100) } else { 1_400 };
            let protocol = [6, 17][chance.below(2) as usize];
            let version = [4, 6][chance.below(2) as usize];
            let ecn = chance.below(3) as u8;
            let flow = [chance.below(6), 1_000 + chance.below(3_000)];
            let flow = flow[usize::from(chance.below(5) == 0)];
            let code = if version == 4 { flow as u8 & 63 } else { 0 };
            let tos = code << 2 | ecn;
            let made = frame(version, protocol, tos, flow as u16, size as usize);
            let (passed, after) = filter.run(&made).expect("a run");
            results.push((passed, made, after));
        }
        let mut at = 0;
        filter
            .recorded(|bytes| {
                let record = Record::from_bytes(bytes).expect("a record");
                let packet = Packet {
                    arrived_ns: record.now_ns,
                    len: record.len,
                    wire: record.wire,
                    flow: record.flow,
                    ecn: record.ecn,
                };
                let Packet { arrived_ns, .. } = packet;
                let (settings, link) = (&now_set.settings, &now_set.link);
                match &mut native {
                    None => native = Some(VirtualQueue::new(settings, link, arrived_ns)),
                    Some(native) if renewed => native.change(settings, link, arrived_ns),
                    Some(_) => {}
                }
                renewed = false;
                let own = native.as_mut().expect("just made");
                if let Some(waits_ns) = measured.take() {
                    own.measured(waits_ns, arrived_ns);
                }
                let verdict = own.arrive(&packet, record.random);
                let (passed, made, after) = &results[at];
                assert_eq!(made.len(), record.len as usize);
                assert_eq!(packet.wire, now_set.link.wire_bytes(packet.len));
                assert_eq!(verdict.action as u32, record.action, "packet {compared}");
                assert_eq!(verdict.reason, record.reason, "packet {compared}");
                assert_eq!(*passed, verdict.action != Action::Drop);
                if verdict.action == Action::Mark {
                    marked(made, after);
                } else {
                    assert_eq!(made, after, "nothing else changes");
                }
                counts[verdict.action as usize] += 1;
                at += 1;
                compared += 1;
            })
            .expect("records");
        assert_eq!(at, BATCH, "every packet was recorded");
        let state = maps.state().expect("a map");
        assert_eq!(state.missed, 0);
        let own = native.as_ref().expect("made").bytes();
        // Leave out the end of the instance, which only the kernel's host has.
        assert!(state.bytes == own, "{name}: states differ after {compared}");
        if compared % (packets / 4) == 0 {
            let waits_ns = chance.below(20_000_000);
            let waits = Duration::from_nanos(waits_ns);
            maps.measure(waits, PEER.into()).expect("a map");
            let number = (compared / (packets / 4)) as u64;
            let told = maps.measured().expect("a map");
            assert_eq!(told, Some((number, waits)));
            (measured, renewed) = (Some(waits_ns), true);
        }
        if compared == packets / 2 {
            maps.set(changed).expect("a map");
            now_set = changed.clone();
            renewed = true;
        }
    }
    println!("{name}: the same for {compared}: passed, marked, dropped {counts:?}");
    (maps, counts)
}

/// Checks the known flows of a run.
fn known_flows(maps: &FilterMaps) {
    let flows = maps.flows().expect("a map");
    assert!(flows.len() > 1_000, "{}", flows.len());
    let all: u64 = flows.iter().map(|flow| flow.packets).sum();
    assert!(all <= PACKETS as u64);
    let large = flows.iter().max_by_key(|flow| flow.bytes).expect("one");
    assert!(
        large.drops > 0 && large.destination_port == 443,
        "{large:?}"
    );
    assert!(large.source_port < 6);
    // Flows that sent little are spared.
    let spared = |flow: &&FilterFlow| flow.bytes < 15_000;
    let lost: u64 = flows.iter().filter(spared).map(|flow| flow.drops).sum();
    assert_eq!(lost, 0);
}

/// Checks that only the two ECN bits changed, and that an IPv4 header's checksum is right.
fn marked(before: &[u8], after: &[u8]) {
    let differs: Vec<usize> = (0..before.len())
        .filter(|at| before[*at] != after[*at])
        .collect();
    if before[12] == 8 {
        assert_eq!(after[15] & 3, 3);
        assert_eq!(checksum(&after[14..34]), 0);
        assert!(differs.iter().all(|at| [15, 24, 25].contains(at)));
    } else {
        assert_eq!(after[15] >> 4 & 3, 3);
        assert!(differs.iter().all(|at| *at == 15));
    }
}

/// Packets that cannot take the lock pass. The next one that can adds their bytes to the virtual
/// queue.
#[test]
#[ignore = "runs in the lab's kernel"]
fn locked() {
    let params = [("min_bytes", 100_000), ("max_bytes", 300_000)];
    let filter = Filter::load(&setup(1, &params), 3).unwrap_or_else(|error| panic!("{error}"));
    let program = filter.program().expect("a program");
    let maps = filter.maps().expect("maps");
    let made = frame(4, 17, 0, 7, 100);
    let run = || assert!(filter.run(&made).expect("a run").0);
    (0..2).for_each(|_| run());
    loaded::set_lock(&program, 1);
    (0..10).for_each(|_| run());
    let waits = |maps: &FilterMaps| {
        let instance = maps.state().expect("a map").instance;
        instance.number("queued_wire_bytes").expect("a count")
    };
    // The delay that the last packet found; a byte drains in a second.
    let of_one = waits(&maps);
    assert!(of_one > 0);
    assert_eq!(maps.state().expect("a map").missed, 10);
    loaded::set_lock(&program, 0);
    run();
    let waits = waits(&maps);
    assert!(
        (12 * of_one..=12 * (of_one + 1)).contains(&waits),
        "{waits} of 12 * {of_one}"
    );
}

/// Truncated, corrupted, fragmented and endless packets: the kernel refuses none, only marks are
/// written, and a packet of no flow passes.
#[test]
#[ignore = "runs in the lab's kernel"]
fn any_packet() {
    let params = [
        ("mark", 2),
        ("min_bytes", 1_000),
        ("max_bytes", 3_000),
        ("weight1", 1 << 16),
        ("measure", 2),
        ("gentle", 2),
    ];
    let filter = Filter::load(&setup(10_000, &params), 3).unwrap_or_else(|error| panic!("{error}"));
    let mut chance = Chance(99);
    let mut seen = [0_u64; 3];
    for round in 0..12_000_u64 {
        let (version, protocol) = (
            [4, 6][(round % 2) as usize],
            [6, 17][(round / 2 % 2) as usize],
        );
        let ecn = chance.below(4) as u8;
        let size = chance.below(200) as usize;
        let mut bytes = frame(version, protocol, ecn, chance.below(9) as u16, size);
        for _ in 0..chance.below(6) {
            let at = 12 + chance.below(bytes.len() as u64 - 12) as usize;
            bytes[at] = chance.below(256) as u8;
        }
        if chance.below(3) == 0 {
            bytes.truncate(14 + chance.below(bytes.len() as u64 - 13) as usize);
        }
        // The kernel's test run refuses a frame without a whole Ethernet header.
        let Ok((passed, after)) = filter.run(&bytes) else {
            seen[2] += 1;
            continue;
        };
        seen[usize::from(passed)] += 1;
        let differs = (0..bytes.len()).filter(|at| bytes[*at] != after[*at]);
        for at in differs {
            assert!([15, 24, 25].contains(&at), "{at} of {bytes:?}");
        }
    }
    let state = filter.maps().and_then(|maps| maps.state()).expect("a map");
    println!(
        "dropped, passed, refused: {seen:?}; of no flow: {}",
        state.other
    );
    assert!(seen[0] > 1_000 && seen[1] > 1_000 && state.other > 500);
    assert!(seen[2] < 3_000, "the kernel ran hardly any");
    // Packets of no flow are never dropped.
    for _ in 0..200 {
        let mut arp = vec![0xff; 12];
        arp.extend([8, 6]);
        arp.resize(60, 0);
        assert!(filter.run(&arp).expect("a run").0);
    }
}
