// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mice, elephants and flows in mered, meredt and fq_codel.

use crate::support::{Chance, MS, ONE, S, link, packet, queue};
use weirgate_aqm::{Action, Packet, Queue};

/// Returns a packet of a flow.
fn of(flow: u32, now: u64) -> Packet {
    Packet {
        flow: flow.wrapping_mul(0x9e37_79b1),
        ..packet(now, 1000)
    }
}

/// RED's thresholds at 10 and 30 packets of 1000 bytes, without adaptation.
const HELD: [(&str, u64); 8] = [
    ("min_bytes", 10_000),
    ("max_bytes", 30_000),
    ("limit_bytes", 60_000),
    ("weight", ONE / 512),
    ("max_p", ONE / 10),
    ("least_p", ONE / 100),
    ("measure", 0),
    // In the middle of the band nothing is adapted.
    ("rule", 1),
];

/// Sends one elephant among mice of three packets each, with the queue held in the middle between
/// the thresholds.
fn mixed(name: &str, own: &[(&str, u64)], count: u64) -> (Queue<bool>, [u64; 2]) {
    let mut params = HELD.to_vec();
    params.extend(own);
    let mut kit: Queue<bool> = queue(name, &link(8_000_000), &params);
    let mut chance = Chance(11);
    let mut lost = [0; 2];
    for index in 0..count {
        let now = index * MS;
        let elephant = index % 2 == 0;
        let flow = if elephant { 1 } else { 2 + (index / 6) as u32 };
        let arrival = kit.arrive(&of(flow, now), chance.word(), elephant);
        if arrival.verdict.action == Action::Drop {
            lost[usize::from(elephant)] += 1;
        }
        while kit.packets() > 20 {
            kit.depart(now);
        }
    }
    (kit, lost)
}

#[test]
fn mered_spares_mice_and_the_elephant_pays() {
    let (kit, [mice, elephants]) = mixed("mered", &[], 50_000);
    assert_eq!(mice, 0);
    let spared = kit.stat("spared").expect("a statistic");
    assert!(spared > 100, "{spared} spared");
    assert_eq!(kit.drops("owed"), Some(spared));
    assert_eq!(kit.drops("early"), Some(elephants - spared));
}

#[test]
fn mered_serves_mice_first() {
    let mut kit: Queue<u32> = queue("mered", &link(8_000_000), &[]);
    for index in 0..30 {
        kit.arrive(&of(1, 1), 0, index);
    }
    kit.arrive(&of(2, 2), 0, 99);
    let order: Vec<u32> = (0..31)
        .filter_map(|_| kit.depart(3).sent.map(|sent| sent.2))
        .collect();
    // The first 20000 bytes of the elephant were still served as a mouse's.
    assert_eq!(order[..20], (0..20).collect::<Vec<u32>>());
    assert_eq!(order[20], 99);
    assert_eq!(order[21..], (20..30).collect::<Vec<u32>>());
}

/// D7: the mean probability stays that of ARED, however it is spread over flows.
#[test]
fn meredt_keeps_the_mean() {
    let step: &[(&str, u64)] = &[
        ("averaged", 0),
        ("knot1_bytes", 5_000),
        ("knot2_bytes", 5_001),
        ("weight2", 1 << 16),
        ("knot3_bytes", 5_001),
    ];
    let flat: &[(&str, u64)] = &[
        ("averaged", 0),
        ("weight1", 1),
        ("weight2", 1),
        ("weight3", 1),
    ];
    let count = 200_000;
    let (plain, all) = mixed("meredt", flat, count);
    let (weighed, [mice, elephants]) = mixed("meredt", step, count);
    let (plain_lost, weighed_lost) = ((all[0] + all[1]) as f64, (mice + elephants) as f64);
    assert!(all[0] > 1_000, "without weights mice lose too: {}", all[0]);
    assert_eq!(mice, 0);
    // The gaps are uniform: a mean of 1/p becomes (1 + 1/p) / 2 packets. Without weights this
    // applies to all packets; with weights to half of them, at twice the probability.
    let average = |kit: &Queue<bool>| kit.var("average").expect("average") as f64 / 65_536.0;
    // ARED made a step or two down while the average rose to its level.
    let p = |kit: &Queue<bool>| {
        let max_p = kit.var("max_p").expect("max_p") as f64 / ONE as f64;
        max_p * (average(kit) - 10_000.0) / 20_000.0
    };
    let expected = [
        count as f64 / f64::midpoint(1.0, 1.0 / p(&plain)),
        count as f64 / 2.0 / f64::midpoint(1.0, 0.5 / p(&weighed)),
    ];
    for (lost, expected) in [plain_lost, weighed_lost].into_iter().zip(expected) {
        assert!(
            (lost / expected - 1.0).abs() < 0.05,
            "{lost}, not {expected}"
        );
    }
    assert!(average(&weighed) > 15_000.0);
}

