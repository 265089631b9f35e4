// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The question, and the check that it makes sense.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use weirgate_linklayer::LinkLayer;
use weirgate_units::{Dscp, Rate, Share, Size, Span};

/// A question: a link, a goal, and how the chosen packets are distinguished from all others.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The link.
    pub line: AskedLine,
    /// The goal.
    pub goal: Goal,
    /// The chosen packets: the stream, the department, the calls.
    pub chosen: Match,
    /// The router's device towards the link, for the printed policy.
    pub device: String,
    /// The router's device towards the inside.
    pub lan: String,
    /// Runs of each setting, with seeds from 1 on.
    pub seeds: u16,
}

/// The link in the direction of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedLine {
    /// Its rate, in bits on the wire.
    pub rate: Rate,
    /// The link layer, which says what a packet costs.
    pub layer: LinkLayer,
    /// The one-way propagation delay.
    pub delay: Span,
    /// The modem's queue, which matters for settings without a shaper, in IP bytes.
    pub buffer: Size,
}

/// The goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// A stream of datagrams gets at most a rate, with little delay.
    Cap {
        /// The rate that it may have, in bits on the wire.
        limit: Rate,
        /// The rate that it sends, in bits on the wire.
        stream: Rate,
        /// The length of its IP packets.
        packet: u16,
        /// TCP connections beside it.
        tcp: u16,
        /// Whether the limit also applies while nobody else sends.
        always: bool,
    },
    /// A department gets as much as it can, and leaves a part to the others.
    Prefer {
        /// TCP connections of the department.
        tcp: u16,
        /// TCP connections of the others, each from a host of its own.
        others: u16,
        /// The part of the link that the others must get.
        leave: Share,
    },
    /// Calls get the shortest delay beside TCP.
    Voice {
        /// Calls at once, each 50 packets of 200 bytes a second.
        calls: u16,
        /// TCP connections beside them.
        tcp: u16,
    },
}

/// How the chosen packets are distinguished from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// By their code point.
    Dscp(String),
    /// By being UDP.
    Udp,
    /// By the far end's port.
    Port(u16),
    /// By the inside host's address, a prefix.
    Address(String),
}

/// The error of a text that does not say how packets are distinguished.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("write `udp`, `dscp=EF`, `port=5004` or `address=10.0.0.0/28`")]
pub struct MatchError;

impl FromStr for Match {
    type Err = MatchError;

    fn from_str(text: &str) -> Result<Self, MatchError> {
        if text == "udp" {
            return Ok(Self::Udp);
        }
        let (field, value) = text.split_once('=').ok_or(MatchError)?;
        let plain = |one: char| one.is_ascii_alphanumeric() || "./:".contains(one);
        if value.is_empty() || !value.chars().all(plain) {
            return Err(MatchError);
        }
        match field {
            "dscp" if value.parse::<Dscp>().is_ok() => Ok(Self::Dscp(value.to_owned())),
            "address" => Ok(Self::Address(value.to_owned())),
            "port" => match value.parse() {
                Ok(port) if port > 0 => Ok(Self::Port(port)),
                _ => Err(MatchError),
            },
            _ => Err(MatchError),
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dscp(point) => write!(f, "dscp={point}"),
            Self::Udp => f.write_str("udp"),
            Self::Port(port) => write!(f, "port={port}"),
            Self::Address(prefix) => write!(f, "address={prefix}"),
        }
    }
}

