// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ceilings (caps) that nodes of the engine share across the tree: the limit of a host that has a
//! leaf in each of several classes.

use crate::support::{Chance, S, link};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_aqm::{Engine, EngineSize, NodeRule, Packet};

const SIZE: EngineSize = EngineSize {
    nodes: 200,
    inner: 20,
    queues: 150,
    slots: 1_000,
    limit_bytes: 2_000_000,
    hosts: 0,
};

/// The time by which a ceiling may catch up (`ENGINE_LATE_NS`).
const LATE: u64 = 65_536;

/// Bytes a second of the link.
const LINK: u64 = 2_500_000;

/// Bytes of every packet.
const LEN: u32 = 1_000;

/// A class of a link, and its rule as fractions of the link's rate.
#[derive(Debug, Clone, Copy)]
struct Class {
    priority: u16,
    /// In hundredths of the link's rate.
    guarantee: u64,
}

/// Packets sent: the time and the leaf of each.
type Sent = Vec<(u64, u32)>;

fn rule(priority: u16, guarantee: u64) -> NodeRule {
    NodeRule {
        priority,
        guarantee_bytes_s: LINK * guarantee / 100,
        quantum: 2 * LEN,
        target_ns: u32::MAX,
        ..NodeRule::default()
    }
}

/// Returns a link with classes, in each of which every host has a leaf: `leaves[class][host]`.
fn classes(classes: &[Class], caps: &[u64]) -> (Engine<u32>, Vec<Vec<u32>>) {
    let mut engine = Engine::new(&link(LINK * 8), SIZE);
    let caps: Vec<u32> = caps
        .iter()
        .map(|ceiling| engine.cap(*ceiling).expect("room"))
        .collect();
    let leaves = classes.iter().map(|class| {
        let own = rule(class.priority, class.guarantee);
        let above = engine.add(engine.root(), true, &own).expect("room");
        let leaf = |cap: &u32| {
            let own = NodeRule {
                cap: *cap,
                ..rule(0, 0)
            };
            engine.add(above, false, &own).expect("room")
        };
        caps.iter().map(leaf).collect()
    });
    let leaves = leaves.collect();
    (engine, leaves)
}

/// Keeps these leaves backlogged for `span`, with a host that is woken late.
fn saturated(engine: &mut Engine<u32>, leaves: &[u32], span: u64, chance: &mut Chance) -> Sent {
    let (mut now, mut sent) = (S, Vec::new());
    let mut queued: BTreeMap<u32, u32> = leaves.iter().map(|leaf| (*leaf, 0)).collect();
    while now < S + span {
        for (leaf, count) in &mut queued {
            while *count < 3 {
                let packet = Packet {
                    arrived_ns: now,
                    len: LEN,
                    wire: LEN,
                    flow: *leaf,
                    ecn: 0,
                };
                let arrival = engine.arrive(*leaf, &packet, 1, *leaf);
                assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
                *count += 1;
            }
        }
        let departure = engine.depart(now);
        let gone = departure.dropped.iter().map(|(leaf, _)| *leaf);
        for leaf in gone.chain(departure.sent.as_ref().map(|sent| sent.0)) {
            *queued.get_mut(&leaf).expect("it came") -= 1;
        }
        if let Some((leaf, ..)) = departure.sent {
            sent.push((now, leaf));
        } else {
            engine.audit_idle(now).expect("nobody could send");
            let opens = departure.opens_ns.expect("something is queued");
            assert!(opens > now, "asked again at {now} for {opens}");
            now = opens + chance.below(20_000);
        }
    }
    engine.audit().expect("rows that agree");
    sent
}

