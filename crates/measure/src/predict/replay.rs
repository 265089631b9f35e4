// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates probes behind an HTB tree, packet by packet.
//!
//! No formula gives the waits behind such a tree: they are the queue that bursts leave in the
//! modem, and bursts depend on when each class has tokens. So the experiment's packets pass the
//! buckets ([`htb`]) and the line in order of time. Datagrams and probes arrive at their intervals.
//! A transfer without a window is a leaf that always has a full packet; probes that share a leaf
//! with one are left out. The other direction is assumed idle, and the kernel infinitely fast.
//!
//! A leaf is checked when a packet arrives and when a bucket has filled. With `highres=off`, the
//! latter happens only at the next tick.
//!
//! [`htb`]: super::htb

use super::htb::{Htb, Nanos};
use super::situation::Prediction;
use super::tree::{Packet, Tree};
use super::wire::{MTU, wire_bytes};
use crate::activity::data_direction;
use std::collections::VecDeque;
use weirgate_experiment::{
    Arm, Buffer, Direction, Experiment, Line, ProbeKind, Traffic, TrafficKind,
};
use weirgate_units::{Dscp, Span};

/// Debian's kernels have 250 ticks a second (CONFIG_HZ).
const TICK: Nanos = 4_000_000;

/// Packets of one size that are sent at one interval.
struct Source {
    leaf: usize,
    bytes: u64,
    interval: Nanos,
    runs: Vec<(Nanos, Nanos)>,
    next: Option<Nanos>,
    /// The index of the experiment's probe; `None` for datagrams.
    probe: Option<usize>,
}

impl Source {
    fn new(leaf: usize, bytes: u16, interval: Span, runs: &[(Span, Span)], late: Nanos) -> Self {
        let runs: Vec<_> = times(runs, late);
        Self {
            leaf,
            bytes: u64::from(bytes),
            interval: nanos(interval).max(1),
            next: runs.first().map(|run| run.0),
            runs,
            probe: None,
        }
    }

    fn advance(&mut self, now: Nanos) {
        let following = now + self.interval;
        let current = self.runs.iter().find(|run| (run.0..run.1).contains(&now));
        self.next = if current.is_some_and(|run| following < run.1) {
            Some(following)
        } else {
            let later = self.runs.iter().map(|run| run.0);
            later.filter(|start| *start > now).min()
        };
    }
}

/// A packet that waits in a leaf.
struct Waiting {
    bytes: u64,
    since: Nanos,
    probe: Option<usize>,
}

/// An answered probe.
struct Answer {
    probe: usize,
    sent: Nanos,
    rtt: Nanos,
}

struct Replay<'a> {
    line: &'a Line,
    tree: &'a Tree,
    htb: Htb,
    sources: Vec<Source>,
    /// The times when transfers keep each leaf full.
    flooded: Vec<Vec<(Nanos, Nanos)>>,
    queues: Vec<VecDeque<Waiting>>,
    held: Vec<u64>,
    /// When the line will have sent its backlog.
    free: Nanos,
    ticks: bool,
    answers: Vec<Answer>,
    /// Probes that share a leaf with a transfer.
    hidden: Vec<usize>,
}

/// Predicts the round trips of an arm that is shaped by the tree. Returns nothing if the arm has an
/// unknown element.
pub(super) fn round_trips(experiment: &Experiment, arm: &Arm) -> Vec<Prediction> {
    let commands = arm.commands.iter().map(|command| command.argv.as_slice());
    let Some(tree) = Tree::from_commands(commands) else {
        return Vec::new();
    };
    let Some(mut replay) = Replay::new(experiment, arm, &tree) else {
        return Vec::new();
    };
    if replay.run(nanos(experiment.duration())).is_none() {
        return Vec::new();
    }
    replay.predictions(experiment)
}

