// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts of a leaf that have leaves of their own: the share of each, how long a host waits that
//! sends little, and what happens with more hosts than the engine has room for.

use crate::support::{MS, S, link};
use std::collections::{BTreeMap, VecDeque};
use weirgate_aqm::{Engine, EngineSize, Link, NodeRule, Packet};

/// A flow of a host: how many of its packets are queued at a time, and their length.
#[derive(Debug, Clone, Copy)]
struct Flow {
    host: u32,
    name: u32,
    window: u32,
    len: u32,
}

/// Returns an engine with a leaf that its hosts share, below a node of its own.
fn leaf(link: &Link, size: EngineSize) -> (Engine<Flow>, u32) {
    let mut engine = Engine::new(link, size);
    let leaf = below(&mut engine);
    (engine, leaf)
}

/// Adds another such leaf, at the level of the existing ones.
fn below(engine: &mut Engine<Flow>) -> u32 {
    let rule = NodeRule {
        quantum: 1_514,
        target_ns: u32::MAX,
        ..NodeRule::default()
    };
    let above = engine.add(engine.root(), true, &rule).expect("room");
    let hosts = NodeRule {
        hosts: true,
        ..rule
    };
    engine.add(above, false, &hosts).expect("room")
}

fn size(hosts: u32) -> EngineSize {
    EngineSize {
        nodes: 20,
        inner: 10,
        queues: 2 * hosts + 8,
        slots: 100_000,
        limit_bytes: 200_000_000,
        hosts,
    }
}

fn packet(flow: Flow, now_ns: u64) -> Packet {
    Packet {
        arrived_ns: now_ns,
        len: flow.len,
        wire: flow.len,
        flow: flow.name,
        ecn: 0,
    }
}

/// Runs for `span` with flows that each send again when one of their packets has left. Returns the
/// bytes of each host in the second half.
fn shares(engine: &mut Engine<Flow>, leaf: u32, flows: &[Flow], span: u64) -> BTreeMap<u32, f64> {
    let (mut now, end) = (S, S + span);
    let mut had = BTreeMap::new();
    let mut missing: VecDeque<Flow> = VecDeque::new();
    for flow in flows {
        missing.extend((0..flow.window).map(|_| *flow));
        had.insert(flow.host, 0.0);
    }
    while now < end {
        for flow in missing.drain(..) {
            let arrival = engine.arrive(leaf, &packet(flow, now), flow.host, flow);
            assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
        }
        let departure = engine.depart(now);
        assert!(departure.dropped.is_empty());
        if let Some((from, _, packet, flow)) = departure.sent {
            assert_eq!(from, leaf);
            if now - S > span / 2 {
                *had.entry(flow.host).or_default() += f64::from(packet.wire);
            }
            missing.push_back(flow);
        } else {
            now = departure.opens_ns.expect("something is queued");
        }
    }
    engine.audit().expect("rows that agree");
    had
}

/// Returns `hosts` hosts, with one to twelve flows of packets of different lengths.
fn many(hosts: u32) -> Vec<Flow> {
    let flows = |host: u32| {
        (0..=host * 5 % 12).map(move |flow| Flow {
            host,
            name: host * 100 + flow,
            window: 2 + host % 3,
            len: 300 + host * 97 % 1_200,
        })
    };
    (1..=hosts).flat_map(flows).collect()
}

/// Hosts have equal shares within one percent, however many flows they have.
#[test]
fn hosts_share_equally() {
    for hosts in [1, 5, 40, 1_000] {
        let link = link(1_000_000_000);
        let (mut engine, leaf) = leaf(&link, size(hosts));
        // Four hundred turns of each host, half of which count.
        let span = u64::from(hosts) * 1_514 * 400 * S / link.rate_bytes_s;
        let had = shares(&mut engine, leaf, &many(hosts), span);
        let due = had.values().sum::<f64>() / f64::from(hosts);
        for (host, had) in had {
            let off = had / due - 1.0;
            assert!(off.abs() <= 0.01, "{hosts} hosts: {host} is off by {off}");
        }
        assert_eq!(engine.hosts().0, u64::from(hosts));
    }
}

