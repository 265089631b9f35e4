// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of receive-window control: the offered window never shrinks, a segment fits, and the
//! right edge keeps to the rate. Also Shah's findings on his algorithms.

use proptest::prelude::*;
use weirgate_aqm::{Window, WindowAlgorithm, WindowRule};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// For any arrivals and any window of the receiver, a window is never more than the receiver
    /// offers. It is less than the rest of an earlier offer by less than a unit of the window
    /// scale, to which the offer was rounded up, and never less than a segment if the receiver
    /// offers one. The edge moves by less than a segment only if it must.
    #[test]
    fn nothing_is_taken_back(
        algorithm in prop::sample::select(vec![
            WindowAlgorithm::Edge, WindowAlgorithm::Mss, WindowAlgorithm::Steps]),
        fixed in prop::sample::select(vec![0_u64, 0, 3_000]),
        hold in prop::sample::select(vec![0, 100 * MS]),
        initial in prop::sample::select(vec![0_u64, 1, 7_300, 14_600]),
        limit in prop::sample::select(vec![0_u64, 20_000]),
        rate in prop_oneof![Just(0_u64), 1_000_u64..20_000_000],
        first in any::<u32>(),
        shift in 0_u32..15,
        segments in prop::collection::vec(
            (1_u32..1_449, 0_u64..400 * MS, 0_u32..200_000), 1..300),
    ) {
        let rule = WindowRule {
            fixed_bytes: fixed,
            hold_ns: hold,
            initial_bytes: initial,
            limit_bytes: limit,
            ..WindowRule::new(algorithm)
        };
        let mut window = Window::new(rule);
        // The edge that the sender knows, and the one before rounding.
        let (mut ack, mut edge, mut exact, mut now) = (first, first, first, SECOND);
        let mut leaves = 0;
        if initial > 0 && algorithm == WindowAlgorithm::Edge || fixed > 0 {
            let offered = window.initial(64_240);
            prop_assert_eq!(u64::from(offered), if fixed > 0 { fixed } else { initial });
            window.begun(ack, offered, now);
            edge = ack.wrapping_add(offered);
            exact = edge;
        }
        for (bytes, gap, receiver) in segments {
            now += gap;
            let left = edge.wrapping_sub(ack);
            // A sender uses at most the offered window, and one byte beyond it when it probes a
            // closed window.
            let came = bytes.min(left.max(1));
            window.arrived(came, 1_448, now);
            ack = ack.wrapping_add(came);
            edge = if came > left { ack } else { edge };
            let left = edge.wrapping_sub(ack);
            if exact.wrapping_sub(ack) as i32 <= 0 {
                exact = ack;
            }
            // A receiver does not shrink its window either, and scales it.
            let unit = 1_u32 << shift;
            let receiver = receiver.max(left).div_ceil(unit) * unit;
            let chosen = window.offer(rate, ack, receiver, now);
            prop_assert!(chosen <= receiver);
            prop_assert!(chosen + unit > left, "{chosen} of {left}");
            if fixed == 0 && (algorithm != WindowAlgorithm::Steps || rate == 0) {
                prop_assert!(chosen >= receiver.min(1_448), "{chosen}");
            }
            if limit > 0 && fixed == 0 {
                prop_assert!(u64::from(chosen) <= limit.max(left.into()), "{chosen}");
            }
            let advertised = (chosen.div_ceil(unit) * unit).min(receiver);
            let held = window.advertised(rate, ack, chosen, now);
            prop_assert!(held <= hold);
            prop_assert!(now + held >= leaves, "acknowledgements in order");
            leaves = leaves.max(now + held);
            let next = ack.wrapping_add(chosen);
            if fixed == 0 && limit == 0 && algorithm == WindowAlgorithm::Edge && chosen < receiver {
                let moved = next.wrapping_sub(exact);
                let whole = moved == 0 || moved >= 1_448 || chosen <= 1_448;
                prop_assert!(whole, "the edge moved by {moved}");
            }
            exact = next;
            edge = ack.wrapping_add(advertised);
            // The first segment in flight is lost and the rest arrives. The sender must recognise
            // these acknowledgements as duplicates, as long as it may send another segment.
            if chosen >= 1_448 {
                for _ in 0..3 {
                    now += gap;
                    window.arrived(1, 1_448, now);
                    let again = window.offer(rate, ack, receiver, now);
                    let rounded = again.div_ceil(unit) * unit;
                    prop_assert_eq!(rounded, advertised, "a duplicate is another window");
                    leaves = leaves.max(now + window.advertised(rate, ack, again, now));
                }
            }
        }
    }
}

