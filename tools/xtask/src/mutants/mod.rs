// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutation testing: checks that the unit tests of a crate detect small changes of it.
//!
//! cargo-mutants makes the changes, one at a time, in a copy of the sources, and runs the crate's
//! own tests. A change that no test detects is a survivor. It shows a missing test, or it changes
//! nothing that anybody can see. `tests/mutants.toml` has the reason of each that stays.

mod explained;
mod page;

use crate::command;
use anyhow::{Context, Result, bail, ensure};
use explained::Explained;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of cargo-mutants: others may make other changes.
const VERSION: &str = "27.1.0";

/// The folder of the tool and of its results.
const TOOL: &str = "target/tools/cargo-mutants";
const RESULTS: &str = "target/mutants";

/// The share of survivors that is tolerated, with a reason each.
const TOLERATED: f64 = 0.05;

/// The crates, with the files that are changed; none for all.
const CRATES: [(&str, &[&str]); 8] = [
    ("units", &[]),
    ("linklayer", &[]),
    ("state", &[]),
    ("plan", &[]),
    ("compile", BOUNDS),
    ("measure", &[]),
    ("history", &[]),
    ("track", &[]),
];

/// The files that compute the bounds which `check` prints.
const BOUNDS: &[&str] = &[
    "crates/compile/src/report/bound.rs",
    "crates/compile/src/scheduler/bounds.rs",
    "crates/compile/src/scheduler/parts.rs",
    "crates/compile/src/scheduler/wait.rs",
];

/// What became of a crate's mutants.
#[derive(Debug, Default)]
struct Outcome {
    name: &'static str,
    /// Changes that a test detected, or that made it run endlessly.
    caught: usize,
    /// Changes that do not compile.
    unviable: usize,
    /// Changes that no test detected, without their lines.
    missed: Vec<String>,
}

impl Outcome {
    /// Returns the number of changes that could be detected.
    fn all(&self) -> usize {
        self.caught + self.missed.len()
    }
}

/// Tests the crates, all or those that are named. Writes the page if all were tested.
#[allow(clippy::print_stdout, reason = "what takes hours is printed")]
pub fn run(root: &Path, only: &[String]) -> Result<()> {
    let explained = explained::read(root)?;
    let unknown = |name: &&String| !CRATES.iter().any(|(known, _)| known == name);
    if let Some(name) = only.iter().find(unknown) {
        let known = CRATES.map(|(name, _)| name).join(", ");
        bail!("`{name}` is not one of {known}");
    }
    let tool = tool(root)?;
    let asked = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let mut outcomes = Vec::new();
    for (name, files) in CRATES {
        if asked(name) {
            let outcome = tested(root, &tool, name, files)?;
            println!("{}", page::row(&outcome, &explained));
            outcomes.push(outcome);
        }
    }
    if only.is_empty() {
        page::write(root, &outcomes, &explained)?;
    }
    judge(&outcomes, &explained)
}

/// Fails if a survivor has no reason, if a reason has no survivor, or if too many survive.
fn judge(outcomes: &[Outcome], explained: &[Explained]) -> Result<()> {
    let mut wrong = Vec::new();
    for outcome in outcomes {
        let share = outcome.missed.len() as f64 / outcome.all().max(1) as f64;
        if share >= TOLERATED {
            let percent = share * 100.0;
            wrong.push(format!("{}: {percent:.1} % survive", outcome.name));
        }
        let reasonless = outcome
            .missed
            .iter()
            .filter(|one| explained::reason(explained, one).is_none());
        wrong.extend(reasonless.map(|one| format!("no test detects: {one}")));
        let folder = format!("crates/{}/", outcome.name);
        let of_it = explained
            .iter()
            .filter(|one| one.mutant.starts_with(&folder));
        let gone = of_it.filter(|one| !outcome.missed.contains(&one.mutant));
        wrong.extend(gone.map(|one| format!("has a reason, and survives no more: {}", one.mutant)));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Returns the program, which is built if it is missing.
fn tool(root: &Path) -> Result<PathBuf> {
    let folder = root.join(TOOL);
    let program = folder.join("bin/cargo-mutants");
    if !program.exists() {
        let words = ["install", "--locked", "cargo-mutants", "--version", VERSION];
        command::run(command::cargo(root).args(words).arg("--root").arg(&folder))?;
    }
    Ok(program)
}

/// Tests one crate.
fn tested(root: &Path, tool: &Path, name: &'static str, files: &[&str]) -> Result<Outcome> {
    let folder = root.join(RESULTS).join(name);
    let before = folder.join("mutants.out");
    if before.exists() {
        fs::remove_dir_all(&before).with_context(|| before.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut cargo = command::plain(Command::new(tool), root);
    cargo.args(["mutants", "--no-shuffle", "--profile", "release"]);
    cargo.arg(format!("--package=weirgate-{name}"));
    cargo.arg("--output").arg(&folder);
    cargo.args(files.iter().map(|file| format!("--file={file}")));
    // Documentation tests take most of the time, and detect little else.
    cargo.args(["--", "--lib", "--tests"]);
    let status = cargo.env("CARGO_INCREMENTAL", "1").status();
    let status = status.with_context(|| format!("{cargo:?}"))?;
    // 2: some survived; 3: a test ran endlessly (the manual of cargo-mutants, exit codes).
    ensure!(
        matches!(status.code(), Some(0 | 2 | 3)),
        "{cargo:?} ended with {status}"
    );
    let list = |file: &str| -> Result<Vec<String>> {
        let path = before.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.lines().map(without_place).collect())
    };
    Ok(Outcome {
        name,
        caught: list("caught.txt")?.len() + list("timeout.txt")?.len(),
        unviable: list("unviable.txt")?.len(),
        missed: list("missed.txt")?,
    })
}

/// Removes line and column: `src/a.rs:3:5: replace + with -` becomes `src/a.rs: replace + with -`.
fn without_place(line: &str) -> String {
    match line.split_once(": ") {
        Some((place, change)) => {
            let file = place.split(':').next().unwrap_or(place);
            format!("{file}: {change}")
        }
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_without_a_reason_is_reported_and_a_reason_without_a_survivor() {
        let outcome = |missed: &[&str]| Outcome {
            name: "units",
            caught: 99,
            unviable: 3,
            missed: missed.iter().map(|one| (*one).to_owned()).collect(),
        };
        let reason = [Explained {
            mutant: without_place("crates/units/src/a.rs:3:5: replace + with -"),
            why: "the sum is of zeros".to_owned(),
        }];
        let own = "crates/units/src/a.rs: replace + with -";
        judge(&[outcome(&[own])], &reason).unwrap();
        let error = |missed: &[&str]| judge(&[outcome(missed)], &reason).unwrap_err().to_string();
        let other = "crates/units/src/b.rs: replace < with <=";
        assert_eq!(error(&[own, other]), format!("no test detects: {other}"));
        assert_eq!(
            error(&[]),
            format!("has a reason, and survives no more: {own}")
        );
        assert!(error(&[own; 6]).starts_with("units: 5.7 % survive"));
    }
}
