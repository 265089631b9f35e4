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
    /// The flows of one kind, by their behaviour.
    FlowKind,
    /// One kind of alert for hosts on the inside.
    Alert,
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
            Self::FlowKind => "flow_kind",
            Self::Alert => "alert",
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
    QdiscSentBytes: Qdisc "sent_bytes" Counter / 1 "Bytes sent, as counted with the root's size table.";
    QdiscSentPackets: Qdisc "sent_packets" Counter / 1 "Packets sent.";
    QdiscDrops: Qdisc "drops" Short / 1 "Packets dropped.";
    QdiscOverlimits: Qdisc "overlimits" Short / 1 "Times that a packet had to wait for the rate limit.";
    QdiscRequeues: Qdisc "requeues" Short / 1 "Packets requeued because the device could not take them.";
    QdiscMarks: Qdisc "marks" Counter / 1 "Packets marked with ECN.";
    QdiscBacklogBytes: Qdisc "backlog_bytes" Gauge / 1 "Bytes waiting.";
    QdiscBacklogPackets: Qdisc "backlog_packets" Gauge / 1 "Packets waiting.";
    ClassSentBytes: Class "sent_bytes" Counter / 1 "Bytes sent, as counted with the root's size table: bytes on the wire, where weirgate shapes.";
    ClassSentPackets: Class "sent_packets" Counter / 1 "Packets sent.";
    ClassDrops: Class "drops" Short / 1 "Packets dropped by the class's queue.";
    ClassOverlimits: Class "overlimits" Short / 1 "Times that a packet had to wait for the rate limit.";
    ClassBorrowed: Class "borrowed_packets" Short / 1 "Packets sent with bandwidth borrowed from other classes.";
    ClassMarks: Class "marks" Counter / 1 "Packets marked with ECN by the class's queue.";
    ClassBacklogBytes: Class "backlog_bytes" Gauge / 1 "Bytes waiting.";
    ClassBacklogPackets: Class "backlog_packets" Gauge / 1 "Packets waiting.";
    ClassWait: Class "estimated_wait_seconds" Gauge / 1_000_000 "Time in which the backlog is sent, at the rate of the last interval.";
    ClassUnkept: Class "promise_broken" Gauge / 1 "1 while the class has a backlog but is sent at less than its guarantee, 2 while its packets wait longer than its bound or objective, else 0.";
    QdiscDelay: Qdisc "aqm_delay_seconds" Gauge / 1_000_000 "Delay of the packet dequeued last, as measured by the AQM; of cake, the mean delay of the tin in which it is longest.";
    QdiscPeak: Qdisc "aqm_peak_delay_seconds" Gauge / 1_000_000 "Recent peak of the delay, of cake only.";
    QdiscProbability: Qdisc "aqm_probability" Gauge / 1_000_000 "Probability with which packets are dropped or marked, from 0 to 1.";
    QdiscDropping: Qdisc "aqm_dropping" Gauge / 1 "1 while the AQM drops or marks because of delay.";
    QdiscFlows: Qdisc "aqm_flows" Gauge / 1 "Flows that have packets in the queue, or had them recently.";
    QdiscNewFlows: Qdisc "aqm_new_flows" Short / 1 "Times that a packet created a new flow.";
    QdiscFullDrops: Qdisc "aqm_full_drops" Short / 1 "Packets dropped because the queue was full, and not for delay.";
    QdiscMemory: Qdisc "aqm_memory_bytes" Gauge / 1 "Memory used by the packets in the queue.";
    RulePackets: Rule "packets" Counter / 1 "Packets that the rule matched.";
    RuleBytes: Rule "bytes" Counter / 1 "Bytes of these packets, IP headers included.";
    ConnectionsTracked: Connections "tracked" Gauge / 1 "Connections that are tracked.";
    ConnectionsUnanswered: Connections "unanswered" Gauge / 1 "Tracked connections for which no reply was seen.";
    ConnectionsMarked: Connections "marked" Gauge / 1 "Tracked connections that have a mark.";
    ConnectionsLimit: Connections "limit" Gauge / 1 "The largest number of connections that the kernel tracks.";
    ConnectionsUnsorted: Connections "unsorted" Gauge / 1 "Connections whose class is not yet known, because at most 40 new ones are classified at each look; they count for no class.";
    ServiceConnections: Service "connections" Gauge / 1 "Tracked connections to the service.";
    ServiceUnanswered: Service "unanswered" Gauge / 1 "Tracked connections for which no reply was seen.";
    ProbeSent: Probe "sent" Counter / 1 "Probes sent.";
    ProbeLost: Probe "lost" Counter / 1 "Probes without a reply within three seconds.";
    ProbeRtt: Probe "rtt_seconds" Gauge / 1_000_000 "Round-trip time of the last probe that was answered.";
    ProbeVariation: Probe "variation_seconds" Gauge / 1_000_000 "Difference between the last two round-trip times.";
    ClassTimed: Class "timed_packets" Counter / 1 "Packets whose waiting time was measured.";
    ClassWaited: Class "waited_seconds" Counter / 1_000_000 "Sum of their waiting times in the device's queue.";
    ClassIpBytes: Class "ip_bytes" Counter / 1 "IP bytes of these packets; sent_bytes also counts the link layer.";
    ClassConnections: Class "connections" Gauge / 1 "Tracked connections whose packets in this direction belong to the class.";
    ClassMeanWait: Class "wait_seconds" Gauge / 1_000_000 "Mean waiting time of packets sent since the previous look.";
    ClassHighWait: Class "wait_95th_seconds" Gauge / 1_000_000 "95th percentile of these waiting times.";
    ClassBeyond: Class "rtt_outside_seconds" Gauge / 1_000_000 "Mean round-trip time of TCP segments since the previous look, from the handover to the device to the arrival of the acknowledgement.";
    ClassHighBeyond: Class "rtt_outside_95th_seconds" Gauge / 1_000_000 "95th percentile of these round-trip times.";
    ClassHere: Class "rtt_inside_seconds" Gauge / 1_000_000 "Mean round-trip time of arriving TCP segments since the previous look, to the inside host and back; by their class, or by that of their acknowledgements.";
    ClassHighHere: Class "rtt_inside_95th_seconds" Gauge / 1_000_000 "95th percentile of these round-trip times.";
    LinkPolicy: Link "policy_bits_per_second" Gauge / 1 "The link's rate on the wire according to the policy.";
    LinkRate: Link "rate_bits_per_second" Gauge / 1 "The link's current rate on the wire; it differs from the policy's where [track] follows the line.";
    LinkShaped: Link "shaped" Gauge / 1 "1 where the link is shaped: by HTB, by cake with a rate, or by the kit's shaper.";
    LinkLine: Link "tracked_bits_per_second" Gauge / 1 "The line's rate as estimated by [track].";
    LinkFloor: Link "tracked_floor_bits_per_second" Gauge / 1 "The lowest rate that [track] sets.";
    LinkCeiling: Link "tracked_ceiling_bits_per_second" Gauge / 1 "The highest rate that [track] sets.";
    LinkBlind: Link "tracked_blind" Gauge / 1 "1 while [track] gets no replies, and therefore keeps the lowest rate.";
    TinSentBytes: Tin "sent_bytes" Counter / 1 "Bytes sent, as counted with the root's size table.";
    TinSentPackets: Tin "sent_packets" Short / 1 "Packets sent.";
    TinDrops: Tin "drops" Short / 1 "Packets dropped.";
    TinMarks: Tin "marks" Short / 1 "Packets marked with ECN.";
    TinBacklogBytes: Tin "backlog_bytes" Gauge / 1 "Bytes waiting.";
    TinBacklogPackets: Tin "backlog_packets" Gauge / 1 "Packets waiting.";
    TinDelay: Tin "delay_seconds" Gauge / 1_000_000 "Recent mean of the delay.";
    TinPeak: Tin "peak_delay_seconds" Gauge / 1_000_000 "Recent peak of the delay.";
    TinFlows: Tin "flows" Gauge / 1 "Flows that have packets in the queue, or had them recently.";
    ConditionerPackets: Conditioner "packets" Counter / 1 "Packets that the meter gave this colour.";
    ConditionerBytes: Conditioner "bytes" Counter / 1 "Bytes of these packets, IP headers included.";
    ReceiveRewritten: Receive "rewritten_packets" Counter / 1 "Packets whose receive window was changed.";
    ReceiveHeld: Receive "held_acknowledgements" Counter / 1 "Acknowledgements that were delayed.";
    ReceiveUnknown: Receive "unknown_packets" Counter / 1 "Packets of connections whose handshake was not seen.";
    ReceiveActive: Receive "active" Gauge / 1 "Shares of the rate that connections used in the last whole second; each connection counts for at most two.";
    CircuitsSentBytes: Circuits "sent_bytes" Counter / 1 "Bytes of the frames sent.";
    CircuitsSentPackets: Circuits "sent_packets" Counter / 1 "Packets sent.";
    CircuitsDropped: Circuits "dropped_packets" Gauge / 1 "Packets dropped by the present circuits.";
    CircuitsMarked: Circuits "marked_packets" Gauge / 1 "Packets marked with ECN by the present circuits.";
    CircuitsQueuedPackets: Circuits "queued_packets" Gauge / 1 "Packets waiting.";
    CircuitsQueuedBytes: Circuits "queued_bytes" Gauge / 1 "Bytes waiting.";
    CircuitsCeiling: Circuits "ceiling_bits" Gauge / 1 "The ceiling, in bits per second; 0 if there is none.";
    CircuitsDelay: Circuits "delay_seconds" Gauge / 1_000_000 "Time in which the backlog is sent at the node's own ceiling.";
    CircuitsCount: Circuits "circuits" Gauge / 1 "Circuits below the site or the link.";
    SiteLinkUp: SiteLink "up" Gauge / 1 "1 while connections use the link, 0 while it is down.";
    SiteLinkSuspected: SiteLink "suspected" Gauge / 1 "1 while the link is up but suspected to be down.";
    SiteLinkSince: SiteLink "since_timestamp_seconds" Gauge / 1 "Time of the last change between up and down, in Unix time.";
    SiteLinkWeight: SiteLink "weight" Gauge / 1 "Weight of the link in the balancing of new connections.";
    FlowKindConnections: FlowKind "connections" Gauge / 1 "Connections that were recognised as this kind by the sizes and rates of their packets.";
    AlertHosts: Alert "hosts" Gauge / 1 "Inside hosts with this alert in force.";
    HostSentBytes: Host "sent_bytes" Counter / 1 "IP bytes that the host sent.";
    HostSentPackets: Host "sent_packets" Counter / 1 "Packets that the host sent.";
    HostReceivedBytes: Host "received_bytes" Counter / 1 "IP bytes that the host received.";
    HostReceivedPackets: Host "received_packets" Counter / 1 "Packets that the host received.";
    HostBeyond: Host "rtt_outside_seconds" Gauge / 1_000_000 "Mean round-trip time of its TCP segments since the previous look, from this router to the destination and back.";
    HostHere: Host "rtt_inside_seconds" Gauge / 1_000_000 "Mean round-trip time of TCP segments since the previous look, from this router to the host and back.";
    HostDrops: Host "received_drops" Counter / 1 "Packets to the host that were dropped by the queue of its device, where that device is shaped.";
    HostMarks: Host "received_marks" Counter / 1 "Packets to the host that were marked with ECN in that queue.";
    HostWait: Host "wait_seconds" Gauge / 1_000_000 "Mean waiting time in that queue of packets to the host sent since the previous look.";
    HostBacklog: Host "backlog_packets" Gauge / 1_000 "Mean number of packets to the host in that queue since the previous look: the sum of waiting times, divided by the time.";
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
