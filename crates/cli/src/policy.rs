// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate check`, and reading policies for other commands.

use crate::exit::{Failure, Outcome, Status};
use crate::{output, source};
use std::path::Path;
use weirgate_compile::check_report;
use weirgate_measure::predict::{Counting, Shaper, ShaperClass};
use weirgate_policy::{Direction, Policy};
use weirgate_state::{Capabilities, State};

/// Parses a policy; all its problems become one failure.
pub fn parse(path: &Path, text: &str) -> Result<Policy, Failure> {
    source::parse(path, text, weirgate_policy::parse)
}

/// Reads and parses a policy file; also returns its text.
pub fn load(path: &Path) -> Result<(Policy, String), Failure> {
    let text = source::read(path)?;
    Ok((parse(path, &text)?, text))
}

/// Compiles a policy for a kernel; all problems become one failure.
pub fn compile(
    path: &Path,
    text: &str,
    policy: &Policy,
    kernel: &Capabilities,
) -> Result<State, Failure> {
    source::parse(path, text, |_| weirgate_compile::compile(policy, kernel))
}

/// `weirgate check`: for a kernel that has everything.
pub fn check(path: &Path) -> Outcome {
    let (policy, text) = load(path)?;
    let report = check_report(&policy);
    output::text(&report.to_string())?;
    source::parse(path, &text, |_| (Some(()), report.problems))?;
    compile(path, &text, &policy, &Capabilities::all())?;
    Ok(Status::Done)
}

/// The policy's upstream gate and classes, for predictions.
pub fn shaper(text: &str) -> Option<Shaper> {
    let policy = weirgate_policy::parse(text).0?;
    let report = check_report(&policy);
    let up = report
        .directions
        .iter()
        .find(|one| one.direction == Direction::Up)?;
    let class = |class: &weirgate_compile::ClassReport| ShaperClass {
        name: class.name.clone(),
        rate_bits: class.guaranteed.wire.as_bits_per_second() as f64,
        priority: u32::from(class.priority),
    };
    Some(Shaper {
        rate_bits: up.gate.as_bits_per_second() as f64,
        counting: Counting::Wire,
        classes: up.classes.iter().map(class).collect(),
    })
}
