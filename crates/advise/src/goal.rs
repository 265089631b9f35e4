// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For each goal, the figures that are measured, their limits, and the figure that ranks the
//! settings within all limits; and the experiment that measures them.

use crate::candidate::AS_IT_IS;
use crate::question::{CALL, Goal, Match, Question};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weirgate_linklayer::Framing;
use weirgate_units::Rate;

/// How far a rate may be from its limit: the tolerance of every other rate that weirgate
/// promises.
const NEAR: f64 = 0.02;

/// The part of its possible rate that TCP must get, so that a short delay does not come from an
/// idle line.
const USED: f64 = 0.9;

/// The largest share of the calls' packets that may be lost: the bound of classes 0 and 1 in
/// ITU-T Y.1541.
const LOST: f64 = 0.001;

/// A figure of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Its heading, with the unit.
    pub title: &'static str,
    /// The lab's name for it.
    pub metric: String,
    /// The factor for the lab's figure.
    pub factor: f64,
    /// Its limit.
    pub limit: Option<Limit>,
}

/// The limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Between the two.
    Between(f64, f64),
}

impl Limit {
    /// Returns whether a value is within the limit.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

/// Which of two figures is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
}

impl Measure {
    fn new(title: &'static str, metric: &str) -> Self {
        Self {
            title,
            metric: metric.to_owned(),
            factor: 1.0,
            limit: None,
        }
    }

    fn times(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    fn must(self, limit: Limit) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }
}

impl Question {
    /// Returns the figures of each setting. The first one ranks the settings within all limits.
    #[must_use]
    pub fn measures(&self) -> (Vec<Measure>, Better) {
        let payload = |rate: Rate| {
            // Full segments: 40 bytes of headers and 12 of timestamps.
            rate.as_kbit() * 1448.0 / self.full() as f64
        };
        let left = |taken: Rate| {
            let bits = self.line.rate.as_bits_per_second();
            Rate::bits_per_second(bits.saturating_sub(taken.as_bits_per_second()))
        };
        let wait = Measure::new("echo ms", "busy.rtt.chosen-echo.p99_ms");
        match &self.goal {
            Goal::Cap {
                limit,
                packet,
                always,
                ..
            } => {
                let wire = self.line.layer.wire_bytes(u32::from(*packet));
                let wire = f64::from(wire) / f64::from(*packet);
                let (least, most) = (1.0 - NEAR, 1.0 + NEAR);
                let (least, most) = (limit.as_kbit() * least, limit.as_kbit() * most);
                let stream = Measure::new("stream kbit", "busy.iprate.stream.mean_kbit");
                let alone = Measure::new("alone kbit", "alone.iprate.stream.mean_kbit");
                let alone = alone.times(wire);
                let list = vec![
                    wait,
                    stream.times(wire).must(Limit::Between(least, most)),
                    if *always {
                        alone.must(Limit::AtMost(most))
                    } else {
                        alone
                    },
                    Measure::new("TCP kbit", "busy.goodput.tcp.mean_kbit")
                        .must(Limit::AtLeast(USED * payload(left(*limit)))),
                ];
                (list, Better::Lower)
            }
            Goal::Prefer { leave, .. } => {
                let all = payload(self.line.rate);
                let list = vec![
                    Measure::new("dept kbit", "busy.goodput.department.mean_kbit"),
                    Measure::new("others kbit", "busy.goodput.others.mean_kbit")
                        .must(Limit::AtLeast(all * leave.as_f64() * USED)),
                    Measure::new("in use", "busy.util.up.ratio").must(Limit::AtLeast(USED)),
                    wait,
                ];
                (list, Better::Higher)
            }
            Goal::Voice { calls, .. } => {
                let list = vec![
                    wait,
                    Measure::new("lost", "busy.loss.calls.ratio").must(Limit::AtMost(LOST)),
                    Measure::new("TCP kbit", "busy.goodput.tcp.mean_kbit")
                        .must(Limit::AtLeast(USED * payload(left(self.calls(*calls))))),
                ];
                (list, Better::Lower)
            }
        }
    }

    /// Returns the policies of the experiment's arms, by the path written in it.
    #[must_use]
    pub fn policies(&self) -> BTreeMap<String, String> {
        let texts = self.candidates();
        let texts = texts.iter();
        texts
            .map(|one| (path(one.name), self.lab_policy(one)))
            .collect()
    }

