// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive windows beside a queue (`aqm/include/window_beside.h`): which connections are left to
//! the queue, and the window that they are offered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weirgate_aqm::{Window, WindowAlgorithm, WindowRule};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// 50 Mbit/s in bytes a second, and a usual round trip in microseconds.
const FAST: u64 = 6_000_000;
const PATH_US: u32 = 20_000;

/// Returns a connection whose handshake measured this round trip.
fn along(round_trip_us: u32) -> Window {
    let mut window = Window::new(WindowRule::new(WindowAlgorithm::Edge));
    window.path(round_trip_us);
    window.arrived(1_448, 1_448, SECOND);
    window
}

fn loosened(round_trip_us: u32, share: u64, all: u64) -> u32 {
    along(round_trip_us).loosens(1_448, share, all)
}

#[test]
fn a_handshake_that_waited_in_a_queue_is_corrected_by_timestamps() {
    let share = FAST / 32;
    // The handshake measured 100 ms, in which the connection has 13 segments; the path has 2.6.
    let mut window = along(100_000);
    assert!(window.loosens(1_448, share, FAST) > 0);
    window.asks(7, SECOND);
    // First the echo of an earlier acknowledgement, then that of the awaited one.
    window.hears(6, SECOND + MS);
    assert!(window.loosens(1_448, share, FAST) > 0);
    window.hears(7, SECOND + 20 * MS);
    assert_eq!(window.loosens(1_448, share, FAST), 0);
    // A longer measurement changes nothing.
    window.asks(30, 2 * SECOND);
    window.hears(31, 3 * SECOND);
    assert_eq!(window.loosens(1_448, share, FAST), 0);
}

/// A sender's clock may tick once for many acknowledgements.
#[test]
fn the_first_acknowledgement_with_a_timestamp_is_the_one_that_counts() {
    let mut window = along(20_000);
    window.asks(7, SECOND);
    window.hears(7, SECOND + 20 * MS);
    // In the same tick: its echo may belong to the first acknowledgement.
    window.asks(7, SECOND + 19 * MS);
    window.hears(7, SECOND + 21 * MS);
    assert!(window.loosens(1_448, FAST / 4, FAST) > 0);
}

/// The timestamp clock wraps (RFC 7323, section 5.4).
#[test]
fn a_timestamp_beyond_the_end_of_its_numbers_is_later() {
    let mut window = along(100_000);
    window.asks(u32::MAX, SECOND);
    window.hears(3, SECOND + 20 * MS);
    assert_eq!(window.loosens(1_448, FAST / 32, FAST), 0);
}

#[test]
fn the_queue_holds_whom_it_holds_better() {
    // Four connections on a fast line: 20 segments in a round trip.
    assert_eq!(
        loosened(PATH_US, FAST / 4, FAST),
        30_000 + 30_000 / 64 + 6_000
    );
    // 64 connections have one each, and four on a slow line have four.
    assert_eq!(loosened(PATH_US, FAST / 64, FAST), 0);
    assert_eq!(loosened(PATH_US, 250_000, 1_000_000), 0);
    // Eight segments, where a segment takes 1.4 ms, and where it takes 0.7 ms.
    assert_eq!(loosened(PATH_US, 600_000, 1_000_000), 0);
    assert!(loosened(PATH_US, 600_000, 2_000_000) > 0);
    // The whole line; and an unknown path.
    assert!(loosened(PATH_US, FAST, FAST) > 0);
    assert_eq!(loosened(0, FAST / 4, FAST), 0);
}

#[test]
fn who_is_left_to_the_queue_stays_there_while_shares_change_a_little() {
    let mut window = along(PATH_US);
    let mut loosens = |segments_tenths: u64| {
        let share = segments_tenths * 1_448 * 5;
        window.loosens(1_448, share, FAST) > 0
    };
    assert!(!loosens(55));
    assert!(loosens(61));
    assert!(loosens(55));
    assert!(!loosens(49));
    assert!(!loosens(55));
}

#[test]
fn a_sender_that_does_not_slow_down_for_losses_is_held() {
    let mut window = along(PATH_US);
    window.begun(0, 10_000_000, SECOND);
    let mut first = 0;
    let mut held_at = None;
    // Every fifth segment arrives twice.
    for number in 0..2_000_u32 {
        let repeats = number % 5 == 4;
        let start = if repeats { first - 1_448 } else { first };
        window.numbered(start, 1_448);
        window.arrived(1_448, 1_448, SECOND);
        first = start + 1_448;
        let loose = window.loosens(1_448, FAST / 4, FAST);
        if loose == 0 {
            held_at.get_or_insert(number);
        } else {
            assert_eq!(held_at, None, "who was held once stays so");
        }
    }
    // By then a quarter of a second of its share has arrived twice, beyond a sixteenth.
    let held_at = held_at.expect("it was held");
    assert!((1_500..2_000).contains(&held_at), "{held_at}");
}

#[test]
fn what_was_on_offer_is_owed_when_the_rate_holds_again() {
    let mut window = Window::new(WindowRule::new(WindowAlgorithm::Edge));
    window.path(PATH_US);
    let share = FAST / 4;
    window.begun(0, 14_600, SECOND);
    let (mut ack, mut offered, mut loose) = (0, 14_600, 0);
    // Each segment releases two, until the whole window is on offer.
    while loose == 0 || offered < loose {
        window.arrived(1_448, 1_448, SECOND);
        loose = window.loosens(1_448, share, FAST);
        ack += 1_448;
        let next = window.offer(share, ack, 6_000_000, SECOND);
        assert_eq!(next, (offered + 1_448).min(loose));
        window.advertised(share, ack, next, SECOND);
        offered = next;
    }
    let edge = ack + offered;
    // Many connections arrive, and the share falls to a sixteenth. The edge advances when the offer
    // beyond a round trip has been earned.
    let share = share / 16;
    let (mut now, mut last) = (SECOND, edge);
    while now < 3 * SECOND {
        now += 20 * MS;
        let came = 1_448.min(last - ack);
        window.arrived(came, 1_448, now);
        assert_eq!(window.loosens(came, share, FAST), 0);
        ack += came;
        let offered = window.offer(share, ack, 6_000_000, now);
        window.advertised(share, ack, offered, now);
        assert!(ack + offered >= last, "nothing is taken back");
        last = ack + offered;
    }
    let most = share * 2 + u64::from(edge - loose) + 30_000 + 2 * 1_448;
    assert!(u64::from(last) <= most, "{last} {most}");
}

