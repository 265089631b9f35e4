// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agent: one event loop that runs one arm of an experiment.
//!
//! It owns the topology, the emulated line, the arm's set-up and the run's
//! order; start reading at `run`. What is sent, probed and sampled is started
//! by [`traffic::start`], which leaves one task per sender, probe and sampler
//! in the event loop. The tasks end when the run drops them, so they record as
//! they go.
//!
//! Everything but a change of policy runs on one thread: a socket belongs to the namespace in which it
//! was opened, and the order of events depends on the kernel alone.

mod arm;
mod autorate;
mod change;
pub mod clock;
mod command;
mod kit;
mod limits;
pub mod line;
pub mod nodes;
mod oracle;
mod prague;
pub mod probe;
pub mod recorder;
mod run;
pub mod sample;
pub mod session;
mod shaper;
pub mod stamp;
pub mod topology;
mod track;
pub mod traffic;
pub mod watch;

pub use run::{Machine, run, run_beside};
