// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects what a run observes, and knows which packet belongs to which flow.
//!
//! Every part of the agent holds a clone of the one [`Recorder`]. It computes
//! nothing: statistics are the crate `measure`'s.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use weirgate_experiment::{
    Capture, Changed, Connection, Delivered, Direction, Fate, FlowName, IdleSample, LinePacket,
    NumberSample, ProbeReply, QueueSample, Recording, Sojourn, TcpSample, Tracked, Transcript,
};

/// Stamped packets of one flow between line and receiver that are remembered;
/// older ones were lost on the way.
const REMEMBERED: usize = 65_536;

/// The class of acknowledgements without data.
const ACK: &str = "ack";

/// Records reserved at once, so that growing seldom copies.
const RESERVED: usize = 16_384;

/// A handle on the run's records; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    shared: Rc<RefCell<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    recording: Recording,
    flows: Vec<Flow>,
    /// Flow by protocol, far port and near port; near port 0 stands for any.
    labels: BTreeMap<(u8, u16, u16), u16>,
}

#[derive(Debug, Default)]
struct Flow {
    /// Index of its class.
    class: Option<u16>,
    /// Sequence number and time of stamped packets that left the line downwards.
    left_line: VecDeque<(u32, u64)>,
    /// The same of those that reached their receiver, where the line has not reported
    /// yet that they left it.
    received: VecDeque<(u32, u64)>,
}

impl Flow {
    /// Takes a packet's time out of `from`, else remembers in `to` that it has
    /// been here. Packets of one flow nearly always keep their order: the first
    /// hit is at the front.
    fn pair(
        from: &mut VecDeque<(u32, u64)>,
        to: &mut VecDeque<(u32, u64)>,
        seq: u32,
        at_ns: u64,
    ) -> Option<u64> {
        let hit = from.iter().position(|&(other, _)| other == seq);
        if let Some((_, there_ns)) = hit.and_then(|index| from.remove(index)) {
            return Some(there_ns);
        }
        if to.len() >= REMEMBERED {
            to.pop_front();
        }
        to.push_back((seq, at_ns));
        None
    }
}

impl Recorder {
    /// An empty recording with room for many records.
    #[must_use]
    pub fn new() -> Self {
        let recording = Recording {
            line: Vec::with_capacity(RESERVED * 8),
            probes: Vec::with_capacity(RESERVED),
            sojourns: Vec::with_capacity(RESERVED),
            delivered: Vec::with_capacity(RESERVED),
            tcp: Vec::with_capacity(RESERVED),
            queues: Vec::with_capacity(RESERVED),
            ..Recording::default()
        };
        Self {
            shared: Rc::new(RefCell::new(Records {
                recording,
                ..Records::default()
            })),
        }
    }

    /// The index of a flow, created at the first request. `class` is the policy class that its
    /// packets should get.
    pub fn flow(&self, name: &str, instance: u16, class: Option<&str>) -> u16 {
        let class = class.map(|class| self.class(class));
        let records = &mut *self.shared.borrow_mut();
        let flows = &mut records.recording.flows;
        let known = flows
            .iter()
            .position(|flow| flow.instance == instance && flow.name == name);
        if let Some(index) = known {
            return index as u16;
        }
        let name = name.to_owned();
        flows.push(FlowName { name, instance });
        records.flows.push(Flow {
            class,
            ..Flow::default()
        });
        (flows.len() - 1) as u16
    }

    /// The index of a class in sojourn records.
    pub fn class(&self, name: &str) -> u16 {
        index_of(&mut self.shared.borrow_mut().recording.classes, name)
    }

    /// Keeps how long the processors have had nothing to do.
    pub fn idle(&self, sample: IdleSample) {
        self.shared.borrow_mut().recording.idle.push(sample);
    }

    /// Keeps a sample of the average that the kit's discipline decides by.
    pub fn average(&self, sample: NumberSample) {
        self.shared.borrow_mut().recording.averages.push(sample);
    }

    /// The index of a place where queues are sampled.
    pub fn place(&self, name: &str) -> u16 {
        index_of(&mut self.shared.borrow_mut().recording.places, name)
    }

    /// Makes the line record packets of `protocol` (6 TCP, 17 UDP) between
    /// `near_port` (behind the gateway; any where absent) and `far_port`
    /// (beyond the line) as this flow's, both ways. For a TCP connection bind
    /// first, so that the SYN is labelled too.
    pub fn label(&self, protocol: u8, far_port: u16, near_port: Option<u16>, flow: u16) {
        let key = (protocol, far_port, near_port.unwrap_or(0));
        self.shared.borrow_mut().labels.insert(key, flow);
    }

