// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Engine calls decoded from bytes: nodes are added, changed, moved and removed while packets are
//! queued. The invariants are checked after each call.

use std::collections::BTreeMap;
use weirgate_aqm::{Engine, EngineSize, Link, NodeRule, Packet};

/// A second.
const S: u64 = 1_000_000_000;

/// The time by which a ceiling may catch up (`ENGINE_LATE_NS`).
const LATE: u64 = 65_536;

/// Bytes that encode a call.
const CALL: usize = 6;

const LINK: Link = Link {
    rate_bytes_s: 1_250_000,
    mtu_bytes: 1_514,
    overhead_bytes: 0,
    mpu_bytes: 0,
    framing: 0,
    queue_packets: 0,
    room_packets: 0,
};

/// Ceilings of caps, in bytes a second.
const CAPS: [u64; 2] = [20_000, 200_000];

const SIZE: EngineSize = EngineSize {
    nodes: 40,
    inner: 16,
    queues: 12,
    slots: 120,
    limit_bytes: 100_000,
    hosts: 9,
};

/// A node as it was configured, and the bytes it has sent.
#[derive(Debug, Clone, Copy)]
struct Known {
    parent: u32,
    inner: bool,
    ceiling_bytes_s: u64,
    burst_bytes: u32,
    /// The cap of a leaf, or 0.
    cap: u32,
    /// Whether it ever distinguished hosts. Then it has no ceiling, because that would hold for
    /// each host.
    hosts: bool,
    /// Bytes sent since its ceiling was set, and the time of that.
    had: f64,
    since_ns: u64,
    /// The minimum of bytes ahead of its ceiling at the start of a packet.
    least: f64,
}

/// Results of the calls.
#[derive(Debug, Default, Clone, Copy)]
pub struct Grown {
    /// The largest number of packets that a leaf had when it was removed.
    pub removed_with: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets dropped after they were accepted.
    pub dropped: u64,
}

struct Growth {
    engine: Engine<u64>,
    nodes: BTreeMap<u32, Known>,
    /// Ceilings that leaves share.
    caps: BTreeMap<u32, Known>,
    /// Packets that were accepted, and neither sent nor dropped yet.
    here: BTreeMap<u64, u32>,
    now: u64,
    next: u64,
    grown: Grown,
}

/// Makes the calls, and then sends all queued packets.
///
/// # Panics
///
/// If a packet is lost, duplicated or never sent, rows are inconsistent, a node is above its
/// ceiling, or nothing is sent although a packet could be.
pub fn grow(data: &[u8]) -> Grown {
    let engine = Engine::new(&LINK, SIZE);
    let mut growth = Growth {
        nodes: BTreeMap::new(),
        caps: BTreeMap::new(),
        here: BTreeMap::new(),
        now: S,
        next: 0,
        grown: Grown::default(),
        engine,
    };
    let root = growth.engine.root();
    let ceiling = |ceiling_bytes_s| NodeRule {
        ceiling_bytes_s,
        ..NodeRule::default()
    };
    growth.configure(root, 0, true, &ceiling(LINK.rate_bytes_s));
    for rate in CAPS {
        let id = growth.engine.cap(rate).expect("room");
        let known = growth.known(0, false, &ceiling(rate));
        growth.caps.insert(id, known);
    }
    for call in data.chunks_exact(CALL) {
        growth.call(call);
        assert_eq!(growth.engine.packets(), growth.here.len() as u64);
        growth.engine.audit().expect("rows that agree");
    }
    growth.drain();
    growth.grown
}

/// Returns the rule without a cap for inner nodes, so that no packet counts twice for a cap. Leaves
/// that distinguish hosts have neither cap nor ceiling.
fn of_leaf(inner: bool, hosts: bool, rule: &NodeRule) -> NodeRule {
    let free = hosts || rule.hosts;
    NodeRule {
        cap: if inner || free { 0 } else { rule.cap },
        ceiling_bytes_s: if !inner && free {
            0
        } else {
            rule.ceiling_bytes_s
        },
        ..*rule
    }
}

