// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts observations of a machine to findings. Each has the observed fact, its consequence with
//! a figure for this link, and the remedy.
//!
//! [`examine`] is pure: crate kernel observes the [`Machine`], and crate cli prints the findings.
//! `docs/doctor.md` lists every finding by its code.
//!
//! ```
//! use std::collections::BTreeSet;
//! use weirgate_doctor::{Question, examine};
//! use weirgate_state::Machine;
//!
//! let machine = Machine::default();
//! let findings = examine(&Question {
//!     machine: &machine,
//!     policy: None,
//!     desired: None,
//!     possible: None,
//!     windows_refused: false,
//!     applied: None,
//!     differences: &["the root qdisc of wan is gone".to_owned()],
//!     devices: &BTreeSet::new(),
//! });
//! assert!(findings.iter().any(|finding| finding.code == "differs"));
//! ```
//!
//! [`Machine`]: weirgate_state::Machine

mod device;
mod finding;
mod intent;
mod link;
mod machine;
mod merged;
mod others;
mod passage;

use weirgate_units::Arrange as _;

pub use finding::{Finding, Question, Severity};
pub use intent::{needs, offered};
pub use others::damaged;
pub use passage::{Passage, passages};

/// Returns every finding, the most severe first.
#[must_use]
pub fn examine(question: &Question<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let carriers = link::carriers(question);
    device::examine(question, &carriers, &mut findings);
    merged::examine(question, &carriers, &mut findings);
    link::examine(question, &mut findings);
    machine::examine(question, &carriers, &mut findings);
    others::examine(question, &carriers, &mut findings);
    findings.arrange();
    findings.dedup();
    findings
}
