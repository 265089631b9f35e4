// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Departure, Medium, Side};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_experiment::{
    Buffer, DropEnd, Framing, Impairments, Line, LineSide, LineStretch, Reordering,
};
use weirgate_units::{Rate, Size, Span};

const MS: u64 = 1_000_000;
const FULL: u32 = 1_500;
/// 1500 bytes with 28 bytes of overhead, in ATM cells.
const FULL_WIRE: u32 = 1_696;

/// Returns a constant rate.
fn steady(rate: Rate) -> LineStretch {
    LineStretch {
        after: Span::ZERO,
        rate,
        later: Span::ZERO,
    }
}

fn side(rate: Rate, delay: Span, buffer: Buffer, drop: DropEnd) -> Side<usize> {
    let side = LineSide {
        rate,
        delay,
        buffer,
        drop,
        impairments: Impairments::NONE,
    };
    Side::new(&side, &[steady(rate)], 0).expect("a rate above 0")
}

/// Returns 8 kbit/s, a millisecond for each byte, with these impairments.
fn impaired(impairments: Impairments) -> LineSide {
    LineSide {
        rate: Rate::kbit(8),
        delay: Span::ZERO,
        buffer: Buffer::Packets(10_000),
        drop: DropEnd::Tail,
        impairments,
    }
}

/// Returns a line that is the same in both directions.
fn line(side: LineSide, half_duplex: bool) -> Line {
    Line {
        up: side,
        down: side,
        framing: Framing::None,
        overhead: 0,
        mpu: 0,
        then: Vec::new(),
        varies: None,
        half_duplex,
    }
}

/// Sends packets of one byte, each as soon as the line is free.
fn in_a_row(impairments: Impairments) -> Vec<Departure<usize>> {
    let mut side =
        Side::new(&impaired(impairments), &[steady(Rate::kbit(8))], 7).expect("a rate above 0");
    let arrivals: Vec<_> = (0..10_000).map(|number| (number * MS, 1, 1)).collect();
    run(&mut side, &arrivals).sent
}

fn adsl(buffer: Buffer, drop: DropEnd) -> Side<usize> {
    side(Rate::kbit(512), Span::from_millis(2), buffer, drop)
}

/// The fates of packets, given as (arrival, IP bytes). The line is advanced only at arrivals and
/// at the end.
struct Run {
    sent: Vec<Departure<usize>>,
    dropped: Vec<usize>,
}

fn run(side: &mut Side<usize>, arrivals: &[(u64, u32, u32)]) -> Run {
    let mut sent = Vec::new();
    let mut dropped = Vec::new();
    for (number, &(at_ns, ip_bytes, wire_bytes)) in arrivals.iter().enumerate() {
        while let Some(departure) = side.pop_due(at_ns) {
            assert!(departure.due_ns <= at_ns);
            sent.push(departure);
        }
        side.arrive(at_ns, number, ip_bytes, wire_bytes, |packet| {
            dropped.push(packet);
        });
    }
    while let Some(due_ns) = side.next_due_ns() {
        assert_eq!(side.pop_due(due_ns - 1), None, "left early");
        sent.extend(side.pop_due(due_ns));
    }
    Run { sent, dropped }
}

#[test]
fn a_rate_of_0_is_refused() {
    let side = LineSide {
        rate: Rate::bits_per_second(0),
        delay: Span::ZERO,
        buffer: Buffer::Packets(1),
        drop: DropEnd::Tail,
        impairments: Impairments::NONE,
    };
    assert!(Side::<()>::new(&side, &[steady(side.rate)], 0).is_none());
}

#[test]
fn one_packet_takes_its_line_time_and_the_delay() {
    let mut side = adsl(Buffer::Packets(10), DropEnd::Tail);
    let run = run(&mut side, &[(1_000, FULL, FULL_WIRE)]);
    let expected = Departure {
        packet: 0,
        start_ns: 1_000,
        end_ns: 26_501_000,
        due_ns: 28_501_000,
        lost: false,
        late: false,
    };
    assert_eq!(run.sent, [expected]);
}

