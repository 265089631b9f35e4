// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which trees the engine accepts, how a tree changes under traffic, and who loses packets in a
//! flood.

use crate::support::{S, link};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_aqm::{Engine, EngineError, EngineSize, NodeRule, Packet};

/// A size for small trees.
const SIZE: EngineSize = EngineSize {
    nodes: 20,
    inner: 10,
    queues: 8,
    slots: 400,
    limit_bytes: 300_000,
    hosts: 0,
};

/// Returns the rule of a node that shares by this quantum.
fn share(quantum: u32) -> NodeRule {
    NodeRule {
        quantum,
        ..NodeRule::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The tree changes while packets are queued. Each packet is sent once or dropped once, and the
    /// rows are consistent. No node is above its ceiling, and no packet waits that could be sent.
    #[test]
    fn trees_change_under_traffic(calls in prop::collection::vec(any::<[u8; 6]>(), 1..700)) {
        crate::growth::grow(&calls.concat());
    }
}

/// A leaf that floods does not take the room of other leaves, and a flow that floods not that of
/// another flow in the same leaf.
#[test]
fn who_floods_pays_for_it() {
    let link = link(8_000_000);
    let mut engine = Engine::new(&link, SIZE);
    let leaves: Vec<u32> = (0..3)
        .map(|_| {
            engine
                .add(engine.root(), false, &share(1514))
                .expect("room")
        })
        .collect();
    let packet = |flow| Packet {
        arrived_ns: S,
        len: 1000,
        wire: 1000,
        flow,
        ecn: 0,
    };
    let mut lost = BTreeMap::new();
    for _ in 0..2000 {
        let arrival = engine.arrive(leaves[0], &packet(1), 1, (0, 1));
        for (_, flow) in arrival.evicted.into_iter().chain(arrival.refused) {
            *lost.entry(flow).or_insert(0) += 1;
        }
    }
    // The flood occupies half of the room; the other half is free.
    let flood = engine.counts(leaves[0]).expect("a leaf");
    assert_eq!((flood.packets, flood.bytes), (150, 150_000));
    for _ in 0..20 {
        for (leaf, flow) in [(leaves[0], 2), (leaves[1], 3), (leaves[2], 4)] {
            let arrival = engine.arrive(leaf, &packet(flow), 1, (0, flow));
            assert!(arrival.refused.is_none(), "{flow}");
            for (_, flow) in arrival.evicted {
                *lost.entry(flow).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(
        lost.keys().collect::<Vec<_>>(),
        [&1],
        "only the flood loses packets"
    );
    assert_eq!(engine.counts(leaves[1]).expect("a leaf").packets, 20);
    engine.audit().expect("rows that agree");
}

/// A site and the site below it change places while packets wait in both. All packets are sent, and
/// the ceiling that is above now holds for both.
#[test]
fn sites_change_places_under_traffic() {
    for held in [false, true] {
        let mut engine = Engine::new(&link(10_000_000), SIZE);
        let site = |ceiling_bytes_s| NodeRule {
            ceiling_bytes_s,
            ..share(1_514)
        };
        let slow = site(if held { 125_000 } else { 0 });
        let upper = engine.add(engine.root(), true, &site(0)).expect("room");
        let lower = engine.add(upper, true, &slow).expect("room");
        let leaves = [upper, lower].map(|at| engine.add(at, false, &share(1_514)).expect("room"));
        let packet = |arrived_ns| Packet {
            arrived_ns,
            len: 1_000,
            wire: 1_000,
            flow: 1,
            ecn: 0,
        };
        let mut now = S;
        for item in 0..100 {
            for leaf in leaves {
                let arrival = engine.arrive(leaf, &packet(now), 1, item);
                assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
            }
        }
        // Some packets leave; if the lower site has a ceiling, it is held.
        let mut gone = 0;
        for _ in 0..4 {
            let departure = engine.depart(now);
            gone += departure.dropped.len() + usize::from(departure.sent.is_some());
            now += 800_000;
        }
        engine
            .rearrange(&[(lower, engine.root()), (upper, lower)])
            .expect("a tree");
        let began = now;
        let mut sent = 0;
        while engine.packets() > 0 {
            let departure = engine.depart(now);
            engine.audit().expect("rows that agree");
            gone += departure.dropped.len();
            sent += u64::from(departure.sent.is_some());
            if departure.sent.is_none() && engine.packets() > 0 {
                engine.audit_idle(now).expect("nobody could send");
                now = departure.opens_ns.expect("a time");
            }
        }
        assert_eq!(gone as u64 + sent, 200, "held: {held}");
        // A packet takes 8 ms at the ceiling, and 0.8 ms at the link's rate. Two packets may be
        // ahead.
        let each = if held { 8_000_000 } else { 800_000 };
        let took = now - began;
        assert!(
            took >= (sent - 2) * each && took <= (sent + 2) * each,
            "held: {held}: {sent} packets in {took} ns"
        );
    }
}

/// The engine refuses invalid trees.
#[test]
fn trees_have_their_bounds() {
    let mut engine: Engine<()> = Engine::new(&link(1_000_000), SIZE);
    let mut at = engine.root();
    let second = engine.add(at, true, &share(1514)).expect("room");
    let leaf = engine.add(at, false, &share(1514)).expect("room");
    assert_eq!(
        engine.add(leaf, false, &share(1)),
        Err(EngineError::NoParent)
    );
    assert_eq!(engine.add(0, false, &share(1)), Err(EngineError::NoParent));
    assert_eq!(
        engine.add(9999, false, &share(1)),
        Err(EngineError::NoParent)
    );
    assert_eq!(engine.reparent(1, second), Err(EngineError::Root));
    for _ in 0..6 {
        at = engine.add(at, true, &share(1514)).expect("room");
    }
    let eighth = engine.add(at, true, &share(1514)).expect("eight levels");
    assert_eq!(
        engine.add(eighth, false, &share(1)),
        Err(EngineError::TooDeep)
    );
    assert_eq!(engine.reparent(second, eighth), Err(EngineError::TooDeep));
    let below = engine.add(second, true, &share(1514)).expect("room");
    assert_eq!(
        engine.rearrange(&[(second, below)]),
        Err(EngineError::TooDeep)
    );
    let places = [(second, below), (below, engine.root())];
    assert_eq!(engine.rearrange(&places), Ok(()));
    let places = [(below, second), (second, engine.root())];
    assert_eq!(engine.rearrange(&places), Ok(()));
    assert_eq!(
        engine.reparent(second, below),
        Err(EngineError::BelowItself)
    );
    assert_eq!(engine.remove(second), Err(EngineError::HasChildren));
    engine.remove(below).expect("a node without children");
    engine.remove(second).expect("its children are gone");
    assert_eq!(engine.remove(second), Err(EngineError::NoNode));
}
