// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SRED: hits in a list of flows give an estimate of the number of flows. The probability of a drop
//! follows from that and from three ranges of the queue (Ott, Lakshman and Wong 1999).

use crate::support::{Chance, MS, ONE, S, link, packet, queue};
use weirgate_aqm::{Packet, Queue};

fn of(flow: u32, now: u64) -> Packet {
    Packet {
        flow: flow.wrapping_mul(0x9e37_79b1),
        ..packet(now, 1500)
    }
}

/// Returns the estimate after `packets` packets of `flows` flows, chosen at random.
fn estimate(flows: u64, packets: u64) -> f64 {
    let mut sred: Queue<()> = queue("sred", &link(8_000_000), &[]);
    let mut chance = Chance(flows);
    let mut seen = Vec::new();
    for number in 0..packets {
        let now = S + number * MS;
        let word = chance.word();
        sred.arrive(&of(chance.below(flows) as u32, now), word, ());
        sred.depart(now);
        // Takes the mean of the second half: a single estimate is noisy.
        if number > packets / 2 {
            seen.push(sred.var("hits").expect("a number") as f64 / ONE as f64);
        }
    }
    seen.len() as f64 / seen.iter().sum::<f64>()
}

#[test]
fn hits_tell_how_many_flows_there_are() {
    for flows in [1, 2, 10, 50, 200] {
        let found = estimate(flows, 100_000);
        println!("{flows}: {found:.1}");
        let off = (found / flows as f64 - 1.0).abs();
        assert!(off < 0.1, "{flows} flows are taken for {found:.1}");
    }
}

/// Fills the list with `flows` flows in equal parts, then holds the queue at `queued` packets.
/// Returns the fraction of 4,000 packets of these flows that is dropped.
fn dropped(flows: u32, queued: u64, params: &[(&str, u64)]) -> f64 {
    let all = [&[("limit_bytes", 60 * 1500)][..], params].concat();
    let mut sred: Queue<()> = queue("sred", &link(8_000_000), &all);
    let mut chance = Chance(9);
    for number in 0..20_000_u32 {
        sred.arrive(&of(number % flows, S), chance.word(), ());
        sred.depart(S);
    }
    while sred.packets() < queued {
        sred.arrive(&of(0, S), u32::MAX, ());
    }
    let mut lost = 0;
    for number in 0..4_000 {
        let arrival = sred.arrive(&of(number % flows, S), chance.word(), ());
        lost += u64::from(arrival.refused.is_some());
        while sred.packets() > queued {
            sred.depart(S);
        }
    }
    lost as f64 / 4_000.0
}

/// With more than 256 flows the probability is 0.15 from a third of the buffer on. It is a quarter
/// of that from a sixth on, and 0 below.
#[test]
fn the_queue_chooses_one_of_three() {
    let simple = [("full", 0)];
    for (queued, wanted) in [(9, 0.0), (10, 0.0375), (19, 0.0375), (20, 0.15), (59, 0.15)] {
        let found = dropped(20_000, queued, &simple);
        println!("{queued}: {found:.4}");
        assert!((found - wanted).abs() < 0.02, "{queued}: {found}");
    }
    assert!(dropped(20_000, 60, &simple) > 0.99);
}

/// With few flows the probability falls with the square of their number: 0.15 (n / 256)^2.
#[test]
fn few_flows_lose_less() {
    let few = dropped(4, 30, &[("full", 0)]);
    assert!(few < 0.005, "{few}");
    assert!(dropped(20_000, 30, &[("full", 0)]) > 0.1);
}

/// Full SRED drops more packets of a flow with many hits.
#[test]
fn who_is_hit_loses_more() {
    let lost = |full: u64| {
        let mut sred: Queue<()> = queue(
            "sred",
            &link(8_000_000),
            &[("limit_bytes", 60 * 1500), ("full", full)],
        );
        let mut chance = Chance(5);
        let (mut of_one, mut of_rest) = (0, 0);
        for number in 0..400_000_u32 {
            // A tenth of the packets belong to one flow, the rest to many others.
            let one = number % 10 == 0;
            let flow = if one { 1 } else { 2 + number % 401 };
            let queued = sred.packets();
            let arrival = sred.arrive(&of(flow, S), chance.word(), ());
            if arrival.refused.is_some() && queued >= 30 {
                *if one { &mut of_one } else { &mut of_rest } += 1;
            }
            while sred.packets() > 30 {
                sred.depart(S);
            }
        }
        f64::from(of_one) / f64::from(of_rest) * 9.0
    };
    let (simple, full) = (lost(0), lost(1));
    println!("a packet of it is dropped {simple:.2} and {full:.2} times as often");
    assert!((simple - 1.0).abs() < 0.15, "{simple}");
    assert!(full > 1.8, "{full}");
}
