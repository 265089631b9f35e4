// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects the observations of a run, and maps packets to flows.
//!
//! Every part of the agent has a clone of the same [`Recorder`]. It computes no statistics;
//! crate `measure` does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weirgate_experiment::{
    Capture, Changed, Connection, Delivered, Direction, Fate, FlowName, IdleSample, LinePacket,
    NumberSample, ProbeReply, QueueSample, Recording, Sojourn, TcpSample, Tracked, Transcript,
};

/// The largest number of stamped packets per flow between line and receiver that are remembered.
/// Those with lower numbers are lost packets.
const REMEMBERED: usize = 65_536;

/// The class of acknowledgements without data.
const ACK: &str = "ack";

/// The number of records reserved at once, so that vectors rarely grow.
const RESERVED: usize = 16_384;

/// A handle to the run's records, which clones share.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    shared: Rc<RefCell<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    recording: Recording,
    flows: Vec<Flow>,
    /// Flow by protocol, far port and near port. Near port 0 matches any port.
    labels: BTreeMap<(u8, u16, u16), u16>,
}

#[derive(Debug, Default)]
struct Flow {
    /// Index of its class.
    class: Option<u16>,
    /// Times of stamped packets that left the line downstream, by sequence number.
    left_line: BTreeMap<u32, u64>,
    /// Times of packets that reached their receiver before the line has reported their
    /// departure, by sequence number.
    received: BTreeMap<u32, u64>,
}

impl Flow {
    /// Removes and returns a packet's time from `from`. If it is not there, stores it in `to`.
    fn pair(
        from: &mut BTreeMap<u32, u64>,
        to: &mut BTreeMap<u32, u64>,
        seq: u32,
        at_ns: u64,
    ) -> Option<u64> {
        if let Some(there_ns) = from.remove(&seq) {
            return Some(there_ns);
        }
        if to.len() >= REMEMBERED {
            to.pop_first();
        }
        to.insert(seq, at_ns);
        None
    }
}

impl Recorder {
    /// Returns an empty recording with room for many records.
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

    /// Returns the index of a flow, which is created on first use. `class` is the policy class
    /// that its packets should get.
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

    /// Returns the index of a class in sojourn records.
    pub fn class(&self, name: &str) -> u16 {
        index_of(&mut self.shared.borrow_mut().recording.classes, name)
    }

    /// Records a sample of the processors' idle time.
    pub fn idle(&self, sample: IdleSample) {
        self.shared.borrow_mut().recording.idle.push(sample);
    }

    /// Records a sample of the average queue of the kit's discipline.
    pub fn average(&self, sample: NumberSample) {
        self.shared.borrow_mut().recording.averages.push(sample);
    }

    /// Returns the index of a place where queues are sampled.
    pub fn place(&self, name: &str) -> u16 {
        index_of(&mut self.shared.borrow_mut().recording.places, name)
    }

    /// Assigns packets of `protocol` (6 TCP, 17 UDP) between `near_port` (behind the gateway;
    /// `None` for any) and `far_port` (beyond the line) to this flow, in both directions. For a
    /// TCP connection, bind and call this before connecting, so that the SYN is included.
    pub fn label(&self, protocol: u8, far_port: u16, near_port: Option<u16>, flow: u16) {
        let key = (protocol, far_port, near_port.unwrap_or(0));
        self.shared.borrow_mut().labels.insert(key, flow);
    }

    /// Returns the flow of a packet with these ports.
    #[must_use]
    pub fn label_of(&self, protocol: u8, far_port: u16, near_port: u16) -> Option<u16> {
        let labels = &self.shared.borrow().labels;
        labels
            .get(&(protocol, far_port, near_port))
            .or_else(|| labels.get(&(protocol, far_port, 0)))
            .copied()
    }

