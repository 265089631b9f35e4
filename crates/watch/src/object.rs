// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The observed objects and their metrics. Users, dashboards and alert rules rely on their
//! names, so a name never changes its meaning.

use std::fmt::Write as _;

/// The sort of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// A network device.
    Device,
    /// A queueing discipline.
    Qdisc,
    /// A class of the policy, or of an HTB.
    Class,
    /// A rule of the policy, by its counter.
    Rule,
    /// The connection tracking table.
    Connections,
    /// A probe that this program sends.
    Probe,
    /// A host on the inside.
    Host,
    /// One direction of the policy's link.
    Link,
    /// A protocol and port to which tracked connections go.
    Service,
    /// One of cake's priority tins.
    Tin,
    /// The packets of one colour at a conditioner.
    Conditioner,
    /// The program that chooses the receive windows of connections.
    Receive,
    /// Part of a provider's circuits: the link of a device, a site, or one circuit.
    Circuits,
    /// One of several links of a site, as `weirgate links run` uses it.
    SiteLink,
}

impl Sort {
    /// Returns the word for the sort in metric names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Qdisc => "qdisc",
            Self::Class => "class",
            Self::Rule => "rule",
            Self::Connections => "connections",
            Self::Probe => "probe",
            Self::Host => "host",
            Self::Link => "link",
            Self::Service => "service",
            Self::Tin => "tin",
            Self::Conditioner => "conditioner",
            Self::Receive => "receive",
            Self::Circuits => "circuits",
            Self::SiteLink => "site_link",
        }
    }
}

/// The behaviour of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// A counter that the kernel keeps in 64 bits.
    Counter,
    /// A counter of 32 bits, which wraps.
    Short,
    /// A current value.
    Gauge,
}

/// A metric of a sort of objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The sort of objects that have it.
    pub sort: Sort,
    /// The name, without `weirgate_` and the sort.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The behaviour.
    pub width: Width,
    /// The divisor that converts it to a base unit, as OpenMetrics requires.
    pub divisor: u32,
}

macro_rules! metrics {
    ($($id:ident: $sort:ident $name:literal $width:ident / $divisor:literal $help:literal;)*) => {
        /// All metrics.
        pub static METRICS: &[Metric] = &[$(Metric {
            sort: Sort::$sort,
            name: $name,
            help: $help,
            width: Width::$width,
            divisor: $divisor,
        }),*];

        /// A metric by its name: its index in [`METRICS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Number {
            $(#[doc = $help] $id),*
        }
    };
}

