// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of the engine for any tree, however late its host is woken. They are judged by the
//! bytes and times of the packets sent alone.

use crate::support::{Chance, MS, S, link};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weirgate_aqm::{Engine, EngineSize, Link, NodeRule, Packet};

/// The time by which a ceiling may catch up (`ENGINE_LATE_NS`).
pub(crate) const LATE: u64 = 65_536;

/// A size for small trees.
pub(crate) const SIZE: EngineSize = EngineSize {
    nodes: 200,
    inner: 60,
    queues: 150,
    slots: 2_000,
    limit_bytes: 3_000_000,
    hosts: 0,
};

/// A packet sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) at_ns: u64,
    pub(crate) leaf: u32,
    host: u32,
    wire: u32,
}

/// Returns the rule of a node that shares by this quantum.
pub(crate) fn share(quantum: u32) -> NodeRule {
    NodeRule {
        quantum,
        target_ns: u32::MAX,
        ..NodeRule::default()
    }
}

/// The permanent load of one leaf: packets of `lengths`, of flows of hosts.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) leaf: u32,
    lengths: std::ops::Range<u32>,
    flows: Vec<(u32, u32)>,
}

impl Load {
    pub(crate) fn of(leaf: u32, lengths: std::ops::Range<u32>) -> Self {
        let flows = vec![(1, leaf)];
        Self {
            leaf,
            lengths,
            flows,
        }
    }
}

/// Runs for `span` with leaves that are always backlogged, each flow with some packets. The host is
/// woken up to `late` after the time that it asked for. Every other time it asks earlier, as it
/// does when a packet arrives.
pub(crate) fn saturated(
    engine: &mut Engine<(u32, u32)>,
    link: &Link,
    loads: &[Load],
    span: u64,
    late: u64,
    chance: &mut Chance,
) -> Vec<Sent> {
    let (mut now, mut sent) = (S, Vec::new());
    let mut queued = BTreeMap::new();
    let end = now + span;
    // Packets that left are replaced; at first all are missing.
    let mut short: Vec<(usize, usize)> = Vec::new();
    for (number, load) in loads.iter().enumerate() {
        short.extend((0..load.flows.len()).map(|flow| (number, flow)));
    }
    let place: BTreeMap<(u32, u32, u32), (usize, usize)> = short
        .iter()
        .map(|(number, flow)| {
            let load = &loads[*number];
            let (host, name) = load.flows[*flow];
            ((load.leaf, host, name), (*number, *flow))
        })
        .collect();
    while now < end {
        for (number, flow) in short.drain(..) {
            let load = &loads[number];
            let (host, name) = load.flows[flow];
            let count: &mut u32 = queued.entry((load.leaf, host, name)).or_default();
            while *count < 3 {
                let spread = u64::from(load.lengths.end - load.lengths.start);
                let len = load.lengths.start + chance.below(spread) as u32;
                let packet = Packet {
                    arrived_ns: now,
                    len,
                    wire: link.wire_bytes(len),
                    flow: name,
                    ecn: 0,
                };
                let arrival = engine.arrive(load.leaf, &packet, host, (host, name));
                assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
                *count += 1;
            }
        }
        let departure = engine.depart(now);
        // CoDel drops packets that wait for seconds; these drops count for no rate.
        for (leaf, (host, flow)) in departure.dropped {
            *queued.get_mut(&(leaf, host, flow)).expect("it came") -= 1;
            short.push(place[&(leaf, host, flow)]);
        }
        if let Some((leaf, _, packet, (host, flow))) = departure.sent {
            *queued.get_mut(&(leaf, host, flow)).expect("it came") -= 1;
            short.push(place[&(leaf, host, flow)]);
            sent.push(Sent {
                at_ns: now,
                leaf,
                host,
                wire: packet.wire,
            });
        } else {
            engine.audit_idle(now).expect("nobody could send");
            let opens = departure.opens_ns.expect("something is queued");
            assert!(opens > now, "asked again at {now} for {opens}");
            now = if chance.below(2) == 0 {
                now + 1 + chance.below(opens - now)
            } else {
                opens + chance.below(late + 1)
            };
        }
    }
    engine.audit().expect("rows that agree");
    sent
}

/// Returns the bytes of the packets that match.
pub(crate) fn bytes(sent: &[Sent], wanted: impl Fn(&Sent) -> bool) -> f64 {
    let all: u64 = sent
        .iter()
        .filter(|it| wanted(it))
        .map(|it| u64::from(it.wire))
        .sum();
    all as f64
}