impl<'a> Replay<'a> {
    fn new(experiment: &'a Experiment, arm: &Arm, tree: &'a Tree) -> Option<Self> {
        let hysteresis = arm
            .module_parameters
            .iter()
            .any(|(name, value)| name == "sch_htb.htb_hysteresis" && value == "1");
        let leaves: Vec<_> = tree
            .leaves
            .iter()
            .map(|leaf| leaf.account.clone())
            .collect();
        let count = leaves.len();
        let mut replay = Self {
            line: &experiment.topology.line,
            tree,
            htb: Htb {
                root: tree.root.clone(),
                leaves,
                hysteresis,
            },
            sources: Vec::new(),
            flooded: vec![Vec::new(); count],
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            held: vec![0; count],
            free: 0,
            ticks: arm
                .kernel_options
                .iter()
                .any(|option| option == "highres=off"),
            answers: Vec::new(),
            hidden: Vec::new(),
        };
        for traffic in &experiment.traffic {
            if !arm.without.contains(&traffic.name) {
                replay.traffic(traffic)?;
            }
        }
        for (index, probe) in experiment.probes.iter().enumerate() {
            // When a probe leaves that follows the round trip, no calculation says.
            if probe.per_round_trip.is_some() {
                return None;
            }
            let up = data_direction(probe.from, probe.to) == Some(Direction::Up);
            let (protocol, port) = match probe.kind {
                ProbeKind::Icmp => (1, None),
                ProbeKind::Udp { port } => (17, Some(u32::from(port))),
            };
            let leaf = tree
                .classify(packet(probe.ipv6, protocol, probe.dscp, port))
                .filter(|_| up)?;
            let mut source = Source::new(leaf, probe.packet, probe.interval, &probe.runs, 0);
            source.probe = Some(index);
            replay.sources.push(source);
        }
        let flooded = &replay.flooded;
        let (out, kept): (Vec<Source>, Vec<Source>) = std::mem::take(&mut replay.sources)
            .into_iter()
            .partition(|source| !flooded[source.leaf].is_empty());
        replay.hidden = out.iter().filter_map(|source| source.probe).collect();
        replay.sources = kept;
        // Predict nothing: datagrams beside a transfer would change its share.
        let datagrams = out.iter().any(|source| source.probe.is_none());
        (!datagrams).then_some(replay)
    }

