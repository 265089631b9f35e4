// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metric names: the names of figures in experiment files and results.
//!
//! A name is `[PHASE.]QUANTITY.SUBJECT.STATISTIC`, for example `upload1.rtt.interactive.max_ms`.
//! Without a phase it is about the whole run. `metric_grammar.rs` lists the quantities;
//! `weirgate-measure` computes them.
//!
//! A flow of kind `short-flows` with `sizes` has parts by size: `mice:5000` are flows of at most
//! 5000 bytes, `mice:more` those above all bounds.
//!
//! A place is `modem` (the line's upstream buffer), `exchange` (its downstream buffer), a device
//! of the gateway (`wan`: its root qdisc), or a device and a handle (`wan-1:50`).

pub use crate::metric_grammar::Quantity;
use crate::metric_grammar::{GRAMMAR, Row, Source};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The name of a metric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    /// The phase; `None` for the whole run.
    pub phase: Option<String>,
    /// The quantity that is measured.
    pub quantity: Quantity,
    /// The subject: the name of a probe, a flow, a link or similar.
    pub subject: String,
    /// The statistic of the quantity.
    pub statistic: Statistic,
}

/// A statistic of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// The only number of the quantity (a ratio, a count).
    Only,
    /// The smallest value.
    Min,
    /// The arithmetic mean.
    Mean,
    /// The median.
    P50,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// The largest value.
    Max,
    /// 99.9th percentile minus minimum (Y.1541).
    Variation,
    /// The share of samples of at most this number of milliseconds.
    WithinMs(u32),
    /// Time from the end of planning to the end of reading back.
    Writing,
    /// Number of requests that change something.
    Writes,
    /// Number of steps in a plan.
    Steps,
    /// Number of failures.
    Failures,
    /// Packets that were not shaped.
    Unshaped,
}

/// The kind of a metric's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A probe.
    Probe,
    /// A traffic entry.
    Flow,
    /// A traffic entry or a probe.
    FlowOrProbe,
    /// `up` or `down`.
    Link,
    /// A queue in the gateway or at the line.
    Place,
    /// A policy class.
    Class,
    /// Tracked connections of one kind.
    Connections,
    /// A figure of a calculation.
    Figure,
    /// A change of the policy, by its number from 1.
    Change,
    /// A part of the laboratory's machine: `processor`.
    Machine,
}

/// The word of a quantity that has a name but is not computed yet. It is the cost of a packet
/// beyond that of a device without a queue, both saturated. That is a difference between two
/// arms, which the recording of one arm does not contain.
const COST: &str = "cost";

/// Occurs when a text is not a metric name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {hint}")]
pub struct MetricError {
    /// What is wrong.
    pub problem: String,
    /// How to correct it.
    pub hint: String,
}

/// A quantity, as the reference describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its word in names.
    pub word: &'static str,
    /// The kind of its subject.
    pub subject: &'static str,
    /// The endings of its metric names.
    pub endings: Vec<String>,
    /// How it is computed.
    pub meaning: &'static str,
}

/// Returns every quantity, for the reference.
pub fn grammar() -> Vec<Described> {
    let described = |row: &Row| Described {
        word: row.word,
        subject: row.subject.word(),
        endings: {
            let statistics = row.statistics.iter();
            statistics
                .map(|statistic| statistic.suffix(row.quantity))
                .collect()
        },
        meaning: row.meaning.trim(),
    };
    GRAMMAR.iter().map(described).collect()
}

impl Subject {
    /// Returns the name of this kind in the reference.
    fn word(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Flow => "flow",
            Self::FlowOrProbe => "flow or probe",
            Self::Link => "`up` or `down`",
            Self::Place => "place",
            Self::Class => "class",
            Self::Connections => "`all`, `answered`, `unanswered` or `kept`",
            Self::Figure => "figure",
            Self::Change => "number of a change",
            Self::Machine => "`processor`",
        }
    }
}

impl Quantity {
    /// Returns the word in metric names, such as `rtt`.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// Returns the kind of its subject.
    pub fn subject(self) -> Subject {
        self.row().subject
    }

    /// Returns the quantity with that word.
    pub fn from_word(word: &str) -> Option<Self> {
        GRAMMAR
            .iter()
            .find(|row| row.word == word)
            .map(|row| row.quantity)
    }

