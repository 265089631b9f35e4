// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checked model of an experiment file.

mod autorate;
mod expectation;
mod line;
mod machine;
mod node;
mod traffic;

pub use autorate::{Autorate, AutorateSide};
pub use expectation::{Expectation, Mechanism, Promise};
pub use line::{
    Buffer, DropEnd, Framing, Impairments, Line, LineSide, LineStep, LineStretch, Reordering,
    Variation,
};
pub use machine::{KernelName, Machine};
pub use node::Node;
pub use traffic::{
    Amount, Probe, ProbeKind, QuicCongestion, QuicSettings, TcpSettings, Traffic, TrafficKind,
};

use crate::{Formula, Kit, Metric, NoValue, Quantity, Statistic};
use std::collections::BTreeMap;
use weirgate_units::{Rate, Span};

/// A whole experiment. Times are since the start of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Short name, also the file's: `adsl-3.2`.
    pub name: String,
    /// One line for lists.
    pub title: String,
    /// Where the experiment comes from (thesis and section).
    pub source: String,
    /// What it shows, in a paragraph.
    pub about: String,
    /// Further figures of the theses that this experiment also reproduces:
    /// `adsl-3.3` where they are other views of the same run.
    pub covers: Vec<String>,
    /// The seed used unless another is given.
    pub seed: u64,
    /// How many runs of each arm there are, with seeds from that one on.
    pub seeds: u16,
    /// What the machine of every arm is made of.
    pub machine: Machine,
    /// What is built.
    pub topology: Topology,
    /// Named stretches of time, in order, not overlapping.
    pub phases: Vec<Phase>,
    /// How long each phase settles before it is measured (5 s by default).
    pub settle: Span,
    /// Who sends what.
    pub traffic: Vec<Traffic>,
    /// Round-trip probes.
    pub probes: Vec<Probe>,
    /// What is sampled and how often.
    pub sampling: Sampling,
    /// The variants that are compared.
    pub arms: Vec<Arm>,
    /// What the figures are expected to be.
    pub expectations: Vec<Expectation>,
    /// The figures of a calculation; empty in an experiment that is run. A
    /// calculation has [`Topology::NONE`], no traffic, no phases and one arm,
    /// `calculation`, which needs no machine: [`Experiment::calculate`].
    pub figures: Vec<Figure>,
}

/// A figure that is calculated.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name in metrics: `calculated.NAME.value`.
    pub name: String,
    /// What it is.
    pub formula: Formula,
    /// What it says, one line; may be empty.
    pub about: String,
}

/// A stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its name, a prefix of metric names.
    pub name: String,
    /// When it begins.
    pub start: Span,
    /// When it ends.
    pub end: Span,
}

/// `access-line`: hosts - gateway - line (modem and exchange) - provider - servers.
///
/// Namespaces are called `host1`.., `gateway`, `provider`, `server1`... The
/// gateway's devices are `lan` (towards the hosts) and `wan` (the line).
/// Addresses: hosts 10.0.0.(10+n) and fd00:0:0:1::(10+n), servers
/// 192.0.2.(10+n) and 2001:db8:2::(10+n); no NAT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Hosts behind the gateway, at least 1.
    pub hosts: u16,
    /// Servers behind the provider, at least 1.
    pub servers: u16,
    /// The line.
    pub line: Line,
}

/// What is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// Interval of qdisc and class counters on the gateway.
    pub queues: Span,
    /// Interval of TCP state of every sender.
    pub tcp: Span,
    /// Records how long TCP segments from the hosts wait in the gateway: those
    /// that only acknowledge as class `ack`, others as their entry's class.
    pub segments: bool,
    /// Keeps the beginning of every packet at the line ([`Capture`](crate::Capture)).
    pub capture: bool,
}

