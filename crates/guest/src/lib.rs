// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's user space, which runs inside the virtual machine or in fresh namespaces of the
//! running kernel.
//!
//! [`agent`] builds the topology, emulates the line, drives traffic and records; [`charges`]
//! measures how many bytes the kernel counts for a packet. The binary adds what PID 1 needs:
//! mounts, modules, job and result.
//!
//! A run needs its own machine, or root for its namespaces. The emulated line is plain
//! arithmetic, written separately from crate `linklayer` so that it can contradict that crate:
//!
//! ```
//! use weirgate_guest::agent::line::framing::Wire;
//!
//! let text = weirgate_testing::read("experiments/adsl/3.2.toml");
//! let (experiment, _) = weirgate_experiment::parse(&text);
//! let line = experiment.expect("a file of this project").topology.line;
//! // 28 bytes of overhead: an acknowledgement of 40 bytes takes two ATM cells.
//! assert_eq!(Wire::of(&line).bytes(40), 106);
//! ```

pub mod agent;
pub mod charges;