    /// Records a sent probe. Returns its number for [`Recorder::answered`].
    pub fn probe(&self, probe: u16, sent_ns: u64) -> usize {
        let probes = &mut self.shared.borrow_mut().recording.probes;
        probes.push(ProbeReply {
            probe,
            sent_ns,
            rtt_ns: None,
        });
        probes.len() - 1
    }

    /// Records the reply to a probe. A second reply is ignored.
    pub fn answered(&self, number: usize, rtt_ns: u64) {
        let probes = &mut self.shared.borrow_mut().recording.probes;
        if let Some(probe) = probes.get_mut(number) {
            probe.rtt_ns.get_or_insert(rtt_ns);
        }
    }

    /// Records the wait of a stamped packet that reached the line from the gateway. Does nothing
    /// if its flow has no class.
    pub fn waited_up(&self, flow: u16, at_ns: u64, wait_ns: u64) {
        self.shared
            .borrow_mut()
            .sojourn(Direction::Up, flow, at_ns, wait_ns);
    }

    /// Records the wait of a TCP segment without a stamp that reached the line from the gateway.
    /// A pure ACK counts as class `ack`, others as their flow's class. Does nothing if the flow
    /// has no class.
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

    /// Records the state of connection tracking at the end of the run.
    pub fn tracked(&self, tracked: Vec<Tracked>) {
        self.shared.borrow_mut().recording.tracked = Some(tracked);
    }

    /// Records when a stamped packet left the line for the gateway. If its time of reception is
    /// known, its wait is recorded too. Does nothing if its flow has no class.
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

    /// Records when a stamped packet or its reply reached its receiver behind the gateway. If
    /// its departure from the line is known, its wait is recorded too. The line's records may
    /// arrive after the packet.
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

    /// Records payload that reached its receiver. Returns the record's number for
    /// [`Recorder::delivered_mut`].
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

    /// Records the start of a connection. Returns its number for [`Recorder::connection_mut`].
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

    /// Starts the capture: keeps the beginning of each packet at the line from now on.
    pub fn start_capture(&self) {
        self.shared.borrow_mut().recording.capture = Capture::started();
    }

    /// Records a packet at the line. Returns its number for [`Recorder::line_fate`]. `frame` is
    /// its Ethernet frame.
    pub fn line(&self, packet: LinePacket, frame: &[u8]) -> usize {
        let recording = &mut self.shared.borrow_mut().recording;
        let number = recording.line.len();
        recording.line.push(packet);
        recording.capture.keep(number, frame);
        number
    }

    /// Records the fate of a packet at the line.
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

    /// Returns the number of recorded policy changes.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.shared.borrow().recording.changes.len()
    }

    /// Takes the recording out. Later observations are lost.
    #[must_use]
    pub fn take(&self) -> Recording {
        std::mem::take(&mut self.shared.borrow_mut().recording)
    }
}

impl Records {
    /// Returns a flow if it has a class.
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
    use std::time::{Duration, Instant};

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
        // The line may report late that a packet has left.
        recorder.left_line(flow, 9, 240);
        let waits: Vec<u64> = recorder.take().sojourns.iter().map(|s| s.wait_ns).collect();
        assert_eq!(waits, [50, 160, 30]);
    }

    #[test]
    fn lost_packets_do_not_make_later_ones_slow() {
        const LOST: u32 = 65_000;
        let recorder = Recorder::new();
        let flow = recorder.flow("flood", 0, Some("rest"));
        for seq in 0..LOST {
            recorder.left_line(flow, seq, 0);
        }
        let began = Instant::now();
        for seq in LOST..LOST + 600_000 {
            recorder.left_line(flow, seq, 1);
            recorder.received(flow, seq, 3);
        }
        // A search among those that are lost takes a minute.
        assert!(began.elapsed() < Duration::from_secs(5));
        let waits = recorder.take().sojourns;
        assert_eq!(waits.len(), 600_000);
        assert!(waits.iter().all(|one| one.wait_ns == 2));
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
