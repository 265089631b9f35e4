// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ceilings that are rarely reached, and slow ceilings.

use crate::promises::{LATE, Load, SIZE, Sent, bytes, saturated, share};
use crate::support::{Chance, S, link};
use weirgate_aqm::{Engine, NodeRule, Packet, SLOW_TICKS, TICK_NS};

/// A node that sends in bursts of any size, after pauses of any length, never gets more in any
/// period than its ceiling, its burst and a full packet.
#[test]
fn bursts_after_pauses_keep_to_the_ceiling() {
    let link = link(1_000_000_000);
    let full = u64::from(link.wire_bytes(1_514));
    for (ceiling, burst) in [(125_000, 0), (1_250_000, 20_000), (12_500_000, 0)] {
        let mut engine = Engine::new(&link, SIZE);
        let rule = NodeRule {
            ceiling_bytes_s: ceiling,
            ceiling_burst_bytes: burst,
            ..share(1_514)
        };
        let leaf = engine.add(engine.root(), false, &rule).expect("room");
        let slack = LATE.max((full + u64::from(burst)) * S / ceiling);
        let allowed = ceiling as f64 * slack as f64 / 1e9 + 1.0;
        let (mut chance, mut now) = (Chance(1), S);
        let (mut had, mut least, mut waits) = (0.0_f64, f64::MAX, 0);
        for _ in 0..2_000 {
            // Some packets are as far apart as one takes at the ceiling, or a little more or less.
            let packet = 1_514 * S / ceiling;
            now += packet / 2 + chance.below(packet);
            if chance.below(8) == 0 {
                now += chance.below(2 * slack);
            }
            let count = if chance.below(4) == 0 {
                1 + chance.below(20)
            } else {
                1
            };
            for _ in 0..count {
                let len = 40 + chance.below(1_475) as u32;
                let packet = Packet {
                    arrived_ns: now,
                    len,
                    wire: link.wire_bytes(len),
                    flow: 1,
                    ecn: 0,
                };
                engine.arrive(leaf, &packet, 1, (1, 1));
            }
            loop {
                let departure = engine.depart(now);
                if let Some((_, _, packet, _)) = departure.sent {
                    let due = ceiling as f64 * (now - S) as f64 / 1e9;
                    least = least.min(had - due);
                    let over = had - due - least;
                    assert!(
                        over <= allowed,
                        "{over} bytes over {ceiling}, {allowed} allowed"
                    );
                    had += f64::from(packet.wire);
                } else if let Some(opens) = departure.opens_ns {
                    waits += 1;
                    now = opens;
                } else {
                    break;
                }
            }
        }
        assert!(waits > 500, "the ceiling held {waits} times");
        engine.audit().expect("rows that agree");
    }
}

/// Nodes with ceilings that are slow for a packet become eligible at common times, and still get
/// what their ceilings allow.
#[test]
fn slow_ceilings_open_together() {
    let link = link(100_000_000);
    let mut engine = Engine::new(&link, SIZE);
    let ceiling_bytes_s = 30_000;
    let mut loads = Vec::new();
    for number in 0..100 {
        let rule = NodeRule {
            ceiling_bytes_s: ceiling_bytes_s + number,
            ..share(1_514)
        };
        let leaf = engine.add(engine.root(), false, &rule).expect("room");
        loads.push(Load::of(leaf, 200..201));
    }
    let sent = saturated(&mut engine, &link, &loads, 2 * S, 0, &mut Chance(1));
    let packet = bytes(&sent[..1], |_| true);
    for (load, number) in loads.iter().zip(0..) {
        let had = bytes(&sent, |it| it.leaf == load.leaf && it.at_ns >= 2 * S);
        let due = (ceiling_bytes_s + number) as f64;
        // A packet at either end, and what a ceiling allows in 131 us.
        let off = packet + due * (SLOW_TICKS * TICK_NS) as f64 / 1e9;
        assert!((had - due).abs() <= off, "{had} bytes of {due}");
    }
    // Some 15,000 packets a second, and one wake-up every 131 us.
    let wakes: std::collections::BTreeSet<u64> = sent
        .iter()
        .filter(|it| it.at_ns >= 2 * S)
        .map(|it| it.at_ns / (SLOW_TICKS * TICK_NS))
        .collect();
    let late = |it: &&Sent| it.at_ns >= 2 * S && it.at_ns % (SLOW_TICKS * TICK_NS) > TICK_NS;
    let apart = sent.iter().filter(late).count();
    assert!(wakes.len() > 1_000, "{} times", wakes.len());
    assert!(
        apart < sent.len() / 50,
        "{apart} of {} went alone",
        sent.len()
    );
}
