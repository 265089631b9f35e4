// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of quantities: what each measures, its subject, its statistics and its source. The
//! enum [`Quantity`], the grammar of metric names and the reference are generated from it.

use crate::metric::{Statistic, Subject};

/// A row of the table: one quantity.
pub(crate) struct Row {
    pub(crate) quantity: Quantity,
    /// How it is computed. A recording without the data has no value for it.
    pub(crate) meaning: &'static str,
    pub(crate) word: &'static str,
    pub(crate) subject: Subject,
    /// The unit, which follows the statistic's name and `_`. If the quantity has only one
    /// number, it is the whole last part of the name.
    pub(crate) unit: &'static str,
    pub(crate) statistics: &'static [Statistic],
    pub(crate) source: Source,
}

/// The data from which a quantity is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The lab's own line, which logs every packet and its time stamp.
    OwnLine,
    /// Data that is available for any line.
    AnyLine,
    /// The line's log for the line's two queues, and samples for other places.
    ByPlace,
}

macro_rules! quantities {
    ($($(#[doc = $doc:literal])+ $id:ident: $word:literal $subject:ident $unit:literal $statistics:ident $source:ident;)*) => {
        /// The quantity that a metric measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Quantity {
            $($(#[doc = $doc])+ $id),*
        }

        /// Every quantity, in the order of [`Quantity`].
        pub(crate) static GRAMMAR: &[Row] = &[$(Row {
            quantity: Quantity::$id,
            meaning: concat!($($doc),+),
            word: $word,
            subject: Subject::$subject,
            unit: $unit,
            statistics: $statistics,
            source: Source::$source,
        }),*];
    };
}

const ONLY: &[Statistic] = &[Statistic::Only];
const MEAN: &[Statistic] = &[Statistic::Mean];
const MEAN_P95: &[Statistic] = &[Statistic::Mean, Statistic::P95];
const MEAN_P50: &[Statistic] = &[Statistic::Mean, Statistic::P50];
const MEAN_MAX: &[Statistic] = &[Statistic::Mean, Statistic::Max];
const MEAN_P95_MAX: &[Statistic] = &[Statistic::Mean, Statistic::P95, Statistic::Max];
const MEAN_P99_MAX: &[Statistic] = &[Statistic::Mean, Statistic::P99, Statistic::Max];
const AVERAGES: &[Statistic] = &[
    Statistic::Min,
    Statistic::Mean,
    Statistic::P50,
    Statistic::Max,
];
const MAX: &[Statistic] = &[Statistic::Max];
const CHANGE: &[Statistic] = &[
    Statistic::Only,
    Statistic::Writing,
    Statistic::Writes,
    Statistic::Steps,
    Statistic::Failures,
    Statistic::Unshaped,
];
const RATES: &[Statistic] = &[Statistic::Mean, Statistic::Min, Statistic::P50];
const TIMES: &[Statistic] = &[
    Statistic::Min,
    Statistic::Mean,
    Statistic::P50,
    Statistic::P95,
    Statistic::P99,
    Statistic::P999,
    Statistic::Max,
    Statistic::Variation,
];

quantities! {
    /// Round-trip time of a probe: of answered probes sent in the window; percentiles are
    /// nearest rank; `variation_ms`: p99.9 minus minimum (Y.1541), from 1000 answers on;
    /// `within_N_ms.ratio`: answers of at most N ms over probes sent.
    Rtt: "rtt" Probe "ms" TIMES AnyLine;
    /// Rate of IP bytes that passed the line: IP bytes of the flow's data direction that left the
    /// line, divided by the active time; `min` and `p50` are over full active seconds.
    IpRate: "iprate" Flow "kbit" RATES OwnLine;
    /// Rate of payload that reached the receiver: as `iprate`, of payload that receivers read.
    Goodput: "goodput" Flow "kbit" RATES AnyLine;
    /// Packets per second that passed the line: packets of the data direction that left the line,
    /// per second of active time; of a probe, the requests that were sent.
    PacketRate: "pps" FlowOrProbe "mean" ONLY OwnLine;
    /// Share of packets that were lost: of a probe, requests without a reply over requests sent,
    /// without those that the end of the run cut off; of datagrams, sequence numbers missing
    /// between the first and the last one received. If a flow stopped for good a second or more
    /// before its end, the rest counts as lost.
    Loss: "loss" FlowOrProbe "ratio" ONLY AnyLine;
    /// Packets received after a later one: datagrams received after one with a larger number (RFC
    /// 4737 section 3).
    Reordered: "reordered" Flow "packets" ONLY AnyLine;
    /// Interarrival jitter of RFC 3550: mean of the interarrival jitter of RFC 3550 section
    /// 6.4.1 after each datagram.
    Jitter: "jitter" Flow "ms" MEAN AnyLine;
    /// Congestion window: of samples of the sender's TCP state; of a group the sum over its
    /// members; not of short flows, whose samples are not distinguished.
    Cwnd: "cwnd" Flow "bytes" MAX AnyLine;
    /// Bytes sent and not acknowledged: of samples of the sender's TCP state; of a group
    /// the sum over its members; not of short flows, whose samples are not distinguished.
    Outstanding: "outstanding" Flow "bytes" MEAN_MAX AnyLine;
    /// Smoothed round-trip time of the sender: from samples of the sender's TCP state, of each
    /// connection separately; not of short flows.
    Srtt: "srtt" Flow "ms" MEAN_MAX AnyLine;
    /// Retransmitted segments: segments that senders sent again in the window; of QUIC, packets
    /// that the sender declared lost; not of short flows.
    Retransmitted: "retransmitted" Flow "segments" ONLY AnyLine;
    /// Time until a connection was established: of connections started in the window.
    Connect: "connect" Flow "s" MEAN_P95 AnyLine;
    /// Time until a response was complete: from the start of a connection to its last byte, of
    /// connections started in the window.
    Response: "response" Flow "s" MEAN_P95 AnyLine;
    /// Response time relative to an idle line: the response time divided by the time that the same
    /// bytes take, handshake included, on a line without other traffic and with a sender that never
    /// waits.
    Slowdown: "slowdown" Flow "ratio" MEAN_P95 AnyLine;
    /// Connections started: short flows started in the window.
    Started: "started" Flow "connections" ONLY AnyLine;
    /// Connections without their last byte: short flows started in the window whose last byte did
    /// not arrive.
    Unfinished: "unfinished" Flow "connections" ONLY AnyLine;
    /// Delay of the start of a connection: the longest time by which a short flow was started later
    /// than intended.
    Late: "late" Flow "ms" MAX AnyLine;
    /// Average queue of an AQM of the kit: samples of the average by which the discipline at this
    /// place decides.
    Average: "average" Place "bytes" AVERAGES AnyLine;
    /// Utilization of the line: the time in which the line transmitted, divided by the length of
    /// the window.
    Util: "util" Link "ratio" ONLY OwnLine;
    /// Queue length at a place: IP bytes; of `modem` and `exchange` from the line's log, with the
    /// packet in transmission, weighted by time; of other places from samples, each of which holds
    /// until the next.
    Queue: "queue" Place "bytes" MEAN_P95_MAX ByPlace;
    /// Time that a class's packets waited in the gateway: of stamped packets that left the gateway
    /// in the window; `CLASS` is for both directions, `CLASS-up` and `CLASS-down` for one.
    Sojourn: "sojourn" Class "ms" MEAN_P99_MAX OwnLine;
    /// Longest wait in a full queue of the class, as `weirgate check` states it.
    Bound: "bound" Class "ms" MAX AnyLine;
    /// Longest wait of traffic within the class's guarantee and burst, as `weirgate check` states
    /// it.
    Promise: "promise" Class "ms" MAX AnyLine;
    /// Longest wait of a packet within the guarantee that finds no other of its class, as `weirgate
    /// check` states it.
    Lone: "lone" Class "ms" MAX AnyLine;
    /// Packets dropped at a place: counted in the window.
    Drops: "drops" Place "packets" ONLY ByPlace;
    /// Packets marked at a place: counted in the window.
    Marks: "marks" Place "packets" ONLY ByPlace;
    /// Jain's fairness index of a group: (sum x)^2 / (n sum x^2) of the members' goodput;
    /// of a group of entries, of what each entry got.
    Jain: "jain" Flow "index" ONLY AnyLine;
    /// Packets before a packet at the line: packets that wait or are in transmission upstream when
    /// a packet of the flow or probe arrives.
    Ahead: "ahead" FlowOrProbe "packets" MEAN_MAX OwnLine;
    /// Time between consecutive pure ACKs on the line: between the ends of transmission of
    /// consecutive pure ACKs of the flow.
    AckSpacing: "ackspacing" Flow "ms" MEAN_P50 OwnLine;
    /// Share of compressed ACKs: pairs of ACKs that are closer than half the time that the data
    /// acknowledged by the second took on the line.
    AckCompressed: "ackcompressed" Flow "ratio" ONLY OwnLine;
    /// Segments released per ACK with a SACK block: data segments that arrived at the line between
    /// the arrival of an ACK with a SACK block at the sender and that of the next one.
    SackRelease: "sackrelease" Flow "segments" MEAN OwnLine;
    /// Segments that arrived at the line after later ones of their connection: upstream data
    /// segments with new bytes below those of a segment that arrived before; they were overtaken in
    /// the gateway, or lost there and sent again.
    Overtaken: "overtaken" Flow "segments" ONLY OwnLine;
    /// ACKs that report a gap: pure ACKs of the flow's data with a SACK block, because a segment
    /// arrived before an earlier one, or twice.
    Gapped: "gapped" Flow "acks" ONLY OwnLine;
    /// Largest burst of a flow: the most wire time of the flow's data that arrived at the line
    /// within 100 ms, divided by 100 ms.
    Burst: "burst" Flow "ratio" MAX OwnLine;
    /// Time until a probe's round-trip time is low again: from the start of the phase to the last
    /// round trip above the minimum plus 10 % of the phase's range; only if the phase begins above
    /// and ends below.
    Recovery: "recovery" Probe "s" ONLY AnyLine;
    /// Connections that the gateway tracked when the run ended: that connection tracking
    /// knew at the end of the whole run, in an arm with a policy. `answered` counts those
    /// with packets in both directions, `unanswered` the others, and `kept` those that a
    /// rule with `keep` has marked.
    Tracked: "tracked" Connections "connections" ONLY AnyLine;
    /// A change of the policy while traffic ran: the time of the arm's N-th change, from
    /// reading its text to what was read back. `writing_ms` is the part after the plan.
    /// `writes` counts requests that change something, `steps` those of the plan, and
    /// `failures` is 0 or 1. `unshaped_packets` is `unshaped.up.packets` from when a root
    /// qdisc of weirgate's is on the line's device to 1 s after the change.
    Change: "change" Change "ms" CHANGE OwnLine;
    /// Longest gap between datagrams: the longest time between two datagrams of a member at the
    /// receiver, or from the last one to the end, minus their interval; never below 0.
    Gap: "gap" Flow "ms" MAX AnyLine;
    /// Rating of a call: R of the E-model (ITU-T G.107), from `playout` and `unplayed`; 93.2 at
    /// best, and below 50 nobody is satisfied. Of datagrams with the length of G.711 or G.729A, of
    /// the listener with the lowest R.
    Rating: "rating" Flow "r" ONLY AnyLine;
    /// Mean opinion score of a call, 1 to 4.5: estimated from `rating` (G.107 annex B).
    Opinion: "mos" Flow "score" ONLY AnyLine;
    /// Time from mouth to ear: of the listener of `rating`. The codec's time, that of the fastest
    /// datagram of the window, and a de-jitter buffer of 50 ms (the variation of Y.1541 class 0).
    Playout: "playout" Flow "ms" ONLY AnyLine;
    /// Share of a call that is not heard: of the listener of `rating`, datagrams that were lost, or
    /// that arrived more than 50 ms later than the fastest of the window.
    Unplayed: "unplayed" Flow "ratio" ONLY AnyLine;
    /// Longest pause of the line: the longest time within the window in which the line transmitted
    /// nothing.
    Silence: "silence" Link "ms" MAX OwnLine;
    /// Packets that arrived faster than the line's rate: packets that found too few tokens in a
    /// bucket. The bucket fills at the line's rate and holds one and a quarter full packets of line
    /// bytes. Such packets take no tokens.
    Unshaped: "unshaped" Link "packets" ONLY OwnLine;
    /// Packets sent by a place: packets that left the place in the window.
    Sent: "sent" Place "packets" ONLY AnyLine;
    /// Idle share of the lab's processors: from samples a second apart. If it is near 0, the lab's
    /// machine and not the line limits the traffic, and other figures of the window are not those
    /// of the line.
    Spare: "spare" Machine "ratio" ONLY AnyLine;
    /// A figure of a calculation.
    Calculated: "calculated" Figure "value" ONLY AnyLine;
}