/// Returns a connection after its first window, at 100,000 bytes a second, and its right edge.
fn begun() -> (Window, u64) {
    let mut window = Window::new(WindowRule::new(WindowAlgorithm::Edge));
    window.arrived(1_448, 1_448, SECOND);
    let offered = window.offer(100_000, 1_448, 4_194_304, SECOND);
    window.advertised(100_000, 1_448, offered, SECOND);
    (window, 1_448 + u64::from(offered))
}

/// Returns the right edge after a second in which all offered bytes arrived, in segments in this
/// order. `before` is called before the first of them.
fn edge_after(order: [u32; 4], before: impl Fn(&mut Window)) -> u32 {
    let (mut window, edge) = begun();
    // Wait long enough to have four segments on offer.
    let now = SECOND + 100 * MS;
    let offered = window.offer(100_000, 1_448, 4_194_304, now);
    window.advertised(100_000, 1_448, offered, now);
    assert!(1_448 + u64::from(offered) > edge && offered >= 4 * 1_448);
    before(&mut window);
    for place in order {
        window.numbered(1_448 + place * 1_448, 1_448);
        window.arrived(1_448, 1_448, now);
    }
    edge_at_last(&mut window, 5 * 1_448, 2 * SECOND)
}

/// Returns the right edge after an acknowledgement was repeated. The repetition, without new data,
/// releases all that was earned.
fn edge_at_last(window: &mut Window, ack: u32, now: u64) -> u32 {
    let offered = window.offer(100_000, ack, 4_194_304, now);
    window.advertised(100_000, ack, offered, now);
    ack + window.offer(100_000, ack, 4_194_304, now)
}

/// RFC 9293 section 3.10.7.4: a segment beyond the window is not acceptable. A forged one must not
/// make the following segments count as retransmissions.
#[test]
fn what_lies_beyond_the_window_decides_nothing() {
    let straight = edge_after([0, 1, 2, 3], |_| {});
    let forged = edge_after([0, 1, 2, 3], |window| window.numbered(1 << 30, 1_448));
    assert_eq!(straight, forged);
}

/// A late segment counts once; a segment that arrives twice creates a debt.
#[test]
fn only_what_comes_twice_is_owed() {
    let straight = edge_after([0, 1, 2, 3], |_| {});
    assert_eq!(edge_after([0, 3, 2, 1], |_| {}), straight);
    let twice = edge_after([0, 1, 2, 3], |window| {
        for _ in 0..4 {
            window.numbered(1_448, 1_448);
        }
    });
    assert!(twice + 3 * 1_448 <= straight, "{twice} of {straight}");
}

/// A debt is paid once, by edges that do not advance, and by at most half of the acknowledged
/// bytes. Nothing is paid without an acknowledgement of new data.
#[test]
fn what_is_owed_is_paid_by_not_going_on() {
    let straight = edge_after([0, 1, 2, 3], |_| {});
    let (mut window, _) = begun();
    let now = SECOND + 100 * MS;
    let offered = window.offer(100_000, 1_448, 4_194_304, now);
    window.advertised(100_000, 1_448, offered, now);
    assert_eq!(window.pay(1_448, 100_000), 0, "nothing was acknowledged");
    for place in 0..4 {
        window.numbered(1_448 + place * 1_448, 1_448);
        window.arrived(1_448, 1_448, now);
    }
    let ack = 5 * 1_448;
    assert_eq!(window.pay(ack, 100_000), 2 * 1_448);
    let edge = edge_at_last(&mut window, ack, 2 * SECOND);
    assert_eq!(edge + 2 * 1_448, straight);
    assert_eq!(
        Window::new(WindowRule::new(WindowAlgorithm::Edge)).pay(ack, 100),
        0
    );
}