#[test]
fn fractions_of_a_nanosecond_do_not_add_up() {
    // At 7 bit/s, a byte takes 8e9 / 7 ns, which is not a whole number.
    let mut side = side(
        Rate::bits_per_second(7),
        Span::ZERO,
        Buffer::Packets(1_000),
        DropEnd::Tail,
    );
    let run = run(&mut side, &[(0, 1, 1); 700]);
    let ends: Vec<u64> = run.sent.iter().map(|departure| departure.end_ns).collect();
    assert_eq!(ends[0], 1_142_857_143);
    assert_eq!(ends[6], 8_000_000_000);
    assert_eq!(ends[699], 800_000_000_000);
}

#[test]
fn bytes_in_transmission_do_not_count_against_the_buffer() {
    let mut side = adsl(Buffer::Bytes(Size::bytes(3_000)), DropEnd::Tail);
    let run = run(&mut side, &[(0, FULL, FULL_WIRE); 5]);
    assert_eq!(run.dropped, [3, 4]);
}

#[test]
fn the_front_is_dropped_but_never_what_is_being_sent() {
    let mut side = adsl(Buffer::Bytes(Size::bytes(3_000)), DropEnd::Front);
    let run = run(&mut side, &[(0, FULL, FULL_WIRE); 5]);
    assert_eq!(run.dropped, [1, 2]);
    let order: Vec<usize> = run.sent.iter().map(|departure| departure.packet).collect();
    assert_eq!(order, [0, 3, 4]);
}

#[test]
fn a_packet_larger_than_the_buffer_does_not_empty_it() {
    for drop in [DropEnd::Front, DropEnd::Tail] {
        let mut side = adsl(Buffer::Bytes(Size::bytes(1_000)), drop);
        let arrivals = [(0, FULL, FULL_WIRE), (0, 900, 1_060), (0, FULL, FULL_WIRE)];
        assert_eq!(run(&mut side, &arrivals).dropped, [2]);
    }
}

#[test]
fn a_part_of_the_packets_is_lost_after_transmission() {
    let sent = in_a_row(Impairments {
        loss: 20_000,
        ..Impairments::NONE
    });
    assert_eq!(sent.len(), 10_000);
    let lost = sent.iter().filter(|one| one.lost).count();
    // The mean of 200, and three standard deviations of a binomial distribution.
    assert!((158..=242).contains(&lost), "{lost}");
    let all = Impairments {
        loss: 1_000_000,
        ..Impairments::NONE
    };
    assert!(in_a_row(all).iter().all(|one| one.lost));
}

#[test]
fn jitter_makes_packets_later_and_keeps_their_order() {
    let sent = in_a_row(Impairments {
        jitter: Span::from_millis(20),
        ..Impairments::NONE
    });
    assert!(sent.is_sorted_by_key(|one| (one.packet, one.due_ns)));
    let waits = || sent.iter().map(|one| one.due_ns - one.end_ns);
    assert!(waits().all(|wait| wait <= 20 * MS));
    assert!(waits().any(|wait| wait > 19 * MS));
}

#[test]
fn late_packets_are_passed_by_those_behind_them() {
    let by = Span::from_millis(5);
    let reordering = Reordering { part: 10_000, by };
    let sent = in_a_row(Impairments {
        reordering,
        ..Impairments::NONE
    });
    assert!(sent.is_sorted_by_key(|one| one.due_ns));
    let (late, rest): (Vec<&Departure<usize>>, Vec<_>) = sent.iter().partition(|one| one.late);
    assert!((70..=130).contains(&late.len()), "{}", late.len());
    assert!(late.iter().all(|one| one.due_ns == one.end_ns + 5 * MS));
    assert!(rest.iter().all(|one| one.due_ns == one.end_ns));
    assert!(rest.is_sorted_by_key(|one| one.packet));
}

#[test]
fn a_late_packet_does_not_delay_those_that_wait_behind_it() {
    let reordering = Reordering {
        part: 500_000,
        by: Span::from_millis(50),
    };
    let side = impaired(Impairments {
        reordering,
        ..Impairments::NONE
    });
    let mut late_first = 0;
    for seed in 0..20 {
        let mut medium = Medium::new(&line(side, false), seed).expect("rates above 0");
        for packet in 0..10 {
            medium.arrive(0, 0, packet, (1, 1), |_| ());
        }
        let mut sent = Vec::new();
        while let Some(now_ns) = medium.next_ns() {
            while let Some(departure) = medium.pop_due(0, now_ns) {
                assert_eq!(departure.due_ns, now_ns, "seed {seed}: {departure:?}");
                late_first += u32::from(departure.packet == 0 && departure.late);
                sent.push(departure);
            }
        }
        assert_eq!(sent.len(), 10);
    }
    assert!(late_first > 3, "{late_first}");
}