/// One variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name: `modem-only`, `weirgate`, ...
    pub name: String,
    /// What it is, one line.
    pub about: String,
    /// The policy applied on the gateway, by path relative to the file.
    pub policy: Option<String>,
    /// The discipline of the kit at the gateway's device to the line.
    pub kit: Option<Kit>,
    /// A loop that changes rates while traffic runs, without a policy.
    pub autorate: Option<Autorate>,
    /// Commands run before traffic starts, in order.
    pub commands: Vec<Command>,
    /// Programs those need in the guest.
    pub programs: Vec<String>,
    /// Module parameters set before use: (`sch_htb.htb_hysteresis`, `1`).
    pub module_parameters: Vec<(String, String)>,
    /// Extra kernel command line: `highres=off`.
    pub kernel_options: Vec<String>,
    /// Who emulates the line.
    pub emulator: Emulator,
    /// Changes of traffic by name: settings replaced for this arm's run.
    pub without: Vec<String>,
    /// Parameters tried, of which the best is reported.
    pub sweep: Option<Sweep>,
    /// Policies that take the place of the one before while traffic runs, in
    /// order of time.
    pub then: Vec<Change>,
    /// The policy's rates are those that the line has, so much later; `None` where they are
    /// its own.
    pub oracle: Option<Span>,
}

impl Arm {
    /// Every policy that it applies, in order: the first one, and those that
    /// follow while traffic runs.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let later = self.then.iter().map(|change| &change.policy);
        self.policy.iter().chain(later).map(String::as_str)
    }
}

/// A change of the policy while an arm runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it begins, in virtual time since the start of traffic.
    pub at: Span,
    /// The policy applied then, by path relative to the file.
    pub policy: String,
}

/// A command line, run without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Where it runs.
    pub node: Node,
    /// Program and arguments; `{name}` is replaced by a sweep parameter,
    /// `{name.2}` by its second word.
    pub argv: Vec<String>,
}

/// Who emulates the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emulator {
    /// The lab's own line: a program in the kernel where it has qdiscs of BPF
    /// programs and precise timers, and else the one in user space.
    Own,
    /// The lab's own line between two TAP devices.
    UserSpace,
    /// The kernel's netem, where it can express the line.
    Netem,
}

/// Values tried for one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// The parameter's name in commands.
    pub parameter: String,
    /// Its values; one of several words sets several things at once.
    pub values: Vec<String>,
    /// The metric whose lowest value is best.
    pub best: String,
}

impl Default for Sampling {
    /// Ten samples a second, no capture.
    fn default() -> Self {
        Self {
            queues: Span::from_millis(100),
            tcp: Span::from_millis(100),
            segments: false,
            capture: false,
        }
    }
}

impl Topology {
    /// The topology of a calculation: nothing is built.
    pub const NONE: Self = {
        let side = LineSide {
            rate: Rate::kbit(0),
            delay: Span::ZERO,
            buffer: Buffer::Packets(0),
            drop: DropEnd::Tail,
            impairments: Impairments::NONE,
        };
        Self {
            hosts: 0,
            servers: 0,
            line: Line {
                up: side,
                down: side,
                framing: Framing::None,
                overhead: 0,
                mpu: 0,
                then: Vec::new(),
                varies: None,
                half_duplex: false,
            },
        }
    };
}

impl Experiment {
    /// True if nothing is run: the figures are calculated.
    #[must_use]
    pub fn is_calculation(&self) -> bool {
        !self.figures.is_empty()
    }

    /// The metrics of a calculation's only arm; none for an experiment that
    /// is run.
    pub fn calculate(&self) -> Result<BTreeMap<String, f64>, NoValue> {
        let mut metrics = BTreeMap::new();
        for figure in &self.figures {
            let metric = Metric::new(Quantity::Calculated, &figure.name, Statistic::Only);
            let value = figure.formula.value(&metrics)?;
            metrics.insert(metric.to_string(), value);
        }
        Ok(metrics)
    }

    /// The end of the last phase.
    #[must_use]
    pub fn duration(&self) -> Span {
        self.phases
            .iter()
            .map(|phase| phase.end)
            .max()
            .unwrap_or_default()
    }

    /// The arm of that name.
    #[must_use]
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}

impl Command {
    /// The argument list with sweep parameters filled in: `{name}` is a value,
    /// `{name.2}` its second word.
    #[must_use]
    pub fn resolve(&self, parameters: &BTreeMap<String, String>) -> Vec<String> {
        let fill = |argument: &String| {
            let mut text = argument.clone();
            for (name, value) in parameters {
                text = text.replace(&format!("{{{name}}}"), value);
                for (at, word) in value.split_whitespace().enumerate() {
                    text = text.replace(&format!("{{{name}.{}}}", at + 1), word);
                }
            }
            text
        };
        self.argv.iter().map(fill).collect()
    }
}