fn count(sent: &Sent, leaves: &[u32]) -> f64 {
    let own = sent.iter().filter(|(_, leaf)| leaves.contains(leaf));
    own.count() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each host has its limit, to 1 %, over all of its classes, whatever these are
    /// guaranteed; and never more than that, a packet made up for and the last one.
    #[test]
    fn a_cap_holds_over_all_classes(
        shape in prop::collection::vec((0_u16..4, 0_u64..20), 1..5),
        caps in prop::collection::vec(40_000_u64..400_000, 1..6),
        seed in any::<u64>(),
    ) {
        let shape: Vec<Class> = shape
            .into_iter()
            .map(|(priority, guarantee)| Class { priority, guarantee })
            .collect();
        let (mut engine, leaves) = classes(&shape, &caps);
        let all = leaves.concat();
        let span = 30 * S;
        let sent = saturated(&mut engine, &all, span, &mut Chance(seed));
        for (host, cap) in caps.iter().enumerate() {
            let own: Vec<u32> = leaves.iter().map(|class| class[host]).collect();
            let due = *cap as f64 * span as f64 / S as f64;
            let had = count(&sent, &own) * f64::from(LEN);
            prop_assert!((had - due).abs() <= 0.01 * due + f64::from(LEN), "{had} of {due}");
            let allowed = *cap as f64 * LATE as f64 / 1e9;
            let allowed = allowed.max(f64::from(engine_full())) + 1.0;
            let (mut had, mut least) = (0.0_f64, f64::MAX);
            for (at, _) in sent.iter().filter(|(_, leaf)| own.contains(leaf)) {
                let ahead = had - *cap as f64 * (at - S) as f64 / 1e9;
                least = least.min(ahead);
                prop_assert!(ahead - least <= allowed, "{} bytes over", ahead - least);
                had += f64::from(LEN);
            }
        }
    }

    /// Classes of one rank share a host's limit by their quanta, however many there are, and
    /// whether their guarantees exceed the limit or are 0.
    #[test]
    fn equal_classes_share_a_cap(
        count_of in 2_usize..6,
        guarantee in prop_oneof![Just(0_u64), Just(15)],
        cap in 40_000_u64..400_000,
        seed in any::<u64>(),
    ) {
        let equal = vec![Class { priority: 2, guarantee }; count_of];
        let (mut engine, leaves) = classes(&equal, &[cap]);
        let all = leaves.concat();
        let sent = saturated(&mut engine, &all, 20 * S, &mut Chance(seed));
        let due = count(&sent, &all) / count_of as f64;
        for leaf in &all {
            let had = count(&sent, &[*leaf]);
            prop_assert!((had - due).abs() <= 0.02 * due + 3.0, "{had} of {due}");
        }
    }
}

/// Returns the bytes of a full packet of the link.
fn engine_full() -> u32 {
    link(LINK * 8).wire_bytes(1_500)
}

/// The urgent class of a host gets all of the host's limit while it has packets, and the other
/// class gets the rest.
#[test]
fn the_urgent_class_goes_first_within_a_cap() {
    let shape = [(0, 0), (5, 0)].map(|(priority, guarantee)| Class {
        priority,
        guarantee,
    });
    let (mut engine, leaves) = classes(&shape, &[100_000]);
    let sent = saturated(&mut engine, &leaves.concat(), 5 * S, &mut Chance(7));
    let (first, second) = (count(&sent, &leaves[0]), count(&sent, &leaves[1]));
    assert!(second <= 0.01 * first, "{first} and {second}");
    let (mut engine, leaves) = classes(&shape, &[100_000]);
    let sent = saturated(&mut engine, &leaves[1], 5 * S, &mut Chance(7));
    assert!((sent.len() as f64 - 500.0).abs() <= 5.0, "{}", sent.len());
}

/// Hosts without a limit get what limited hosts leave, in the same classes.
#[test]
fn a_cap_leaves_the_rest_to_others() {
    let shape = [(2, 0), (2, 0)].map(|(priority, guarantee)| Class {
        priority,
        guarantee,
    });
    let (mut engine, leaves) = classes(&shape, &[100_000, 0]);
    let all = leaves.concat();
    let sent = saturated(&mut engine, &all, 10 * S, &mut Chance(3));
    let limited = count(&sent, &[leaves[0][0], leaves[1][0]]);
    let free = count(&sent, &[leaves[0][1], leaves[1][1]]);
    assert!((limited - 1_000.0).abs() <= 10.0, "{limited}");
    assert!((free - 24_000.0).abs() <= 240.0, "{free}");
}

