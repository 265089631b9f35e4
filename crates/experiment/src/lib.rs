// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's formats: experiment files, jobs, recordings and results.
//!
//! An experiment file ([`Experiment`]) describes a network, who sends what and when, the arms to
//! compare, and the expected figures. A [`Job`] is the work of one virtual machine: one arm. A
//! [`Recording`] is the result that it returns. An [`Outcome`] holds the figures of all arms.
//!
//! ```
//! use weirgate_experiment::{Metric, parse};
//!
//! let text = weirgate_testing::read("experiments/adsl/3.2.toml");
//! let (experiment, problems) = parse(&text);
//! assert!(problems.is_empty());
//! let promise = &experiment.expect("it has no problems").expectations[1];
//! assert_eq!((&*promise.arm, &*promise.metric), ("modem-only", "alone.rtt.interactive.max_ms"));
//! // A metric's name says in which phase, what, and of what.
//! let metric: Metric = promise.metric.parse()?;
//! assert_eq!(metric.phase.as_deref(), Some("alone"));
//! assert_eq!(metric.subject, "interactive");
//! # Ok::<(), weirgate_experiment::MetricError>(())
//! ```

mod envelope;
mod formula;
mod job;
mod load;
mod metric;
mod metric_grammar;
mod model;
mod node;
mod outcome;
mod parse;
mod part;
mod random;
mod recording;
mod vary;

pub use envelope::{EnvelopeError, seal, unseal};
pub use formula::{FUNCTIONS, Formula, FormulaError, NoValue};
pub use job::Job;
pub use metric::{Described, Metric, MetricError, Quantity, Statistic, Subject, grammar};
pub use model::{
    Amount, Arm, Autorate, AutorateSide, Buffer, Change, Command, DropEnd, Emulator, Expectation,
    Experiment, Figure, Framing, Impairments, KernelName, Line, LineSide, LineStep, LineStretch,
    Machine, Mechanism, Phase, Probe, ProbeKind, Promise, QuicCongestion, QuicSettings, Reordering,
    Sampling, Sweep, TcpSettings, Topology, Traffic, TrafficKind, Variation,
};
pub use node::{Node, NodeError};
pub use outcome::{ArmOutcome, Expected, Outcome};
pub use parse::{CODES, TABLES, parse};
pub use part::{Kit, Part};
pub use random::{Random, ShortFlow, ShortFlowSchedule};
pub use recording::{
    Capture, Changed, Connection, Delivered, Fate, FlowName, IdleSample, LinePacket, NumberSample,
    ProbeReply, QueueSample, Recording, RecordingError, Sojourn, TcpSample, TcpSegment, Tracked,
    Transcript, Written,
};
pub use weirgate_units::Direction;
