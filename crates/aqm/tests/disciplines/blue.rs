// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BLUE: losses raise its probability, an idle link lowers it, and nothing else does
//! (Feng, Shin, Kandlur and Saha 2002); SFB's bins, which have one each.

use crate::bottleneck::{Bottleneck, Sender};
use crate::support::{MS, ONE, S, link, packet, queue};
use weirgate_aqm::{Link, Packet, Queue};

/// 1,000 full packets a second, and a random number that drops at no probability below 1.
const LINE: u64 = 12_000_000;
const SPARE: u32 = u32::MAX;

fn blue(params: &[(&str, u64)]) -> Queue<()> {
    let all = [&[("limit_packets", 10)][..], params].concat();
    queue("blue", &link(LINE), &all)
}

fn probability(queue: &Queue<()>) -> u64 {
    queue.var("probability").expect("a number")
}

/// Overflows the queue with eleven packets, of which the last is lost.
fn overflow(queue: &mut Queue<()>, now: u64) {
    for _ in 0..11 {
        queue.arrive(&packet(now, 1500), SPARE, ());
    }
}

#[test]
fn a_loss_raises_once_in_a_freeze_time() {
    let mut blue = blue(&[("increment", ONE / 100), ("freeze_ns", 100 * MS)]);
    overflow(&mut blue, S);
    assert_eq!(probability(&blue), ONE / 100);
    // Losses within one freeze time raise the probability only once.
    for number in 1..10 {
        blue.arrive(&packet(S + number * 10 * MS, 1500), SPARE, ());
    }
    assert_eq!(probability(&blue), ONE / 100);
    blue.arrive(&packet(S + 100 * MS, 1500), SPARE, ());
    assert_eq!(probability(&blue), 2 * (ONE / 100));
    assert_eq!(blue.stat("raises"), Some(2));
    assert_eq!(blue.drops("limit"), Some(11));
}

/// The host refuses nothing before the limit, although the limit is all that it can hold.
#[test]
fn a_full_host_is_a_full_queue() {
    let link = Link {
        room_packets: 8,
        ..link(LINE)
    };
    let mut blue: Queue<()> = queue("blue", &link, &[("limit_packets", 100)]);
    for _ in 0..9 {
        blue.arrive(&packet(S, 1500), SPARE, ());
    }
    assert_eq!(blue.stat("raises"), Some(1));
    assert_eq!(
        (blue.drops("limit"), blue.drops("room")),
        (Some(1), Some(0))
    );
}

#[test]
fn a_queue_that_is_not_full_changes_nothing() {
    let mut blue = blue(&[]);
    let mut now = S;
    for _ in 0..9 {
        blue.arrive(&packet(now, 1500), 0, ());
    }
    for _ in 0..1_000 {
        now += 20 * MS;
        blue.arrive(&packet(now, 1500), 0, ());
        blue.depart(now);
    }
    assert_eq!(probability(&blue), 0);
}

#[test]
fn an_idle_link_lowers_a_step_for_each_freeze_time() {
    let steps = [("increment", ONE / 10), ("decrement", ONE / 100)];
    let mut blue = blue(&steps);
    overflow(&mut blue, S);
    let mut now = S;
    while blue.packets() > 0 {
        now += MS;
        blue.depart(now);
    }
    // The link is idle from here on; BLUE learns this when its last packet has been sent.
    blue.depart(now + MS);
    // The freeze time ends 100 ms after the step up; then five more steps.
    blue.arrive(&packet(S + 620 * MS, 1500), SPARE, ());
    assert_eq!(blue.stat("falls"), Some(6));
    assert_eq!(probability(&blue), ONE / 10 - 6 * (ONE / 100));
    // After a long pause the probability is 0.
    blue.depart(S + 621 * MS);
    blue.depart(S + 630 * MS);
    blue.arrive(&packet(90 * S, 1500), SPARE, ());
    assert_eq!(probability(&blue), 0);
}

#[test]
fn a_drop_before_an_empty_queue_does_not_end_the_idle_time() {
    let steps = [("increment", ONE), ("decrement", ONE / 100)];
    let mut blue = blue(&steps);
    overflow(&mut blue, S);
    while blue.packets() > 0 {
        blue.depart(S);
    }
    // One step at the end of the freeze time and one every 100 ms after it.
    for number in 1..=10 {
        let arrival = blue.arrive(&packet(S + number * 100 * MS, 1500), 0, ());
        assert_eq!(arrival.verdict.why(), "early");
        assert_eq!(probability(&blue), ONE - number * (ONE / 100));
    }
    // An accepted packet ends the idle time.
    blue.arrive(&packet(S + 1_050 * MS, 1500), SPARE, ());
    blue.arrive(&packet(S + 9_000 * MS, 1500), 0, ());
    assert_eq!(probability(&blue), ONE - 10 * (ONE / 100));
}

