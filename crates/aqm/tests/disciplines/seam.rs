// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every host reports to a discipline (`aqm/host/queue.h`).

use crate::support::{MS, link, packet, queue};
use weirgate_aqm::{Event, Packet, Queue, Settings, replay};

/// Bytes of a packet. It takes 12 ms at 1 Mbit/s.
const LEN: u32 = 1_500;
const TIME: u64 = 12 * MS;

/// fq_codel removes an empty flow from its lists when it looks at it, and the next packet makes it
/// a new flow. As in the kernel, no departure is requested from an empty queue; fq_codel learns of
/// the empty queue all the same.
#[test]
fn an_empty_queue_is_told_of_without_a_departure() {
    let new_flows = |second_ns: u64| {
        let mut all: Queue<u32> = queue("fq_codel", &link(1_000_000), &[]);
        all.arrive(&packet(0, LEN), 0, 0);
        assert!(all.depart(0).sent.is_some());
        all.arrive(&packet(second_ns, LEN), 0, 1);
        all.stat("new_flows")
    };
    assert_eq!(new_flows(TIME - 1), Some(1), "the line is not free yet");
    assert_eq!(new_flows(TIME), Some(2));
}

/// The time of the notification is that at which the link becomes free, whichever call causes it.
#[test]
fn the_time_of_an_empty_queue_is_the_line_s() {
    let run = |name: &str, asked: &[u64]| {
        let mut all: Queue<usize> = queue(name, &link(1_000_000), &[]);
        let mut events = Vec::new();
        events.push(Event::Arrival(packet(0, LEN), 0));
        events.push(Event::Departure(0));
        events.extend(asked.iter().map(|at| Event::Departure(*at)));
        events.push(Event::Arrival(packet(900 * MS, LEN), 0));
        replay(&mut all, events);
        (all.state(), all.stat("new_flows"))
    };
    for name in ["fq_codel", "pie", "dualpi2"] {
        let nobody = run(name, &[]);
        for asked in [&[0][..], &[TIME], &[5 * MS, TIME, 500 * MS], &[800 * MS]] {
            assert_eq!(run(name, asked), nobody, "{name}: {asked:?}");
        }
    }
}

/// Fields that a discipline does not request are 0, as in the kernel, where computing them would
/// cost time. They are also 0 in packets that the queue has kept.
#[test]
fn what_is_not_asked_for_is_zero() {
    let packet = Packet {
        flow: 7,
        ecn: 3,
        ..packet(0, LEN)
    };
    let kept = |name: &str| {
        let mut queue: Queue<()> = queue(name, &link(1_000_000), &[]);
        queue.arrive(&packet, u32::MAX, ());
        queue.waiting()[0]
    };
    let mine = |name: &str| (kept(name).flow, kept(name).ecn);
    assert_eq!(mine("droptail"), (0, 0));
    assert_eq!(mine("drt"), (7, 0));
    assert_eq!(mine("codel"), (0, 3));
    assert_eq!(mine("fq_codel"), (7, 3));
}

/// A discipline marks if it requests the ECN field, unless a parameter disables marking.
#[test]
fn who_asks_for_ecn_marks_unless_a_parameter_says_no() {
    let marks = |name: &str, ecn: Option<u64>| {
        let mut settings = Settings::new(weirgate_aqm::Discipline::named(name).expect("one"));
        if let Some(value) = ecn {
            settings.set("ecn", value).expect("a parameter");
        }
        settings.marks()
    };
    assert!(marks("dualpi2", None) && marks("codel", Some(1)) && marks("fq_codel", None));
    assert!(!marks("droptail", None) && !marks("codel", None) && !marks("fq_codel", Some(0)));
    let mut meredt = Settings::new(weirgate_aqm::Discipline::named("meredt").expect("one"));
    assert!(!meredt.marks(), "its `mark` is to drop");
    meredt.set("l4s_marks", 14).expect("a parameter");
    assert!(meredt.marks(), "of L4S packets, whatever `mark` is");
}

/// The packets of all queues can be read, in the order of their arrival.
#[test]
fn what_waits_can_be_read() {
    let mut queue: Queue<()> = queue("dualpi2", &link(1_000_000), &[("limit_packets", 9)]);
    let came: Vec<Packet> = (0..6_u32)
        .map(|number| Packet {
            ecn: number % 2,
            flow: 0,
            ..packet(u64::from(number) * MS, 100 + number)
        })
        .collect();
    for one in &came {
        queue.arrive(one, 0, ());
    }
    assert_eq!(queue.waiting(), came);
    queue.depart(6 * MS);
    let left: Vec<Packet> = came.iter().copied().filter(|one| one.len != 101).collect();
    assert_eq!(queue.waiting(), left, "of ECT(1), the first");
    assert_eq!(queue.settings().values()[0], 9);
    assert_eq!(queue.link().rate_bytes_s, 125_000);
}
