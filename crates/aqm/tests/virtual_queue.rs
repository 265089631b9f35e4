// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of the virtual queue: it enforces a rate in bytes on the wire exactly, and with
//! thresholds out of reach it is a token bucket.

mod support;

use proptest::prelude::*;
use support::Chance;
use weirgate_aqm::{Action, Discipline, Link, Packet, Settings, VirtualQueue};

const SECOND: u64 = 1_000_000_000;

/// Returns a link with ATM cells, as ADSL has them.
fn adsl(rate_bytes_s: u64) -> Link {
    Link {
        rate_bytes_s,
        mtu_bytes: 1514,
        overhead_bytes: 14,
        framing: 1,
        ..Link::default()
    }
}

fn settings(given: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(Discipline::named("meredt").expect("one of the kit"));
    for (name, value) in given {
        settings.set(name, *value).expect("a parameter");
    }
    settings
}

/// Returns the settings of a token bucket of `burst` bytes on the wire.
fn bucket(burst: u64) -> Settings {
    settings(&[
        ("bands", 1),
        ("limit_bytes", burst),
        ("min_bytes", 2 * burst),
        ("max_bytes", 4 * burst),
        ("measure", 2),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any arrivals, no more passes in any time from the start than the bucket and the rate
    /// allow, and less only where less arrives.
    #[test]
    fn a_bucket_passes_its_rate(
        rate in 20_000_u64..2_000_000,
        full in 2_u64..20,
        packets in prop::collection::vec((40_u32..1515, 0_u64..20_000_000), 1..400),
    ) {
        let link = adsl(rate);
        let burst = full * u64::from(link.wire_bytes(1514));
        let mut queue = VirtualQueue::new(&bucket(burst), &link, 0);
        let (mut now, mut passed) = (SECOND, 0);
        // The bucket in bytes with fractions, as a policer is usually described.
        let mut filled = 0.0_f64;
        for (len, gap) in packets {
            now += gap;
            filled = (filled - gap as f64 * rate as f64 / 1e9).max(0.0);
            let wire = link.wire_bytes(len);
            let packet = Packet { arrived_ns: now, len, wire, flow: 7, ecn: 0 };
            let verdict = queue.arrive(&packet, 0);
            let room = filled + f64::from(wire) <= burst as f64;
            let close = (filled + f64::from(wire) - burst as f64).abs() < 4.0;
            prop_assert!(close || room == (verdict.action == Action::Pass));
            if verdict.action == Action::Pass {
                filled += f64::from(wire);
                passed += u64::from(wire);
            }
        }
        let allowed = burst as f64 + (now - SECOND) as f64 * rate as f64 / 1e9;
        prop_assert!(passed as f64 <= allowed + 4.0, "{passed} of {allowed}");
        prop_assert_eq!(queue.number("sent_wire_bytes"), Some(passed));
    }

    /// A change of the rate keeps the queue in bytes.
    #[test]
    fn a_new_rate_keeps_the_queue(
        before in 20_000_u64..2_000_000,
        after in 20_000_u64..2_000_000,
        count in 1_u64..50,
    ) {
        let mut queue = VirtualQueue::new(&bucket(1_000_000), &adsl(before), 0);
        let wire = adsl(before).wire_bytes(1514);
        for flow in 0..count {
            let packet = Packet { arrived_ns: SECOND, len: 1514, wire, flow: flow as u32, ecn: 0 };
            queue.arrive(&packet, 0);
        }
        queue.change(&bucket(1_000_000), &adsl(after), SECOND);
        queue.count(&Packet { arrived_ns: SECOND, len: 0, wire: 0, flow: 0, ecn: 0 });
        let queued = queue.number("queued_wire_bytes").expect("a counter");
        prop_assert!(queued.abs_diff(count * u64::from(wire)) <= 4, "{queued}");
    }

    /// Any packets at any times cause no panic. Counts add up, and a packet that cannot be marked
    /// never is.
    #[test]
    fn counts_add_up(
        packets in prop::collection::vec(
            (0_u32..70_000, any::<u32>(), 0_u32..4, 0_u64..2_000_000_000, any::<u32>()), 1..300),
        mark in 0_u64..3,
    ) {
        let link = adsl(250_000);
        let wanted = settings(&[("mark", mark), ("min_bytes", 2_000), ("max_bytes", 9_000)]);
        let mut queue = VirtualQueue::new(&wanted, &link, 0);
        let (mut now, mut dropped, mut marked) = (0, 0, 0);
        let all = packets.len() as u64;
        for (len, flow, ecn, gap, random) in packets {
            now += gap;
            let wire = link.wire_bytes(len);
            let packet = Packet { arrived_ns: now, len, wire, flow, ecn };
            let verdict = queue.arrive(&packet, random);
            dropped += u64::from(verdict.action == Action::Drop);
            if verdict.action == Action::Mark {
                prop_assert!(ecn != 0 && mark != 0);
                marked += 1;
            }
        }
        prop_assert_eq!(queue.number("arrived_packets"), Some(all));
        prop_assert_eq!(queue.number("sent_packets"), Some(all - dropped));
        prop_assert!(marked <= all - dropped);
    }
}

/// A measured queue takes the place of the modelled one. It stays while as much arrives as the line
/// carries, and drains otherwise.
#[test]
fn a_measured_queue_is_in_force() {
    const MS: u64 = 1_000_000;
    let link = adsl(250_000);
    // 80 ms of the line.
    let mut queue = VirtualQueue::new(&bucket(20_000), &link, 0);
    let wire = link.wire_bytes(1_514);
    let gap = u64::from(wire) * SECOND / 250_000;
    let mut now = SECOND;
    let mut arrive = |queue: &mut VirtualQueue, after| {
        now += after;
        let packet = Packet {
            arrived_ns: now,
            len: 1_514,
            wire,
            flow: 7,
            ecn: 0,
        };
        let action = queue.arrive(&packet, 0).action;
        (
            action,
            queue.number("queued_wire_bytes").expect("a counter"),
        )
    };
    assert_eq!(arrive(&mut queue, 0), (Action::Pass, 0));
    queue.measured(40 * MS, SECOND);
    for _ in 0..50 {
        let (action, waits) = arrive(&mut queue, gap);
        assert_eq!(action, Action::Pass);
        // What the first of the line's packets has drained is the packet itself.
        assert!(waits.abs_diff(10_000 - u64::from(wire)) < 200, "{waits}");
    }
    queue.measured(79 * MS, SECOND + 50 * gap);
    assert_eq!(arrive(&mut queue, 0).0, Action::Drop);
    queue.measured(0, SECOND + 50 * gap);
    assert_eq!(arrive(&mut queue, 0), (Action::Pass, 0));
    queue.measured(40 * MS, SECOND + 50 * gap);
    let (_, waits) = arrive(&mut queue, 30 * MS);
    assert!(waits.abs_diff(2_500) < 4, "{waits}");
    // A measurement beyond what the discipline can make of it is its fullest queue.
    queue.measured(u64::MAX, SECOND + 60 * gap);
    assert_eq!(arrive(&mut queue, 0).0, Action::Drop);
}

/// Short flows lose nothing while a permanent flow loses packets. The load that passes falls to the
/// rate without a growing queue.
#[test]
fn elephants_pay_and_mice_do_not() {
    let link = adsl(250_000);
    let wanted = settings(&[
        ("bands", 1),
        ("measure", 2),
        ("knot1_bytes", 20_000),
        ("min_bytes", 5_000),
        ("max_bytes", 30_000),
        ("limit_bytes", 120_000),
        ("gentle", 2),
    ]);
    let mut queue = VirtualQueue::new(&wanted, &link, 0);
    let mut chance = Chance(5);
    let mut lost = [0_u64; 2];
    // 5 % above the rate, a tenth of it in flows of five packets.
    let wire = link.wire_bytes(1514);
    let gap = u64::from(wire) * SECOND / 262_500;
    for index in 0..20_000_u64 {
        let mouse = index % 10 == 0;
        let flow = if mouse { 100 + index / 50 } else { index % 4 };
        let packet = Packet {
            arrived_ns: SECOND + index * gap,
            len: 1514,
            wire,
            flow: (flow as u32).wrapping_mul(0x9e37_79b1),
            ecn: 0,
        };
        let verdict = queue.arrive(&packet, chance.word());
        lost[usize::from(mouse)] += u64::from(verdict.action == Action::Drop);
    }
    assert_eq!(lost[1], 0, "mice");
    // Unresponsive senders drive the queue to its upper end, and no further.
    assert!(lost[0] > 800, "elephants: {}", lost[0]);
    let queued = queue.number("queued_wire_bytes").expect("a counter");
    assert!((30_000..60_000).contains(&queued), "{queued}");
}

/// One responsive sender slows down at a loss and speeds up as time passes. Every discipline that
/// decides on a virtual queue holds it to the rate. Disciplines with slow averages leave a part of
/// the rate unused with a single sender.
#[test]
fn every_discipline_holds_who_listens() {
    let link = Link {
        rate_bytes_s: 1_250_000,
        mtu_bytes: 1514,
        ..Link::default()
    };
    for discipline in Discipline::every() {
        if VirtualQueue::refusal(discipline).is_some() {
            continue;
        }
        let name = discipline.name();
        let mut queue = VirtualQueue::new(&Settings::new(discipline), &link, 0);
        let mut chance = Chance(11);
        let (mut rate, mut now, mut came) = (600_000.0_f64, SECOND, 0_u64);
        let (mut dropped, mut longest) = (0_u64, 0_u64);
        let end = 61 * SECOND;
        while now < end {
            let packet = Packet {
                arrived_ns: now,
                len: 1514,
                wire: 1514,
                flow: 7,
                ecn: 0,
            };
            if queue.arrive(&packet, chance.word()).action == Action::Drop {
                dropped += 1;
                rate *= 0.7;
            }
            let gap = (1514.0 / rate * 1e9) as u64;
            // One packet more in each 50 ms, as with a congestion window.
            rate += 1514.0 / 0.05 * gap as f64 / 5e7;
            now += gap;
            if now > 11 * SECOND {
                came += 1514;
                longest = longest.max(queue.number("queued_bytes").expect("a counter"));
            }
        }
        let used = came as f64 / 50.0 / 1_250_000.0;
        println!("{name}: {used:.3} of the rate came, {dropped} dropped, up to {longest} bytes");
        assert!((0.6..1.02).contains(&used), "{name}: {used}");
        assert!(dropped > 10, "{name}: {dropped}");
    }
}

/// A discipline that decides at departure is called in time. CoDel drops nothing from a short
/// queue, and drops within an interval from a standing one.
#[test]
fn codel_decides_at_a_virtual_departure() {
    let link = Link {
        rate_bytes_s: 1_250_000,
        mtu_bytes: 1514,
        ..Link::default()
    };
    let codel = Discipline::named("codel").expect("one of the kit");
    let mut queue = VirtualQueue::new(&Settings::new(codel), &link, 0);
    // Packets arrive at the rate, behind a burst of `burst` packets. Each waits as long as the
    // burst takes, and the first is dropped after 100 ms of this.
    let gap = 1514 * SECOND / 1_250_000;
    let first_drop = |queue: &mut VirtualQueue, from: u64, burst: u64| {
        (0..1_000_u64).find(|index| {
            let now = from + index.saturating_sub(burst) * gap;
            let packet = Packet {
                arrived_ns: now,
                len: 1514,
                wire: 1514,
                flow: 7,
                ecn: 0,
            };
            queue.arrive(&packet, 0).action == Action::Drop
        })
    };
    // 4 packets take 4.8 ms, less than the target.
    assert_eq!(first_drop(&mut queue, SECOND, 3), None);
    let index = first_drop(&mut queue, 10 * SECOND, 10).expect("a drop");
    let after = (index - 10) * gap;
    assert!((95_000_000..110_000_000).contains(&after), "{after} ns");
    // An empty queue ends the dropping state.
    assert_eq!(first_drop(&mut queue, 20 * SECOND, 3), None);
}

/// Disciplines that keep account of waiting packets are refused, with a reason.
#[test]
fn who_counts_what_waits_is_refused() {
    for discipline in Discipline::every() {
        let (root, name) = (env!("CARGO_MANIFEST_DIR"), discipline.name());
        let source = std::fs::read_to_string(format!("{root}/../../aqm/{name}.c"));
        let counts = source.expect("its source").contains("AQM_NEEDS_QUEUE");
        let refusal = VirtualQueue::refusal(discipline);
        assert_eq!(refusal.is_some(), counts, "{name}: {refusal:?}");
    }
    let flows = Discipline::named("fq_codel").expect("one of the kit");
    assert!(VirtualQueue::refusal(flows).is_some());
}
