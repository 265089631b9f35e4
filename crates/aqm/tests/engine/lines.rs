// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Engines that share a line: the rate holds over all of them and is used fully, and equals below
//! their roots share it. Each engine is a separate host, woken late.

use crate::support::{Chance, S};
use proptest::prelude::*;
use std::sync::Arc;
use weirgate_aqm::{Engine, EngineLine, EngineSize, Link, NodeRule, Packet, ROUND_NS};

/// The time by which the line may catch up (`ENGINE_LATE_NS`).
const LATE: u64 = 65_536;

/// Bytes of the largest frame of these tests.
const FRAME: u32 = 1_514;

/// A size for a small tree.
const SIZE: EngineSize = EngineSize {
    nodes: 40,
    inner: 4,
    queues: 40,
    slots: 400,
    limit_bytes: 600_000,
    hosts: 0,
};

/// A leaf below a root.
#[derive(Debug, Clone, Copy)]
struct Child {
    rule: NodeRule,
    /// Bytes of each of its packets.
    length: u32,
    /// Out of 100 chances to queue another packet, the number that are used.
    busy: u64,
}

impl Child {
    /// Returns a child that is always backlogged.
    fn greedy(quantum: u32, length: u32) -> Self {
        Self {
            rule: NodeRule {
                quantum,
                target_ns: u32::MAX,
                ..NodeRule::default()
            },
            length,
            busy: 100,
        }
    }
}

/// A packet sent: when, by which engine, of which child, and its length.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at_ns: u64,
    engine: usize,
    child: usize,
    wire: u32,
}

/// A queue of a device: an engine, its leaves, the number of packets of each, and when its host
/// asks again.
struct Member {
    engine: Engine<usize>,
    leaves: Vec<u32>,
    queued: Vec<u32>,
    asks_ns: u64,
}

/// Runs engines with these children on a shared line for `span`. A host is woken up to `late` after
/// the time that it asked for, and sometimes before it.
fn shared(link: &Link, all: &[Vec<Child>], span: u64, late: u64, chance: &mut Chance) -> Vec<Sent> {
    let common = EngineLine::new(all.len() as u32);
    let member = |(number, children): (usize, &Vec<Child>)| {
        let mut engine = Engine::sharing(link, SIZE, &Arc::clone(&common), number as u32);
        let root = engine.root();
        let leaves = children
            .iter()
            .map(|child| engine.add(root, false, &child.rule));
        let leaves = leaves.collect::<Result<Vec<u32>, _>>().expect("room");
        Member {
            queued: vec![0; leaves.len()],
            engine,
            leaves,
            asks_ns: S,
        }
    };
    let mut members: Vec<Member> = all.iter().enumerate().map(member).collect();
    let mut sent = Vec::new();
    loop {
        let next = members
            .iter()
            .enumerate()
            .min_by_key(|(_, one)| one.asks_ns);
        let (number, now) = next.map(|(at, one)| (at, one.asks_ns)).expect("members");
        if now >= S + span {
            break;
        }
        let own = &mut members[number];
        for (child, load) in all[number].iter().enumerate() {
            while own.queued[child] < 3 && (load.busy == 100 || chance.below(100) < load.busy) {
                let packet = Packet {
                    arrived_ns: now,
                    len: load.length,
                    wire: link.wire_bytes(load.length),
                    flow: 1,
                    ecn: 0,
                };
                let arrival = own.engine.arrive(own.leaves[child], &packet, 1, child);
                assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
                own.queued[child] += 1;
            }
        }
        let departure = own.engine.depart(now);
        assert!(departure.dropped.is_empty());
        if let Some((_, _, packet, child)) = departure.sent {
            own.queued[child] -= 1;
            sent.push(Sent {
                at_ns: now,
                engine: number,
                child,
                wire: packet.wire,
            });
            continue;
        }
        own.engine.audit().expect("rows that agree");
        // The arrival of a packet makes the host ask, too.
        let most = now + 200_000;
        let opens = departure.opens_ns.unwrap_or(most);
        own.asks_ns = match chance.below(4) {
            0 => now + 1 + chance.below(opens.min(most).saturating_sub(now).max(1)),
            _ => opens.max(now + 1) + chance.below(late + 1),
        };
    }
    sent
}