#[test]
fn packets_go_by_the_probability() {
    let mut blue = blue(&[("increment", ONE / 4), ("ecn", 1)]);
    overflow(&mut blue, S);
    blue.depart(S);
    let below = (ONE / 4 - 1) as u32;
    assert!(blue.arrive(&packet(S, 1500), below, ()).refused.is_some());
    assert_eq!(blue.drops("early"), Some(1));
    let capable = Packet {
        ecn: 2,
        ..packet(S, 1500)
    };
    assert!(blue.arrive(&capable, below, ()).refused.is_none());
    assert_eq!(blue.marks("early"), Some(1));
    blue.depart(S);
    let at = (ONE / 4) as u32;
    assert!(blue.arrive(&packet(S, 1500), at, ()).refused.is_none());
}

/// With responsive flows the probability settles between 0 and 1. The link is utilised, and a full
/// queue loses far fewer packets than under drop tail.
#[test]
fn it_finds_what_flows_need() {
    let senders = [Sender::Responsive; 40];
    let line = (LINE, 40 * MS);
    let params = [("limit_packets", 100)];
    let mut tail = Bottleneck::new("droptail", line, &senders, &params);
    tail.shares(60 * S, 120 * S);
    let mut blue = Bottleneck::new("blue", line, &senders, &params);
    blue.run(60 * S);
    let before = blue.kit.drops("limit");
    let shares = blue.shares(60 * S, 120 * S);
    let lost = blue.kit.drops("limit").zip(before);
    let lost = lost.map(|(now, before)| now - before).expect("counts");
    let of_tail = tail.kit.drops("limit").expect("a count");
    let found = blue.kit.var("probability").expect("a number") as f64 / ONE as f64;
    println!(
        "{found:.4}, {lost} lost of {of_tail}, {:.3} used",
        shares.used
    );
    assert!(found > 0.005 && found < 0.2, "{found}");
    assert!(lost * 5 < of_tail, "{lost} of {of_tail}");
    assert!(shares.used > 0.95);
}

/// An SFB flow that fills its bins raises its own probability, and no other flow's.
#[test]
fn bins_are_apart() {
    let mut sfb: Queue<()> = queue("sfb", &link(LINE), &[("increment", ONE / 10)]);
    let of = |flow: u32, now: u64| Packet {
        flow,
        ..packet(now, 1500)
    };
    for number in 0..25_u64 {
        sfb.arrive(&of(1, S + number), SPARE, ());
    }
    // 20 packets found fewer than 20 packets in their bins, and 5 raised the probability.
    assert_eq!(probability(&sfb), 5 * (ONE / 10));
    // A bin holds at most 25 packets.
    assert!(sfb.arrive(&of(1, S + 30), SPARE, ()).refused.is_some());
    assert_eq!(sfb.stat("full_bins"), Some(1));
    sfb.arrive(&of(0x1234_5678, S + 40), SPARE, ());
    assert_eq!(probability(&sfb), 0);
}

/// A flow whose probability is 1 may send the penalty burst, then only the penalty rate.
#[test]
fn who_does_not_respond_has_a_rate() {
    let params = [
        ("increment", ONE),
        ("bin_packets", 1),
        ("most_packets", 100),
        ("penalty_rate", 10),
        ("penalty_packets", 5),
        // So small that the probability does not fall.
        ("decrement", 1),
    ];
    let mut sfb: Queue<()> = queue("sfb", &link(LINE), &params);
    // The first packet finds an empty bin; the second finds one packet, which already exceeds the
    // bound.
    let mut passed = 0;
    for number in 0..1_000_u64 {
        let arrival = sfb.arrive(&packet(S + number * MS, 1500), SPARE, ());
        passed += u64::from(arrival.refused.is_none());
        if number > 0 {
            assert_eq!(probability(&sfb), ONE);
        }
    }
    // One packet, a burst of five, and 10 a second for the rest of the second.
    assert!((15..=16).contains(&passed), "{passed}");
    assert_eq!(sfb.stat("penalized"), Some(1_000 - passed));
    assert_eq!(sfb.drops("forced"), Some(1_000 - passed));
}

/// Flows that share all bins are separated when the hash changes. Packets queued before the change
/// leave no trace in the new set of bins.
#[test]
fn flows_get_other_bins() {
    let mut sfb: Queue<()> = queue("sfb", &link(LINE), &[("rehash_ns", S)]);
    let mut now = S;
    for number in 0..50_000_u32 {
        now += 300_000;
        let one = Packet {
            flow: (number % 30).wrapping_mul(0x9e37_79b1),
            ..packet(now, 1500)
        };
        sfb.arrive(&one, SPARE, ());
        if number % 3 == 0 {
            sfb.depart(now);
        }
    }
    assert_eq!(sfb.stat("rehashes"), Some(14));
    while sfb.packets() > 0 {
        sfb.depart(now);
    }
    // An empty queue has empty bins: every flow finds empty bins, and their probabilities only
    // fall.
    let raised = probability(&sfb);
    for number in 0..30_u32 {
        let one = Packet {
            flow: number.wrapping_mul(0x9e37_79b1),
            ..packet(now + 1, 1500)
        };
        assert!(sfb.arrive(&one, SPARE, ()).refused.is_none());
        sfb.depart(now + 1);
    }
    assert!(probability(&sfb) <= raised.max(1));
}
