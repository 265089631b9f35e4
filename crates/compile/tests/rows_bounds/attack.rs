// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adversary against one class, which conforms to half of its guarantee, its burst and a packet.
//! All others send as they please, and the adversary knows the credit of each.

use weirgate_aqm::{Engine, EngineSize, Link, NodeRule, Packet};
use weirgate_compile::{CheckReport, ClassReport, check_report, compile};
use weirgate_policy::{Policy, parse};
use weirgate_state::{Capabilities, QdiscKind, Rows, RowsRole};
use weirgate_units::{Handle, Rate};

/// The start time: long after the clock's, so that every class has its maximum credit.
const S: u64 = 100_000_000_000;

/// The minimum credit of a node when it becomes backlogged (`ENGINE_IDLE_CREDIT_NS`).
const KEPT_NS: u64 = 2_000_000;

/// A random generator (xorshift64*, Marsaglia 2003 and Vigna 2016).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % end.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A policy in the engine of rows, upstream.
pub struct Site {
    policy: Policy,
    rows: Rows,
    report: CheckReport,
}

impl Site {
    pub fn new(source: &str) -> Self {
        let (policy, problems) = parse(source);
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"));
        let (state, problems) = compile(&policy, &Capabilities::all());
        let state = state.unwrap_or_else(|| panic!("{problems:#?}\n{source}"));
        let root = state.devices[&policy.link.device.value].root.as_ref();
        let QdiscKind::Rows(rows) = &root.expect("shaped").kind else {
            panic!("{root:?}");
        };
        Self {
            rows: rows.clone(),
            report: check_report(&policy),
            policy,
        }
    }

    pub fn gate(&self) -> Rate {
        self.rows.gate
    }

    pub fn classes(&self) -> &[ClassReport] {
        &self.report.directions[0].classes
    }
}

/// The adversary's strategy.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The size of packets, in IP bytes, with which others use up their credit.
    small: u32,
    /// The size of the class's own packets.
    own: u32,
    /// If another class's credit is below this many small packets, in tenths, it sends a full
    /// packet.
    least: u64,
    /// The class with a full packet in transmission just before all others arrive.
    first: usize,
    /// When each class begins to send, in 64ths of the bound.
    begins: Vec<u64>,
    /// How long each class is silent after its last packet on credit, in 64ths of the bound; from
    /// 64 on, it never is.
    pauses: Vec<u64>,
    /// How long the class sends no full packet, in 64ths of the bound.
    late: u64,
    /// Whether the class sends only one packet.
    lone: bool,
}

impl Plan {
    pub fn usual(classes: usize, first: usize, lone: bool) -> Self {
        Self {
            small: 20,
            own: 20,
            least: 10,
            first,
            begins: vec![0; classes],
            pauses: vec![64; classes],
            late: u64::from(!lone),
            lone,
        }
    }

    pub fn changed(&self, random: &mut Random) -> Self {
        let sizes = [20, 20, 40, 60, 100, 200, 400, 576, 1000, 1500];
        let mut plan = self.clone();
        let class = random.below(plan.begins.len() as u64) as usize;
        match random.below(10) {
            0 => plan.small = sizes[random.below(10) as usize],
            1 => plan.own = sizes[random.below(10) as usize],
            2 => plan.least = 1 + random.below(60),
            3 => plan.first = class,
            4 => plan.pauses[class] = random.below(80),
            5 => plan.begins[class] = 0,
            6 | 7 => plan.late = random.below(64),
            _ => plan.begins[class] = random.below(64),
        }
        plan
    }
}

/// A class in the engine.
struct Node {
    /// The leaves of its packets, in turn.
    leaves: Vec<u32>,
    rate: u64,
    largest: u32,
    /// Its credit in 10^-9 bytes, and the time of that value.
    owed: i128,
    at: u64,
    queued: u32,
    /// For other classes: until when it pauses.
    paused: u64,
}

/// A run against one class.
pub struct Attack<'s> {
    site: &'s Site,
    own: usize,
}

impl<'s> Attack<'s> {
    pub fn new(site: &'s Site, own: usize) -> Self {
        Self { site, own }
    }