/// Returns the bytes of the packets that match.
fn bytes(sent: &[Sent], wanted: impl Fn(&Sent) -> bool) -> f64 {
    let own = sent.iter().filter(|it| wanted(it));
    own.map(|it| u64::from(it.wire)).sum::<u64>() as f64
}

/// Draws a line from 10 Mbit/s to 40 Gbit/s.
fn any_link() -> impl Strategy<Value = Link> {
    (20.3_f64..32.2).prop_map(|rate| Link {
        rate_bytes_s: rate.exp2() as u64,
        mtu_bytes: FRAME,
        ..Link::default()
    })
}

/// Returns the time of `frames` frames, or of 400 rounds if that is longer.
fn span(link: &Link, frames: u64) -> u64 {
    (frames * u64::from(FRAME) * S / link.rate_bytes_s).max(400 * ROUND_NS)
}

/// Checks that the line's rate holds over any period, by the bytes whose transmission began in it.
fn holds(link: &Link, members: usize, sent: &[Sent]) -> Result<(), String> {
    let rate = link.rate_bytes_s as f64;
    let frames = members as f64 * f64::from(link.wire_bytes(FRAME));
    let allowed = rate * (LATE + 2 * ROUND_NS) as f64 / 1e9 + frames;
    let (mut had, mut least) = (0.0_f64, f64::MAX);
    for one in sent {
        let due = rate * (one.at_ns - S) as f64 / 1e9;
        least = least.min(had - due);
        had += f64::from(one.wire);
        let over = had - due - least;
        if over > allowed {
            return Err(format!(
                "{over} bytes over at {}, {allowed} allowed",
                one.at_ns
            ));
        }
    }
    Ok(())
}