    /// The flow of a packet with these ports.
    #[must_use]
    pub fn label_of(&self, protocol: u8, far_port: u16, near_port: u16) -> Option<u16> {
        let labels = &self.shared.borrow().labels;
        labels
            .get(&(protocol, far_port, near_port))
            .or_else(|| labels.get(&(protocol, far_port, 0)))
            .copied()
    }

    /// Records a probe that was sent, and returns the number under which
    /// [`Recorder::answered`] knows it.
    pub fn probe(&self, probe: u16, sent_ns: u64) -> usize {
        let probes = &mut self.shared.borrow_mut().recording.probes;
        probes.push(ProbeReply {
            probe,
            sent_ns,
            rtt_ns: None,
        });
        probes.len() - 1
    }

    /// Records the answer to a probe; a second answer changes nothing.
    pub fn answered(&self, number: usize, rtt_ns: u64) {
        let probes = &mut self.shared.borrow_mut().recording.probes;
        if let Some(probe) = probes.get_mut(number) {
            probe.rtt_ns.get_or_insert(rtt_ns);
        }
    }

    /// Records the wait of a stamped packet that reached the line from the
    /// gateway; nothing where its flow has no class.
    pub fn waited_up(&self, flow: u16, at_ns: u64, wait_ns: u64) {
        self.shared
            .borrow_mut()
            .sojourn(Direction::Up, flow, at_ns, wait_ns);
    }

    /// Records the wait of a TCP segment without a stamp that reached the line
    /// from the gateway: an acknowledgement alone is of class `ack`, all else
    /// of its flow's; nothing where that has none.
    pub fn segment_waited(&self, flow: Option<u16>, ack: bool, at_ns: u64, wait_ns: u64) {
        let class = if ack {
            Some(self.class(ACK))
        } else {
            let records = self.shared.borrow();
            flow.and_then(|flow| records.flows.get(usize::from(flow))?.class)
        };
        if let Some(class) = class {
            self.shared.borrow_mut().recording.sojourns.push(Sojourn {
                direction: Direction::Up,
                class,
                at_ns,
                wait_ns,
            });
        }
    }

    /// Records what connection tracking knew at the end of the run.
    pub fn tracked(&self, tracked: Vec<Tracked>) {
        self.shared.borrow_mut().recording.tracked = Some(tracked);
    }

    /// Records when a stamped packet left the line for the gateway: its wait, once
    /// it is known too when it reached its receiver. Nothing where its flow has no
    /// class.
    pub fn left_line(&self, flow: u16, seq: u32, at_ns: u64) {
        let records = &mut *self.shared.borrow_mut();
        let Some(known) = records.classed(flow) else {
            return;
        };
        let there_ns = Flow::pair(&mut known.received, &mut known.left_line, seq, at_ns);
        if let Some(received_ns) = there_ns {
            let wait_ns = received_ns.saturating_sub(at_ns);
            records.sojourn(Direction::Down, flow, received_ns, wait_ns);
        }
    }

    /// Records when a stamped packet, or its answer, reached its receiver behind
    /// the gateway: its wait, once it is known too when it left the line. The
    /// line's records may come later than the packet.
    pub fn received(&self, flow: u16, seq: u32, at_ns: u64) {
        let records = &mut *self.shared.borrow_mut();
        let Some(known) = records.classed(flow) else {
            return;
        };
        let there_ns = Flow::pair(&mut known.left_line, &mut known.received, seq, at_ns);
        if let Some(left_ns) = there_ns {
            let wait_ns = at_ns.saturating_sub(left_ns);
            records.sojourn(Direction::Down, flow, at_ns, wait_ns);
        }
    }

    /// Records payload that reached its receiver, and returns the number under
    /// which [`Recorder::delivered_mut`] knows the record.
    pub fn delivered(&self, delivered: Delivered) -> usize {
        let all = &mut self.shared.borrow_mut().recording.delivered;
        all.push(delivered);
        all.len() - 1
    }

    /// Changes a record of payload.
    pub fn delivered_mut(&self, number: usize, change: impl FnOnce(&mut Delivered)) {
        let all = &mut self.shared.borrow_mut().recording.delivered;
        if let Some(delivered) = all.get_mut(number) {
            change(delivered);
        }
    }

    /// Records the start of a connection, and returns the number under which
    /// [`Recorder::connection_mut`] knows it.
    pub fn connection(&self, connection: Connection) -> usize {
        let connections = &mut self.shared.borrow_mut().recording.connections;
        connections.push(connection);
        connections.len() - 1
    }

    /// Changes a connection's record.
    pub fn connection_mut(&self, number: usize, change: impl FnOnce(&mut Connection)) {
        let connections = &mut self.shared.borrow_mut().recording.connections;
        if let Some(connection) = connections.get_mut(number) {
            change(connection);
        }
    }