/// Sends segments of a connection whose inside end takes `inside_ns` to answer.
fn answered(window: &mut Window, inside_ns: u64) {
    let share = FAST / 4;
    let mut now = 2 * SECOND;
    for number in 0..100 {
        let first = 1 + number * 1_448;
        window.numbered(first, 1_448);
        window.loosens(1_448, share, FAST);
        window.arrived(1_448, 1_448, now);
        now += inside_ns;
        let offered = window.offer(share, first + 1_448, 6_000_000, now);
        window.advertised(share, first + 1_448, offered, now);
    }
}

#[test]
fn what_an_answer_takes_inside_is_on_offer_too() {
    let usual = 30_000 + 30_000 / 64 + 6_000;
    // 10 ms of the share are 15 kB, of which half may be an intended queue. If arrivals equal the
    // share, all of it may be.
    for (had, inside_ns, more) in [
        (0, 10 * MS, 7_500),
        (65_536, 10 * MS, 0),
        // The maximum is twice a round trip with a long queue.
        (0, 400 * MS, 2 * (30_000 + 15_000) - usual),
    ] {
        let mut window = along(PATH_US);
        window.begun(1, 10_000_000, SECOND);
        window.had(had);
        answered(&mut window, inside_ns);
        let loose = window.loosens(1_448, FAST / 4, FAST);
        let off = loose.abs_diff(usual + more);
        assert!(off <= 100, "{had} {inside_ns}: {loose}");
    }
}

/// Runs senders that always have data, with a local queue that is 1 % faster than the windows.
/// Returns the shortest and the longest queueing delay after five seconds. The round trip of each
/// sender is in `paths_us`; the inside end answers at once. Each has one of `shares` shares.
fn queued(paths_us: &[u32], all: u64, shares: u64) -> (u64, u64) {
    const MSS: u32 = 1_448;
    let share = all / shares;
    let each_ns = u64::from(MSS) * SECOND / (all * 100 / 99);
    let mut windows: Vec<Window> = paths_us.iter().map(|us| along(*us)).collect();
    let mut edges = vec![1 + 10 * MSS; windows.len()];
    let mut sent = vec![1 + 10 * MSS; windows.len()];
    let mut acks = vec![1; windows.len()];
    // Arrivals: the time and the sender.
    let mut coming = BinaryHeap::new();
    for (sender, window) in windows.iter_mut().enumerate() {
        window.begun(1, 10 * MSS, 0);
        window.had(65_536);
        coming.extend((0..10).map(|_| Reverse((u64::from(paths_us[sender]) * 1_000, sender))));
    }
    let (mut free, mut longest, mut shortest) = (0, 0, u64::MAX);
    while let Some(Reverse((now, sender))) = coming.pop() {
        if now > 6 * SECOND {
            break;
        }
        let waits = u64::saturating_sub(free, now);
        if now > 5 * SECOND {
            longest = longest.max(waits);
            shortest = shortest.min(waits);
        }
        free = free.max(now) + each_ns;
        let window = &mut windows[sender];
        window.numbered(acks[sender], MSS);
        window.loosens(MSS, share, all);
        window.arrived(MSS, MSS, now);
        acks[sender] += MSS;
        let offered = window.offer(share, acks[sender], 6_000_000, free);
        window.advertised(share, acks[sender], offered, free);
        edges[sender] = edges[sender].max(acks[sender] + offered);
        while edges[sender] - sent[sender] >= MSS {
            sent[sender] += MSS;
            coming.push(Reverse((
                free + u64::from(paths_us[sender]) * 1_000,
                sender,
            )));
        }
    }
    (shortest, longest)
}

/// The queue is so long that the line is never idle, and so short that CoDel never drops: it drops
/// when 5 ms are exceeded (RFC 8289, section 4.4).
#[test]
fn the_queue_of_those_who_are_left_to_it_is_short_and_never_runs_dry() {
    for (paths_us, all) in [
        (vec![38_000; 2], 7_000_000),
        (vec![20_000; 4], FAST),
        (vec![80_000], FAST),
        (vec![12_000, 30_000, 77_000], 20_000_000),
    ] {
        let (shortest, longest) = queued(&paths_us, all, paths_us.len() as u64);
        assert!(shortest >= MS, "{paths_us:?}: {shortest}");
        assert!(longest < 5 * MS, "{paths_us:?}: {longest}");
    }
}

/// The others have half of the shares, and send nothing.
#[test]
fn what_others_leave_is_taken_with_as_short_a_queue() {
    for (paths_us, all) in [
        (vec![20_000], 2_500_000),
        (vec![38_000; 2], 7_000_000),
        (vec![20_000; 4], FAST),
        (vec![80_000], FAST),
    ] {
        let (shortest, longest) = queued(&paths_us, all, 2 * paths_us.len() as u64);
        assert!(shortest >= MS, "{paths_us:?}: {shortest}");
        assert!(longest < 5 * MS, "{paths_us:?}: {longest}");
    }
}