/// A queue that mice make is not shortened at the elephant's expense: while only mice fill it,
/// nothing is dropped unless the whole queue is averaged. A queue of the elephant's own is held as
/// before, whatever mice do.
#[test]
fn an_elephant_pays_for_its_own_queue_only() {
    for (averaged, pays) in [(0, true), (1, false)] {
        let mut params = HELD.to_vec();
        params.push(("averaged", averaged));
        let mut kit: Queue<bool> = queue("meredt", &link(8_000_000), &params);
        let mut chance = Chance(5);
        let mut lost = 0;
        for index in 0..60_000_u64 {
            let now = index * MS;
            let elephant = index % 4 == 0;
            let flow = if elephant { 1 } else { 2 + index as u32 };
            let arrival = kit.arrive(&of(flow, now), chance.word(), elephant);
            lost += u64::from(arrival.verdict.action == Action::Drop);
            // The elephant's packet leaves as soon as it has arrived.
            while kit.packets() > 22 || (elephant && kit.var("behind_packets") > Some(0)) {
                kit.depart(now);
            }
            for _ in kit.packets()..20 {
                kit.arrive(&of(100_000 + index as u32, now), 0, false);
            }
        }
        assert_eq!(lost > 1_000, pays, "averaged {averaged}: {lost} lost");
        assert!(pays || lost == 0, "{lost} lost");
    }
    let (kit, [mice, elephants]) = mixed("meredt", &[], 200_000);
    let average = kit.var("average").expect("average") as f64 / 65_536.0;
    assert_eq!(mice, 0);
    assert!(elephants > 1_000, "{elephants} lost");
    assert!((10_000.0..30_000.0).contains(&average), "{average}");
}

/// An unresponsive elephant loses a sixteenth at random, whatever the average, and its queue is
/// limited to half of the limit: a mouse finds room.
#[test]
fn an_elephant_leaves_half_of_the_room() {
    let mut kit: Queue<bool> = queue("meredt", &link(8_000_000), &HELD);
    let mut chance = Chance(5);
    let mut now = 0;
    for _ in 0..20_000 {
        now += MS;
        kit.arrive(&of(1, now), chance.word(), true);
    }
    let chosen = kit.drops("early").expect("a reason") as f64;
    let behind = kit.var("behind_bytes").expect("a number");
    assert_eq!(behind, 30_000, "of 60,000 allowed");
    assert!(kit.drops("limit").expect("a reason") > 10_000);
    // Gaps of 1 to 16 packets, equally likely: 8.5 in the mean.
    assert!((chosen / 20_000.0 * 8.5 - 1.0).abs() < 0.05, "{chosen}");
    assert_eq!(kit.var("average").map(|it| it >> 16), Some(29_999));
    let mouse = kit.arrive(&of(2, now), chance.word(), false);
    assert_ne!(mouse.verdict.action, Action::Drop);
    assert_eq!(kit.depart(now).sent.map(|sent| sent.2), Some(true));
}

/// Even with the smallest limit, one packet of an elephant may wait alone.
#[test]
fn a_small_limit_shuts_nobody_out() {
    let params = [("limit_bytes", 1_500), ("queue_bytes", 1)];
    let mut kit: Queue<u32> = queue("meredt", &link(8_000_000), &params);
    for index in 0..100 {
        kit.arrive(&of(1, u64::from(index) * MS), 0, index);
        assert!(kit.depart(u64::from(index) * MS).sent.is_some(), "{index}");
    }
}