/// Draws a link from 1 Mbit/s to 1 Gbit/s.
fn any_link() -> impl Strategy<Value = Link> {
    let rate = (16.93_f64..26.9).prop_map(f64::exp2);
    (rate, 0_u32..3, -14_i32..45, 0_u32..90).prop_map(|(rate, framing, overhead, mpu)| Link {
        rate_bytes_s: rate as u64,
        mtu_bytes: 1514,
        overhead_bytes: overhead,
        mpu_bytes: mpu,
        framing,
        ..Link::default()
    })
}

/// Returns the time that 1500 full packets take, within 20 ms to 20 s.
fn span(link: &Link) -> u64 {
    (1500 * 1514 * S / link.rate_bytes_s).clamp(20 * MS, 20 * S)
}

/// A node of a random tree: the choice of its parent among earlier nodes, and its rule as shares of
/// the link.
#[derive(Debug, Clone)]
struct Twig {
    below: prop::sample::Index,
    inner: bool,
    ceiling: u64,
    burst: u32,
    guarantee: u64,
    quantum: u32,
    priority: u16,
}

fn twig() -> impl Strategy<Value = Twig> {
    (
        any::<prop::sample::Index>(),
        any::<bool>(),
        0_u64..40,
        prop_oneof![Just(0_u32), 1_u32..200_000],
        0_u64..8,
        256_u32..6000,
        0_u16..9,
    )
        .prop_map(
            |(below, inner, ceiling, burst, guarantee, quantum, priority)| Twig {
                below,
                inner,
                ceiling,
                burst,
                guarantee,
                quantum,
                priority,
            },
        )
}

/// A tree with its leaves, and the parent, ceiling and burst of each node.
struct Grown {
    engine: Engine<(u32, u32)>,
    leaves: Vec<u32>,
    nodes: BTreeMap<u32, (u32, u64, u32)>,
}

fn grown(link: &Link, twigs: &[Twig]) -> Grown {
    let mut engine = Engine::new(link, SIZE);
    let root = engine.root();
    let mut inner = vec![(root, 1)];
    let mut leaves = Vec::new();
    let mut nodes = BTreeMap::from([(root, (0, link.rate_bytes_s, 0))]);
    for (number, twig) in twigs.iter().enumerate() {
        let (parent, depth) = *twig.below.get(&inner);
        let rule = NodeRule {
            // Every fourth node has no ceiling.
            ceiling_bytes_s: if twig.ceiling > 10 {
                link.rate_bytes_s * twig.ceiling / 40
            } else {
                0
            },
            ceiling_burst_bytes: twig.burst,
            guarantee_bytes_s: link.rate_bytes_s * twig.guarantee / 100,
            priority: twig.priority,
            ..share(twig.quantum)
        };
        // The first node is a leaf, so that the tree has one.
        let forks = twig.inner && depth < 7 && number > 0;
        let id = engine.add(parent, forks, &rule).expect("room");
        nodes.insert(id, (parent, rule.ceiling_bytes_s, twig.burst));
        if forks {
            inner.push((id, depth + 1));
        } else {
            leaves.push(id);
        }
    }
    Grown {
        engine,
        leaves,
        nodes,
    }
}

