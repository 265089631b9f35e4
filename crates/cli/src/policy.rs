// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate check`, and reading policies for other commands.

use crate::exit::{Failure, Outcome, Status};
use crate::{output, source};
use std::cell::RefCell;
use std::path::Path;
use weirgate_compile::check_report;
use weirgate_keep::{KeepError, Source};
use weirgate_measure::predict::{Counting, Shaper, ShaperClass};
use weirgate_policy::{Direction, Policy};
use weirgate_state::{Capabilities, State};

/// A policy with the texts that it was read from.
pub struct Loaded {
    /// The file as it was named.
    name: String,
    policy: Policy,
    /// The policy's own file first.
    pub sources: Vec<Source>,
}

/// Reads a policy file and what it includes; all problems become one failure.
pub fn read(path: &Path) -> Result<Loaded, Failure> {
    parse(path, &source::read(path)?)
}

/// Parses a policy and reads what it includes from its folder; all problems
/// become one failure.
pub fn parse(path: &Path, text: &str) -> Result<Loaded, Failure> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let sources = RefCell::new(vec![Source {
        path: whole.display().to_string(),
        text: text.to_owned(),
    }]);
    let load = |name: &str| {
        let file = path.parent().unwrap_or(Path::new(".")).join(name);
        let text = source::included(&file)?;
        let path = file.canonicalize().unwrap_or(file).display().to_string();
        sources.borrow_mut().push(Source {
            path,
            text: text.clone(),
        });
        Ok(text)
    };
    let name = path.display().to_string();
    let parsed = weirgate_policy::parse_with(&name, text, &load);
    let policy = source::judge(&name, parsed.policy, &parsed.problems, |problem| {
        parsed.sources.render(problem)
    })?;
    Ok(Loaded {
        name,
        policy,
        sources: sources.into_inner(),
    })
}

/// The policy of texts that were kept, its own first, and the texts it
/// includes by the path that each was read from.
pub fn again(sources: &[Source]) -> Result<Loaded, Failure> {
    let Some((own, others)) = sources.split_first() else {
        return Err(Failure::Input(
            "weirgate: the applied state was kept without its policy; apply the policy again"
                .to_owned(),
        ));
    };
    let folder = Path::new(&own.path).parent().unwrap_or(Path::new("."));
    let load = |name: &str| {
        let path = folder.join(name);
        // The files were kept under their true paths.
        let whole = path.canonicalize().unwrap_or(path).display().to_string();
        let same = |source: &&Source| source.path == whole || source.path.ends_with(name);
        let found = others.iter().find(same);
        found
            .map(|source| source.text.clone())
            .ok_or_else(|| format!("`{name}` was not kept"))
    };
    let parsed = weirgate_policy::parse_with(&own.path, &own.text, &load);
    let policy = source::judge(&own.path, parsed.policy, &parsed.problems, |problem| {
        parsed.sources.render(problem)
    })?;
    Ok(Loaded {
        name: own.path.clone(),
        policy,
        sources: sources.to_vec(),
    })
}

/// `weirgate check`: for a kernel that has everything.
pub fn check(path: &Path) -> Outcome {
    let loaded = read(path)?;
    let report = check_report(&loaded.policy);
    output::text(&report.to_string())?;
    source::judge(&loaded.name, Some(()), &report.problems, |problem| {
        loaded.policy.sources.render(problem)
    })?;
    loaded.compile(&Capabilities::all())?;
    Ok(Status::Done)
}

impl Loaded {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Compiles it for a kernel; all problems become one failure.
    pub fn compile(&self, kernel: &Capabilities) -> Result<State, Failure> {
        let (state, problems) = weirgate_compile::compile(&self.policy, kernel);
        source::judge(&self.name, state, &problems, |problem| {
            self.policy.sources.render(problem)
        })
    }
}

/// `weirgate export`: for a kernel that has everything.
pub fn export(path: &Path) -> Outcome {
    let state = read(path)?.compile(&Capabilities::all())?;
    let named =
        |set: &&weirgate_state::Set| matches!(set.content, weirgate_state::Content::Refreshed(_));
    for set in state
        .tables
        .iter()
        .flat_map(|table| &table.sets)
        .filter(named)
    {
        output::note(&format!(
            "weirgate: warning: not as the policy has it: the set {} is empty: a script looks no \
             DNS names up",
            set.name
        ));
    }
    let export = weirgate_plan::export(&state)
        .map_err(|problems| crate::shape::refused(KeepError::NoPlan(problems)))?;
    for one in &export.inexact {
        output::note(&format!(
            "weirgate: warning: not as the policy has it: {one}"
        ));
    }
    output::data(&export.script)?;
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