/// Each flow gets the same bytes, whatever its load and the size of its packets.
#[test]
fn fq_codel_shares_equally() {
    let params = [("target_ns", 1_000_000_000), ("quantum_bytes", 300)];
    let mut kit: Queue<usize> = queue("fq_codel", &link(8_000_000), &params);
    let sizes = [1_500, 300, 700];
    let mut sent = [0; 3];
    for index in 0..40_000_u64 {
        let now = index * MS;
        for (flow, size) in sizes.into_iter().enumerate() {
            let mut one = of(flow as u32 + 1, now);
            one.len = size;
            for _ in 0..2_000 / size {
                kit.arrive(&one, 0, flow);
            }
        }
        if let Some((_, packet, flow)) = kit.depart(now).sent {
            sent[flow] += packet.len;
        }
    }
    let mean = sent.iter().sum::<u32>() / 3;
    assert!(
        sent.iter().all(|bytes| bytes.abs_diff(mean) < 3_000),
        "{sent:?}"
    );
    assert!(kit.drops("evicted").expect("a reason") > 0);
}

/// Flows of merged packets are in debt for more turns than one call takes.
#[test]
fn fq_codel_finds_a_packet_however_large_the_debts_are() {
    let params = [("target_ns", 1_000_000_000), ("quantum_bytes", 300)];
    let mut kit: Queue<u32> = queue("fq_codel", &link(8_000_000), &params);
    for flow in (1..=40).cycle().take(80) {
        let mut one = of(flow, 0);
        one.len = 65_000;
        kit.arrive(&one, 0, flow);
    }
    for left in (1..=80).rev() {
        assert_eq!(kit.packets(), left);
        assert!(kit.depart(MS).sent.is_some(), "{left} packets are left");
    }
}

/// PIE brings a standing queue to its target.
#[test]
fn pie_holds_its_target() {
    let mut kit: Queue<()> = queue("pie", &link(12_000_000), &[]);
    let mut chance = Chance(5);
    let (mut waited, mut left) = (0, 0);
    // The load is 10 % above the link's rate, and does not react.
    let mut due = 0;
    for tick in 0..60_000_u64 {
        let now = tick * MS;
        while due <= now {
            kit.arrive(&packet(due.max(1), 1500), chance.word(), ());
            due += MS * 10 / 11;
        }
        if let Some((_, packet, ())) = kit.depart(now).sent
            && tick > 20_000
        {
            waited += now - packet.arrived_ns.min(now);
            left += 1;
        }
    }
    let mean = waited as f64 / f64::from(left) / 1e6;
    assert!((mean - 15.0).abs() < 1.5, "mean wait {mean} ms");
}

/// Returns a discipline with a preset.
fn preset(discipline: &str, name: &str, rate_bits_s: u64) -> Queue<u32> {
    let discipline = weirgate_aqm::Discipline::named(discipline).expect("a discipline");
    let mut settings = weirgate_aqm::Settings::new(discipline);
    settings.set_text("preset", name).expect("a preset");
    // Disables early drops: the test is about order alone.
    settings.set("min_bytes", 1 << 20).expect("a parameter");
    settings.set("max_bytes", 1 << 21).expect("a parameter");
    Queue::new(&settings, &link(rate_bits_s))
}

/// Empties the queue and returns its packets in the order in which they leave.
fn order(kit: &mut Queue<u32>, now: u64) -> Vec<u32> {
    std::iter::from_fn(|| kit.depart(now).sent.map(|sent| sent.2)).collect()
}

/// D7: the flow that has sent least is served first.
#[test]
fn sjf_serves_by_what_was_sent() {
    let mut kit = preset("meredt", "sjf", 8_000_000);
    // Flows 1 to 4 have sent 1, 4, 10 and 40 packets before the next one.
    for (flow, packets) in [(4, 40), (3, 10), (2, 4), (1, 1)] {
        for _ in 0..packets {
            kit.arrive(&of(flow, 1), 0, 0);
        }
    }
    order(&mut kit, 2);
    for flow in [4, 3, 2, 1] {
        kit.arrive(&of(flow, 3), 0, flow);
    }
    assert_eq!(order(&mut kit, 4), [1, 2, 3, 4]);
}

