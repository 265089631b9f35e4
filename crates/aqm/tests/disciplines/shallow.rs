// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtual queue and L4S senders: it marks their packets by a separate ramp, and couples these
//! marks to the drops of classic packets (RFC 9332, section 2.1).

use crate::support::{Chance, ONE, S};
use weirgate_aqm::{Action, Discipline, Link, Packet, Queue, Settings, VirtualQueue};

/// Marks in 25 ms at a queue of one full packet.
const MARKS: u64 = 12;

const NOT_ECT: u32 = 0;
const ECT_1: u32 = 1;

/// Returns an Ethernet link, where a full packet takes 1538 bytes.
fn ethernet(bits_s: u64) -> Link {
    Link {
        rate_bytes_s: bits_s / 8,
        mtu_bytes: 1_514,
        overhead_bytes: 24,
        ..Link::default()
    }
}

fn queue(link: &Link, given: &[(&str, u64)]) -> VirtualQueue {
    let mut settings = Settings::new(Discipline::named("meredt").expect("one of the kit"));
    let usual = [
        ("measure", 2),
        ("mark", 2),
        ("spare_ns", 0),
        ("l4s_marks", MARKS),
    ];
    for (name, value) in usual.iter().chain(given) {
        settings.set(name, *value).expect("a parameter");
    }
    VirtualQueue::new(&settings, link, 0)
}

fn full(link: &Link, flow: u32, ecn: u32, now: u64) -> Packet {
    Packet {
        arrived_ns: now,
        len: 1_514,
        wire: link.wire_bytes(1_514),
        flow: flow.wrapping_mul(0x9e37_79b1),
        ecn,
    }
}

/// Thresholds that are never reached.
const OUT_OF_REACH: [(&str, u64); 3] = [
    ("min_bytes", 10_000_000),
    ("max_bytes", 20_000_000),
    ("limit_bytes", 80_000_000),
];

/// L4S packets that arrive at once are marked the more likely, the longer they would wait for other
/// L4S packets. The probability is proportional to the square root of the wait. Where one packet
/// waits, it is `MARKS` divided by the packets that the link sends in 25 ms. It reaches 1 where
/// that root does, or at four packets if that is longer. Classic packets in the queue do not count.
#[test]
fn the_ramp_is_of_l4s_alone() {
    const BURSTS: u64 = 4_000;
    // Packets in 25 ms: one takes 0.246 ms, and 12.3 ms.
    for (bits_s, round) in [(50_000_000, 25.0 / 0.246_08), (1_000_000, 25.0 / 12.304)] {
        let whole = (round / MARKS as f64).powi(2).max(4.0);
        let link = ethernet(bits_s);
        let mut queue = queue(&link, &OUT_OF_REACH);
        let mut chance = Chance(5);
        let mut marked = [0_u64; 20];
        for burst in 0..BURSTS {
            // The previous burst has drained.
            let now = S + burst * S;
            for _ in 0..20 {
                let verdict = queue.arrive(&full(&link, 1, NOT_ECT, now), chance.word());
                assert_eq!(verdict.action, Action::Pass);
            }
            for count in &mut marked {
                let verdict = queue.arrive(&full(&link, 2, ECT_1, now), chance.word());
                *count += u64::from(verdict.action == Action::Mark);
            }
            let verdict = queue.arrive(&full(&link, 1, NOT_ECT, now), chance.word());
            assert_eq!(verdict.action, Action::Pass);
        }
        for (index, count) in marked.iter().enumerate() {
            let due = (index as f64 / whole).min(1.0).sqrt();
            let found = *count as f64 / BURSTS as f64;
            // Three standard deviations of 4,000 choices are 2.4 % at most.
            assert!(
                (found - due).abs() < 0.025,
                "{bits_s}: {index}: {found}, not {due}"
            );
        }
        assert_eq!(queue.number("l4s_packets"), Some(20 * BURSTS));
        assert_eq!(queue.number("l4s_ramp_marks"), Some(marked.iter().sum()));
    }
}