/// A cap is not a node: it has no packets and no place in the tree. Its ceiling changes by
/// configuration.
#[test]
fn a_cap_is_in_no_tree() {
    let (mut engine, leaves) = classes(
        &[Class {
            priority: 0,
            guarantee: 0,
        }],
        &[100_000],
    );
    let cap = engine.cap(50_000).expect("room");
    let packet = crate::support::packet(S, LEN);
    assert_eq!(engine.arrive(cap, &packet, 1, 7).refused, Some(7));
    assert!(engine.add(cap, false, &rule(0, 0)).is_err());
    assert!(engine.reparent(cap, engine.root()).is_err());
    let own = NodeRule { cap, ..rule(0, 0) };
    engine.change(leaves[0][0], &own).expect("a leaf");
    let sent = saturated(&mut engine, &leaves[0], 4 * S, &mut Chance(1));
    assert!((sent.len() as f64 - 200.0).abs() <= 3.0, "{}", sent.len());
    let faster = NodeRule {
        ceiling_bytes_s: 150_000,
        ..NodeRule::default()
    };
    engine.change(cap, &faster).expect("a cap");
    assert_eq!(engine.arrive(cap, &packet, 1, 7).refused, Some(7));
    engine.change(leaves[0][0], &rule(0, 0)).expect("a leaf");
    engine.remove(cap).expect("a cap");
    assert!(engine.counts(cap).is_none());
    engine.audit().expect("rows that agree");
}

/// An urgent packet of a limited host waits for packets that its other classes sent before it. It
/// waits for at most two full packets at the limit, and for one of another host on the link. Until
/// then its class keeps its deficit, or the others would go first again.
#[test]
fn an_urgent_packet_waits_for_two_of_its_host() {
    const SLOW: u64 = 249_500;
    const LIMIT: u64 = 75_000;
    const FULL: u32 = 1_696;
    const MS: u64 = 1_000_000;
    let mut engine = Engine::new(&link(SLOW * 8), SIZE);
    let cap = engine.cap(LIMIT).expect("room");
    let mut node = |parent, priority, hundredths, cap| {
        let own = NodeRule {
            cap,
            guarantee_bytes_s: SLOW * hundredths / 100,
            ..rule(priority, 0)
        };
        let parent = if parent == 0 { engine.root() } else { parent };
        let added = engine.add(parent, hundredths > 0, &own);
        added.expect("room")
    };
    let [urgent, first, second] = [(0, 20), (3, 40), (3, 40)].map(|(p, g)| node(0, p, g, 0));
    let voice = node(urgent, 0, 0, cap);
    let bulk = [(first, cap), (first, 0), (second, cap)].map(|(class, cap)| node(class, 0, 0, cap));
    let (mut now, mut next, mut longest) = (S, S, 0);
    let mut queued = BTreeMap::from(bulk.map(|leaf| (leaf, 0)));
    let mut waiting = std::collections::VecDeque::new();
    let packet = |arrived_ns, len, flow| Packet {
        arrived_ns,
        len,
        wire: len,
        flow,
        ecn: 0,
    };
    while now < 11 * S {
        while next <= now {
            engine.arrive(voice, &packet(next, 371, voice), 1, voice);
            waiting.push_back(next);
            next += 20 * MS;
        }
        for (leaf, count) in &mut queued {
            while *count < 8 {
                engine.arrive(*leaf, &packet(now, FULL, *leaf), 1, *leaf);
                *count += 1;
            }
        }
        let departure = engine.depart(now);
        assert!(departure.dropped.is_empty(), "nothing is dropped");
        match departure.sent {
            Some((leaf, ..)) if leaf == voice => {
                longest = longest.max(now - waiting.pop_front().expect("it came"));
            }
            Some((leaf, ..)) => *queued.get_mut(&leaf).expect("it came") -= 1,
            None => now = departure.opens_ns.unwrap_or(next).min(next).max(now + 1),
        }
    }
    let full = u64::from(FULL) * 1_000_000_000;
    assert!(longest <= 2 * full / LIMIT + full / SLOW, "{longest}");
}

