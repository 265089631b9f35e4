// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate check`, and reading policies for other commands.

use crate::exit::{Failure, Outcome, Status};
use crate::{output, source};
use std::path::Path;
use weirgate_compile::check_report;
use weirgate_measure::predict::{Counting, Shaper, ShaperClass};
use weirgate_policy::{Direction, Policy};
use weirgate_state::{Capabilities, State};

/// Parses a policy with what it includes from its folder; all problems become
/// one failure.
pub fn parse(path: &Path, text: &str) -> Result<Policy, Failure> {
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let load = |include: &str| match source::read(&folder.join(include)) {
        Ok(text) => Ok(text),
        Err(Failure::Input(why)) => Err(why),
        Err(_) => Err("it cannot be read".to_owned()),
    };
    let parsed = weirgate_policy::parse_with(&name, text, &load);
    source::settle(&name, parsed.policy, &parsed.problems, |problem| {
        parsed.sources.render(problem)
    })
}

/// Reads and parses a policy file; also returns its text.
pub fn load(path: &Path) -> Result<(Policy, String), Failure> {
    let text = source::read(path)?;
    Ok((parse(path, &text)?, text))
}

/// Compiles a policy for a kernel; all problems become one failure.
pub fn compile(path: &Path, policy: &Policy, kernel: &Capabilities) -> Result<State, Failure> {
    let (state, problems) = weirgate_compile::compile(policy, kernel);
    let name = path.display().to_string();
    source::settle(&name, state, &problems, |problem| {
        policy.sources.render(problem)
    })
}

/// `weirgate check`: for a kernel that has everything.
pub fn check(path: &Path) -> Outcome {
    let (policy, _) = load(path)?;
    let report = check_report(&policy);
    output::text(&report.to_string())?;
    let name = path.display().to_string();
    source::settle(&name, Some(()), &report.problems, |problem| {
        policy.sources.render(problem)
    })?;
    compile(path, &policy, &Capabilities::all())?;
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