/// Lets classic and L4S packets alternate, with the average in the middle between the thresholds.
/// Returns the fraction of classic packets dropped, and the fractions of L4S packets marked and
/// dropped.
fn in_the_middle(max_p: u64) -> [f64; 3] {
    let link = ethernet(50_000_000);
    let wire = u64::from(link.wire_bytes(1_514));
    let mut queue = queue(
        &link,
        &[
            ("min_bytes", 100_000),
            ("max_bytes", 300_000),
            ("limit_bytes", 1_200_000),
            ("weight", ONE / 512),
            ("max_p", max_p),
            ("most_p", ONE / 2),
            ("least_p", ONE / 100),
            // In the middle of the band nothing is adapted.
            ("rule", 1),
            ("weight1", 1 << 16),
            ("weight2", 1 << 16),
            ("weight3", 1 << 16),
        ],
    );
    let mut chance = Chance(3);
    // Packets arrive at the link's rate, so the virtual queue stays at its length.
    for _ in 0..200_000 / wire {
        queue.count(&full(&link, 9, NOT_ECT, S));
    }
    let rounds = 100_000;
    let mut counts = [0_u64; 3];
    for index in 0..2 * (rounds + 5_000) {
        let now = S + index * wire * S / link.rate_bytes_s;
        let l4s = index % 2 == 1;
        let ecn = if l4s { ECT_1 } else { NOT_ECT };
        let verdict = queue.arrive(&full(&link, u32::from(l4s), ecn, now), chance.word());
        // The average has to rise first.
        if index >= 10_000 {
            match verdict.action {
                Action::Mark => counts[1] += 1,
                Action::Drop => counts[2 * usize::from(l4s)] += 1,
                Action::Pass => {}
            }
        }
    }
    assert_eq!(queue.number("l4s_ramp_marks"), Some(0));
    counts.map(|count| count as f64 / rounds as f64)
}

/// p'^2 of the classic packets are dropped; 2 p' of the L4S packets are marked and none is dropped.
#[test]
fn marks_are_twice_the_root_of_drops() {
    for max_p in [ONE / 50, ONE / 10] {
        let [dropped, marked, lost] = in_the_middle(max_p);
        let law = 2.0 * dropped.sqrt();
        assert!((marked / law - 1.0).abs() < 0.03, "{marked}, not {law}");
        // With evenly spaced choices, 2 p / (1 + p) are chosen at a probability of p.
        let half = max_p as f64 / ONE as f64 / 2.0;
        let chosen = 2.0 * half / (1.0 + half);
        assert!(
            (dropped / chosen - 1.0).abs() < 0.1,
            "{dropped}, not {chosen}"
        );
        assert!(lost < f64::EPSILON, "{lost}");
    }
}

/// Where 2 p' is 1 or more, L4S packets are dropped as often as classic ones, and the rest is
/// marked (RFC 9332, section 4.2.3).
#[test]
fn overload_drops_both_alike() {
    let [dropped, marked, lost] = in_the_middle(ONE / 2);
    assert!(dropped > 0.3, "{dropped}");
    assert!((lost / dropped - 1.0).abs() < 0.05, "{lost}, not {dropped}");
    assert!((marked + lost - 1.0).abs() < 0.001, "{marked}, {lost}");
}

/// Without a ramp, L4S packets are treated as classic ones.
#[test]
fn nothing_said_nothing_done() {
    let link = ethernet(1_000_000);
    let mut queue = queue(&link, &[&OUT_OF_REACH[..], &[("l4s_marks", 0)]].concat());
    for _ in 0..100 {
        let verdict = queue.arrive(&full(&link, 2, ECT_1, S), 7);
        assert_eq!(verdict.action, Action::Pass);
    }
    assert_eq!(queue.number("l4s_packets"), Some(0));
}

/// Without a rate nothing is known of a wait. An idle link marks nothing.
#[test]
fn an_unknown_rate_marks_nothing_by_the_ramp() {
    let link = Link {
        rate_bytes_s: 0,
        ..ethernet(0)
    };
    let mut settings = Settings::new(Discipline::named("meredt").expect("one of the kit"));
    for (name, value) in [("mark", 2), ("l4s_marks", MARKS)] {
        settings.set(name, value).expect("a parameter");
    }
    let mut queue: Queue<()> = Queue::new(&settings, &link);
    for number in 0..10 {
        let now = S + number * S / 10;
        let packet = full(&link, 1, ECT_1, now);
        let arrival = queue.arrive(&packet, 1 << 31, ());
        assert_eq!(arrival.verdict.action, Action::Pass);
        queue.depart(now);
    }
}
