// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was found on a machine to findings: each with the fact observed, why
//! it matters with a figure of this very link, and the remedy.
//!
//! [`examine`] is pure: crate kernel observes the [`Machine`], crate cli
//! prints what comes out. `docs/doctor.md` lists every finding by its code.
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
mod others;
mod passage;

use weirgate_units::Arrange as _;

pub use finding::{Finding, Question, Severity};
pub use intent::needs;
pub use others::damaged;
pub use passage::{Passage, passages};

/// Every finding, the gravest first.
#[must_use]
pub fn examine(question: &Question<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let carriers = link::carriers(question);
    device::examine(question, &carriers, &mut findings);
    link::examine(question, &mut findings);
    machine::examine(question, &carriers, &mut findings);
    others::examine(question, &carriers, &mut findings);
    findings.arrange();
    findings.dedup();
    findings
}