/// Classes of one rank share a host's limit even where another host fills one of them and the
/// guarantee of the other is not used up.
#[test]
fn classes_share_a_cap_beside_a_host_that_fills_one() {
    let shape = [(2, 40), (2, 40)].map(|(priority, guarantee)| Class {
        priority,
        guarantee,
    });
    let (mut engine, leaves) = classes(&shape, &[100_000, 0]);
    let backlogged = [leaves[0][0], leaves[1][0], leaves[1][1]];
    let sent = saturated(&mut engine, &backlogged, 20 * S, &mut Chance(11));
    let [alone, beside] = [leaves[0][0], leaves[1][0]].map(|leaf| count(&sent, &[leaf]));
    assert!(
        (alone + beside - 2_000.0).abs() <= 20.0,
        "{alone} and {beside}"
    );
    assert!(beside >= 900.0, "{alone} and {beside}");
}

/// Three packets of one flow arrive at a leaf.
fn three_arrive(engine: &mut Engine<u32>, leaf: u32) {
    for item in 0..3 {
        let packet = Packet {
            arrived_ns: S,
            len: LEN,
            wire: LEN,
            flow: 1,
            ecn: 0,
        };
        assert!(engine.arrive(leaf, &packet, 1, item).refused.is_none());
    }
}

/// A leaf that waits only for its cap sends at once when it loses the cap. Its own ceiling has just
/// opened, and is so slow that it wakes only every few ticks.
#[test]
fn a_leaf_that_loses_its_cap_sends_at_once() {
    let mut engine = Engine::new(&link(1_000 * LINK), SIZE);
    let cap = engine.cap(20_000).expect("room");
    let own = NodeRule {
        ceiling_bytes_s: LINK / 2,
        ..rule(0, 0)
    };
    let root = engine.root();
    let leaf = engine
        .add(root, false, &NodeRule { cap, ..own })
        .expect("room");
    three_arrive(&mut engine, leaf);
    for _ in 0..2 {
        assert!(engine.depart(S).sent.is_some());
    }
    // The ceiling opens after 0.39 ms, and the cap after 24 ms.
    let now = S + 400_000;
    assert!(engine.depart(now).sent.is_none());
    engine.change(leaf, &own).expect("a node");
    assert!(engine.depart(now).sent.is_some());
    engine.audit().expect("rows that agree");
}

/// A leaf that waits only for its cap sends at once when the cap's ceiling is raised.
#[test]
fn a_raised_cap_wakes_the_leaves_that_wait_for_it() {
    let mut engine = Engine::new(&link(1_000 * LINK), SIZE);
    let cap = engine.cap(8_000).expect("room");
    let root = engine.root();
    let leaf = engine
        .add(root, false, &NodeRule { cap, ..rule(0, 0) })
        .expect("room");
    three_arrive(&mut engine, leaf);
    while engine.depart(S).sent.is_some() {}
    // The cap opens after 190 ms.
    let now = S + 2_000_000;
    assert!(engine.depart(now).sent.is_none());
    let raised = NodeRule {
        ceiling_bytes_s: LINK,
        ..NodeRule::default()
    };
    engine.change(cap, &raised).expect("a cap");
    // A full packet at the new ceiling, and some ticks.
    assert!(engine.depart(now + 1_000_000).sent.is_some());
    engine.audit().expect("rows that agree");
}