impl Known {
    /// Counts a packet whose transmission begins, and checks that the node is ahead of its ceiling
    /// by no more than the allowed slack.
    fn begun(&mut self, root: bool, now: u64, wire: u32) {
        let rate = self.ceiling_bytes_s;
        let full = u64::from(LINK.wire_bytes(LINK.mtu_bytes));
        if rate > 0 {
            let ahead = self.had - rate as f64 * (now - self.since_ns) as f64 / 1e9;
            self.least = self.least.min(ahead);
            let slack = if root {
                LATE
            } else {
                LATE.max((full + u64::from(self.burst_bytes)) * S / rate)
            };
            let allowed = rate as f64 * slack as f64 / 1e9 + 1.0;
            let over = ahead - self.least;
            assert!(
                over <= allowed,
                "{self:?} is {over} bytes over, {allowed} are allowed"
            );
        }
        self.had += f64::from(wire);
    }
}

impl Growth {
    fn call(&mut self, call: &[u8]) {
        let [kind, at, other, rule @ ..] = call else {
            return;
        };
        let (at, other) = (self.node(*at), self.node(*other));
        let [first, second, third] = [0, 1, 2].map(|it| rule.get(it).copied().unwrap_or(0));
        let rule = NodeRule {
            ceiling_bytes_s: 5_000 * u64::from(first) * u64::from(first & 1),
            guarantee_bytes_s: 1_000 * u64::from(second >> 3),
            priority: u16::from(second & 7),
            quantum: 128 * u32::from(third >> 2),
            limit_bytes: 4_096 * u32::from(third & 3),
            target_ns: 0,
            burst_bytes: 64 * u32::from(third),
            ceiling_burst_bytes: 128 * u32::from(second),
            hosts: kind >> 5 & 1 == 1,
            cap: self
                .caps
                .keys()
                .nth(usize::from(kind >> 6))
                .copied()
                .unwrap_or(0),
        };
        match kind % 16 {
            0..=6 => self.arrive(at, u32::from(first), second),
            7..=9 => {
                self.depart();
            }
            10 => self.now += 10_000 * u64::from(first) * u64::from(second),
            11 => self.change(at, &rule),
            12 if kind >> 4 & 1 == 1 => self.change_places(at),
            12 => self.reparent(at, other),
            13 => self.remove(at),
            inner => self.add(at, inner == 14, &rule),
        }
    }

    /// Returns one of the existing nodes.
    fn node(&self, number: u8) -> u32 {
        let at = usize::from(number) % self.nodes.len();
        self.nodes.keys().nth(at).copied().unwrap_or(0)
    }

    fn configure(&mut self, id: u32, parent: u32, inner: bool, rule: &NodeRule) {
        let known = self.known(parent, inner, rule);
        self.nodes.insert(id, known);
    }

    fn known(&self, parent: u32, inner: bool, rule: &NodeRule) -> Known {
        Known {
            parent,
            inner,
            ceiling_bytes_s: rule.ceiling_bytes_s,
            burst_bytes: rule.ceiling_burst_bytes,
            cap: rule.cap,
            hosts: false,
            had: 0.0,
            since_ns: self.now,
            least: f64::MAX,
        }
    }

    fn arrive(&mut self, at: u32, flow: u32, host: u8) {
        for _ in 0..=flow % 4 {
            self.next += 1;
            let packet = Packet {
                arrived_ns: self.now,
                len: 40 + flow * 5,
                wire: LINK.wire_bytes(40 + flow * 5),
                flow,
                ecn: flow & 3,
            };
            let arrival = self.engine.arrive(at, &packet, u32::from(host), self.next);
            for gone in arrival.evicted {
                assert_eq!(self.here.remove(&gone), Some(at), "evicted by another leaf");
                self.grown.dropped += 1;
            }
            if let Some(own) = arrival.refused {
                assert_eq!(own, self.next);
            } else {
                assert!(
                    !self.nodes[&at].inner,
                    "a packet is in a node with children"
                );
                self.here.insert(self.next, at);
            }
        }
    }

