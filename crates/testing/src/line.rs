// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discrete-event model of an access line with window-limited TCP, datagrams and probes. It
//! writes recordings for tests of figures and reports. It is not the laboratory and measures
//! nothing real.
//!
//! The gate of an arm passes a packet to the modem only when the modem is empty: probes first, then
//! ACKs, then datagrams, then the rest.
//!
//! Over 500 lines, because every event of the model changes the same state.

#![expect(clippy::unwrap_used, reason = "a test ends where the model is wrong")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use weirgate_experiment::{
    Buffer, Delivered, Direction, Experiment, Fate, FlowName, LinePacket, LineSide, Node,
    ProbeReply, QueueSample, Recording, Sojourn, TcpSample, TcpSegment, TrafficKind, Transcript,
};
use weirgate_measure::predict::wire_bytes;
use weirgate_units::Size;

const SECOND: u64 = 1_000_000_000;
const MSS: u64 = 1448;
const HEADERS: u16 = 52;

/// Runs one arm; `gate` puts a gate before the modem.
pub fn run(experiment: &Experiment, arm: &str, gate: bool) -> Recording {
    let mut model = Model::new(experiment, arm, gate);
    while let Some(Reverse((at, _, event))) = model.events.pop() {
        if at >= model.end {
            break;
        }
        model.now = at;
        model.handle(event);
    }
    model.recording
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    Datagram(usize, u32),
    Probe(usize, u32),
    Transmitted(Direction),
    Arrived(Packet),
    Timer(usize, u64),
    Sample,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Probe { probe: u16, sent: u64 },
    Datagram { number: u32, sent: u64 },
    Data { seq: u64 },
    Ack { ack: u64, sack: Option<(u64, u64)> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    direction: Direction,
    flow: usize,
    bytes: u16,
    content: Content,
    made: u64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Packet, usize)>,
    sending: Option<(Packet, usize, u64)>,
    bytes: u64,
    gated: [VecDeque<Packet>; 4],
}

struct Flow {
    direction: Direction,
    runs: Vec<(u64, u64)>,
    window: u64,
    cwnd: f64,
    threshold: f64,
    /// The window and the time of the last loss, for CUBIC (RFC 9438).
    peak: (f64, u64),
    una: u64,
    next: u64,
    sacked: BTreeSet<u64>,
    resent: BTreeSet<u64>,
    recover: u64,
    retransmits: u32,
    // The receiver's state.
    expected: u64,
    above: BTreeSet<u64>,
    unacked: u32,
}

struct Model<'a> {
    experiment: &'a Experiment,
    gate: bool,
    now: u64,
    end: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    queues: BTreeMap<Direction, Queue>,
    flows: Vec<Option<Flow>>,
    recording: Recording,
}

fn direction(from: Node) -> Direction {
    match from {
        Node::Host(_) | Node::Gateway => Direction::Up,
        _ => Direction::Down,
    }
}

