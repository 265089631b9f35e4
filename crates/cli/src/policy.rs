// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate check`, and reading policies for other commands.

use crate::exit::{Failure, Outcome, Status};
use crate::{output, source};
use std::path::Path;
use weirgate_measure::predict::Shaper;
use weirgate_policy::Policy;

/// Parses a policy; all its problems become one failure.
pub fn parse(path: &Path, text: &str) -> Result<Policy, Failure> {
    source::parse(path, text, weirgate_policy::parse)
}

/// Reads and parses a policy file.
pub fn load(path: &Path) -> Result<Policy, Failure> {
    let text = source::read(path)?;
    parse(path, &text)
}

/// `weirgate check`.
pub fn check(path: &Path) -> Outcome {
    let policy = load(path)?;
    output::data(&format!("{policy:?}"))?;
    Ok(Status::Done)
}

/// What the policy's upstream gate and classes are, for predictions.
pub fn shaper(_text: &str) -> Option<Shaper> {
    None
}
