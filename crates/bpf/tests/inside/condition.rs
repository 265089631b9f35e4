// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests traffic conditioners with the kernel's test runs: colours by the RFCs' definitions, code
//! points, and the choice of the conditioner.
//!
//! Over 500 lines, because every test uses the same bench for one program.

#[path = "../../../aqm/tests/support/definition.rs"]
mod definition;

use super::filter::{Chance, checksum, frame};
use super::loaded;
use definition::Definition;
use std::thread::sleep;
use std::time::Duration;
use weirgate_aqm::MeterKind;
use weirgate_bpf::{Condition, ConditionMaps};
use weirgate_state::{ColourAction, ColourMeter, Conditioner};
use weirgate_units::{Dscp, Handle, Rate, Size, Span};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The number of packets between two reads of the records.
const BATCH: usize = 5_000;

fn mark(code: u8) -> ColourAction {
    ColourAction::Mark(Dscp::new(code).expect("a code point"))
}

/// Returns crate aqm's meter of a kind.
fn meter(kind: MeterKind) -> ColourMeter {
    let rate_of = Rate::bytes_per_second;
    match kind {
        MeterKind::Bucket { rate, burst } => ColourMeter::Bucket {
            rate: rate_of(rate),
            burst: Size::bytes(burst),
        },
        MeterKind::SingleRate {
            rate,
            burst,
            excess,
        } => ColourMeter::SingleRate {
            rate: rate_of(rate),
            burst: Size::bytes(burst),
            excess: Size::bytes(excess),
        },
        MeterKind::TwoRate {
            rate,
            burst,
            peak,
            peak_burst,
        } => ColourMeter::TwoRate {
            rate: rate_of(rate),
            burst: Size::bytes(burst),
            peak: rate_of(peak),
            peak_burst: Size::bytes(peak_burst),
        },
        MeterKind::Average { rate, interval } => ColourMeter::Average {
            rate: rate_of(rate),
            interval: Span::from_nanos(interval),
        },
        MeterKind::Moving {
            rate,
            interval,
            gain,
        } => ColourMeter::Moving {
            rate: rate_of(rate),
            interval: Span::from_nanos(interval),
            gain,
        },
    }
}

fn rule(name: &str, measured: Option<(MeterKind, bool)>) -> Conditioner {
    Conditioner {
        name: name.to_owned(),
        meter: measured.map(|(kind, _)| meter(kind)),
        aware: measured.is_some_and(|(_, aware)| aware),
        codes: u64::MAX,
        brings: [1 << 12, 1 << 14],
        actions: [mark(10), mark(12), ColourAction::Drop],
        classes: Vec::new(),
        source: Vec::new(),
        destination: Vec::new(),
        protocols: Vec::new(),
        source_ports: Vec::new(),
        destination_ports: Vec::new(),
        smallest: 0,
    }
}

/// Runs every meter, colour-blind and colour-aware, on random packets at the times that the kernel
/// observed. Each colour must match the definition, and each packet must be treated by its colour.
#[test]
#[ignore = "runs in the lab's kernel"]
fn colours() {
    of_packets(5_000);
}

