// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the doctor is asked, and what it answers.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use weirgate_policy::Policy;
use weirgate_state::{DeviceName, Machine, State};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The policy cannot be applied, or packets pass around it.
    Fault,
    /// A promise of the policy may not be kept.
    Warning,
    /// Worth to know; no promise depends on it.
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

/// Something that disturbs, or might.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Its name, the same in every version: what scripts look for.
    pub code: &'static str,
    /// The device, or `kernel`.
    pub subject: String,
    /// What was seen.
    pub fact: String,
    /// What follows from it, with a figure.
    pub why: String,
    /// What to do: a command, a file's line or a policy's field.
    pub remedy: String,
}

/// What was seen; why it matters; what to do: a line each.
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

/// What to judge, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What was found.
    pub machine: &'a Machine,
    /// The policy that is to be kept, if any.
    pub policy: Option<&'a Policy>,
    /// The policy as compiled for a kernel that has everything.
    pub desired: Option<&'a State>,
    /// What weirgate has applied.
    pub applied: Option<&'a State>,
    /// In what the kernel differs from `applied`, in words.
    pub differences: &'a [String],
    /// Devices to look at beside the policy's.
    pub devices: &'a BTreeSet<DeviceName>,
}