    /// Returns the experiment that answers the question, as `weirgate lab run` reads it.
    #[must_use]
    pub fn experiment(&self) -> String {
        let line = &self.line;
        let framing = match line.layer.framing() {
            Framing::None => "none",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        };
        let side = format!(
            "{{ rate = \"{}\", delay = \"{}\", buffer = \"{}B\" }}",
            line.rate,
            line.delay,
            line.buffer.as_bytes()
        );
        let others = match &self.goal {
            Goal::Prefer { others, .. } => *others,
            Goal::Cap { .. } | Goal::Voice { .. } => 1,
        };
        let mut text = format!(
            "version = 1\nname = \"advise\"\ntitle = \"What `weirgate advise` compares\"\n\
             about = \"{}\"\nsource = \"weirgate advise\"\nseeds = {}\nsettle = \"4s\"\n\n\
             [topology]\nkind = \"access-line\"\nhosts = {}\nservers = 2\n\n[topology.line]\n\
             framing = \"{framing}\"\noverhead = {}\nmpu = {}\nup = {side}\ndown = {side}\n\n\
             [[phase]]\nname = \"busy\"\nend = \"20s\"\n",
            self.words(),
            self.seeds,
            others + 1,
            line.layer.overhead(),
            line.layer.mpu(),
        );
        if matches!(self.goal, Goal::Cap { .. }) {
            text.push_str("\n[[phase]]\nname = \"alone\"\nend = \"30s\"\n");
        }
        self.traffic(&mut text);
        let (name, about) = AS_IT_IS;
        let _ = write!(text, "\n[[arm]]\nname = \"{name}\"\nabout = \"{about}\"\n");
        for candidate in self.candidates() {
            let (name, about) = (candidate.name, candidate.about);
            let _ = write!(
                text,
                "\n[[arm]]\nname = \"{name}\"\nabout = \"{about}\"\npolicy = \"{}\"\n",
                path(name)
            );
        }
        text
    }

    fn traffic(&self, text: &mut String) {
        // How the chosen packets are recognised in the lab.
        let mark = match &self.chosen {
            Match::Dscp(point) => format!("dscp = \"{point}\"\n"),
            Match::Port(port) => format!("port = {port}\n"),
            Match::Udp | Match::Address(_) => String::new(),
        };
        let tcp = |text: &mut String, name: &str, host: &str, count: u16, rest: &str| {
            let _ = write!(
                text,
                "\n[[traffic]]\nname = \"{name}\"\nkind = \"tcp\"\nfrom = \"{host}\"\n\
                 to = \"server1\"\ncount = {count}\nstagger = \"100ms\"\nduring = \"busy\"\n{rest}"
            );
        };
        match &self.goal {
            Goal::Cap {
                stream,
                packet,
                tcp: count,
                ..
            } => {
                let wire = u64::from(self.line.layer.wire_bytes(u32::from(*packet)));
                let bits = stream.as_bits_per_second().max(1);
                let interval = wire * 8_000_000_000 / bits;
                let _ = write!(
                    text,
                    "\n[[traffic]]\nname = \"stream\"\nkind = \"udp\"\nfrom = \"host1\"\n\
                     to = \"server1\"\ninterval = \"{interval}ns\"\npacket = {packet}\n{mark}"
                );
                tcp(text, "tcp", "host2", *count, "");
            }
            Goal::Prefer {
                tcp: count, others, ..
            } => {
                tcp(text, "department", "host1", *count, &mark);
                let spread = format!("hosts = {others}\n");
                tcp(text, "others", "host2", *others, &spread);
            }
            Goal::Voice { calls, tcp: count } => {
                let _ = write!(
                    text,
                    "\n[[traffic]]\nname = \"calls\"\nkind = \"voice\"\nfrom = \"host1\"\n\
                     to = \"server1\"\ncount = {calls}\nstagger = \"3ms\"\ninterval = \"20ms\"\n\
                     packet = {CALL}\n{mark}"
                );
                tcp(text, "tcp", "host2", *count, "");
            }
        }
        let port = match &self.chosen {
            Match::Port(port) => *port,
            Match::Dscp(_) | Match::Udp | Match::Address(_) => ECHO,
        };
        let mark = match &self.chosen {
            Match::Port(_) => "",
            _ => &mark,
        };
        // Small enough to fit into the spare rate of the calls' class.
        let _ = write!(
            text,
            "\n[[probe]]\nname = \"chosen-echo\"\nkind = \"udp\"\nfrom = \"host1\"\n\
             to = \"server2\"\nport = {port}\ninterval = \"100ms\"\n\
             during = \"busy\"\n{mark}"
        );
    }
}

/// The port that answers if the chosen packets are not recognised by a port.
const ECHO: u16 = 7007;

fn path(name: &str) -> String {
    format!("policies/advise-{name}.toml")
}
