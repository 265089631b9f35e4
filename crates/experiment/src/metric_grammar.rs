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
    /// IP bytes per time that passed the line: IP bytes of the flow's data direction that
    /// left the line, over the active time; `min` and `p50` over full active seconds.
    IpRate: "iprate" Flow "kbit" RATES OwnLine;
    /// Payload per time that reached the receiver: as `iprate`, of payload that receivers
    /// read.
    Goodput: "goodput" Flow "kbit" RATES AnyLine;
    /// Packets per second that passed the line: packets of the data direction that left the
    /// line per active second.
    PacketRate: "pps" Flow "mean" ONLY OwnLine;
    /// Lost packets over sent packets: unanswered over sent; one that the run's end cut off
    /// is neither; of datagrams: sequence numbers missing between the first and the last
    /// received.
    Loss: "loss" FlowOrProbe "ratio" ONLY AnyLine;
    /// Packets that came after a later one: datagrams received after one with a larger
    /// number (RFC 4737 section 3).
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
    /// Smoothed round trip, as the sender has it: the smoothed round trip of samples of the
    /// sender's TCP state, each connection's by itself; not of short flows.
    Srtt: "srtt" Flow "ms" MEAN_MAX AnyLine;
    /// Segments sent again: segments that senders sent again in the window; of QUIC, packets
    /// that the sender declared lost; not of short flows.
    Retransmitted: "retransmitted" Flow "segments" ONLY AnyLine;
    /// Time until a connection was established: of connections started in the window, to
    /// established and to the last byte.
    Connect: "connect" Flow "s" MEAN_P95 AnyLine;
    /// Time until a response was complete: of connections started in the window, to
    /// established and to the last byte.
    Response: "response" Flow "s" MEAN_P95 AnyLine;
    /// Time until a response was complete, over what an idle line takes: response over the
    /// time that the same bytes take, handshake included, where the line has nothing else
    /// to do and the sender waits for nothing.
    Slowdown: "slowdown" Flow "ratio" MEAN_P95 AnyLine;
    /// Connections that were started: short flows started in the window, and those of them
    /// whose last byte did not come.
    Started: "started" Flow "connections" ONLY AnyLine;
    /// Connections whose last byte did not come: short flows started in the window, and
    /// those of them whose last byte did not come.
    Unfinished: "unfinished" Flow "connections" ONLY AnyLine;
    /// How long after its time a connection was started: longest time from when a short
    /// flow was to start to when it did.
    Late: "late" Flow "ms" MAX AnyLine;
    /// The average queue by which a discipline of the kit decides: of samples of the
    /// average by which the kit's discipline there decides.
    Average: "average" Place "bytes" AVERAGES AnyLine;
    /// Wire bytes over wire capacity: time in which the line transmitted over the window's
    /// length.
    Util: "util" Link "ratio" ONLY OwnLine;
    /// Bytes waiting at a place: IP bytes; `modem` and `exchange` from the line's log with
    /// the packet in transmission, weighted by time; other places from samples, each
    /// holding until the next.
    Queue: "queue" Place "bytes" MEAN_P95_MAX ByPlace;
    /// Time a class's own packets waited in the gateway: of stamped packets that left the
    /// gateway in the window; of `CLASS` in both directions, of `CLASS-up` and `CLASS-down`
    /// in one.
    Sojourn: "sojourn" Class "ms" MEAN_P99_MAX OwnLine;
    /// What `weirgate check` states as a class's worst wait in a full queue.
    Bound: "bound" Class "ms" MAX AnyLine;
    /// The same for traffic that keeps to the class's guarantee and burst.
    Promise: "promise" Class "ms" MAX AnyLine;
    /// The same for a packet within the guarantee with none of its class before it.
    Lone: "lone" Class "ms" MAX AnyLine;
    /// Packets dropped at a place: counted in the window.
    Drops: "drops" Place "packets" ONLY ByPlace;
    /// Packets marked at a place: counted in the window.
    Marks: "marks" Place "packets" ONLY ByPlace;
    /// Jain's fairness index of a group: (sum x)^2 / (n sum x^2) of the members' goodput;
    /// of a group of entries, of what each entry got.
    Jain: "jain" Flow "index" ONLY AnyLine;
    /// Packets found at the line on arrival: packets waiting or in transmission upstream
    /// when a packet of the flow or probe came.
    Ahead: "ahead" FlowOrProbe "packets" MEAN_MAX OwnLine;
    /// Time between consecutive pure ACKs on the line: between the ends of transmission of
    /// consecutive pure ACKs of the flow.
    AckSpacing: "ackspacing" Flow "ms" MEAN_P50 OwnLine;
    /// ACKs that follow each other faster than the data did: ACK pairs closer than half the
    /// time that the data acknowledged by the second took on the line.
    AckCompressed: "ackcompressed" Flow "ratio" ONLY OwnLine;
    /// Segments released per ACK with a SACK block: data segments that came to the line
    /// between an ACK with a SACK block reaching the sender and the next ACK doing so.
    SackRelease: "sackrelease" Flow "segments" MEAN OwnLine;
    /// Segments that came to the line after later ones of their connection: data segments
    /// that came up to the line below others of their connection that had come before, with
    /// bytes that had not: overtaken in the gateway, or lost there and sent again.
    Overtaken: "overtaken" Flow "segments" ONLY OwnLine;
    /// ACKs that say that a segment has come before an earlier one: pure ACKs of the flow's
    /// data with a SACK block: a segment had come before an earlier one, or twice.
    Gapped: "gapped" Flow "acks" ONLY OwnLine;
    /// Data that comes to the line in a short time, over what the line takes: most wire
    /// time of the flow's data that came to the line within 100 ms, over 100 ms.
    Burst: "burst" Flow "ratio" MAX OwnLine;
    /// Time until a probe's round trip is back down: from the phase's start to the last RTT
    /// above minimum + 10 % of the phase's range; only where the phase begins above and
    /// ends below.
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
    /// Longest time between two datagrams at the receiver, beyond their interval: longest
    /// time between two datagrams of a member at the receiver, less their interval; never
    /// below 0.
    Gap: "gap" Flow "ms" MAX AnyLine;
    /// Longest time that the line sent nothing: longest time within the window in which the
    /// line transmitted nothing.
    Silence: "silence" Link "ms" MAX OwnLine;
    /// Packets that came to the line faster than it takes them: packets that found
    /// too few tokens in a bucket. The bucket fills at the line's rate and has room for one
    /// and a quarter full packets of line bytes. Packets that find too few take none.
    Unshaped: "unshaped" Link "packets" ONLY OwnLine;
    /// Packets that left a place: that left the place, counted in the window.
    Sent: "sent" Place "packets" ONLY AnyLine;
    /// Time in which the laboratory's processors had nothing to do, over the window's
    /// length: from samples a second apart. Near 0 the line is not what holds traffic up, and
    /// other figures of the window are those of the laboratory's machine.
    Spare: "spare" Machine "ratio" ONLY AnyLine;
    /// A figure of a calculation.
    Calculated: "calculated" Figure "value" ONLY AnyLine;
}