/// The first acknowledgement after a pause does not release all that the pause has earned. The
/// following ones release the rest, segment by segment.
#[test]
fn a_pause_is_not_made_up_for_in_one_burst() {
    const MSS: u32 = 1_448;
    const RATE: u64 = 1_448_000;
    let mut window = Window::new(WindowRule::new(WindowAlgorithm::Edge));
    window.arrived(MSS, MSS, SECOND);
    let mut edge = MSS + window.offer(RATE, MSS, 4_194_304, SECOND);
    window.advertised(RATE, MSS, edge - MSS, SECOND);
    // Forty segments in flight, then nothing for 40 ms, then one every 0.8 ms.
    let offered = window.offer(RATE, MSS, 4_194_304, SECOND + 40 * MS);
    window.advertised(RATE, MSS, offered, SECOND + 40 * MS);
    edge = edge.max(MSS + offered);
    assert_eq!(edge, 43 * MSS, "nothing came, so all of it moves");
    let mut largest = 0;
    for segment in 2..42 {
        let now = SECOND + 80 * MS + u64::from(segment) * 4 * MS / 5;
        let ack = segment * MSS;
        window.arrived(MSS, MSS, now);
        let offered = window.offer(RATE, ack, 4_194_304, now);
        window.advertised(RATE, ack, offered, now);
        largest = largest.max(ack + offered - edge);
        edge = ack + offered;
    }
    assert!(largest <= 11 * MSS, "{}", largest / MSS);
    // Of the 114.8 segments that were earned, at most four are left.
    let gone = (edge - MSS) / MSS;
    assert!((110..=114).contains(&gone), "{gone}");
}

/// Returns the bytes in each second of a sender that always has data. The line has `line` bytes a
/// second and a round trip of `trip_ns`. The receiver acknowledges each segment and offers 4 MiB.
fn transfer(rule: WindowRule, rate: u64, line: u64, trip_ns: u64, seconds: usize) -> Vec<u64> {
    transfer_scaled(rule, |_| rate, 7, (line, trip_ns), seconds)
}

/// The same with the rate at any time, and with a window scale.
fn transfer_scaled(
    rule: WindowRule,
    rate_at: impl Fn(u64) -> u64,
    shift: u32,
    (line, trip_ns): (u64, u64),
    seconds: usize,
) -> Vec<u64> {
    const MSS: u32 = 1_448;
    let mut window = Window::new(rule);
    let mut each = vec![0_u64; seconds];
    // Data in flight: the time of arrival and the bytes. Acknowledgements: the time of arrival and
    // the right edge.
    let mut data: Vec<(u64, u32)> = Vec::new();
    let mut acks: Vec<(u64, u32)> = vec![(0, 14_480)];
    let (mut sent, mut ack, mut allowed, mut free) = (0_u32, 0_u32, 0_u32, 0_u64);
    let end = seconds as u64 * SECOND;
    loop {
        let next_data = data.first().map_or(u64::MAX, |one| one.0);
        let next_ack = acks.first().map_or(u64::MAX, |one| one.0);
        let now = next_data.min(next_ack);
        if now >= end {
            return each;
        }
        if next_ack <= next_data {
            allowed = allowed.max(acks.remove(0).1);
            // Whole segments; less only when nothing is in flight any more, after 200 ms: senders
            // avoid the silly window syndrome too.
            while allowed - sent >= MSS || (allowed > sent && data.is_empty() && acks.is_empty()) {
                let size = (allowed - sent).min(MSS);
                let wait = if size < MSS { 200 * MS } else { 0 };
                free = free.max(now + wait) + u64::from(size + 66) * SECOND / line;
                data.push((free + trip_ns / 2, size));
                sent += size;
            }
        } else {
            let (_, size) = data.remove(0);
            each[(now / SECOND) as usize] += u64::from(size);
            ack += size;
            window.numbered(ack - size, size);
            window.arrived(size, size, now);
            let rate = rate_at(now);
            let offer = window.offer(rate, ack, 4_194_304, now);
            let held = window.advertised(rate, ack, offer, now);
            let rounded = offer.div_ceil(1 << shift) << shift;
            acks.push((now + held + trip_ns / 2, ack + rounded));
        }
    }
}

