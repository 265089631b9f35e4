// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CoDel against its description (RFC 8289).

use crate::support::{MS, S, link, packet, queue};
use weirgate_aqm::{Action, Link, Packet, Queue};

/// Lets packets arrive `wait_ns` late at a queue of four, on a link that sends one every
/// millisecond. Returns the times at which any were dropped or marked.
fn standing(codel: &mut Queue<u64>, wait_ns: u64, from: u64, to: u64, ecn: u32) -> Vec<u64> {
    let mut times = Vec::new();
    for now in (from..to).step_by(MS as usize) {
        let mut next = packet(now - wait_ns, 1500);
        next.ecn = ecn;
        while codel.packets() < 4 {
            codel.arrive(&next, 0, now);
        }
        let departure = codel.depart(now);
        times.extend(departure.dropped.iter().map(|_| now));
        if departure
            .sent
            .is_some_and(|sent| sent.0.action == Action::Mark)
        {
            times.push(now);
        }
    }
    times
}

#[test]
fn a_short_wait_is_left_alone() {
    let mut codel = queue("codel", &link(12_000_000), &[]);
    assert_eq!(standing(&mut codel, MS / 2, S, 10 * S, 0), []);
}

/// The n-th drop after the first comes interval / sqrt(n) after the one
/// before it.
#[test]
fn gaps_follow_the_inverse_square_root() {
    for ecn in [0, 2] {
        let mut codel = queue("codel", &link(12_000_000), &[("ecn", 1)]);
        let times = standing(&mut codel, 50 * MS, S, 8 * S, ecn);
        // The sojourn time must have been above the target for an interval.
        assert!((101..=103).contains(&((times[0] - S) / MS)), "{}", times[0]);
        for (n, pair) in times
            .windows(2)
            .enumerate()
            .map(|(at, pair)| (at + 1, pair))
        {
            let gap = (pair[1] - pair[0]) as f64 / 1e6;
            // Each drop makes one step of Newton's method. Starting from 1, the first step gives
            // 1/2 instead of 1/sqrt(2); the next ones converge.
            let due = if n == 2 {
                50.0
            } else {
                100.0 / (n as f64).sqrt()
            };
            assert!((gap - due).abs() < 1.6, "gap {n}: {gap} ms, not {due}");
        }
        assert!(times.len() > 1_000, "{} drops", times.len());
    }
}

/// Leaving the dropping state and soon entering it again resumes the previous drop rate.
#[test]
fn dropping_resumes_where_it_was() {
    let mut codel = queue("codel", &link(12_000_000), &[]);
    let first = standing(&mut codel, 50 * MS, S, 3 * S, 0);
    assert_eq!(standing(&mut codel, MS / 2, 3 * S, 3 * S + 200 * MS, 0), []);
    let again = standing(&mut codel, 50 * MS, 3 * S + 200 * MS, 4 * S, 0);
    let gap = again[2] - again[1];
    assert!(gap < 40 * MS, "{gap} ns after {} drops", first.len());
    let mut fresh = queue("codel", &link(12_000_000), &[]);
    let begin = standing(&mut fresh, 50 * MS, S, 3 * S, 0);
    assert!(begin[1] - begin[0] >= 99 * MS);
}

#[test]
fn a_queue_of_one_packet_is_no_queue() {
    let mut codel: Queue<u64> = queue("codel", &link(12_000_000), &[]);
    for index in 1..1_000_u64 {
        codel.arrive(&packet(index * S, 1500), 0, index);
        codel.arrive(&packet(index * S, 1500), 0, index);
        for _ in 0..2 {
            assert!(codel.depart(index * S + 900 * MS).dropped.is_empty());
        }
    }
}

#[test]
fn the_threshold_marks_what_waited() {
    let params = [("ce_threshold_ns", MS)];
    let mut codel: Queue<u64> = queue("codel", &link(12_000_000), &params);
    for (wait, action) in [(900_000, Action::Pass), (1_100_000, Action::Mark)] {
        let mut one = packet(S, 1500);
        one.ecn = 1;
        codel.arrive(&one, 0, 0);
        let sent = codel.depart(S + wait).sent.expect("a packet");
        assert_eq!(sent.0.action, action);
    }
}

