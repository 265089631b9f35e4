// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input and the findings of the doctor.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use weirgate_policy::Policy;
use weirgate_state::{DeviceName, Machine, State};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The policy cannot be applied, or packets pass around it.
    Fault,
    /// A promise of the policy may not be kept.
    Warning,
    /// Informational: no promise depends on it.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A fact that disturbs the shaper, or might.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The code, which is the same in every version, for scripts.
    pub code: &'static str,
    /// The device, or `kernel`.
    pub subject: String,
    /// The observed fact.
    pub fact: String,
    /// The consequence, with a figure.
    pub why: String,
    /// The remedy: a command, a file's line or a policy's field.
    pub remedy: String,
}

/// Three lines: the fact, the consequence and the remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            severity,
            code,
            subject,
            fact,
            why,
            remedy,
        } = self;
        write!(
            f,
            "{severity}: {subject}: {fact} [{code}]\n  why     {why}\n  remedy  {remedy}"
        )
    }
}

/// The input of an examination.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The observed machine.
    pub machine: &'a Machine,
    /// The policy to judge by, if any.
    pub policy: Option<&'a Policy>,
    /// The policy as compiled for a kernel that has everything.
    pub desired: Option<&'a State>,
    /// The policy as compiled for this kernel ([`offered`](crate::offered)), with what takes the
    /// place of missing parts; `None` if this kernel cannot run it.
    pub possible: Option<&'a State>,
    /// Whether the kernel has refused the programs of receive windows since it started.
    pub windows_refused: bool,
    /// The state that weirgate has applied.
    pub applied: Option<&'a State>,
    /// The differences between the kernel and `applied`, in words.
    pub differences: &'a [String],
    /// Devices to examine in addition to the policy's.
    pub devices: &'a BTreeSet<DeviceName>,
}