/// Flows of a host share it equally, beside a host with one flow.
#[test]
fn flows_share_their_host() {
    let link = link(100_000_000);
    let (mut engine, leaf) = leaf(&link, size(2));
    let flow = |host, name| Flow {
        host,
        name,
        window: 3,
        len: 1_000,
    };
    let mut flows: Vec<Flow> = (1..=8).map(|name| flow(1, name)).collect();
    flows.push(flow(2, 9));
    let (mut now, mut had) = (S, BTreeMap::new());
    let mut missing: VecDeque<Flow> = flows.iter().flat_map(|flow| [*flow; 3]).collect();
    while now < 3 * S {
        for flow in missing.drain(..) {
            let arrival = engine.arrive(leaf, &packet(flow, now), flow.host, flow);
            assert!(arrival.refused.is_none());
        }
        match engine.depart(now).sent {
            Some((.., flow)) => {
                *had.entry(flow.name).or_insert(0_u32) += 1;
                missing.push_back(flow);
            }
            None => now += 10_000,
        }
    }
    let all: u32 = had.values().sum();
    for (name, had) in had {
        let due = f64::from(all) / if name == 9 { 2.0 } else { 16.0 };
        assert!(
            (f64::from(had) / due - 1.0).abs() <= 0.01,
            "{name}: {had} of {due}"
        );
    }
}

/// A host that has one packet in the queue, or two a little short of a turn, gets as much as one
/// that always has many.
#[test]
fn a_host_gains_nothing_by_pausing() {
    for (window, len) in [(1, 1_514), (1, 200), (2, 1_513), (3, 760)] {
        let link = link(100_000_000);
        let (mut engine, leaf) = leaf(&link, size(3));
        let flow = |host, window, len| Flow {
            host,
            name: host,
            window,
            len,
        };
        let flows = [flow(1, window, len), flow(2, 20, 1_514), flow(3, 20, 700)];
        let had = shares(&mut engine, leaf, &flows, 4 * S);
        let due = had.values().sum::<f64>() / 3.0;
        let part = had[&1] / due;
        assert!(part <= 1.01, "{window} packets of {len} bytes: {part}");
        if window * len >= 1_514 {
            assert!(part >= 0.99, "{window} packets of {len} bytes: {part}");
        }
    }
}

/// A known host that sends a small packet now and then waits for the packet being transmitted and
/// one of others, not for the turns of all.
#[test]
fn a_host_that_sends_little_goes_first() {
    let link = link(10_000_000);
    let full_ns = 1_514 * S / link.rate_bytes_s;
    let (mut engine, leaf) = leaf(&link, size(50));
    let ask = Flow {
        host: 99,
        name: 1,
        window: 1,
        len: 100,
    };
    let busy: Vec<Flow> = (1..=40)
        .map(|host| Flow {
            host,
            name: host,
            window: 5,
            len: 1_514,
        })
        .collect();
    let mut missing: VecDeque<Flow> = busy.iter().flat_map(|flow| [*flow; 5]).collect();
    let (mut now, mut next, mut asked, mut longest) = (S, S, None, 0);
    let mut waits = 0;
    while now < 11 * S {
        for flow in missing.drain(..) {
            engine.arrive(leaf, &packet(flow, now), flow.host, flow);
        }
        if now >= next && asked.is_none() {
            engine.arrive(leaf, &packet(ask, now), ask.host, ask);
            asked = Some(now);
            next += 100 * MS;
        }
        let departure = engine.depart(now);
        match departure.sent {
            Some((.., flow)) if flow.host == ask.host => {
                let since = asked.take().expect("it came");
                waits += 1;
                // The first packet of an unknown host waits for the turns of all.
                if waits > 1 {
                    longest = longest.max(now - since);
                }
            }
            Some((.., flow)) => missing.push_back(flow),
            None => {
                now = departure
                    .opens_ns
                    .expect("something is queued")
                    .min(next.max(now + 1));
            }
        }
    }
    assert!(waits > 90, "{waits}");
    assert!(longest <= 2 * full_ns + MS, "{longest} ns");
}