/// fq_codel may apply the CE threshold to ECT(1) alone. CoDel marks other packets as before.
#[test]
fn the_threshold_of_fq_codel_may_be_for_l4s() {
    for (whom, marked) in [
        (0, [false, true, true, true]),
        (1, [false, true, false, false]),
    ] {
        let params = [("ce_threshold_ns", MS), ("ce_threshold_for", whom)];
        for (ecn, marked) in (0..).zip(marked) {
            let mut flows: Queue<u64> = queue("fq_codel", &link(12_000_000), &params);
            for wait in [900_000, 1_100_000] {
                let mut one = packet(S, 1500);
                one.ecn = ecn;
                flows.arrive(&one, 0, 0);
                let sent = flows.depart(S + wait).sent.expect("a packet");
                let now = sent.0.action == Action::Mark;
                assert_eq!(now, marked && wait > MS, "ECN field {ecn} after {wait} ns");
            }
        }
    }
    let all = [("ce_threshold_ns", MS), ("ce_threshold_for", 1)];
    let mut flows = queue("fq_codel", &link(12_000_000), &all);
    let times = standing(&mut flows, 50 * MS, S, 2 * S, 2);
    assert!((101..=103).contains(&((times[0] - S) / MS)), "{times:?}");
}

/// CoDel does not drop the whole queue at once when it is far behind its drop schedule: the
/// kernel's CODEL_MAX_DROPS_PER_DEQUEUE bounds the drops.
#[test]
fn one_opportunity_drops_a_bounded_number() {
    let short = [
        ("target_ns", 50_000),
        ("interval_ns", 100_000),
        ("limit_packets", 4_000),
    ];
    let mut codel = queue("codel", &link(12_000_000), &short);
    for id in 0..3_000 {
        codel.arrive(&packet(S, 1500), 0, id);
    }
    for at in 1..=3 {
        codel.depart(S + at * MS);
    }
    let departure = codel.depart(20 * S);
    assert_eq!(departure.dropped.len(), 256);
    assert!(departure.sent.is_some());
    // The drop schedule has been reset.
    assert_eq!(codel.depart(20 * S).dropped.len(), 0);
}

/// An interval of one unit of CoDel's clock divided by a square root rounds to 0; the next drop is
/// due later nevertheless.
#[test]
fn the_shortest_interval_lets_time_go_on() {
    let shortest = [("target_ns", 1024), ("interval_ns", 1024)];
    let mut codel = queue("codel", &link(12_000_000), &shortest);
    for id in 0..500 {
        codel.arrive(&packet(S, 1500), 0, id);
    }
    // The sojourn time is above the target for an interval, then the first drop enters the dropping
    // state.
    codel.depart(S + MS);
    assert_eq!(codel.depart(S + 2 * MS).dropped.len(), 1);
    assert_eq!(codel.depart(S + 2 * MS).dropped.len(), 0);
}

/// Its limit is all that the host can hold. The fattest flow bears the drops (RFC 8290, section
/// 4.1), and not the flow whose packet finds the queue full.
#[test]
fn a_full_host_evicts_from_the_fattest_flow() {
    let link = Link {
        room_packets: 8,
        ..link(12_000_000)
    };
    let mut fq_codel: Queue<u32> = queue("fq_codel", &link, &[("drop_batch_packets", 1)]);
    let of = |flow| Packet {
        flow,
        ..packet(S, 1500)
    };
    for _ in 0..8 {
        assert_eq!(fq_codel.arrive(&of(1), 0, 1).refused, None);
    }
    let arrival = fq_codel.arrive(&of(1 << 31), 0, 2);
    assert_eq!((arrival.refused, arrival.evicted), (None, vec![1]));
    assert_eq!(fq_codel.drops("room"), Some(0));
}