impl Grown {
    fn above(&self, leaf: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(leaf), |id| {
            Some(self.nodes[id].0).filter(|it| *it != 0)
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any period that begins with a packet of a node, the node sends at most its ceiling, its
    /// burst, one full packet and the last packet. The root has the catch-up of `LATE` instead of
    /// the burst and the full packet. This holds for every node of any tree.
    #[test]
    fn no_node_is_above_its_ceiling(
        link in any_link(),
        twigs in prop::collection::vec(twig(), 1..24),
        late in prop_oneof![Just(0_u64), 0_u64..33_000],
        seed in any::<u64>(),
    ) {
        let mut tree = grown(&link, &twigs);
        let loads: Vec<Load> = tree.leaves.iter().map(|leaf| Load::of(*leaf, 40..1515)).collect();
        let sent = saturated(&mut tree.engine, &link, &loads, span(&link), late, &mut Chance(seed));
        prop_assert!(!sent.is_empty());
        let full = u64::from(link.wire_bytes(1514));
        for (node, (_, ceiling, burst)) in &tree.nodes {
            if *ceiling == 0 {
                continue;
            }
            let slack = if *node == tree.engine.root() { LATE } else { LATE.max((full + u64::from(*burst)) * S / ceiling) };
            // The minimum of `sent - ceiling * time` before each packet so far.
            let (mut had, mut least) = (0.0_f64, f64::MAX);
            for one in sent.iter().filter(|one| tree.above(one.leaf).any(|it| it == *node)) {
                let due = *ceiling as f64 * (one.at_ns - S) as f64 / 1e9;
                least = least.min(had - due);
                // The bytes above the ceiling before this packet, over the worst period.
                let over = had - due - least;
                let allowed = *ceiling as f64 * slack as f64 / 1e9 + 1.0;
                prop_assert!(over <= allowed, "node {} is {} bytes over, {} allowed", node, over, allowed);
                had += f64::from(one.wire);
            }
        }
    }

    /// The link is never idle while a leaf without ceilings has packets, except for wake-ups later
    /// than the catch-up allows.
    #[test]
    fn the_link_is_never_idle(
        link in any_link(),
        twigs in prop::collection::vec(twig(), 1..24),
        seed in any::<u64>(),
    ) {
        let mut tree = grown(&link, &twigs);
        let root = tree.engine.root();
        let free = tree.engine.add(root, false, &NodeRule { priority: 7, ..share(2000) }).expect("room");
        tree.leaves.push(free);
        let loads: Vec<Load> = tree.leaves.iter().map(|leaf| Load::of(*leaf, 40..1515)).collect();
        let span = span(&link);
        let sent = saturated(&mut tree.engine, &link, &loads, span, 32_000, &mut Chance(seed));
        let had = bytes(&sent, |_| true);
        let due = link.rate_bytes_s as f64 * span as f64 / 1e9;
        let full = f64::from(link.wire_bytes(1514));
        let late = link.rate_bytes_s as f64 * LATE as f64 / 1e9;
        prop_assert!((had - due).abs() <= full + late, "{} bytes for {}", had, due);
    }

    /// Equals share by their quanta, within one percent of their shares and a turn.
    #[test]
    fn equals_share_by_their_quanta(
        link in any_link(),
        children in prop::collection::vec((1_u32..20, 100_u32..1515), 2..12),
        nested in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut engine = Engine::new(&link, SIZE);
        let root = engine.root();
        let mut loads = Vec::new();
        for (weight, most) in &children {
            let rule = share(weight * 512);
            let leaf = if nested {
                // Two levels down, where a leaf has no siblings.
                let site = engine.add(root, true, &rule).expect("room");
                engine.add(site, false, &share(1514)).expect("room")
            } else {
                engine.add(root, false, &rule).expect("room")
            };
            loads.push(Load::of(leaf, 40..most + 1));
        }
        let weights: u32 = children.iter().map(|(weight, _)| weight).sum();
        // Two hundred turns of all leaves.
        let span = u64::from(weights) * 512 * 200 * S / link.rate_bytes_s;
        let sent = saturated(&mut engine, &link, &loads, span, 32_000, &mut Chance(seed));
        let all = bytes(&sent, |_| true);
        for (load, (weight, most)) in loads.iter().zip(&children) {
            let had = bytes(&sent, |it| it.leaf == load.leaf);
            let due = all * f64::from(*weight) / f64::from(weights);
            let turn = f64::from(weight * 512 + link.wire_bytes(*most));
            prop_assert!((had - due).abs() <= 0.01 * due + turn, "{} of {} for {:?}", had, due, children);
        }
    }

    /// A guaranteed node gets its guarantee at any level, under a flood of more urgent siblings
    /// without guarantees.
    #[test]
    fn guarantees_hold_under_a_flood(
        link in any_link(),
        sites in prop::collection::vec(prop::collection::vec((1_u64..6, 0_u16..8, 100_u32..1515), 1..4), 1..5),
        seed in any::<u64>(),
    ) {
        let mut engine = Engine::new(&link, SIZE);
        let root = engine.root();
        let mut loads = Vec::new();
        let mut owed = Vec::new();
        for site in &sites {
            let part: u64 = site.iter().map(|(part, ..)| part).sum();
            let guarantee_bytes_s = link.rate_bytes_s * part / 80;
            let above = engine
                .add(root, true, &NodeRule { guarantee_bytes_s, priority: 7, ..share(256) })
                .expect("room");
            for (part, priority, most) in site {
                let guarantee_bytes_s = link.rate_bytes_s * part / 80;
                let rule = NodeRule { guarantee_bytes_s, priority: *priority, ..share(256) };
                let leaf = engine.add(above, false, &rule).expect("room");
                loads.push(Load::of(leaf, 40..most + 1));
                owed.push((leaf, guarantee_bytes_s));
            }
            let flood = engine.add(above, false, &share(1 << 16)).expect("room");
            loads.push(Load::of(flood, 1514..1515));
        }
        let flood = engine.add(root, false, &share(1 << 16)).expect("room");
        loads.push(Load::of(flood, 1514..1515));
        let span = 3 * span(&link);
        let sent = saturated(&mut engine, &link, &loads, span, 32_000, &mut Chance(seed));
        // Each may wait for a packet of all others, once in its parent and once at the root.
        let full = f64::from(link.wire_bytes(1514));
        let behind = full * (loads.len() + sites.len()) as f64;
        for (leaf, rate) in owed {
            let had = bytes(&sent, |it| it.leaf == leaf);
            let due = rate as f64 * span as f64 / 1e9;
            prop_assert!(had >= due - behind, "leaf {} had {} of {}", leaf, had, due);
        }
    }

    /// Hosts of a leaf share equally, whatever flows they have.
    #[test]
    fn hosts_share_before_flows(
        link in any_link(),
        flows in prop::collection::vec(1_usize..5, 2..5),
        lengths in prop::collection::vec(200_u32..1515, 4),
        seed in any::<u64>(),
    ) {
        let mut engine = Engine::new(&link, SIZE);
        let leaf = engine.add(engine.root(), false, &share(1514)).expect("room");
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (host, count) in (1_u32..).zip(&flows) {
            all.extend((0..*count as u32).map(|flow| (host, host * 1000 + flow)));
        }
        let most = *lengths.iter().max().expect("four");
        let loads = [Load { leaf, lengths: 200..most + 1, flows: all.clone() }];
        let span = 8000 * 1514 * S / link.rate_bytes_s;
        let sent = saturated(&mut engine, &link, &loads, span, 32_000, &mut Chance(seed));
        let total = bytes(&sent, |_| true);
        let due = total / flows.len() as f64;
        for host in 1..=flows.len() as u32 {
            let had = bytes(&sent, |it| it.host == host);
            prop_assert!((had - due).abs() <= 0.01 * due, "host {} had {} of {}: {:?}", host, had, due, flows);
        }
    }
}

/// A node whose ceiling is a little above its share loses nothing of the share. The ceiling
/// holds it after each of its packets, and then it continues its turn.
#[test]
fn a_ceiling_takes_no_part_of_a_turn() {
    let link = link(10_000_000);
    let mut engine = Engine::new(&link, SIZE);
    let heavy = NodeRule {
        ceiling_bytes_s: link.rate_bytes_s * 15 / 16,
        ..share(15_140)
    };
    let heavy = engine.add(engine.root(), false, &heavy).expect("room");
    let light = engine
        .add(engine.root(), false, &share(1_514))
        .expect("room");
    let loads = [heavy, light].map(|leaf| Load::of(leaf, 1_500..1_501));
    let sent = saturated(&mut engine, &link, &loads, 10 * S, 32_000, &mut Chance(1));
    let part = bytes(&sent, |it| it.leaf == heavy) / bytes(&sent, |_| true);
    assert!((part - 10.0 / 11.0).abs() < 0.01, "{part} of the link");
}

/// A node that was idle exceeds its ceiling by its burst, and no further.
#[test]
fn a_burst_is_what_a_pause_leaves() {
    let link = link(10_000_000);
    let mut engine = Engine::new(&link, SIZE);
    let rule = NodeRule {
        ceiling_bytes_s: link.rate_bytes_s / 10,
        ceiling_burst_bytes: 100_000,
        ..share(1_514)
    };
    let [with, without] = [100_000, 0].map(|ceiling_burst_bytes| {
        let rule = NodeRule {
            ceiling_burst_bytes,
            ..rule
        };
        engine.add(engine.root(), false, &rule).expect("room")
    });
    let loads = [with, without].map(|leaf| Load::of(leaf, 1_500..1_501));
    let sent = saturated(&mut engine, &link, &loads, 2 * S, 32_000, &mut Chance(1));
    let of = |leaf, from, to| {
        bytes(&sent, |it| {
            it.leaf == leaf && (from..to).contains(&(it.at_ns - S))
        })
    };
    // The link sends 1.25 MB a second, and each node 0.125 MB.
    let more = of(with, 0, S) - of(without, 0, S);
    assert!((more - 100_000.0).abs() < 2.0 * 1_514.0, "{more} bytes");
    let early = of(with, 0, 100 * MS);
    assert!(early > 105_000.0, "{early} bytes in the first 100 ms");
    let later = of(with, S, 2 * S) - of(without, S, 2 * S);
    assert!(later.abs() < 2.0 * 1_514.0, "{later} bytes");
}