/// The error of a question that cannot be answered: what is wrong, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {hint}")]
pub struct Senseless {
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

/// The slowest and the fastest link that the lab measures. On a slower link, a full packet takes
/// longer than half a second; on a faster one, a run takes hours.
const RATES: (Rate, Rate) = (Rate::kbit(24), Rate::kbit(200_000));

/// The longest delay and the queue of a link that the lab has.
const LONGEST_DELAY: Span = Span::from_secs(10);
const BUFFERS: (Size, Size) = (Size::bytes(2_000), Size::bytes(64_000_000));

/// The most packets of a stream in a second, so that a run has no more than the lab records.
const MOST_PACKETS: u64 = 50_000;

/// The IP packets of a call: 20 ms of G.711 with RTP, UDP and IP headers.
pub(crate) const CALL: u16 = 200;

/// Packets of a call in a second.
const CALL_PACKETS: u32 = 50;

impl Question {
    /// Checks whether the question can be answered.
    pub fn check(&self) -> Result<(), Senseless> {
        let refuse = |problem: String, hint: &str| {
            Err(Senseless {
                problem,
                hint: hint.to_owned(),
            })
        };
        let rate = self.line.rate;
        if rate < RATES.0 || rate > RATES.1 {
            let problem = format!("a link of {rate} cannot be measured");
            let hint = format!("the lab takes {} to {}", RATES.0, RATES.1);
            return refuse(problem, &hint);
        }
        if self.line.delay > LONGEST_DELAY {
            let problem = format!("a delay of {} cannot be measured", self.line.delay);
            return refuse(problem, &format!("{LONGEST_DELAY} is the most"));
        }
        let buffer = self.line.buffer;
        if buffer < BUFFERS.0 || buffer > BUFFERS.1 {
            let problem = format!("a queue of {buffer} cannot be measured");
            let hint = format!("the lab takes {} to {}", BUFFERS.0, BUFFERS.1);
            return refuse(problem, &hint);
        }
        match &self.goal {
            Goal::Cap {
                limit,
                stream,
                packet,
                ..
            } => {
                if *limit >= rate {
                    let problem = format!("a limit of {limit} is no limit on a link of {rate}");
                    return refuse(problem, "give one below the link's rate");
                }
                if *limit < Rate::kbit(8) {
                    return refuse(
                        format!("a limit of {limit} is too low"),
                        "8kbit is the least",
                    );
                }
                if stream <= limit {
                    let problem = format!("a stream of {stream} keeps to {limit} by itself");
                    return refuse(
                        problem,
                        "say what it sends when nothing holds it (--stream)",
                    );
                }
                if !(64..=1500).contains(packet) {
                    let problem = format!("packets of {packet} bytes cannot be sent");
                    return refuse(problem, "a datagram's IP packet has 64 to 1500 bytes");
                }
                let bits = u64::from(self.line.layer.wire_bytes(u32::from(*packet))) * 8;
                if stream.as_bits_per_second() > MOST_PACKETS * bits {
                    let problem =
                        format!("a stream of {stream} in packets of {packet} bytes is too fast");
                    let hint = format!("the lab sends at most {MOST_PACKETS} packets a second");
                    return refuse(problem, &hint);
                }
            }
            Goal::Prefer { leave, .. } => {
                if leave.as_f64() > 0.5 {
                    let problem = format!("who leaves {leave} to others is not preferred");
                    return refuse(problem, "50% is the most");
                }
                if self.chosen == Match::Udp {
                    let problem = "a department's TCP is not recognised by being UDP".to_owned();
                    return refuse(problem, "tell it by address=, port= or dscp=");
                }
            }
            Goal::Voice { calls, .. } => {
                let taken = self.calls(*calls);
                if taken.as_bits_per_second() > rate.as_bits_per_second() / 2 {
                    let problem = format!("{calls} calls take {taken} of {rate}");
                    return refuse(
                        problem,
                        "what may take more than half of a link cannot be urgent; ask for fewer",
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the rate that this many calls take on the wire, one way.
    pub(crate) fn calls(&self, calls: u16) -> Rate {
        let packets = CALL_PACKETS * u32::from(calls);
        self.line.layer.wire_rate(u32::from(CALL), packets)
    }

    /// Returns a full packet on the wire, in bytes.
    pub(crate) fn full(&self) -> u64 {
        u64::from(self.line.layer.wire_bytes(1500))
    }

    /// Returns the question as a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        let AskedLine { rate, layer, .. } = &self.line;
        let what = match &self.goal {
            Goal::Cap {
                limit,
                stream,
                packet,
                tcp,
                always,
            } => format!(
                "hold datagrams of {packet} bytes that come at {stream} to {limit}{}, with the \
                 shortest delay, beside {}",
                if *always {
                    ", also where nobody else sends"
                } else {
                    ""
                },
                connections(*tcp)
            ),
            Goal::Prefer { tcp, others, leave } => format!(
                "prefer a department with {} to {} of others, who keep {leave} of the link",
                connections(*tcp),
                connections(*others)
            ),
            Goal::Voice { calls, tcp } => format!(
                "the shortest delay for {calls} {} beside {}",
                if *calls == 1 { "call" } else { "calls" },
                connections(*tcp)
            ),
        };
        format!("On {rate} of {}: {what}.", layer.name())
    }
}

fn connections(count: u16) -> String {
    match count {
        1 => "1 TCP connection".to_owned(),
        count => format!("{count} TCP connections"),
    }
}