metrics! {
    DeviceReceivedBytes: Device "received_bytes" Counter / 1 "Bytes received, with link-layer headers.";
    DeviceReceivedPackets: Device "received_packets" Counter / 1 "Packets received.";
    DeviceReceivedDrops: Device "received_drops" Counter / 1 "Received packets that the device dropped.";
    DeviceSentBytes: Device "sent_bytes" Counter / 1 "Bytes sent, with link-layer headers.";
    DeviceSentPackets: Device "sent_packets" Counter / 1 "Packets sent.";
    DeviceSentDrops: Device "sent_drops" Counter / 1 "Packets to be sent that the device dropped.";
    QdiscSentBytes: Qdisc "sent_bytes" Counter / 1 "Bytes sent, as the root's size table counts them.";
    QdiscSentPackets: Qdisc "sent_packets" Counter / 1 "Packets sent.";
    QdiscDrops: Qdisc "drops" Short / 1 "Packets dropped.";
    QdiscOverlimits: Qdisc "overlimits" Short / 1 "How often sending had to wait.";
    QdiscRequeues: Qdisc "requeues" Short / 1 "Packets taken back from the device.";
    QdiscMarks: Qdisc "marks" Counter / 1 "Packets marked with ECN.";
    QdiscBacklogBytes: Qdisc "backlog_bytes" Gauge / 1 "Bytes waiting.";
    QdiscBacklogPackets: Qdisc "backlog_packets" Gauge / 1 "Packets waiting.";
    ClassSentBytes: Class "sent_bytes" Counter / 1 "Bytes sent, as the root's size table counts them: on the wire, where weirgate shapes.";
    ClassSentPackets: Class "sent_packets" Counter / 1 "Packets sent.";
    ClassDrops: Class "drops" Short / 1 "Packets dropped by the class's queue.";
    ClassOverlimits: Class "overlimits" Short / 1 "How often sending had to wait.";
    ClassBorrowed: Class "borrowed_packets" Short / 1 "Packets sent beyond the guarantee, with what others left.";
    ClassMarks: Class "marks" Counter / 1 "Packets marked with ECN by the class's queue.";
    ClassBacklogBytes: Class "backlog_bytes" Gauge / 1 "Bytes waiting.";
    ClassBacklogPackets: Class "backlog_packets" Gauge / 1 "Packets waiting.";
    ClassWait: Class "estimated_wait_seconds" Gauge / 1_000_000 "How long what waits takes to leave at the rate of the last interval.";
    ClassUnkept: Class "promise_broken" Gauge / 1 "1 while the class waits and gets less than its guarantee, 2 while its packets wait longer than its bound or objective, else 0.";
    QdiscDelay: Qdisc "aqm_delay_seconds" Gauge / 1_000_000 "Wait of the packet that left last, as the queue management has it; of cake the mean of the tin where it is longest.";
    QdiscPeak: Qdisc "aqm_peak_delay_seconds" Gauge / 1_000_000 "Of cake: the longest wait of late.";
    QdiscProbability: Qdisc "aqm_probability" Gauge / 1_000_000 "The probability by which it drops or marks, from 0 to 1.";
    QdiscDropping: Qdisc "aqm_dropping" Gauge / 1 "1 while it drops or marks for delay.";
    QdiscFlows: Qdisc "aqm_flows" Gauge / 1 "Flows that have packets waiting, or had just now.";
    QdiscNewFlows: Qdisc "aqm_new_flows" Short / 1 "How often a flow began anew.";
    QdiscFullDrops: Qdisc "aqm_full_drops" Short / 1 "Packets dropped because the queue was full, and not for delay.";
    QdiscMemory: Qdisc "aqm_memory_bytes" Gauge / 1 "Memory that its packets take.";
    RulePackets: Rule "packets" Counter / 1 "Packets that the rule matched.";
    RuleBytes: Rule "bytes" Counter / 1 "Their bytes, IP headers included.";
    ConnectionsTracked: Connections "tracked" Gauge / 1 "Connections that are tracked.";
    ConnectionsUnanswered: Connections "unanswered" Gauge / 1 "Those that no answer was seen of.";
    ConnectionsMarked: Connections "marked" Gauge / 1 "Those that have a mark.";
    ConnectionsLimit: Connections "limit" Gauge / 1 "How many the kernel tracks at most.";
    ConnectionsUnsorted: Connections "unsorted" Gauge / 1 "Those whose class was not found yet, so that they count for none: it is found of at most 40 new ones a look.";
    ServiceConnections: Service "connections" Gauge / 1 "Connections that are tracked to it.";
    ServiceUnanswered: Service "unanswered" Gauge / 1 "Those that no answer was seen of.";
    ProbeSent: Probe "sent" Counter / 1 "Probes sent.";
    ProbeLost: Probe "lost" Counter / 1 "Probes that no answer came to within three seconds.";
    ProbeRtt: Probe "rtt_seconds" Gauge / 1_000_000 "Round-trip time of the last probe that was answered.";
    ProbeVariation: Probe "variation_seconds" Gauge / 1_000_000 "How much that differs from the one before.";
    ClassTimed: Class "timed_packets" Counter / 1 "Packets whose wait was measured, one by one.";
    ClassWaited: Class "waited_seconds" Counter / 1_000_000 "Their waits in the device's queue, added up.";
    ClassIpBytes: Class "ip_bytes" Counter / 1 "IP bytes of those packets: what sent_bytes has more is the link layer's.";
    ClassConnections: Class "connections" Gauge / 1 "Tracked connections whose packets of this direction have the class.";
    ClassMeanWait: Class "wait_seconds" Gauge / 1_000_000 "Mean wait of the packets that left since the look before.";
    ClassHighWait: Class "wait_95th_seconds" Gauge / 1_000_000 "The wait that 95 of 100 of them did not exceed.";
    ClassBeyond: Class "rtt_outside_seconds" Gauge / 1_000_000 "Mean round trip of TCP segments, from when the device was given them to the arrival of their answer, since the look before.";
    ClassHighBeyond: Class "rtt_outside_95th_seconds" Gauge / 1_000_000 "The one that 95 of 100 of them did not exceed.";
    ClassHere: Class "rtt_inside_seconds" Gauge / 1_000_000 "Mean round trip of TCP segments that arrived, to their host and back, since the look before: by the class that they had, else by that of their answers.";
    ClassHighHere: Class "rtt_inside_95th_seconds" Gauge / 1_000_000 "The one that 95 of 100 of them did not exceed.";
    LinkPolicy: Link "policy_bits_per_second" Gauge / 1 "The rate on the wire that the policy lets the link have.";
    LinkRate: Link "rate_bits_per_second" Gauge / 1 "The rate on the wire that it has now; another than the policy's where [track] follows the line.";
    LinkShaped: Link "shaped" Gauge / 1 "1 where something holds it to a rate: a gate or a cake with a rate, or the kit's shaper.";
    LinkLine: Link "tracked_bits_per_second" Gauge / 1 "What [track] takes the line's rate to be.";
    LinkFloor: Link "tracked_floor_bits_per_second" Gauge / 1 "The rate that [track] never goes below.";
    LinkCeiling: Link "tracked_ceiling_bits_per_second" Gauge / 1 "The rate that [track] never goes above.";
    LinkBlind: Link "tracked_blind" Gauge / 1 "1 while nobody answers [track], so that it holds the floor.";
    TinSentBytes: Tin "sent_bytes" Counter / 1 "Bytes sent, as the root's size table counts them.";
    TinSentPackets: Tin "sent_packets" Short / 1 "Packets sent.";
    TinDrops: Tin "drops" Short / 1 "Packets dropped.";
    TinMarks: Tin "marks" Short / 1 "Packets marked with ECN.";
    TinBacklogBytes: Tin "backlog_bytes" Gauge / 1 "Bytes waiting.";
    TinBacklogPackets: Tin "backlog_packets" Gauge / 1 "Packets waiting.";
    TinDelay: Tin "delay_seconds" Gauge / 1_000_000 "Mean wait of late.";
    TinPeak: Tin "peak_delay_seconds" Gauge / 1_000_000 "Longest wait of late.";
    TinFlows: Tin "flows" Gauge / 1 "Flows that have packets waiting, or had just now.";
    ConditionerPackets: Conditioner "packets" Counter / 1 "Packets that it found of this colour.";
    ConditionerBytes: Conditioner "bytes" Counter / 1 "Their bytes, IP headers included.";
    ReceiveRewritten: Receive "rewritten_packets" Counter / 1 "Packets whose receive window was changed.";
    ReceiveHeld: Receive "held_acknowledgements" Counter / 1 "Acknowledgements that were given a later time to leave.";
    ReceiveUnknown: Receive "unknown_packets" Counter / 1 "Packets of connections whose handshake was not seen.";
    ReceiveActive: Receive "active" Gauge / 1 "Shares of the rate that connections used in the last whole second, of each at most two.";
    CircuitsSentBytes: Circuits "sent_bytes" Counter / 1 "Bytes of the frames that were sent.";
    CircuitsSentPackets: Circuits "sent_packets" Counter / 1 "Packets that were sent.";
    CircuitsDropped: Circuits "dropped_packets" Gauge / 1 "Packets that the circuits which are there have dropped.";
    CircuitsMarked: Circuits "marked_packets" Gauge / 1 "Packets that the circuits which are there have marked with ECN.";
    CircuitsQueuedPackets: Circuits "queued_packets" Gauge / 1 "Packets that wait.";
    CircuitsQueuedBytes: Circuits "queued_bytes" Gauge / 1 "Bytes that wait.";
    CircuitsCeiling: Circuits "ceiling_bits" Gauge / 1 "What it never exceeds, in bits a second; 0 for nothing.";
    CircuitsDelay: Circuits "delay_seconds" Gauge / 1_000_000 "How long what waits takes at the node's own ceiling.";
    CircuitsCount: Circuits "circuits" Gauge / 1 "Circuits below it.";
    SiteLinkUp: SiteLink "up" Gauge / 1 "1 while connections use the link, 0 while it is down.";
    SiteLinkSuspected: SiteLink "suspected" Gauge / 1 "1 while the link is up and something speaks against it.";
    SiteLinkSince: SiteLink "since_timestamp_seconds" Gauge / 1 "Since when it is up or down, in Unix time.";
    SiteLinkWeight: SiteLink "weight" Gauge / 1 "Its part of new connections, where they are balanced.";
    HostSentBytes: Host "sent_bytes" Counter / 1 "IP bytes that the host sent.";
    HostSentPackets: Host "sent_packets" Counter / 1 "Packets that the host sent.";
    HostReceivedBytes: Host "received_bytes" Counter / 1 "IP bytes that the host was sent.";
    HostReceivedPackets: Host "received_packets" Counter / 1 "Packets that the host was sent.";
    HostBeyond: Host "rtt_outside_seconds" Gauge / 1_000_000 "Mean round trip of its TCP segments, from here to where they go and back, since the look before.";
    HostHere: Host "rtt_inside_seconds" Gauge / 1_000_000 "Mean round trip of TCP segments from here to the host and back, since the look before.";
    HostDrops: Host "received_drops" Counter / 1 "Packets to the host that the queue of its device dropped, where packets are shaped there.";
    HostMarks: Host "received_marks" Counter / 1 "Packets to the host that were marked with ECN in that queue.";
    HostWait: Host "wait_seconds" Gauge / 1_000_000 "Mean wait there of its packets that left since the look before.";
    HostBacklog: Host "backlog_packets" Gauge / 1_000 "Packets to the host that waited there in the mean since the look before: the waits of those that left, by the time.";
}