    fn traffic(&mut self, traffic: &Traffic) -> Option<()> {
        if data_direction(traffic.from, traffic.to) != Some(Direction::Up) {
            return None;
        }
        let port = traffic.port.map(u32::from);
        let leaf = |protocol| {
            self.tree
                .classify(packet(traffic.ipv6, protocol, traffic.dscp, port))
        };
        let late = |member: u16| nanos(traffic.stagger).saturating_mul(i64::from(member));
        match &traffic.kind {
            TrafficKind::Tcp(tcp) if tcp.amount.is_none() && tcp.window.is_none() => {
                let leaf = leaf(6)?;
                for member in 0..traffic.count {
                    self.flooded[leaf].extend(times(&traffic.runs, late(member)));
                }
            }
            TrafficKind::Udp {
                interval,
                packet,
                packets: None,
            } => {
                let leaf = leaf(17)?;
                for member in 0..traffic.count {
                    let runs = &traffic.runs;
                    let source = Source::new(leaf, *packet, *interval, runs, late(member));
                    self.sources.push(source);
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Runs the simulation; returns `None` if the modem's queue overflows.
    fn run(&mut self, until: Nanos) -> Option<()> {
        let starts = self.flooded.iter().flatten().map(|run| run.0);
        let mut starts: Vec<Nanos> = starts.collect();
        starts.sort_unstable();
        let mut starts = starts.into_iter().peekable();
        let mut wake: Option<Nanos> = None;
        loop {
            let arrival = self
                .sources
                .iter()
                .enumerate()
                .filter_map(|(index, source)| Some((source.next?, index)))
                .min();
            let times = [arrival.map(|(at, _)| at), wake, starts.peek().copied()];
            let now = times.into_iter().flatten().min()?;
            if now >= until {
                return Some(());
            }
            while starts.next_if(|start| *start <= now).is_some() {}
            if let Some((_, index)) = arrival.filter(|(at, _)| *at == now) {
                self.arrive(now, index);
            }
            self.send(now)?;
            wake = self.wake(now);
        }
    }

    fn arrive(&mut self, now: Nanos, index: usize) {
        let source = &mut self.sources[index];
        let (leaf, bytes, probe) = (source.leaf, source.bytes, source.probe);
        source.advance(now);
        let counted = bytes + u64::from(super::shaper::ETHERNET);
        if self.held[leaf] + counted <= self.tree.leaves[leaf].limit {
            self.held[leaf] += counted;
            self.queues[leaf].push_back(Waiting {
                bytes,
                since: now,
                probe,
            });
        }
    }

    fn waiting(&self, now: Nanos) -> Vec<bool> {
        let flooded = self.flooded.iter();
        flooded
            .zip(&self.queues)
            .map(|(runs, queue)| {
                !queue.is_empty() || runs.iter().any(|run| (run.0..run.1).contains(&now))
            })
            .collect()
    }

    fn send(&mut self, now: Nanos) -> Option<()> {
        loop {
            let waiting = self.waiting(now);
            let Some((leaf, borrowed)) = self.htb.next(now, &waiting) else {
                return Some(());
            };
            let packet = self.queues[leaf].pop_front();
            let bytes = packet.as_ref().map_or(MTU, |packet| packet.bytes);
            self.htb
                .charge(now, leaf, borrowed, self.tree.counted(bytes));
            let full = self.line.up.rate;
            let room = match self.line.up.buffer {
                Buffer::Bytes(size) => size.as_bytes(),
                Buffer::Packets(packets) => u64::from(packets) * MTU,
            };
            if self.free - now > on_wire(room, full) {
                return None;
            }
            let wire = wire_bytes(self.line, bytes);
            self.free = self.free.max(now) + on_wire(wire, full);
            if let Some(packet) = packet {
                self.held[leaf] -= packet.bytes + u64::from(super::shaper::ETHERNET);
                if let Some(probe) = packet.probe {
                    let delays = nanos(self.line.up.delay) + nanos(self.line.down.delay);
                    let back = on_wire(wire, self.line.down.rate);
                    self.answers.push(Answer {
                        probe,
                        sent: packet.since,
                        rtt: self.free - packet.since + delays + back,
                    });
                }
            }
        }
    }

    fn wake(&self, now: Nanos) -> Option<Nanos> {
        let due = self.htb.due()?.max(now + 1);
        let waits = self.waiting(now).contains(&true);
        let at = if self.ticks {
            due.div_euclid(TICK) * TICK + if due % TICK == 0 { 0 } else { TICK }
        } else {
            due
        };
        waits.then_some(at)
    }

    fn predictions(&self, experiment: &Experiment) -> Vec<Prediction> {
        let mut predictions = Vec::new();
        let whole = (String::new(), 0, nanos(experiment.duration()));
        let phases = experiment.phases.iter().map(|phase| {
            let from = nanos(phase.start + experiment.settle);
            (format!("{}.", phase.name), from, nanos(phase.end))
        });
        let windows: Vec<_> = std::iter::once(whole).chain(phases).collect();
        for (index, probe) in experiment.probes.iter().enumerate() {
            if self.hidden.contains(&index) {
                continue;
            }
            for (prefix, from, end) in &windows {
                let own = |answer: &&Answer| {
                    answer.probe == index && (*from..*end).contains(&answer.sent)
                };
                let mut waits: Vec<Nanos> =
                    self.answers.iter().filter(own).map(|a| a.rtt).collect();
                waits.sort_unstable();
                let text = self.derivation(&waits);
                for (statistic, value) in statistics(&waits, &probe.within_ms) {
                    predictions.push(Prediction {
                        metric: format!("{prefix}rtt.{}.{statistic}", probe.name),
                        value,
                        derivation: text.clone(),
                    });
                }
            }
        }
        predictions
    }

    fn derivation(&self, waits: &[Nanos]) -> String {
        let hysteresis = if self.htb.hysteresis {
            "with hysteresis a class sends until it owes its burst"
        } else {
            "a class sends until it owes a packet"
        };
        let timers = if self.ticks {
            "HTB is woken by each arrival and each tick of 4 ms"
        } else {
            "HTB is woken when a bucket has filled"
        };
        format!(
            "the packets put through HTB's buckets one by one: bursts of {:.0} bytes, {hysteresis}, \
             {timers}; {} probes",
            self.tree.burst,
            waits.len()
        )
    }
}

/// Returns the figures of sorted round trips, by the end of their metric's name.
fn statistics(waits: &[Nanos], within: &[u32]) -> Vec<(String, f64)> {
    let (Some(shortest), Some(longest)) = (waits.first(), waits.last()) else {
        return Vec::new();
    };
    let ms = |wait: Nanos| wait as f64 / 1e6;
    let mean = waits.iter().map(|wait| ms(*wait)).sum::<f64>() / waits.len() as f64;
    let rank = |share: f64| {
        let rank = (share * waits.len() as f64).ceil() as usize;
        ms(waits[rank.clamp(1, waits.len()) - 1])
    };
    let mut list = vec![
        ("min_ms".to_owned(), ms(*shortest)),
        ("mean_ms".to_owned(), mean),
        ("p50_ms".to_owned(), rank(0.5)),
        ("p95_ms".to_owned(), rank(0.95)),
        ("p99_ms".to_owned(), rank(0.99)),
        ("max_ms".to_owned(), ms(*longest)),
    ];
    for bound in within {
        let inside = waits.partition_point(|wait| ms(*wait) <= f64::from(*bound));
        let share = inside as f64 / waits.len() as f64;
        list.push((format!("within_{bound}_ms.ratio"), share));
    }
    list
}

fn packet(ipv6: bool, protocol: u32, dscp: Dscp, port: Option<u32>) -> Packet {
    Packet {
        ipv6,
        protocol,
        dsfield: u32::from(dscp.value()) << 2,
        port,
    }
}

fn nanos(span: Span) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX / 4)
}

fn times(runs: &[(Span, Span)], late: Nanos) -> Vec<(Nanos, Nanos)> {
    let moved = |run: &(Span, Span)| (nanos(run.0).saturating_add(late), nanos(run.1));
    runs.iter().map(moved).filter(|run| run.0 < run.1).collect()
}

/// Returns the transmission time of bytes.
fn on_wire(bytes: u64, rate: weirgate_units::Rate) -> Nanos {
    (bytes as f64 * 8e9 / rate.as_bits_per_second() as f64) as Nanos
}