impl<'a> Model<'a> {
    fn new(experiment: &'a Experiment, arm: &str, gate: bool) -> Self {
        let end = experiment.duration().as_nanos();
        let mut model = Self {
            experiment,
            gate,
            now: 0,
            end,
            order: 0,
            events: BinaryHeap::new(),
            queues: [
                (Direction::Up, Queue::default()),
                (Direction::Down, Queue::default()),
            ]
            .into(),
            flows: Vec::new(),
            recording: Recording {
                kernel: "Linux 6.12 (model)".into(),
                arm: arm.into(),
                duration_ns: end,
                places: vec!["wan 1:10".into()],
                classes: vec!["interactive".into()],
                transcript: vec![Transcript {
                    what: format!("gateway: apply {arm} <policy>"),
                    output: "qdisc replace dev wan root handle 1: htb\n".into(),
                    status: 0,
                }],
                ..Recording::default()
            },
        };
        for traffic in &experiment.traffic {
            for instance in 0..traffic.count {
                let index = model.flows.len();
                model.recording.flows.push(FlowName {
                    name: traffic.name.clone(),
                    instance,
                });
                let shift = traffic.stagger.as_nanos() * u64::from(instance);
                let runs: Vec<(u64, u64)> = traffic
                    .runs
                    .iter()
                    .map(|r| (r.0.as_nanos() + shift, r.1.as_nanos()))
                    .collect();
                let window = match &traffic.kind {
                    TrafficKind::Tcp(tcp) => tcp.window.map_or(1 << 20, Size::as_bytes),
                    _ => 0,
                };
                for (start, _) in &runs {
                    match traffic.kind {
                        TrafficKind::Udp { .. } => model.at(*start, Event::Datagram(index, 0)),
                        _ => model.at(*start, Event::Start(index)),
                    }
                }
                model.flows.push(Some(Flow {
                    direction: direction(traffic.from),
                    runs,
                    window: window / MSS,
                    cwnd: 10.0,
                    threshold: f64::MAX,
                    peak: (0.0, 0),
                    una: 0,
                    next: 0,
                    sacked: BTreeSet::new(),
                    resent: BTreeSet::new(),
                    recover: 0,
                    retransmits: 0,
                    expected: 0,
                    above: BTreeSet::new(),
                    unacked: 0,
                }));
            }
        }
        for (index, probe) in experiment.probes.iter().enumerate() {
            model.recording.flows.push(FlowName {
                name: probe.name.clone(),
                instance: 0,
            });
            model.flows.push(None);
            for (start, _) in &probe.runs {
                model.at(start.as_nanos(), Event::Probe(index, 0));
            }
        }
        model.at(0, Event::Sample);
        model
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn side(&self, direction: Direction) -> &'a LineSide {
        match direction {
            Direction::Up => &self.experiment.topology.line.up,
            Direction::Down => &self.experiment.topology.line.down,
        }
    }