impl Number {
    /// Returns the description of the metric.
    pub fn metric(self) -> &'static Metric {
        &METRICS[self as usize]
    }
}

/// An object with numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The sort.
    pub sort: Sort,
    /// Distinguishes the object from an earlier one with the same name: with another identity,
    /// its counters have restarted.
    pub identity: String,
    /// Whether its counters started at zero after the previous look, so that their values were
    /// counted since.
    pub begins: bool,
    /// Names and values that identify it.
    pub labels: Vec<(&'static str, String)>,
    /// Its numbers as the kernel reports them.
    pub numbers: Vec<(Number, u64)>,
}

impl Object {
    /// Returns the value of a label; empty if there is none.
    pub fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(label, _)| *label == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the labels in the syntax of OpenMetrics, in braces; empty if there are none.
    pub fn label_text(&self) -> String {
        label_text(&self.labels)
    }

    /// Returns one of its numbers as the kernel reports it.
    pub fn number(&self, number: Number) -> Option<u64> {
        let found = self.numbers.iter().find(|(other, _)| *other == number);
        found.map(|(_, value)| *value)
    }
}

/// Returns labels in the syntax of OpenMetrics, in braces; empty if there are none.
pub(crate) fn label_text(labels: &[(&'static str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let mut text = String::from("{");
    for (index, (label, value)) in labels.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{label}=\"");
        for letter in value.chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                // Replace control characters, which could move a cursor or be invisible.
                letter if letter.is_control() => text.push('\u{fffd}'),
                letter => text.push(letter),
            }
        }
        text.push('"');
    }
    text.push('}');
    text
}

/// Returns the name of a series in the history, such as `class_sent_bytes{device="wan",...}`.
pub(crate) fn series(metric: &Metric, labels: &str) -> String {
    format!("{}_{}{labels}", metric.sort.word(), metric.name)
}
