// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The grammar of metric names as a table: which quantities there are, of what,
//! and which numbers of them.

use crate::metric::{Quantity, Statistic, Subject};

/// One row: a quantity.
pub(crate) struct Row {
    pub(crate) quantity: Quantity,
    pub(crate) word: &'static str,
    pub(crate) subject: Subject,
    /// What follows the statistic's name and `_`; the whole last part where
    /// the quantity has one number only.
    pub(crate) unit: &'static str,
    pub(crate) statistics: &'static [Statistic],
}

const fn row(
    quantity: Quantity,
    word: &'static str,
    subject: Subject,
    unit: &'static str,
    statistics: &'static [Statistic],
) -> Row {
    Row {
        quantity,
        word,
        subject,
        unit,
        statistics,
    }
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

/// Every quantity: its word, what its subject is, and which numbers it has.
#[rustfmt::skip]
pub(crate) const GRAMMAR: [Row; 42] = [
    row(Quantity::Rtt,           "rtt",           Subject::Probe,       "ms",           TIMES),
    row(Quantity::IpRate,        "iprate",        Subject::Flow,        "kbit",         RATES),
    row(Quantity::Goodput,       "goodput",       Subject::Flow,        "kbit",         RATES),
    row(Quantity::PacketRate,    "pps",           Subject::Flow,        "mean",         ONLY),
    row(Quantity::Loss,          "loss",          Subject::FlowOrProbe, "ratio",        ONLY),
    row(Quantity::Reordered,     "reordered",     Subject::Flow,        "packets",      ONLY),
    row(Quantity::Jitter,        "jitter",        Subject::Flow,        "ms",           MEAN),
    row(Quantity::Cwnd,          "cwnd",          Subject::Flow,        "bytes",        &[Statistic::Max]),
    row(Quantity::Outstanding,   "outstanding",   Subject::Flow,        "bytes",        MEAN_MAX),
    row(Quantity::Srtt,          "srtt",          Subject::Flow,        "ms",           MEAN_MAX),
    row(Quantity::Retransmitted, "retransmitted", Subject::Flow,        "segments",     ONLY),
    row(Quantity::Connect,       "connect",       Subject::Flow,        "s",            MEAN_P95),
    row(Quantity::Response,      "response",      Subject::Flow,        "s",            MEAN_P95),
    row(Quantity::Slowdown,      "slowdown",      Subject::Flow,        "ratio",        MEAN_P95),
    row(Quantity::Started,       "started",       Subject::Flow,        "connections",  ONLY),
    row(Quantity::Unfinished,    "unfinished",    Subject::Flow,        "connections",  ONLY),
    row(Quantity::Late,          "late",          Subject::Flow,        "ms",           MAX),
    row(Quantity::Average,       "average",       Subject::Place,       "bytes",        AVERAGES),
    row(Quantity::Util,          "util",          Subject::Link,        "ratio",        ONLY),
    row(Quantity::Queue,         "queue",         Subject::Place,       "bytes",        MEAN_P95_MAX),
    row(Quantity::Sojourn,       "sojourn",       Subject::Class,       "ms",           MEAN_P99_MAX),
    row(Quantity::Bound,         "bound",         Subject::Class,       "ms",           &[Statistic::Max]),
    row(Quantity::Promise,       "promise",       Subject::Class,       "ms",           &[Statistic::Max]),
    row(Quantity::Lone,          "lone",          Subject::Class,       "ms",           &[Statistic::Max]),
    row(Quantity::Drops,         "drops",         Subject::Place,       "packets",      ONLY),
    row(Quantity::Marks,         "marks",         Subject::Place,       "packets",      ONLY),
    row(Quantity::Jain,          "jain",          Subject::Flow,        "index",        ONLY),
    row(Quantity::Ahead,         "ahead",         Subject::FlowOrProbe, "packets",      MEAN_MAX),
    row(Quantity::AckSpacing,    "ackspacing",    Subject::Flow,        "ms",           MEAN_P50),
    row(Quantity::AckCompressed, "ackcompressed", Subject::Flow,        "ratio",        ONLY),
    row(Quantity::SackRelease,   "sackrelease",   Subject::Flow,        "segments",     MEAN),
    row(Quantity::Overtaken,     "overtaken",     Subject::Flow,        "segments",     ONLY),
    row(Quantity::Gapped,        "gapped",        Subject::Flow,        "acks",         ONLY),
    row(Quantity::Burst,         "burst",         Subject::Flow,        "ratio",        &[Statistic::Max]),
    row(Quantity::Recovery,      "recovery",      Subject::Probe,       "s",            ONLY),
    row(Quantity::Tracked,       "tracked",       Subject::Connections, "connections",  ONLY),
    row(Quantity::Change,        "change",        Subject::Change,      "ms",           CHANGE),
    row(Quantity::Gap,           "gap",           Subject::Flow,        "ms",           MAX),
    row(Quantity::Silence,       "silence",       Subject::Link,        "ms",           MAX),
    row(Quantity::Unshaped,      "unshaped",      Subject::Link,        "packets",      ONLY),
    row(Quantity::Sent,          "sent",          Subject::Place,       "packets",      ONLY),
    row(Quantity::Calculated,    "calculated",    Subject::Figure,      "value",        ONLY),
];