    fn running(&self, flow: usize) -> bool {
        let runs = self.flows[flow].as_ref().map(|flow| &flow.runs);
        runs.is_some_and(|runs| runs.iter().any(|run| (run.0..run.1).contains(&self.now)))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start(flow) => {
                self.send(flow);
                self.at(self.now + SECOND, Event::Timer(flow, u64::MAX));
            }
            Event::Timer(flow, una) => self.timer(flow, una),
            Event::Datagram(flow, number) => self.datagram(flow, number),
            Event::Probe(probe, number) => self.probe(probe, number),
            Event::Transmitted(direction) => self.transmitted(direction),
            Event::Arrived(packet) => self.arrived(packet),
            Event::Sample => self.sample(),
        }
    }

    fn datagram(&mut self, flow: usize, number: u32) {
        if !self.running(flow) {
            return;
        }
        let name = &self.recording.flows[flow].name;
        let traffic = self
            .experiment
            .traffic
            .iter()
            .find(|t| &t.name == name)
            .unwrap();
        let TrafficKind::Udp {
            interval, packet, ..
        } = traffic.kind
        else {
            return;
        };
        self.at(
            self.now + interval.as_nanos(),
            Event::Datagram(flow, number + 1),
        );
        let content = Content::Datagram {
            number,
            sent: self.now,
        };
        let direction = direction(traffic.from);
        self.offer(Packet {
            direction,
            flow,
            bytes: packet,
            content,
            made: self.now,
        });
    }

    fn probe(&mut self, index: usize, number: u32) {
        let probe = &self.experiment.probes[index];
        if !probe
            .runs
            .iter()
            .any(|r| (r.0.as_nanos()..r.1.as_nanos()).contains(&self.now))
        {
            return;
        }
        // Add jitter; otherwise probes would sample one phase of every period.
        let jitter = u64::from(number.wrapping_mul(2_654_435_761) >> 12) % 5_000_000;
        self.at(
            self.now + probe.interval.as_nanos() + jitter,
            Event::Probe(index, number + 1),
        );
        let sent = self.recording.probes.len() as u64;
        let reply = ProbeReply {
            probe: index as u16,
            sent_ns: self.now,
            rtt_ns: None,
        };
        self.recording.probes.push(reply);
        let flow = self.flows.len() - self.experiment.probes.len() + index;
        let content = Content::Probe {
            probe: index as u16,
            sent,
        };
        let direction = Direction::Up;
        self.offer(Packet {
            direction,
            flow,
            bytes: probe.packet,
            content,
            made: self.now,
        });
    }

    /// Passes a packet to the gate or to the line.
    fn offer(&mut self, packet: Packet) {
        if self.gate && packet.direction == Direction::Up {
            let band = match packet.content {
                Content::Probe { .. } => 0,
                Content::Ack { .. } => 1,
                Content::Datagram { .. } => 2,
                Content::Data { .. } => 3,
            };
            let band = &mut self.queues.get_mut(&Direction::Up).unwrap().gated[band];
            // The limit of each queue is 28125 bytes, as in the thesis.
            if band
                .iter()
                .map(|packet| u64::from(packet.bytes))
                .sum::<u64>()
                < 28_125
            {
                band.push_back(packet);
            }
            self.open_gate();
        } else {
            self.enter(packet);
        }
    }

    fn open_gate(&mut self) {
        let queue = self.queues.get_mut(&Direction::Up).unwrap();
        if queue.sending.is_some() || !queue.waiting.is_empty() {
            return;
        }
        let next = queue.gated.iter_mut().find_map(VecDeque::pop_front);
        if let Some(packet) = next {
            if let Content::Probe { .. } = packet.content {
                self.recording.sojourns.push(Sojourn {
                    direction: Direction::Up,
                    class: 0,
                    at_ns: self.now,
                    wait_ns: self.now - packet.made,
                });
            }
            self.enter(packet);
        }
    }

    fn enter(&mut self, packet: Packet) {
        let side = self.side(packet.direction);
        let line = &self.experiment.topology.line;
        let queue = self.queues.get_mut(&packet.direction).unwrap();
        let sending = queue
            .sending
            .map_or(0, |sending| u64::from(sending.0.bytes));
        let full = match side.buffer {
            Buffer::Bytes(limit) => queue.bytes + u64::from(packet.bytes) > limit.as_bytes(),
            Buffer::Packets(limit) => queue.waiting.len() >= limit as usize,
        };
        let idle = queue.sending.is_none();
        let dropped = full && !idle;
        let segment = |seq: u64, ack: u64, payload, sack: Option<(u64, u64)>| TcpSegment {
            seq: (seq * MSS) as u32,
            ack: (ack * MSS) as u32,
            payload,
            flags: 0x10,
            window: 500,
            sack: sack.map(|(from, to)| ((from * MSS) as u32, (to * MSS) as u32)),
        };
        let tcp = match packet.content {
            Content::Data { seq } => Some(segment(seq, 0, MSS as u16, None)),
            Content::Ack { ack, sack } => Some(segment(0, ack, 0, sack)),
            _ => None,
        };
        let number = self.recording.line.len();
        self.recording.line.push(LinePacket {
            direction: packet.direction,
            flow: Some(packet.flow as u16),
            arrived_ns: self.now,
            fate: if dropped { Fate::Dropped } else { Fate::Left },
            ip_bytes: packet.bytes,
            wire_bytes: wire_bytes(line, u64::from(packet.bytes)) as u32,
            ahead_packets: (queue.waiting.len() + usize::from(!idle)) as u32,
            ahead_bytes: (queue.bytes + sending) as u32,
            tcp,
        });
        if dropped {
            return;
        }
        queue.waiting.push_back((packet, number));
        queue.bytes += u64::from(packet.bytes);
        if idle {
            self.transmit(packet.direction);
        }
    }

    fn transmit(&mut self, direction: Direction) {
        let rate = self.side(direction).rate.as_bits_per_second();
        let line = &self.experiment.topology.line;
        let now = self.now;
        let queue = self.queues.get_mut(&direction).unwrap();
        let Some((packet, number)) = queue.waiting.pop_front() else {
            return;
        };
        queue.bytes -= u64::from(packet.bytes);
        queue.sending = Some((packet, number, now));
        let time = wire_bytes(line, u64::from(packet.bytes)) * 8 * SECOND / rate;
        self.at(now + time, Event::Transmitted(direction));
    }

    fn transmitted(&mut self, direction: Direction) {
        let delay = self.side(direction).delay.as_nanos();
        let queue = self.queues.get_mut(&direction).unwrap();
        if let Some((packet, number, start_ns)) = queue.sending.take() {
            self.recording.line[number].fate = Fate::Sent {
                start_ns,
                end_ns: self.now,
            };
            self.at(self.now + delay, Event::Arrived(packet));
        }
        self.transmit(direction);
        if direction == Direction::Up {
            self.open_gate();
        }
    }

    fn arrived(&mut self, packet: Packet) {
        match packet.content {
            Content::Probe { probe, sent } if packet.direction == Direction::Up => {
                let content = Content::Probe { probe, sent };
                self.offer(Packet {
                    direction: Direction::Down,
                    content,
                    ..packet
                });
            }
            Content::Probe { sent, .. } => {
                let reply = &mut self.recording.probes[sent as usize];
                reply.rtt_ns = Some(self.now - reply.sent_ns);
            }
            Content::Datagram { number, sent } => self.recording.delivered.push(Delivered {
                flow: packet.flow as u16,
                at_ns: self.now,
                bytes: u32::from(packet.bytes) - 28,
                datagram: Some(number),
                transit_ns: Some(self.now - sent),
            }),
            Content::Data { seq } => self.received(packet.flow, seq),
            Content::Ack { ack, sack } => self.acknowledged(packet.flow, ack, sack),
        }
    }

    fn received(&mut self, index: usize, seq: u64) {
        let flow = self.flows[index].as_mut().unwrap();
        let before = flow.expected;
        if seq >= flow.expected {
            flow.above.insert(seq);
        }
        while flow.above.remove(&flow.expected) {
            flow.expected += 1;
        }
        let bytes = (flow.expected - before) * MSS;
        flow.unacked += 1;
        let in_order = flow.above.is_empty() && flow.expected == before + 1;
        let reverse = flow.direction.reversed();
        let sack = flow.above.contains(&seq).then(|| {
            let (mut from, mut to) = (seq, seq + 1);
            while flow.above.contains(&(from - 1)) {
                from -= 1;
            }
            while flow.above.contains(&to) {
                to += 1;
            }
            (from, to)
        });
        let ack = flow.expected;
        let now = !in_order || flow.unacked >= 2;
        if now {
            flow.unacked = 0;
        }
        if bytes > 0 {
            self.recording.delivered.push(Delivered {
                flow: index as u16,
                at_ns: self.now,
                bytes: bytes as u32,
                datagram: None,
                transit_ns: None,
            });
        }
        if now {
            let extra = if sack.is_some() { 12 } else { 0 };
            self.offer(Packet {
                direction: reverse,
                flow: index,
                bytes: HEADERS + extra,
                content: Content::Ack { ack, sack },
                made: self.now,
            });
        }
    }

    fn acknowledged(&mut self, index: usize, ack: u64, sack: Option<(u64, u64)>) {
        let flow = self.flows[index].as_mut().unwrap();
        if let Some((from, to)) = sack {
            flow.sacked.extend(from..to);
        }
        let newly = ack.saturating_sub(flow.una);
        flow.una = flow.una.max(ack);
        flow.next = flow.next.max(flow.una);
        flow.sacked = flow.sacked.split_off(&flow.una);
        flow.resent = flow.resent.split_off(&flow.una);
        if flow.una >= flow.recover && newly > 0 {
            if flow.cwnd < flow.threshold {
                flow.cwnd += newly as f64;
            } else {
                let (peak, since) = flow.peak;
                let seconds = (self.now - since) as f64 / SECOND as f64;
                let target = 0.4 * (seconds - (peak * 0.75).cbrt()).powi(3) + peak;
                flow.cwnd +=
                    (target - flow.cwnd).clamp(0.01, flow.cwnd / 2.0) / flow.cwnd * newly as f64;
            }
            flow.cwnd = flow.cwnd.min(flow.window as f64);
        }
        if flow.sacked.len() >= 3 && flow.una >= flow.recover {
            flow.recover = flow.next;
            flow.peak = (flow.cwnd, self.now);
            flow.threshold = (flow.cwnd * 0.7).max(2.0);
            flow.cwnd = flow.threshold;
        }
        self.send(index);
    }

    fn send(&mut self, index: usize) {
        let running = self.running(index);
        loop {
            let flow = self.flows[index].as_mut().unwrap();
            let recovering = flow.una < flow.recover;
            let highest = flow.sacked.last().copied().unwrap_or(0);
            let lost = (flow.una..highest)
                .filter(|seq| recovering && !flow.sacked.contains(seq) && seq + 3 <= highest)
                .collect::<Vec<u64>>();
            let again = lost.iter().filter(|seq| flow.resent.contains(seq)).count() as u64;
            let gone = flow.sacked.len() as u64 + lost.len() as u64;
            let outstanding = (flow.next - flow.una).saturating_sub(gone) + again;
            if outstanding as f64 >= flow.cwnd.floor() {
                return;
            }
            let again = lost.iter().copied().find(|seq| !flow.resent.contains(seq));
            let seq = match again {
                Some(seq) => {
                    flow.resent.insert(seq);
                    flow.retransmits += 1;
                    seq
                }
                None if running && flow.next - flow.una < flow.window => {
                    flow.next += 1;
                    flow.next - 1
                }
                None => return,
            };
            let packet = Packet {
                direction: flow.direction,
                flow: index,
                bytes: MSS as u16 + HEADERS,
                content: Content::Data { seq },
                made: self.now,
            };
            self.offer(packet);
        }
    }

    /// Retransmits from the first missing byte after seconds without progress.
    fn timer(&mut self, index: usize, una: u64) {
        let flow = self.flows[index].as_mut().unwrap();
        if flow.una == una && flow.next > una {
            flow.sacked.clear();
            flow.resent.clear();
            flow.next = flow.una;
            flow.recover = flow.una;
            flow.threshold = (flow.cwnd / 2.0).max(2.0);
            flow.peak = (flow.cwnd, self.now);
            flow.cwnd = 2.0;
            flow.retransmits += 1;
            self.send(index);
        }
        let una = self.flows[index].as_ref().unwrap().una;
        self.at(self.now + 5 * SECOND, Event::Timer(index, una));
    }

    fn sample(&mut self) {
        self.at(self.now + SECOND / 10, Event::Sample);
        for index in 0..self.flows.len() {
            if !self.running(index) {
                continue;
            }
            let Some(flow) = self.flows[index].as_ref().filter(|flow| flow.window > 0) else {
                continue;
            };
            self.recording.tcp.push(TcpSample {
                flow: index as u16,
                at_ns: self.now,
                cwnd_bytes: flow.cwnd as u64 * MSS,
                outstanding_bytes: (flow.next - flow.una) * MSS,
                srtt_us: 0,
                retransmits: flow.retransmits,
            });
        }
        let gated = self.queues[&Direction::Up].gated.iter().flatten();
        let backlog_packets = gated.clone().count() as u32;
        let backlog_bytes = gated.map(|packet| u32::from(packet.bytes)).sum();
        self.recording.queues.push(QueueSample {
            place: 0,
            at_ns: self.now,
            bytes: 0,
            packets: 0,
            drops: 0,
            marks: 0,
            backlog_bytes,
            backlog_packets,
        });
    }
}