    /// Returns whether it is also measured for the parts of flows by size.
    #[must_use]
    pub const fn is_by_size(self) -> bool {
        matches!(
            self,
            Self::Connect | Self::Response | Self::Slowdown | Self::Started | Self::Unfinished
        )
    }

    fn row(self) -> &'static Row {
        &GRAMMAR[self as usize]
    }
}

impl Statistic {
    fn word(self) -> &'static str {
        match self {
            Self::Only | Self::WithinMs(_) => "",
            Self::Min => "min",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Max => "max",
            Self::Variation => "variation",
            Self::Writing => "writing",
            Self::Writes => "writes",
            Self::Steps => "steps",
            Self::Failures => "failures",
            Self::Unshaped => "unshaped_packets",
        }
    }

    /// Returns the last part of a metric name.
    fn suffix(self, quantity: Quantity) -> String {
        let unit = quantity.row().unit;
        match self {
            Self::Only => unit.to_owned(),
            Self::WithinMs(bound) => format!("within_{bound}_ms.ratio"),
            Self::Writes | Self::Steps | Self::Failures | Self::Unshaped => self.word().to_owned(),
            other => format!("{}_{unit}", other.word()),
        }
    }
}

impl Metric {
    /// Returns a metric of the whole run.
    pub fn new(quantity: Quantity, subject: impl Into<String>, statistic: Statistic) -> Self {
        Self {
            phase: None,
            quantity,
            subject: subject.into(),
            statistic,
        }
    }

    /// Returns the same metric of one phase.
    #[must_use]
    pub fn in_phase(self, phase: impl Into<String>) -> Self {
        Self {
            phase: Some(phase.into()),
            ..self
        }
    }

    /// Returns whether it is computed from the log of the lab's own line, which has every packet
    /// with its time stamp. An arm whose line is the kernel's netem has no such metric.
    pub fn needs_own_line(&self) -> bool {
        match self.quantity.row().source {
            // Of a change, only the unshaped packets come from the line's log.
            Source::OwnLine if self.quantity == Quantity::Change => {
                self.statistic == Statistic::Unshaped
            }
            Source::OwnLine => true,
            Source::AnyLine => false,
            Source::ByPlace => matches!(self.subject.as_str(), "modem" | "exchange"),
        }
    }

    /// Returns the unit as written in the name: `ms`, `kbit`, `ratio` and so on; empty if the
    /// number has none.
    pub fn unit(&self) -> &'static str {
        match (self.quantity, self.statistic) {
            (_, Statistic::WithinMs(_)) => "ratio",
            (_, Statistic::Writes) => "writes",
            (_, Statistic::Steps) => "steps",
            (_, Statistic::Failures) => "failures",
            (_, Statistic::Unshaped) => "packets",
            (Quantity::PacketRate, _) => "packets/s",
            (Quantity::Calculated, _) => "",
            (quantity, _) => quantity.row().unit,
        }
    }
}

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, MetricError> {
        let parts: Vec<&str> = text.split('.').collect();
        let found = match parts.as_slice() {
            [word, subject, rest @ ..] if Quantity::from_word(word).is_some() => {
                Some((None, *word, *subject, rest))
            }
            [phase, word, subject, rest @ ..] if Quantity::from_word(word).is_some() => {
                Some((Some(*phase), *word, *subject, rest))
            }
            _ => None,
        };
        let Some((phase, word, subject, rest)) = found else {
            return Err(unknown_quantity(text, &parts));
        };
        // The fallback is never used: `from_word` has found this word above.
        let quantity = Quantity::from_word(word).unwrap_or(Quantity::Rtt);
        if phase == Some("") || subject.is_empty() {
            return Err(MetricError {
                problem: format!("`{text}` has an empty part"),
                hint: form(quantity),
            });
        }
        Ok(Self {
            phase: phase.map(str::to_owned),
            quantity,
            subject: subject.to_owned(),
            statistic: statistic(text, quantity, &rest.join("."))?,
        })
    }
}

fn statistic(text: &str, quantity: Quantity, suffix: &str) -> Result<Statistic, MetricError> {
    let row = quantity.row();
    if let Some(found) = row
        .statistics
        .iter()
        .find(|statistic| statistic.suffix(quantity) == suffix)
    {
        return Ok(*found);
    }
    let within = suffix
        .strip_prefix("within_")
        .and_then(|rest| rest.strip_suffix("_ms.ratio"))
        .filter(|digits| !digits.starts_with(['0', '+']))
        .and_then(|digits| digits.parse().ok());
    if let (Quantity::Rtt, Some(bound)) = (quantity, within) {
        return Ok(Statistic::WithinMs(bound));
    }
    Err(MetricError {
        problem: format!("`{text}` does not end in a number that `{}` has", row.word),
        hint: form(quantity),
    })
}