    fn link(&self) -> Link {
        let rows = &self.site.rows;
        Link {
            rate_bytes_s: bytes(rows.gate),
            mtu_bytes: rows.mtu,
            overhead_bytes: rows.wire.overhead,
            mpu_bytes: rows.wire.mpu,
            framing: match rows.wire.framing {
                weirgate_state::CakeFraming::None => 0,
                weirgate_state::CakeFraming::Atm => 1,
                weirgate_state::CakeFraming::Ptm => 2,
            },
            ..Link::default()
        }
    }

    /// Returns the engine with the policy's rows, and the classes in the report's order.
    fn engine(&self, link: &Link) -> (Engine<usize>, Vec<Node>) {
        let size = EngineSize {
            nodes: 200,
            inner: 20,
            queues: 200,
            slots: 4_000,
            limit_bytes: 1 << 30,
            hosts: 0,
        };
        let mut engine = Engine::new(link, size);
        let rows = &self.site.rows.nodes;
        let mut placed: Vec<(Handle, u32, Option<Handle>)> = Vec::new();
        for inner in [true, false] {
            let of = |role| match role {
                RowsRole::Inner => Some(true),
                RowsRole::Leaf => Some(false),
                RowsRole::Cap => None,
            };
            for row in rows.iter().filter(|row| of(row.role) == Some(inner)) {
                let above = row.parent.map_or(engine.root(), |parent| {
                    let found = placed.iter().find(|(id, ..)| *id == parent);
                    found.map(|(_, number, _)| *number).expect("placed before")
                });
                let rule = NodeRule {
                    ceiling_bytes_s: row.ceiling.map_or(0, bytes),
                    guarantee_bytes_s: bytes(row.guarantee),
                    quantum: row.quantum,
                    burst_bytes: row.burst,
                    ceiling_burst_bytes: 0,
                    priority: row.prio.into(),
                    target_ns: u32::MAX,
                    ..NodeRule::default()
                };
                let number = engine.add(above, inner, &rule).expect("room");
                placed.push((row.id, number, row.parent));
            }
        }
        let node = |class: &ClassReport| {
            let own = rows.iter().find(|row| row.id == class.id).expect("a row");
            let same = placed.iter().filter(|(id, _, parent)| {
                *id == own.id || (parent.is_some() && *parent == own.parent)
            });
            Node {
                leaves: same.map(|(_, number, _)| *number).collect(),
                rate: bytes(class.guaranteed.wire),
                largest: self.site.policy.link.mtu.value,
                owed: 0,
                at: S,
                queued: 0,
                paused: S,
            }
        };
        let nodes = self.site.classes().iter().map(node).collect();
        (engine, nodes)
    }

