// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agent: one event loop that runs one arm of an experiment.
//!
//! It owns the topology, the emulated line, the arm's set-up and the order of the run; start
//! reading at `run`. [`traffic::start`] starts one task in the event loop for each sender, probe
//! and sampler. The tasks end when the run drops them, so they record observations as they
//! occur.
//!
//! Everything except a policy change runs on one thread. A socket belongs to the namespace in
//! which it was opened, and the order of events depends only on the kernel.

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