/// Checks that the line was fully used in that time, to 0.2 % and the catch-up.
fn is_used(link: &Link, members: usize, sent: &[Sent], span: u64) -> Result<(), String> {
    let rate = link.rate_bytes_s as f64;
    let due = rate * span as f64 / 1e9;
    let had = bytes(sent, |_| true);
    let frames = 2.0 * members as f64 * f64::from(FRAME);
    let slack = rate * (LATE + 2 * ROUND_NS) as f64 / 1e9 + frames;
    if (had - due).abs() <= 0.002 * due + slack {
        return Ok(());
    }
    Err(format!("{had} bytes of {due}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// All engines together get the rate, to 0.2 % and the catch-up of the line.
    #[test]
    fn a_rate_holds_over_all_engines(
        link in any_link(),
        all in prop::collection::vec(prop::collection::vec((1_u32..8, 64_u32..1515), 1..5), 1..17),
        late in prop_oneof![Just(0_u64), 0_u64..33_000],
        seed in any::<u64>(),
    ) {
        let greedy = |(weight, length): &(u32, u32)| Child::greedy(weight * 512, *length);
        let all: Vec<Vec<Child>> = all.iter().map(|own| own.iter().map(greedy).collect()).collect();
        let span = span(&link, 40 * all.len() as u64);
        let sent = shared(&link, &all, span, late, &mut Chance(seed));
        prop_assert_eq!(holds(&link, all.len(), &sent), Ok(()));
        prop_assert_eq!(is_used(&link, all.len(), &sent, span), Ok(()));
    }

    /// Equals below the roots share the line by their quanta, whichever engine they belong to. A
    /// small engine among large ones gets up to 5 % more: it takes its next lease while they still
    /// use theirs.
    #[test]
    fn equals_of_all_engines_share(
        link in any_link(),
        all in prop::collection::vec(prop::collection::vec((1_u32..8, 700_u32..1515), 1..6), 2..9),
        seed in any::<u64>(),
    ) {
        let greedy = |(weight, length): &(u32, u32)| Child::greedy(weight * 1024, *length);
        let children: Vec<Vec<Child>> = all.iter().map(|own| own.iter().map(greedy).collect()).collect();
        let weights: u32 = all.iter().flatten().map(|(weight, _)| weight).sum();
        let span = span(&link, 100 * u64::from(weights));
        let sent = shared(&link, &children, span, 20_000, &mut Chance(seed));
        let whole = bytes(&sent, |_| true);
        let round = link.rate_bytes_s as f64 * ROUND_NS as f64 / 1e9;
        for (engine, own) in all.iter().enumerate() {
            for (child, (weight, _)) in own.iter().enumerate() {
                let had = bytes(&sent, |it| it.engine == engine && it.child == child);
                let due = whole * f64::from(*weight) / f64::from(weights);
                let turn = 2.0 * round + f64::from(weight * 1024 + FRAME);
                prop_assert!((had - due).abs() <= 0.06 * due + turn, "{} of {} for {:?}", had, due, all);
            }
        }
    }

    /// A guaranteed node gets its guarantee under floods below the other roots.
    #[test]
    fn guarantees_hold_over_all_engines(
        link in any_link(),
        parts in prop::collection::vec((1_u64..6, 200_u32..1515), 1..9),
        floods in prop::collection::vec(1_usize..6, 1..9),
        seed in any::<u64>(),
    ) {
        let owed = |(part, length): &(u64, u32)| {
            let own = Child::greedy(256, *length);
            let guarantee_bytes_s = link.rate_bytes_s * part / 60;
            vec![Child { rule: NodeRule { guarantee_bytes_s, ..own.rule }, ..own }]
        };
        let mut all: Vec<Vec<Child>> = parts.iter().map(owed).collect();
        all.extend(floods.iter().map(|count| vec![Child::greedy(1 << 16, FRAME); *count]));
        let round = link.rate_bytes_s as f64 * ROUND_NS as f64 / 1e9;
        let span = span(&link, 4000);
        let sent = shared(&link, &all, span, 20_000, &mut Chance(seed));
        for (engine, (part, _)) in parts.iter().enumerate() {
            let due = (link.rate_bytes_s * part / 60) as f64 * span as f64 / 1e9;
            let had = bytes(&sent, |it| it.engine == engine);
            prop_assert!(had >= 0.99 * due - 2.0 * round, "engine {} had {} of {}", engine, had, due);
        }
    }

    /// An engine that is always backlogged gets what intermittent engines leave.
    #[test]
    fn what_others_leave_is_used(
        link in any_link(),
        others in prop::collection::vec((64_u32..1515, 1_u64..90), 1..9),
        ceilings in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let other = |(length, busy): &(u32, u64)| {
            let own = Child::greedy(1514, *length);
            let ceiling_bytes_s = if ceilings { link.rate_bytes_s * busy / 1000 } else { 0 };
            vec![Child { rule: NodeRule { ceiling_bytes_s, ..own.rule }, busy: *busy, ..own }]
        };
        let mut all: Vec<Vec<Child>> = others.iter().map(other).collect();
        all.push(vec![Child::greedy(1514, FRAME)]);
        let span = span(&link, 1000);
        let sent = shared(&link, &all, span, 20_000, &mut Chance(seed));
        prop_assert_eq!(holds(&link, all.len(), &sent), Ok(()));
        prop_assert_eq!(is_used(&link, all.len(), &sent, span), Ok(()));
    }
}

/// An engine with a tiny share runs beside one that has nearly all. The rate holds, and once the
/// large one is empty, the small one is not held back for what it sent before.
#[test]
fn a_small_engine_keeps_to_its_leases() {
    let link = Link {
        rate_bytes_s: 125_000_000,
        mtu_bytes: FRAME,
        ..Link::default()
    };
    let small = vec![Child::greedy(256, FRAME)];
    let owed = Child::greedy(1 << 16, FRAME);
    let rule = NodeRule {
        guarantee_bytes_s: link.rate_bytes_s,
        ..owed.rule
    };
    let rivals = [vec![owed; 38], vec![Child { rule, ..owed }]];
    for rival in rivals {
        for (seed, late) in [(1, 0), (2, 10_000), (3, 33_000)] {
            let all = [small.clone(), rival.clone()];
            let sent = shared(&link, &all, S, late, &mut Chance(seed));
            assert_eq!(holds(&link, 2, &sent), Ok(()));
            let had = bytes(&sent, |it| it.engine == 0);
            let due = link.rate_bytes_s as f64;
            println!("late {late}: the small one had {:.5}", had / due);
            assert!(had <= 0.02 * due, "{had} of {due}");
            assert!(bytes(&sent, |_| true) >= 0.998 * due);
        }
    }
}