    /// Returns the longest time from when the class was empty to the start of the last packet that
    /// it then had: the wait of a packet that all others of its class precede.
    #[expect(
        clippy::too_many_lines,
        reason = "the events of a run change the same clock, engine and nodes"
    )]
    pub fn run(&self, plan: &Plan, bound: u64) -> u64 {
        let link = self.link();
        let (mut engine, mut nodes) = self.engine(&link);
        let class = &self.site.classes()[self.own];
        let wire =
            |ip: u32| link.wire_bytes(ip + self.site.rows.mtu - self.site.policy.link.mtu.value);
        let full = wire(self.site.policy.link.mtu.value);
        for (node, class) in nodes.iter_mut().zip(self.site.classes()) {
            let burst = i128::from(full) + i128::from(class.burst.as_bytes());
            let kept = burst.max(i128::from(node.rate) * i128::from(KEPT_NS) / 1_000_000_000);
            node.owed = kept * 1_000_000_000;
        }
        // Tokens of the own class, in 10^-9 bytes.
        let keeps = i128::from(bytes(class.keeps));
        let most = i128::from(class.burst.as_bytes()) * 1_000_000_000;
        let (mut tokens, mut filled) = (most, S);
        let (mut now, mut flow) = (S, 0_u32);
        let mut begun: Option<u64> = None;
        let mut longest = 0;
        let mut sent_one = false;
        let part = |of: u64| S + 2 + bound * of / 64;
        let end = S + 2 * bound + 1_000_000;
        let mut opens = S;
        // A packet of another class is in transmission.
        let mut first = Some(plan.first).filter(|first| *first != self.own);
        while now < end {
            for (at, node) in nodes.iter_mut().enumerate() {
                node.owed += i128::from(node.rate) * i128::from(now - node.at);
                node.at = now;
                if at == self.own {
                    tokens = most.min(tokens + keeps * i128::from(now - filled));
                    filled = now;
                    while tokens >= 0 && now > part(plan.begins[at]) && !(plan.lone && sent_one) {
                        // The last packet that may be sent at once can have any size.
                        let small = wire(plan.own);
                        let last = tokens < i128::from(small) * 1_000_000_000
                            && now >= part(plan.begins[at] + plan.late)
                            && !plan.lone;
                        let ip = if last { node.largest } else { plan.own };
                        flow += 1;
                        arrive(
                            &mut engine,
                            node,
                            at,
                            now,
                            ip,
                            wire(ip),
                            flow,
                            &self.site.policy,
                        );
                        tokens -= i128::from(wire(ip)) * 1_000_000_000;
                        sent_one = true;
                        begun = begun.or(Some(now));
                    }
                    continue;
                }
                let comes =
                    first == Some(at) || (now >= part(plan.begins[at]) && now >= node.paused);
                if !comes || node.queued > 0 {
                    continue;
                }
                let small = i128::from(wire(plan.small)) * 1_000_000_000;
                let plenty = node.owed > small * i128::from(plan.least) / 10;
                let ip = if plenty && first != Some(at) {
                    plan.small
                } else {
                    node.largest
                };
                arrive(
                    &mut engine,
                    node,
                    at,
                    now,
                    ip,
                    wire(ip),
                    1,
                    &self.site.policy,
                );
            }
            let departure = engine.depart(now);
            assert!(departure.dropped.is_empty(), "no packet waits for seconds");
            if let Some((_, _, packet, at)) = departure.sent {
                let node = &mut nodes[at];
                node.queued -= 1;
                // Borrowed bytes do not count.
                let owed = node.owed >= 0;
                if owed && first != Some(at) {
                    node.owed -= i128::from(packet.wire) * 1_000_000_000;
                    if node.owed < 0 && plan.pauses[at] < 64 {
                        node.paused = now + bound * plan.pauses[at] / 64;
                    }
                }
                if at == self.own {
                    let since = begun.expect("it had some");
                    longest = longest.max(now - since);
                    if node.queued == 0 {
                        begun = None;
                    }
                }
                first = first.filter(|first| *first != at);
                continue;
            }
            opens = departure.opens_ns.filter(|at| *at > now).unwrap_or(opens);
            // The next event: the gate opens, a packet of the own class arrives, or another class
            // starts.
            let short = Some(-tokens).filter(|short| *short > 0 && !plan.lone);
            let earn = short.map(|short| now + (short / keeps.max(1)) as u64 + 1);
            let begins = plan
                .begins
                .iter()
                .flat_map(|begin| [part(*begin), part(*begin) + 1]);
            let pauses = nodes.iter().map(|node| node.paused);
            let next = begins
                .chain(pauses)
                .chain(earn)
                .chain([opens])
                .filter(|at| *at > now);
            now = next.min().unwrap_or(end);
        }
        longest
    }
}

#[allow(clippy::too_many_arguments, reason = "a packet and where it goes")]
fn arrive(
    engine: &mut Engine<usize>,
    node: &mut Node,
    at: usize,
    now: u64,
    ip: u32,
    wire: u32,
    flow: u32,
    policy: &Policy,
) {
    let packet = Packet {
        arrived_ns: now,
        len: ip + policy.link.device_kind.value.counted(),
        wire,
        flow,
        ecn: 0,
    };
    let leaf = node.leaves[flow as usize % node.leaves.len()];
    let arrival = engine.arrive(leaf, &packet, 1, at);
    assert!(arrival.refused.is_none() && arrival.evicted.is_empty());
    node.queued += 1;
}

fn bytes(rate: Rate) -> u64 {
    rate.as_bits_per_second() / 8
}