#[test]
fn a_burst_is_what_was_transmitted_in_its_time() {
    let sent = in_a_row(Impairments {
        bursts: Span::from_millis(4),
        ..Impairments::NONE
    });
    let last_of = |one: &Departure<usize>| one.end_ns.div_ceil(4 * MS) * 4 * MS;
    assert!(sent.iter().all(|one| one.due_ns == last_of(one)));
}

#[test]
fn one_direction_at_a_time_transmits_where_the_line_is_half_duplex() {
    let line = line(impaired(Impairments::NONE), true);
    let mut medium = Medium::new(&line, 1).expect("rates above 0");
    for packet in 0..3 {
        medium.arrive(0, 0, packet, (1, 1), |_| ());
    }
    for packet in 3..5 {
        medium.arrive(1, 0, packet, (2, 2), |_| ());
    }
    let sent: Vec<_> = std::iter::from_fn(|| {
        let now_ns = medium.next_ns()?;
        let both = [0, 1].map(|index| medium.pop_due(index, now_ns));
        Some(
            both.into_iter()
                .flatten()
                .map(|one| (one.packet, one.end_ns / MS)),
        )
    })
    .flatten()
    .collect();
    assert_eq!(sent, [(0, 1), (3, 3), (1, 4), (4, 6), (2, 7)]);
}

#[test]
fn an_arrival_is_told_what_is_ahead() {
    let mut side = adsl(Buffer::Packets(10), DropEnd::Tail);
    let mut ahead = |at_ns| {
        let ahead = side.ahead(at_ns);
        side.arrive(at_ns, 0, FULL, FULL_WIRE, |_| ());
        ahead
    };
    assert_eq!(ahead(0), (0, 0));
    assert_eq!(ahead(26_499_999), (1, FULL));
    assert_eq!(ahead(26_500_000), (1, FULL));
    assert_eq!(ahead(26_500_000), (2, 2 * FULL));
}

#[test]
fn the_end_of_a_run_gives_back_what_was_sent() {
    let mut side = adsl(Buffer::Packets(10), DropEnd::Tail);
    for packet in 0..3 {
        side.arrive(0, packet, FULL, FULL_WIRE, |_| ());
    }
    let sent: Vec<usize> = side.finish(53_000_000).map(|sent| sent.packet).collect();
    assert_eq!(sent, [0, 1]);
}

prop_compose! {
    fn arrivals()(gaps in prop::collection::vec((0_u64..60_000_000, 20_u32..1_501), 1..60))
        -> Vec<(u64, u32, u32)> {
        let mut now_ns = 0;
        let at = |(gap, ip_bytes): (u64, u32)| {
            now_ns += gap;
            (now_ns, ip_bytes, (ip_bytes + 28).div_ceil(48) * 53)
        };
        gaps.into_iter().map(at).collect()
    }
}

fn buffers() -> impl Strategy<Value = Buffer> {
    prop_oneof![
        (0_u64..20_000).prop_map(|bytes| Buffer::Bytes(Size::bytes(bytes))),
        (0_u32..12).prop_map(Buffer::Packets),
    ]
}

#[test]
fn a_rate_holds_for_what_begins_after_it() {
    // Each packet takes a second. Half way through the second one the rate doubles.
    let ends = ends_under(&[(0, 8, 0), (1_500, 16, 0)], 3);
    assert_eq!(ends, [1_000 * MS, 2_000 * MS, 2_500 * MS]);
}

/// Returns when `count` packets of 1000 bytes reach the other end. All arrive at the start. A
/// stretch is a time in milliseconds, a rate in kbit/s, and the additional delay in
/// milliseconds.
fn ends_under(stretches: &[(u64, u64, u64)], count: usize) -> Vec<u64> {
    let stretches: Vec<LineStretch> = stretches
        .iter()
        .map(|&(after, kbit, later)| LineStretch {
            after: Span::from_millis(after),
            rate: Rate::kbit(kbit),
            later: Span::from_millis(later),
        })
        .collect();
    let line = impaired(Impairments::NONE);
    let mut side = Side::new(&line, &stretches, 0).expect("a rate above 0");
    for number in 0..count {
        side.arrive(0, number, 1_000, 1_000, |_| ());
    }
    std::iter::from_fn(|| side.pop_due(u64::MAX))
        .map(|departure| departure.due_ns)
        .collect()
}