/// Returns the mean after three seconds as a fraction of the rate, and its coefficient of
/// variation.
fn figures(each: &[u64], rate: u64) -> (f64, f64) {
    let late = &each[3..];
    let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
    let square = |value: &u64| (*value as f64 - mean).powi(2);
    let variance = late.iter().map(square).sum::<f64>() / late.len() as f64;
    (mean / rate as f64, variance.sqrt() / mean)
}

/// RATE-6.7 and 6.2: a T1 with 6 ms, Ethernet of 10 Mbit/s with 0.4 ms, a satellite with 550 ms.
const LINES: [(u64, u64); 3] = [
    (192_625, 6 * MS),
    (1_250_000, 400_000),
    (1_250_000, 550 * MS),
];

#[test]
fn the_edge_keeps_to_any_rate() {
    for (line, trip) in LINES {
        for percent in [100, 90, 80, 70, 60, 50, 40, 30, 20, 10] {
            let best = line * 1_448 / 1_514;
            let rate = best * percent / 100;
            let rule = WindowRule {
                hold_ns: 200 * MS,
                ..WindowRule::new(WindowAlgorithm::Edge)
            };
            let each = transfer(rule, rate, line, trip, 20);
            let (mean, variation) = figures(&each, rate);
            // Over the satellite a second contains one or two bursts.
            let steady = variation <= 0.1 || trip > 500 * MS;
            assert!(
                (0.95..=1.05).contains(&mean) && steady,
                "{line} B/s, {trip} ns, {percent} %: {mean:.3}, {variation:.3}"
            );
        }
    }
}

/// A window is rounded up to units of its scale, which does not add up: with any scale, the sender
/// keeps to a rate that falls to a tenth.
#[test]
fn the_edge_keeps_to_a_rate_that_falls() {
    let rule = WindowRule {
        hold_ns: 500 * MS,
        ..WindowRule::new(WindowAlgorithm::Edge)
    };
    for shift in 0..15 {
        let falls = |now| if now < 2 * SECOND { 1_000_000 } else { 100_000 };
        let each = transfer_scaled(rule, falls, shift, (1_250_000, 50 * MS), 20);
        let (mean, _) = figures(&each[3..], 100_000);
        assert!((0.9..=1.1).contains(&mean), "{shift}: {mean:.3}, {each:?}");
    }
}

/// Without holding acknowledgements back, a segment per round trip is the minimum (Shah 6.5): C t /
/// (t + L).
#[test]
fn without_holding_back_there_is_the_thesis_floor() {
    let (line, trip) = LINES[0];
    let each = transfer(
        WindowRule::new(WindowAlgorithm::Edge),
        line / 10,
        line,
        trip,
        20,
    );
    let (mean, _) = figures(&each, line);
    // 1448 bytes in 7.86 ms of the line and 6 ms of round trip.
    assert!((0.5..0.6).contains(&mean), "{mean}");
    let each = transfer(
        WindowRule::new(WindowAlgorithm::Mss),
        line / 10,
        line,
        trip,
        20,
    );
    assert!((0.5..0.6).contains(&figures(&each, line).0), "algorithm 2");
}

/// RATE-6.2: below one segment algorithm 1 oscillates.
#[test]
fn algorithm_1_oscillates() {
    let (line, trip) = LINES[1];
    let rate = line * 4 / 10;
    let each = transfer(
        WindowRule::new(WindowAlgorithm::Steps),
        rate,
        line,
        trip,
        60,
    );
    let (mean, variation) = figures(&each, rate);
    assert!(variation > 0.3, "{mean:.3}, {variation:.3}: {each:?}");
}

/// Shah 5.1: 10 packets in 55 ms are 9 in a chunk of 50.
#[test]
fn a_chunk_is_scaled_to_its_length() {
    let rule = WindowRule {
        chunk_ns: 50 * MS,
        chunks: 1,
        ..WindowRule::new(WindowAlgorithm::Mss)
    };
    let mut window = Window::new(rule);
    for packet in 0..9 {
        window.arrived(1_000, 1_000, SECOND + packet * 5 * MS);
    }
    assert_eq!(window.rate(), 0, "the chunk is open");
    window.arrived(1_000, 1_000, SECOND + 55 * MS);
    assert_eq!(window.rate(), 9_090 * 20);
    // After a silence, the next arrival resets the rate.
    window.arrived(1_000, 1_000, 20 * SECOND);
    assert_eq!(window.rate(), 0);
}