/// Returns a hint with the form of a quantity's names.
fn form(quantity: Quantity) -> String {
    let row = quantity.row();
    let mut endings: Vec<String> = row
        .statistics
        .iter()
        .map(|statistic| format!("`{}`", statistic.suffix(quantity)))
        .collect();
    if quantity == Quantity::Rtt {
        endings.push("`within_N_ms.ratio`".to_owned());
    }
    let subject = match row.subject {
        Subject::Probe => "PROBE",
        Subject::Flow => "FLOW",
        Subject::FlowOrProbe => "FLOW-OR-PROBE",
        Subject::Link => "LINK",
        Subject::Place => "PLACE",
        Subject::Class => "CLASS",
        Subject::Connections => "CONNECTIONS",
        Subject::Figure => "FIGURE",
        Subject::Change => "N",
        Subject::Machine => "processor",
    };
    format!(
        "write `PHASE.{}.{subject}.` and one of {}; the phase may be left out",
        row.word,
        endings.join(", ")
    )
}

fn unknown_quantity(text: &str, parts: &[&str]) -> MetricError {
    let words = || GRAMMAR.iter().map(|row| row.word);
    if parts.len() > 2 && parts[..2].contains(&COST) {
        return MetricError {
            problem: format!("`{text}`: instructions per packet are not measured yet"),
            hint: format!("measured are {}", words().collect::<Vec<_>>().join(", ")),
        };
    }
    let near = parts
        .iter()
        .take(2)
        .find_map(|part| weirgate_document::nearest(part, words()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "write PHASE.QUANTITY.SUBJECT.STATISTIC with one of: {}",
            words().collect::<Vec<_>>().join(", ")
        ),
    };
    MetricError {
        problem: format!("`{text}` is not the name of a metric"),
        hint,
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(phase) = &self.phase {
            write!(f, "{phase}.")?;
        }
        let suffix = self.statistic.suffix(self.quantity);
        write!(f, "{}.{}.{suffix}", self.quantity.word(), self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_grammar_parses_and_prints() {
        for row in GRAMMAR {
            assert_eq!(
                row.quantity.word(),
                row.word,
                "{} is listed twice",
                row.word
            );
            for statistic in row.statistics {
                let whole = Metric::new(row.quantity, "x", *statistic);
                assert_eq!(whole.to_string().parse(), Ok(whole.clone()));
                let phase = whole.in_phase("n1");
                assert_eq!(phase.to_string().parse(), Ok(phase));
            }
        }
    }

    #[test]
    fn names_of_the_design_are_names() {
        for name in [
            "rtt.interactive.p999_ms",
            "rtt.interactive.within_35_ms.ratio",
            "upload1.rtt.interactive.max_ms",
            "iprate.down.min_kbit",
            "pps.udp.mean",
            "connect.mice.p95_s",
            "util.up.ratio",
            "queue.modem.max_bytes",
            "drops.wan-1:50.packets",
            "jain.down.index",
        ] {
            let metric: Metric = name.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(metric.to_string(), name);
        }
    }

    #[test]
    fn wrong_names_say_what_would_be_right() {
        let problem = |name: &str| name.parse::<Metric>().unwrap_err().to_string();
        assert!(problem("rt.interactive.max_ms").contains("did you mean `rtt`?"));
        assert!(problem("upload1.rttt.x.max_ms").contains("did you mean `rtt`?"));
        assert!(problem("rtt.interactive.max_s").contains("`max_ms`"));
        assert!(problem("util.up.mean").contains("one of `ratio`"));
        assert!(problem("rtt..max_ms").contains("empty"));
        assert!(problem("rtt.x.within_035_ms.ratio").contains("within_N_ms"));
        assert!(problem("iprate.x.within_35_ms.ratio").contains("mean_kbit"));
        assert!(problem("").contains("is not the name"));
        for cost in ["cost.wan.instructions", "upload1.cost.wan.instructions"] {
            let message = problem(cost);
            assert!(message.contains("not measured yet"), "{message}");
            assert!(message.contains("measured are rtt, iprate"), "{message}");
        }
    }
}
