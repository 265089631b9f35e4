// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a round of the soak found.

use super::look::{Counts, Memory, Process};
use super::traffic::Waited;
use serde::{Deserialize, Serialize};

/// The names of the last step of a turn, and of the end of the run.
pub const REMOVE: &str = "remove";
pub const END: &str = "the end";

/// The result of a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Round {
    /// The step's name.
    pub step: String,
    /// The virtual time of the look, in seconds since the begin.
    pub at: f64,
    /// Deviations from the expected state.
    pub faults: Vec<String>,
    pub counts: Counts,
    pub memory: Memory,
    /// The services, and processes that the step itself started.
    pub processes: Vec<Process>,
    /// What the packets of each class had to wait; nothing if no policy was in force.
    pub waited: Vec<Waited>,
}