/// Rows are reused for later hosts, and no row is lost.
#[test]
fn rows_are_lent_again() {
    let link = link(1_000_000_000);
    let (mut engine, leaf) = leaf(&link, size(16));
    let mut now = S;
    let mut sent = 0;
    for host in 1..=10_000 {
        let flow = Flow {
            host,
            name: host,
            window: 1,
            len: 500,
        };
        let arrival = engine.arrive(leaf, &packet(flow, now), host, flow);
        assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
        if host % 5 == 0 {
            engine.audit().expect("rows that agree");
            while engine.packets() > 0 {
                match engine.depart(now).sent {
                    Some(_) => sent += 1,
                    None => now += 1_000,
                }
            }
        }
    }
    assert_eq!((sent, engine.hosts()), (10_000, (16, 0)));
    assert_eq!(engine.counts(leaf).expect("a leaf").drops, 0);
}

/// When one sender uses more addresses than there are rows, the rest of its addresses share the
/// queues of one leaf. Another class keeps its share, and its hosts have leaves.
#[test]
fn a_flood_of_hosts_takes_half_of_the_room() {
    let link = link(100_000_000);
    let size = EngineSize {
        queues: 60,
        slots: 2_000,
        ..size(60)
    };
    let (mut engine, flooded) = leaf(&link, size);
    let other = below(&mut engine);
    let (mut now, mut name) = (S, 0);
    let mut sent = BTreeMap::new();
    let quiet = [1, 2, 3].map(|host| Flow {
        host: 0x8000_0000 + host,
        name: host,
        window: 4,
        len: 1_000,
    });
    let mut missing: VecDeque<Flow> = quiet.iter().flat_map(|flow| [*flow; 4]).collect();
    while now < 3 * S {
        for _ in 0..3 {
            name += 1;
            let flow = Flow {
                host: name,
                name,
                window: 1,
                len: 1_000,
            };
            engine.arrive(flooded, &packet(flow, now), flow.host, flow);
        }
        for flow in missing.drain(..) {
            let arrival = engine.arrive(other, &packet(flow, now), flow.host, flow);
            assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
        }
        let departure = engine.depart(now);
        if let Some((from, _, _, flow)) = departure.sent {
            let who = if from == other { flow.host } else { 0 };
            *sent.entry(who).or_insert(0_u32) += 1;
            if from == other {
                missing.push_back(flow);
            }
        } else {
            now += 40_000;
        }
    }
    engine.audit().expect("rows that agree");
    let all: u32 = sent.values().sum();
    let half = f64::from(all) / 2.0;
    assert!((f64::from(sent[&0]) / half - 1.0).abs() < 0.01, "{sent:?}");
    for flow in quiet {
        let part = f64::from(sent[&flow.host]) / (half / 3.0);
        assert!((part - 1.0).abs() < 0.01, "{sent:?}");
    }
    let (known, busy) = engine.hosts();
    assert!(
        known == 60 && busy <= 33,
        "{known} hosts, {busy} with packets"
    );
}

/// Removing a leaf discards its hosts' packets, and a new leaf with the same number does not get
/// them.
#[test]
fn a_leaf_goes_with_its_hosts() {
    let link = link(8_000_000);
    let (mut engine, leaf) = leaf(&link, size(20));
    for flow in many(10) {
        engine.arrive(leaf, &packet(flow, S), flow.host, flow);
    }
    let queued = engine.counts(leaf).expect("a leaf").packets;
    assert_eq!((queued, engine.hosts()), (many(10).len() as u32, (10, 10)));
    engine.remove(leaf).expect("a leaf");
    let again = below(&mut engine);
    assert_ne!(again, leaf, "packets are left");
    let departure = engine.depart(S);
    assert!(departure.sent.is_none() && departure.dropped.len() == queued as usize);
    assert!(departure.dropped.iter().all(|(from, _)| *from == leaf));
    assert_eq!((engine.packets(), engine.hosts().1), (0, 0));
    engine.audit().expect("rows that agree");
    let share = NodeRule::default();
    let next = engine.add(engine.root(), false, &share).expect("room");
    assert_eq!(next, leaf);
}
