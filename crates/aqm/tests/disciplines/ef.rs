// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ef: what is ahead of its schedule is sent, held or dropped (Mylonas, section 2.3.3).

use crate::support::{MS, S, link, packet, queue};
use weirgate_aqm::{Packet, Queue};

/// 10 Mbit/s. A full packet takes 1.2 ms, and 6 ms at the 2 Mbit/s of the code point.
const LINE: u64 = 10_000_000;
const EF: u32 = 46;

const FORWARD: u64 = 0;
const HOLD: u64 = 1;
const DISCARD: u64 = 2;

fn of(code: u32, now: u64) -> Packet {
    Packet {
        flow: code,
        ..packet(now, 1500)
    }
}

fn ef(early: u64, params: &[(&str, u64)]) -> Queue<u32> {
    queue(
        "ef",
        &link(LINE),
        &[&[("early", early)][..], params].concat(),
    )
}

/// Queues four packets of the code point behind four others at one time, then departs one every 1.2
/// ms. Returns what left, and when, in ms.
fn burst(early: u64, params: &[(&str, u64)]) -> (Vec<(u32, f64)>, Queue<u32>) {
    let mut ef = ef(early, params);
    for code in [0, 0, 0, 0, EF, EF, EF, EF] {
        ef.arrive(&of(code, S), 0, code);
    }
    let mut left = Vec::new();
    for slot in 0..30_u64 {
        let now = S + slot * 12 * MS / 10;
        if let Some((_, _, code)) = ef.depart(now).sent {
            left.push((code, (now - S) as f64 / MS as f64));
        }
    }
    assert_eq!(ef.packets(), 0);
    (left, ef)
}

fn codes(left: &[(u32, f64)]) -> Vec<u32> {
    left.iter().map(|(code, _)| *code).collect()
}

#[test]
fn forwarded_at_once_they_go_first() {
    let (left, ef) = burst(FORWARD, &[]);
    assert_eq!(codes(&left), [EF, EF, EF, EF, 0, 0, 0, 0]);
    assert_eq!(ef.stat("early_packets"), Some(3));
}

#[test]
fn held_they_go_at_their_times_and_others_meanwhile() {
    let (left, ef) = burst(HOLD, &[]);
    let times: Vec<f64> = left.iter().filter(|it| it.0 == EF).map(|it| it.1).collect();
    // 0, 6, 12 and 18 ms, rounded up to the next multiple of 1.2 ms.
    assert_eq!(times, [0.0, 6.0, 12.0, 18.0]);
    assert_eq!(codes(&left)[..5], [EF, 0, 0, 0, 0]);
    assert_eq!(ef.stat("early_packets"), Some(3));
    assert_eq!(ef.drops("early"), Some(0));
}

/// The host learns until when packets are held, and asks again then and not before.
#[test]
fn a_host_is_told_until_when() {
    let mut ef = ef(HOLD, &[]);
    ef.arrive(&of(EF, S), 0, 1);
    ef.arrive(&of(EF, S), 0, 2);
    assert!(ef.depart(S).sent.is_some());
    assert!(ef.depart(S + MS).sent.is_none());
    assert_eq!(ef.var("until_ns"), Some(S + 6 * MS));
    assert!(ef.depart(S + 6 * MS - 1).sent.is_none());
    assert!(ef.depart(S + 6 * MS).sent.is_some());
}

#[test]
fn a_burst_is_not_ahead() {
    // Two more packets may go at once.
    let (left, ef) = burst(HOLD, &[("burst_bytes", 3_000)]);
    assert_eq!(codes(&left)[..4], [EF, EF, EF, 0]);
    assert_eq!(ef.stat("early_packets"), Some(1));
}

#[test]
fn discarded_they_are_not_queued() {
    let (left, ef) = burst(DISCARD, &[]);
    assert_eq!(codes(&left), [EF, 0, 0, 0, 0]);
    assert_eq!(ef.drops("early"), Some(3));
}

/// A flow at exactly its rate is never ahead of its schedule, whatever is done with early packets.
#[test]
fn who_keeps_to_the_rate_is_not_early() {
    for early in [FORWARD, HOLD, DISCARD] {
        let mut ef = ef(early, &[]);
        for number in 0..1_000_u64 {
            let now = S + number * 6 * MS;
            ef.arrive(&of(EF, now), 0, 0);
            ef.arrive(&of(0, now), 0, 0);
            let first = ef.depart(now).sent.expect("a packet");
            assert_eq!(first.1.flow, EF);
            ef.depart(now + MS);
        }
        assert_eq!(ef.stat("early_packets"), Some(0));
        assert_eq!(ef.drops("early"), Some(0));
    }
}

/// The first queue is small, and packets of other queues do not take its room.
#[test]
fn the_first_queue_has_its_own_bound() {
    let mut ef = ef(FORWARD, &[("first_packets", 5)]);
    for number in 0..10 {
        ef.arrive(&of(EF, S), 0, number);
        ef.arrive(&of(0, S), 0, number);
    }
    assert_eq!(ef.drops("limit"), Some(5));
    assert_eq!(ef.packets(), 15);
}