    /// Records a sender's TCP state.
    pub fn tcp(&self, sample: TcpSample) {
        self.shared.borrow_mut().recording.tcp.push(sample);
    }

    /// Records a queue's counters.
    pub fn queue(&self, sample: QueueSample) {
        self.shared.borrow_mut().recording.queues.push(sample);
    }

    /// From now on, the beginning of each packet at the line is kept.
    pub fn start_capture(&self) {
        self.shared.borrow_mut().recording.capture = Capture::started();
    }

    /// Records a packet at the line, and returns the number under which
    /// [`Recorder::line_fate`] knows it. `frame` is its Ethernet frame.
    pub fn line(&self, packet: LinePacket, frame: &[u8]) -> usize {
        let recording = &mut self.shared.borrow_mut().recording;
        let number = recording.line.len();
        recording.line.push(packet);
        recording.capture.keep(number, frame);
        number
    }

    /// Records what became of a packet at the line.
    pub fn line_fate(&self, number: usize, fate: Fate) {
        let line = &mut self.shared.borrow_mut().recording.line;
        if let Some(packet) = line.get_mut(number) {
            packet.fate = fate;
        }
    }

    /// Records a command or an applied policy.
    pub fn transcript(&self, what: String, output: String, status: i32) {
        let transcript = Transcript {
            what,
            output,
            status,
        };
        let transcripts = &mut self.shared.borrow_mut().recording.transcript;
        transcripts.push(transcript);
    }

    /// Records a change of the policy while traffic ran.
    pub fn changed(&self, changed: Changed) {
        self.shared.borrow_mut().recording.changes.push(changed);
    }

    /// How many changes of the policy were recorded.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.shared.borrow().recording.changes.len()
    }

    /// Takes the recording out; what is recorded afterwards is lost.
    #[must_use]
    pub fn take(&self) -> Recording {
        std::mem::take(&mut self.shared.borrow_mut().recording)
    }
}

impl Records {
    /// A flow that has a class.
    fn classed(&mut self, flow: u16) -> Option<&mut Flow> {
        let known = self.flows.get_mut(usize::from(flow));
        known.filter(|known| known.class.is_some())
    }

    fn sojourn(&mut self, direction: Direction, flow: u16, at_ns: u64, wait_ns: u64) {
        let class = self
            .flows
            .get(usize::from(flow))
            .and_then(|flow| flow.class);
        if let Some(class) = class {
            self.recording.sojourns.push(Sojourn {
                direction,
                class,
                at_ns,
                wait_ns,
            });
        }
    }
}

fn index_of(names: &mut Vec<String>, name: &str) -> u16 {
    let known = names.iter().position(|known| known == name);
    known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    }) as u16
}

#[cfg(test)]
mod tests {
    use super::Recorder;

    #[test]
    fn labels_prefer_the_exact_port() {
        let recorder = Recorder::new();
        let any = recorder.flow("web", 0, None);
        let exact = recorder.flow("web", 1, None);
        recorder.label(6, 80, None, any);
        recorder.label(6, 80, Some(4_000), exact);
        assert_eq!(recorder.label_of(6, 80, 4_000), Some(exact));
        assert_eq!(recorder.label_of(6, 80, 4_001), Some(any));
        assert_eq!(recorder.label_of(17, 80, 4_000), None);
        assert_eq!(recorder.flow("web", 1, None), exact);
    }

    #[test]
    fn waits_downwards_start_where_the_line_ends() {
        let recorder = Recorder::new();
        let flow = recorder.flow("probe", 0, Some("interactive"));
        let unclassed = recorder.flow("other", 0, None);
        for (flow, seq) in [(flow, 1), (flow, 2), (flow, 3), (unclassed, 1)] {
            recorder.left_line(flow, seq, 100 * u64::from(seq));
        }
        recorder.received(flow, 2, 250);
        recorder.received(flow, 1, 260);
        recorder.received(flow, 1, 270);
        recorder.received(flow, 9, 270);
        recorder.received(unclassed, 1, 270);
        // The line tells late that it let a packet go.
        recorder.left_line(flow, 9, 240);
        let waits: Vec<u64> = recorder.take().sojourns.iter().map(|s| s.wait_ns).collect();
        assert_eq!(waits, [50, 160, 30]);
    }

    #[test]
    fn only_the_first_answer_counts() {
        let recorder = Recorder::new();
        let number = recorder.probe(0, 10);
        recorder.answered(number, 5);
        recorder.answered(number, 50);
        assert_eq!(recorder.take().probes[0].rtt_ns, Some(5));
    }
}