    /// Asks for a packet. Returns the present time if there was one, else the time to ask again.
    fn depart(&mut self) -> Option<u64> {
        let departure = self.engine.depart(self.now);
        for (leaf, gone) in departure.dropped {
            assert_eq!(
                self.here.remove(&gone),
                Some(leaf),
                "dropped by another leaf"
            );
            self.grown.dropped += 1;
        }
        if let Some((leaf, _, packet, gone)) = departure.sent {
            assert_eq!(self.here.remove(&gone), Some(leaf), "sent by another leaf");
            self.grown.sent += 1;
            self.begun(leaf, packet.wire);
            return Some(self.now);
        }
        self.engine.audit_idle(self.now).expect("nobody could send");
        match departure.opens_ns {
            None => assert!(self.here.is_empty(), "packets wait for nothing"),
            Some(opens) => assert!(opens > self.now, "to be asked at once, in vain"),
        }
        departure.opens_ns
    }

    /// Counts a packet whose transmission begins for each node above its leaf, and checks their
    /// ceilings.
    fn begun(&mut self, leaf: u32, wire: u32) {
        let root = self.engine.root();
        let cap = self.nodes[&leaf].cap;
        if let Some(cap) = self.caps.get_mut(&cap) {
            cap.begun(false, self.now, wire);
        }
        let mut id = leaf;
        while let Some(node) = self.nodes.get_mut(&id) {
            node.begun(id == root, self.now, wire);
            id = node.parent;
        }
    }

    fn change(&mut self, at: u32, rule: &NodeRule) {
        let known = self.nodes[&at];
        let rule = of_leaf(known.inner, known.hosts, rule);
        self.engine.change(at, &rule).expect("a node");
        self.configure(at, known.parent, known.inner, &rule);
        self.note_hosts(at, known.hosts || rule.hosts);
    }

    fn note_hosts(&mut self, id: u32, hosts: bool) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.hosts = hosts;
        }
    }

    fn reparent(&mut self, at: u32, other: u32) {
        if self.engine.reparent(at, other).is_ok() {
            assert!(self.nodes[&other].inner);
            if let Some(node) = self.nodes.get_mut(&at) {
                node.parent = other;
            }
        }
        let path = std::iter::successors(Some(at), |id| self.nodes.get(id).map(|it| it.parent));
        assert!(path.take(9).any(|id| id == 0), "more than eight levels");
    }

    /// Exchanges a node and its parent.
    fn change_places(&mut self, at: u32) {
        let parent = self.nodes[&at].parent;
        let above = self.nodes.get(&parent).map_or(0, |node| node.parent);
        if self.engine.rearrange(&[(at, above), (parent, at)]).is_ok() {
            for (id, parent) in [(at, above), (parent, at)] {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.parent = parent;
                }
            }
        }
    }

    fn remove(&mut self, at: u32) {
        let had = self.engine.counts(at).map_or(0, |counts| counts.packets);
        if self.engine.remove(at).is_ok() {
            self.nodes.remove(&at);
            self.grown.removed_with = self.grown.removed_with.max(had);
        }
    }

    fn add(&mut self, parent: u32, inner: bool, rule: &NodeRule) {
        let rule = of_leaf(inner, false, rule);
        if let Ok(id) = self.engine.add(parent, inner, &rule) {
            assert!(!self.nodes.contains_key(&id), "two nodes in one row");
            self.configure(id, parent, inner, &rule);
            self.note_hosts(id, rule.hosts);
        }
    }

    /// Sends the remaining packets: the slowest takes 0.3 s.
    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.here.is_empty() {
                break;
            }
            if let Some(opens) = self.depart() {
                self.now = opens;
            }
        }
        assert!(
            self.here.is_empty(),
            "{} packets stay for ever",
            self.here.len()
        );
        self.engine.audit().expect("rows that agree");
    }
}
