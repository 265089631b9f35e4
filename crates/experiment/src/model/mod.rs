// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checked model of an experiment file.

mod autorate;
mod expectation;
mod line;
mod machine;
mod traffic;

pub use autorate::{Autorate, AutorateSide};
pub use expectation::{Expectation, Mechanism, Promise};
pub use line::{
    Buffer, DropEnd, Framing, Impairments, Line, LineSide, LineStep, LineStretch, Reordering,
    Variation,
};
pub use machine::{KernelName, Machine};
pub use traffic::{
    Amount, Probe, ProbeKind, QuicCongestion, QuicSettings, TcpSettings, Traffic, TrafficKind,
};

use crate::{Formula, Kit, Metric, NoValue, Node, Quantity, Statistic};
use std::collections::BTreeMap;
use weirgate_units::{Rate, Span};

/// A whole experiment. Times are since the start of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Short name, also of the file: `adsl-3.2`.
    pub name: String,
    /// One line for lists.
    pub title: String,
    /// Where the experiment comes from (thesis and section).
    pub source: String,
    /// What it shows, in a paragraph.
    pub about: String,
    /// Other figures of the theses that this experiment also reproduces, such as `adsl-3.3`:
    /// other views of the same run.
    pub covers: Vec<String>,
    /// The seed, unless the command line names another.
    pub seed: u64,
    /// The number of runs of each arm. Their seeds are consecutive, from `seed` on.
    pub seeds: u16,
    /// The settings of the machine that runs each arm.
    pub machine: Machine,
    /// The network.
    pub topology: Topology,
    /// The phases in order; they do not overlap.
    pub phases: Vec<Phase>,
    /// The time after the start of each phase that is not measured (5 s by default).
    pub settle: Span,
    /// The senders.
    pub traffic: Vec<Traffic>,
    /// Round-trip probes.
    pub probes: Vec<Probe>,
    /// What is sampled and how often.
    pub sampling: Sampling,
    /// The variants that are compared.
    pub arms: Vec<Arm>,
    /// The expected figures.
    pub expectations: Vec<Expectation>,
    /// The figures of a calculation; empty in an experiment that is run. A calculation has
    /// [`Topology::NONE`], no traffic and no phases. Its only arm, `calculation`, needs no
    /// machine: see [`Experiment::calculate`].
    pub figures: Vec<Figure>,
}

/// A figure that is calculated.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name in metrics: `calculated.NAME.value`.
    pub name: String,
    /// How it is calculated.
    pub formula: Formula,
    /// What it means, in one line; may be empty.
    pub about: String,
}

/// A named part of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its name, a prefix of metric names.
    pub name: String,
    /// When it begins.
    pub start: Span,
    /// When it ends.
    pub end: Span,
}

/// The network: hosts - gateway - line (modem and exchange) - provider - servers.
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

/// What is sampled during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// Interval between samples of qdisc and class counters on the gateway.
    pub queues: Span,
    /// Interval between samples of each sender's TCP state.
    pub tcp: Span,
    /// Whether to record how long TCP segments from the hosts wait in the gateway. Pure ACKs
    /// count as class `ack`, others as their entry's class.
    pub segments: bool,
    /// Whether to keep the beginning of every packet at the line ([`Capture`](crate::Capture)).
    pub capture: bool,
}

/// One variant of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name: `modem-only`, `weirgate`, ...
    pub name: String,
    /// What the arm is, in one line.
    pub about: String,
    /// The path of the policy applied on the gateway, relative to the file.
    pub policy: Option<String>,
    /// The discipline of the kit on the gateway's device to the line.
    pub kit: Option<Kit>,
    /// A control loop that changes rates while traffic runs, without a policy.
    pub autorate: Option<Autorate>,
    /// Commands run before traffic starts, in order.
    pub commands: Vec<Command>,
    /// Commands that run beside the traffic, until it ends.
    pub background: Vec<Command>,
    /// Programs that the commands need in the guest.
    pub programs: Vec<String>,
    /// Module parameters to set before use: (`sch_htb.htb_hysteresis`, `1`).
    pub module_parameters: Vec<(String, String)>,
    /// Extra options of the kernel command line: `highres=off`.
    pub kernel_options: Vec<String>,
    /// What emulates the line.
    pub emulator: Emulator,
    /// Names of traffic and probes that this arm leaves out.
    pub without: Vec<String>,
    /// The values tried for a parameter; the best run is reported.
    pub sweep: Option<Sweep>,
    /// Policies that replace the previous one while traffic runs, in order of time.
    pub then: Vec<Change>,
    /// The delay with which the policy's rates follow the line's rates. `None`: the policy's own
    /// rates are used.
    pub oracle: Option<Span>,
}

impl Arm {
    /// Returns an arm that sets nothing up.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            policy: None,
            kit: None,
            autorate: None,
            commands: Vec::new(),
            background: Vec::new(),
            programs: Vec::new(),
            module_parameters: Vec::new(),
            kernel_options: Vec::new(),
            emulator: Emulator::Own,
            without: Vec::new(),
            sweep: None,
            then: Vec::new(),
            oracle: None,
        }
    }

    /// Returns every policy that it applies, in order: the first one, and those applied while
    /// traffic runs.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let later = self.then.iter().map(|change| &change.policy);
        self.policy.iter().chain(later).map(String::as_str)
    }
}

/// A change of the policy while traffic runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it begins, in virtual time since the start of traffic.
    pub at: Span,
    /// The path of the policy applied then, relative to the file.
    pub policy: String,
}

/// A command line, run without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The node where it runs.
    pub node: Node,
    /// Program and arguments. `{name}` stands for the value of a sweep parameter, `{name.2}` for
    /// its second word.
    pub argv: Vec<String>,
}

/// What emulates the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emulator {
    /// The lab's own line. It is a BPF program in kernels that support BPF qdiscs and precise
    /// timers, and a process in user space in others.
    Own,
    /// The lab's own line in user space, between two TAP devices.
    UserSpace,
    /// The kernel's netem, if it can express the line.
    Netem,
}

/// The values tried for one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// The parameter's name in commands.
    pub parameter: String,
    /// Its values. A value of several words sets several things at once.
    pub values: Vec<String>,
    /// The metric whose lowest value is best.
    pub best: String,
}

impl Default for Sampling {
    /// Samples ten times a second, without capture.
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
    /// The topology of a calculation, for which no network is built.
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
    /// Returns whether the figures are calculated and nothing is run.
    #[must_use]
    pub fn is_calculation(&self) -> bool {
        !self.figures.is_empty()
    }

    /// Returns the metrics of a calculation's only arm; empty for an experiment that is run.
    pub fn calculate(&self) -> Result<BTreeMap<String, f64>, NoValue> {
        let mut metrics = BTreeMap::new();
        for figure in &self.figures {
            let metric = Metric::new(Quantity::Calculated, &figure.name, Statistic::Only);
            let value = figure.formula.value(&metrics)?;
            metrics.insert(metric.to_string(), value);
        }
        Ok(metrics)
    }

    /// Returns the end of the last phase.
    #[must_use]
    pub fn duration(&self) -> Span {
        self.phases
            .iter()
            .map(|phase| phase.end)
            .max()
            .unwrap_or_default()
    }

    /// Returns the arm with that name.
    #[must_use]
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}

impl Command {
    /// Returns the argument list with sweep parameters filled in: `{name}` is the value,
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