#[test]
fn nothing_begins_while_the_line_carries_nothing() {
    // The packet in transmission ends with its own rate; the next one begins after the outage.
    let ends = ends_under(&[(0, 8, 0), (500, 0, 0), (1_700, 0, 3), (2_000, 16, 3)], 3);
    let begins = 2_000 * MS + 1;
    let last = begins + 500 * MS + 3 * MS;
    assert_eq!(ends, [1_000 * MS, last, last + 500 * MS]);
    let never = [(0, 8, 0), (500, 0, 0)];
    let stretches = never.map(|(after, kbit, _)| LineStretch {
        after: Span::from_millis(after),
        ..steady(Rate::kbit(kbit))
    });
    assert!(Side::<usize>::new(&impaired(Impairments::NONE), &stretches, 0).is_none());
}

#[test]
fn a_shorter_path_lets_no_packet_pass_another() {
    let ends = ends_under(&[(0, 8, 1_500), (900, 8, 0)], 3);
    assert_eq!(ends, [2_500 * MS, 2_500 * MS, 3_000 * MS]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_line_is_a_fifo_that_loses_time_and_packets_to_nothing_else(
        arrivals in arrivals(),
        buffer in buffers(),
        front in any::<bool>(),
        rate in 1_000_u64..10_000_000,
        delay in 0_u64..30_000_000,
    ) {
        let drop = if front { DropEnd::Front } else { DropEnd::Tail };
        let delay = Span::from_nanos(delay);
        let mut side = side(Rate::bits_per_second(rate), delay, buffer, drop);
        let Run { sent, dropped } = run(&mut side, &arrivals);

        // Each packet leaves or is dropped, exactly once.
        let mut fates = BTreeMap::<usize, u32>::new();
        for packet in sent.iter().map(|departure| departure.packet).chain(dropped) {
            *fates.entry(packet).or_default() += 1;
        }
        prop_assert_eq!(fates.len(), arrivals.len());
        prop_assert!(fates.values().all(|&times| times == 1));

        // Packets leave in order, one at a time, as soon as the line is free, and at the exact
        // rate: within a busy period, ends are the sum of transmission times.
        prop_assert!(sent.is_sorted_by_key(|departure| departure.packet));
        let mut busy_since = 0_u128;
        let mut bytes = 0_u128;
        let mut last_end = 0_u64;
        for departure in &sent {
            let (arrived, _, wire_bytes) = arrivals[departure.packet];
            prop_assert_eq!(departure.start_ns, arrived.max(last_end));
            if arrived >= last_end {
                busy_since = arrived.into();
                bytes = 0;
            }
            bytes += u128::from(wire_bytes);
            let exact = busy_since + (bytes * 8_000_000_000).div_ceil(rate.into());
            prop_assert_eq!(u128::from(departure.end_ns), exact);
            prop_assert_eq!(departure.due_ns, departure.end_ns + delay.as_nanos());
            last_end = departure.end_ns;
        }
    }

    #[test]
    fn looking_more_often_changes_nothing(
        arrivals in arrivals(),
        buffer in buffers(),
        looks in prop::collection::vec(0_u64..3_000_000_000, 0..50),
    ) {
        let mut once = adsl(buffer, DropEnd::Front);
        let expected = run(&mut once, &arrivals).sent;

        let mut side = adsl(buffer, DropEnd::Front);
        let mut events: Vec<(u64, Option<usize>)> = looks.iter().map(|&at| (at, None)).collect();
        events.extend(arrivals.iter().enumerate().map(|(n, arrival)| (arrival.0, Some(n))));
        events.sort_unstable();
        let mut sent = Vec::new();
        for (at_ns, arrival) in events {
            sent.extend(std::iter::from_fn(|| side.pop_due(at_ns)));
            if let Some(number) = arrival {
                let (_, ip_bytes, wire_bytes) = arrivals[number];
                side.arrive(at_ns, number, ip_bytes, wire_bytes, |_| ());
            }
        }
        sent.extend(std::iter::from_fn(|| side.pop_due(u64::MAX)));
        prop_assert_eq!(sent, expected);
    }
}