/// D7: with the leak, a flow's rate counts, not its length.
#[test]
fn fair_serves_who_keeps_to_a_share_first() {
    // 8 Mbit/s are 1000 packets/s, 500 for each of two flows. One sends 250 a second for three
    // seconds, the other 900. After 3 s the second has sent far more than the first, which stays in
    // the first band.
    for (name, first) in [("fair", 1), ("mered", 9)] {
        let mut kit = preset("meredt", name, 8_000_000);
        for index in 0..3000_u64 {
            let now = index * MS;
            if index % 4 == 0 {
                kit.arrive(&of(1, now), 0, 1);
            }
            if index % 10 != 0 {
                kit.arrive(&of(2, now), 0, 2);
            }
            order(&mut kit, now);
        }
        let now = 3000 * MS;
        kit.arrive(&of(2, now), 0, 2);
        kit.arrive(&of(1, now), 0, 1);
        let order = order(&mut kit, now);
        if first == 1 {
            assert_eq!(order, [1, 2], "{name}");
        } else {
            assert_eq!(order, [2, 1], "{name}: both are elephants");
        }
    }
}

/// An elephant that pauses becomes a mouse again after a while.
#[test]
fn hybrid_forgives() {
    for (name, forgiven) in [("hybrid", true), ("sjf", false)] {
        let mut kit = preset("meredt", name, 8_000_000);
        for index in 0..100 {
            kit.arrive(&of(1, index), 0, 0);
        }
        order(&mut kit, 1000);
        // 100 kB less a quarter of 1 MB/s for 1 s.
        let now = 1000 * MS;
        kit.arrive(&of(2, now), 0, 9);
        for _ in 0..12 {
            kit.arrive(&of(2, now), 0, 2);
        }
        kit.arrive(&of(1, now), 0, 1);
        let order = order(&mut kit, now);
        let place = order.iter().position(|flow| *flow == 1);
        assert_eq!(place < Some(12), forgiven, "{name}: {order:?}");
    }
}

/// While all packets of an elephant are dropped, its first packet after a silence is accepted, and
/// no other.
#[test]
fn who_comes_after_a_silence_is_let_go() {
    for (spare_ns, sent) in [(1000 * MS, 8), (0, 0)] {
        let own = [
            ("averaged", 0),
            ("knot1_bytes", 0),
            ("knot2_bytes", 1),
            ("knot3_bytes", 1),
            ("weight1", 0),
            ("weight2", 1 << 20),
            ("weight3", 1 << 20),
            ("max_p", ONE / 2),
            ("spare_ns", spare_ns),
        ];
        let mut params = HELD.to_vec();
        params.extend(own);
        let mut kit: Queue<u32> = queue("meredt", &link(8_000_000), &params);
        // Mice of one packet each hold the average below the upper threshold.
        let mut mice = 100;
        let mut went = 0;
        for index in 0..12_000 {
            let now = index * MS;
            mice += 1;
            kit.arrive(&of(mice, now), 0, 0);
            while kit.packets() > 25 {
                kit.depart(now);
            }
            // Three packets of the elephant every 1.2 s, from the second period on.
            if index > 1200 && index % 1200 < 3 {
                let arrival = kit.arrive(&of(1, now), 0, 1);
                let goes = arrival.verdict.action != Action::Drop;
                assert!(!goes || index % 1200 == 0, "at {index}");
                went += u64::from(goes);
            }
        }
        // From 2.4 s to 10.8 s; the very first packet of a flow follows no silence.
        assert_eq!(went, sent, "spare_ns {spare_ns}");
        assert_eq!(
            kit.stat("returned").is_some_and(|count| count > 0),
            sent > 0
        );
    }
}

/// The clock of flows wraps after 2^52 ns: a new flow still replaces the one that has been silent
/// for longest.
#[test]
fn flows_are_known_when_their_clock_begins_anew() {
    let firsts = |begin: u64| {
        let mut kit: Queue<bool> = queue("meredt", &link(8_000_000), &HELD);
        let mut send = |flow: u32, now: u64| {
            let packet = packet(now, 1000);
            kit.arrive(&Packet { flow, ..packet }, u32::MAX, false);
            kit.depart(now);
        };
        // One set of the table, filled before the wrap and used after it.
        for flow in 0..4 {
            send(flow, begin);
        }
        for index in 0..40 {
            let now = begin + 2 * S + index * MS;
            send(10, now);
            send(11, now);
        }
        kit.stat("first_packets").expect("first_packets")
    };
    // Four of the first, and 20 kB of either of the others.
    assert_eq!(firsts(S), 44);
    assert_eq!(firsts((1 << 52) - S), 44);
}