/// Runs twenty times as many packets.
#[test]
#[ignore = "runs in the lab's kernel"]
fn colours_of_many() {
    of_packets(100_000);
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn of_packets(packets: usize) {
    for aware in [false, true] {
        // The guest generates some 200,000 packets of 700 bytes a second.
        let rate = 20_000_000;
        let kinds = [
            MeterKind::SingleRate {
                rate,
                burst: 20_011,
                excess: 30_013,
            },
            MeterKind::TwoRate {
                rate,
                burst: 20_011,
                peak: 3 * rate / 2 + 7,
                peak_burst: 30_013,
            },
            MeterKind::Bucket {
                rate: 3 * rate / 2,
                burst: 20_011,
            },
            MeterKind::Average {
                rate: 3 * rate / 2,
                interval: 1_000_003,
            },
        ];
        for kind in kinds {
            let seen = against_the_definition(kind, aware, packets);
            println!("{kind:?}, aware {aware}: {packets} packets as defined: {seen:?}");
        }
    }
}

fn against_the_definition(kind: MeterKind, aware: bool, packets: usize) -> [u64; 3] {
    let program = Condition::load_recording(&[rule("one", Some((kind, aware)))])
        .unwrap_or_else(|error| panic!("{error}"));
    let mut definition = Definition::new(kind, aware);
    let mut chance = Chance(20_261_122);
    let mut seen = [0_u64; 3];
    let mut bytes = [0_u64; 3];
    let mut shown = Vec::new();
    for packet in 0..packets {
        let version = [4, 6][chance.below(2) as usize];
        let code = [0, 10, 12, 14][chance.below(4) as usize];
        let size = chance.below(1_400) as usize;
        let mut made = frame(version, UDP, chance.below(4) as u8, 7, size);
        with_code(&mut made, code);
        shown.push(program.run(&made, 0).map(|ran| (made, ran)).expect("a run"));
        if chance.below(2_000) == 0 {
            sleep(Duration::from_micros(200 + chance.below(3_000)));
        }
        if (packet + 1) % BATCH != 0 {
            continue;
        }
        let mut outcomes = shown.drain(..);
        let mut number = packet + 1 - BATCH;
        let mut check = |record: weirgate_bpf::ConditionRecord| {
            let (made, (passed, after)) = outcomes.next().expect("as many as there were");
            assert_eq!(made.len() - 14, record.bytes as usize);
            let expected = definition.colour(record.bytes, record.brings, record.now_ns);
            assert_eq!(record.colour, expected, "packet {number} of {kind:?}");
            let colour = record.colour as usize;
            seen[colour] += 1;
            bytes[colour] += u64::from(record.bytes);
            assert_eq!(passed, colour != 2);
            if passed {
                marked(&made, &after, [10, 12][colour]);
            }
            number += 1;
        };
        program.recorded(&mut check).expect("records");
        assert_eq!(number, packet + 1, "every packet was recorded");
    }
    let counts = program.maps().and_then(|maps| maps.counts()).expect("maps");
    assert_eq!(counts.len(), 1);
    assert_eq!((counts[0].packets, counts[0].bytes), (seen, bytes));
    assert_eq!(counts[0].unmarked, 0);
    let colours = match kind {
        MeterKind::SingleRate { .. } | MeterKind::TwoRate { .. } => 3,
        _ if aware => 3,
        _ => 2,
    };
    let enough = packets as u64 / 100;
    let enough = seen.iter().filter(|count| **count > enough).count();
    assert!(enough >= colours, "{seen:?}");
    seen
}

fn with_code(frame: &mut [u8], code: u8) {
    if frame[12] == 8 {
        frame[15] = code << 2 | frame[15] & 3;
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[14] = 0x60 | code >> 2;
        frame[15] = (code & 3) << 6 | frame[15] & 0x3f;
    }
}

/// Checks that only the frame's code point changed.
fn marked(before: &[u8], after: &[u8], code: u8) {
    let mut expected = before.to_vec();
    with_code(&mut expected, code);
    assert_eq!(after, expected);
}

/// The first conditioner that matches is used: by class, code point and addresses.
#[test]
#[ignore = "runs in the lab's kernel"]
fn choice() {
    let net = |text: &str, length| (text.parse().expect("an address"), length);
    let marking = |name: &str, code| Conditioner {
        actions: [mark(code); 3],
        ..rule(name, None)
    };
    let rules = [
        Conditioner {
            classes: [0x2_0011, 0x2_0012].map(Handle::from_u32).to_vec(),
            ..marking("class", 1)
        },
        Conditioner {
            codes: 1 << 46 | 1 << 10,
            ..marking("code", 2)
        },
        Conditioner {
            source: vec![net("198.51.100.0", 24), net("192.0.2.8", 29)],
            destination: vec![net("10.0.0.128", 25)],
            ..marking("four", 3)
        },
        Conditioner {
            source: vec![net("2001:db8:2::", 48)],
            destination: vec![net("fd00::2:0:0:0:0", 64), net("fd00:0:0:1::40", 122)],
            ..marking("six", 4)
        },
        Conditioner {
            codes: 1 << 20,
            actions: [ColourAction::Drop; 3],
            ..marking("end", 0)
        },
    ];
    let program = Condition::load_alone(&rules).unwrap_or_else(|error| panic!("{error}"));
    let maps = program.maps().expect("maps");
    assert_eq!(maps.rules().expect("a map").as_deref(), Some(&rules[..]));
    let cases: [(u8, u8, u16, u32, Option<u8>); 11] = [
        (4, 46, 200, 0x2_0012, Some(1)),
        (6, 0, 0x41, 0x2_0011, Some(1)),
        (4, 46, 200, 0x2_0013, Some(2)),
        (6, 10, 0x41, 0, Some(2)),
        (4, 0, 128, 0, Some(3)),
        (4, 0, 127, 0, Some(0)),
        (6, 0, 0x40, 0, Some(4)),
        (6, 0, 0x7f, 0, Some(4)),
        (6, 0, 0x80, 0, Some(0)),
        (6, 20, 0x80, 0, None),
        (4, 20, 1, 0, None),
    ];
    for (version, code, flow, class, expected) in cases {
        let mut made = frame(version, UDP, 1, flow, 100);
        with_code(&mut made, code);
        let (passed, after) = program.run(&made, class).expect("a run");
        assert_eq!(passed, expected.is_some(), "{version} {code} {flow}");
        if let Some(code) = expected {
            marked(&made, &after, code);
        }
    }
    let counts = maps.counts().expect("a map");
    let packets: Vec<u64> = counts.iter().map(|count| count.packets[0]).collect();
    assert_eq!(packets, [2, 2, 1, 2, 2]);
    // A changed conditioner starts with a fresh meter; the others keep their state.
    let mut changed = rules.to_vec();
    changed[1].codes |= 1 << 5;
    changed.pop();
    maps.set(&changed).expect("a map");
    let counts = maps.counts().expect("a map");
    let packets: Vec<u64> = counts.iter().map(|count| count.packets[0]).collect();
    assert_eq!(packets, [2, 0, 1, 2]);
    assert_eq!(maps.rules().expect("a map"), Some(changed));
}

/// Returns a frame whose packet is a fragment: the first, or a later one.
fn fragment(version: u8, protocol: u8, later: bool) -> Vec<u8> {
    let mut made = frame(version, protocol, 0, 7, 100);
    let bits = if later { 0x20b9_u16 } else { 0x2000 };
    if version == 4 {
        made[20..22].copy_from_slice(&bits.to_be_bytes());
        made[24..26].fill(0);
        let sum = checksum(&made[14..34]);
        made[24..26].copy_from_slice(&sum.to_be_bytes());
        return made;
    }
    // In IPv6 the offset precedes the more-fragments bit.
    let bits = if later { 0x05c9_u16 } else { 1 };
    let mut extension = vec![protocol, 0];
    extension.extend(bits.to_be_bytes());
    extension.extend([0, 0, 0, 1]);
    extend(&mut made, 44, &extension);
    made
}

/// Inserts an extension header before the payload of an IPv6 packet.
fn extend(frame: &mut Vec<u8>, number: u8, extension: &[u8]) {
    frame[20] = number;
    let length = u16::from_be_bytes([frame[18], frame[19]]) + extension.len() as u16;
    frame[18..20].copy_from_slice(&length.to_be_bytes());
    frame.splice(54..54, extension.iter().copied());
}

/// Matches by protocol and ports, through extension headers. Later fragments have no ports; a
/// protocol without ports matches regardless of ports.
#[test]
#[ignore = "runs in the lab's kernel"]
fn carried() {
    let marking = |name: &str, code| Conditioner {
        actions: [mark(code); 3],
        ..rule(name, None)
    };
    let rules = [
        Conditioner {
            protocols: vec![17, 33],
            source_ports: vec![(1, 6), (8, 8)],
            ..marking("from", 1)
        },
        Conditioner {
            protocols: vec![6, 17],
            source_ports: vec![(7, 7)],
            destination_ports: vec![(80, 80), (440, 443)],
            ..marking("both", 2)
        },
        Conditioner {
            destination_ports: vec![(443, 443)],
            ..marking("port", 3)
        },
        Conditioner {
            protocols: vec![17, 50, 255],
            ..marking("protocol", 4)
        },
        marking("rest", 5),
    ];
    let program = Condition::load_alone(&rules).unwrap_or_else(|error| panic!("{error}"));
    let maps = program.maps().expect("maps");
    assert_eq!(maps.rules().expect("a map").as_deref(), Some(&rules[..]));
    let code = |frame: &[u8]| {
        let (passed, after) = program.run(frame, 0).expect("a run");
        assert!(passed);
        let bits = u16::from_be_bytes([after[14], after[15]]);
        if after[14] >> 4 == 4 {
            bits >> 2 & 63
        } else {
            bits >> 6 & 63
        }
    };
    for version in [4, 6] {
        let plain = |protocol, flow| frame(version, protocol, 0, flow, 100);
        let cases = [
            (plain(17, 6), 1),
            (plain(33, 8), 1),
            (plain(6, 8), 3),
            (plain(17, 7), 2),
            (plain(6, 7), 2),
            (plain(132, 7), 3),
            (plain(17, 9), 3),
            (plain(17, 0), 3),
            // Without ports, whatever bytes are at their offsets.
            (plain(50, 7), 4),
            (plain(255, 7), 4),
            (plain(1, 7), 5),
            (fragment(version, 17, false), 2),
            (fragment(version, 17, true), 4),
            (fragment(version, 6, true), 5),
        ];
        for (number, (made, expected)) in cases.iter().enumerate() {
            assert_eq!(code(made), *expected, "{version}: case {number}");
        }
        // Truncated before its ports.
        let mut cut = plain(6, 7);
        cut.truncate(if version == 4 { 36 } else { 56 });
        assert_eq!(code(&cut), 5, "{version}");
    }
    // Hop-by-hop options of 8 bytes, and destination options of 16.
    let mut made = frame(6, 17, 0, 7, 100);
    extend(
        &mut made,
        60,
        &[[17, 1, 1, 12].as_slice(), &[0; 12]].concat(),
    );
    extend(&mut made, 0, &[60, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(code(&made), 2);
    // With one header more than are parsed, there are no ports.
    let mut made = frame(6, 17, 0, 7, 100);
    extend(&mut made, 0, &[17, 0, 1, 4, 0, 0, 0, 0]);
    for _ in 0..6 {
        extend(&mut made, 0, &[0, 0, 1, 4, 0, 0, 0, 0]);
    }
    assert_eq!(code(&made), 5);
    let counts = maps.counts().expect("a map");
    let packets: Vec<u64> = counts.iter().map(|count| count.packets[0]).collect();
    assert_eq!(packets, [4, 7, 8, 6, 7]);
}

/// Packets below a conditioner's minimum are metered with the minimum, but counted with their own
/// size.
#[test]
#[ignore = "runs in the lab's kernel"]
fn smallest() {
    // At one byte a second, no tokens accumulate during the test.
    let metered = |name: &str, smallest| Conditioner {
        meter: Some(ColourMeter::Bucket {
            rate: Rate::bytes_per_second(1),
            burst: Size::bytes(1_000),
        }),
        smallest,
        ..rule(name, None)
    };
    let passed = |smallest, size: usize| {
        let rules = [metered("one", smallest)];
        let program = Condition::load_alone(&rules).unwrap_or_else(|error| panic!("{error}"));
        let made = frame(4, UDP, 0, 7, size - 28);
        let run = |_| program.run(&made, 0).expect("a run").0;
        let passed = (0..20).map(run).filter(|passed| *passed).count();
        let counts = program.maps().and_then(|maps| maps.counts()).expect("maps");
        assert_eq!(counts[0].packets, [passed as u64, 0, 20 - passed as u64]);
        assert_eq!(counts[0].bytes[0], (passed * size) as u64);
        passed
    };
    assert_eq!(passed(0, 100), 10);
    assert_eq!(passed(100, 100), 10);
    assert_eq!(passed(200, 100), 5);
    assert_eq!(passed(200, 250), 4);
    assert_eq!(passed(1_001, 100), 0);
}

/// A GSO packet is counted with the sum of its segments, also if its length field is 0 because the
/// length exceeds it.
#[test]
#[ignore = "runs in the lab's kernel"]
fn merged() {
    let program = Condition::load_recording(&[rule("all", None)]);
    let program = program.unwrap_or_else(|error| panic!("{error}"));
    for version in [4, 6] {
        let mut made = frame(version, TCP, 0, 7, 1_200);
        let bytes = made.len() as u32 - 14;
        for says in [true, false] {
            if !says {
                let length_at = if version == 4 { 16 } else { 18 };
                made[length_at..length_at + 2].fill(0);
            }
            program.run_merged(&made, (3, 400)).expect("a run");
            let mut counted = Vec::new();
            program
                .recorded(|record| counted.push(record.bytes))
                .expect("records");
            assert_eq!(counted, [bytes], "IPv{version}, says {says}");
        }
    }
}

/// The kernel has not checked a packet's length field yet. A meter counts at most the frame.
#[test]
#[ignore = "runs in the lab's kernel"]
fn stated() {
    let program = Condition::load_recording(&[rule("all", None)]);
    let program = program.unwrap_or_else(|error| panic!("{error}"));
    for version in [4, 6] {
        let mut made = frame(version, UDP, 0, 7, 72);
        let length_at = if version == 4 { 16 } else { 18 };
        made[length_at..length_at + 2].fill(0xff);
        program.run(&made, 0).expect("a run");
        let mut counted = Vec::new();
        program
            .recorded(|record| counted.push(record.bytes))
            .expect("records");
        assert_eq!(counted, [made.len() as u32], "IPv{version}");
    }
}

/// Every packet is metered: while the lock is held, as a stopped processor may leave it, no packet
/// passes.
#[test]
#[ignore = "runs in the lab's kernel"]
fn locked() {
    let mut metered = rule("one", None);
    metered.meter = Some(ColourMeter::Bucket {
        rate: Rate::bytes_per_second(1),
        burst: Size::bytes(150),
    });
    let program = Condition::load_alone(&[metered]).unwrap_or_else(|error| panic!("{error}"));
    let made = frame(4, UDP, 0, 7, 72);
    assert!(program.run(&made, 0).expect("a run").0, "within the burst");
    let held = program.attachable().expect("a program");
    loaded::set_lock(&held, 1);
    assert!(!program.run(&made, 0).expect("a run").0, "beyond the burst");
    let counts = program.maps().and_then(|maps| maps.counts()).expect("maps");
    assert_eq!(counts[0].packets, [1, 0, 1]);
}

/// One program for several devices: each has its own conditioners and counters, and packets of an
/// unknown device pass.
#[test]
#[ignore = "runs in the lab's kernel"]
fn devices() {
    let mut dropping = rule("dropping", None);
    dropping.actions = [ColourAction::Drop; 3];
    let marking = rule("marking", None);
    let mut program = Condition::load(3).unwrap_or_else(|error| panic!("{error}"));
    let made = frame(4, UDP, 2, 7, 100);
    program.add(7, std::slice::from_ref(&marking)).unwrap();
    assert_eq!(program.run(&made, 0).unwrap(), (true, made.clone()));
    // The loopback device, on which the test runs frames.
    program.add(1, std::slice::from_ref(&dropping)).unwrap();
    program.add(9, &[]).unwrap();
    assert!(!program.run(&made, 0).unwrap().0);
    assert!(!program.has_room());
    assert!(program.add(8, &[]).is_err());
    let maps = program.maps().unwrap();
    assert_eq!(maps.rules().unwrap(), Some(vec![dropping]));
    let counts = maps.counts().unwrap();
    assert_eq!(counts[0].packets.iter().sum::<u64>(), 1);
    // When a place is reconfigured, the others keep their rules.
    maps.set(&[]).unwrap();
    assert!(program.run(&made, 0).unwrap().0);
    let held = program.attachable().unwrap();
    let id = loaded::number(&held);
    let other = ConditionMaps::of_program(id, 7).unwrap();
    assert_eq!(other.rules().unwrap(), Some(vec![marking]));
    assert_eq!(other.counts().unwrap()[0].packets, [0; 3]);
    assert!(ConditionMaps::of_program(id, 8).is_none());
}

/// Truncated, corrupted and padded packets: only code points and their checksum are written, and
/// packets that are not IP pass.
#[test]
#[ignore = "runs in the lab's kernel"]
fn any_packet() {
    let mut every = rule("every", None);
    every.actions = [mark(33); 3];
    let program = Condition::load_alone(&[every]).unwrap_or_else(|error| panic!("{error}"));
    let mut chance = Chance(77);
    let mut seen = [0_u64; 3];
    for round in 0..12_000_u64 {
        let version = [4, 6][(round % 2) as usize];
        let mut made = frame(version, UDP, 2, 7, chance.below(120) as usize);
        for _ in 0..chance.below(4) {
            let at = 12 + chance.below(made.len() as u64 - 12) as usize;
            made[at] = chance.below(256) as u8;
        }
        match chance.below(3) {
            0 => made.truncate(14 + chance.below(made.len() as u64 - 13) as usize),
            1 => made.resize(made.len() + chance.below(40) as usize, 0),
            _ => {}
        }
        let Ok((passed, after)) = program.run(&made, 0) else {
            seen[2] += 1;
            continue;
        };
        assert!(passed);
        let differs: Vec<usize> = (0..made.len())
            .filter(|at| made[*at] != after[*at])
            .collect();
        seen[usize::from(differs.is_empty())] += 1;
        assert!(
            differs.iter().all(|at| [14, 15, 24, 25].contains(at)),
            "{made:?}"
        );
        if !differs.is_empty() {
            let bits = u16::from(after[14]) << 8 | u16::from(after[15]);
            let code = if after[14] >> 4 == 4 {
                bits >> 2 & 63
            } else {
                bits >> 6 & 63
            };
            assert_eq!(code, 33);
        }
    }
    let counts = program.maps().and_then(|maps| maps.counts()).expect("maps");
    println!("marked, left alone, not run: {seen:?}; {counts:?}");
    assert!(seen[0] > 5_000 && seen[1] > 300);
    assert_eq!(counts[0].unmarked, 0, "padding hides no header");
}
