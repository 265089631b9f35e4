// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds and runs the tests that should detect a fault.

use super::read::{Fault, Witness};
use super::tree::Tree;
use crate::test::binaries::{self, Binary};
use crate::test::total;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A test counts as endless if it takes this many times as long as without a fault, and at least
/// this long.
const TIMES: u32 = 10;
const AT_LEAST: Duration = Duration::from_mins(1);

/// The time limit of a test without a fault.
const WITHOUT: Duration = Duration::from_mins(30);

/// Settings of proptest: the same random numbers each time, a short time for shrinking, and no seed
/// files in the sources, which the next fault would use (proptest's book, "Config").
const PROPTEST: [(&str, &str); 3] = [
    ("PROPTEST_RNG_SEED", "1"),
    ("PROPTEST_MAX_SHRINK_TIME", "2000"),
    ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"),
];

/// The outcome of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This test failed.
    Seen(String),
    /// It does not compile, as its entry predicts.
    Compiler,
    /// Every test passed.
    Nobody,
    /// It does not compile, although its entry does not predict that.
    Uncompiled,
}

impl Outcome {
    /// Returns whether the fault was detected.
    pub(super) fn is_seen(&self) -> bool {
        matches!(self, Self::Seen(_) | Self::Compiler)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seen(test) => test,
            Self::Compiler => "the compiler",
            Self::Nobody => "NOBODY",
            Self::Uncompiled => "NOBODY: it does not compile",
        })
    }
}

/// The time of each test without a fault.
#[derive(Debug)]
pub(super) struct Bench(BTreeMap<Witness, Duration>);

impl Bench {
    /// Builds and runs the tests of all faults in the unchanged copy. Tests that fail there prove
    /// nothing, and all of them are reported.
    #[allow(clippy::print_stdout, reason = "what takes minutes is printed")]
    pub(super) fn of(tree: &Tree, faults: &[Fault]) -> Result<Self> {
        let mut times = BTreeMap::new();
        let mut wrong = Vec::new();
        for witness in faults.iter().flat_map(|fault| &fault.seen_by) {
            if times.contains_key(witness) {
                continue;
            }
            let Some(binary) = built(tree, witness)? else {
                bail!("{witness}: the test does not build");
            };
            let ran = run(&binary, witness, WITHOUT)?;
            match &ran.outcome {
                TrialOutcome::Passed(0) => wrong.push(format!("{witness}: there is no such test")),
                TrialOutcome::Passed(_) => {}
                TrialOutcome::Failed(test) => {
                    wrong.push(format!(
                        "{witness}: {test} fails without a fault:\n{}",
                        ran.text
                    ));
                }
            }
            println!("{:6.1} s  {witness}", ran.time.as_secs_f64());
            times.insert(witness.clone(), ran.time);
        }
        if !wrong.is_empty() {
            bail!("{}", wrong.join("\n"));
        }
        Ok(Self(times))
    }

    /// Runs the tests of the planted fault until one fails.
    pub(super) fn look(&self, tree: &Tree, fault: &Fault) -> Result<Outcome> {
        if fault.compiler {
            let mut check = cargo(tree);
            let words = ["check", "--release", "--workspace", "--quiet"];
            let status = check.args(words).stderr(Stdio::null()).status()?;
            if !status.success() {
                return Ok(Outcome::Compiler);
            }
        }
        for witness in &fault.seen_by {
            let Some(binary) = built(tree, witness)? else {
                return Ok(Outcome::Uncompiled);
            };
            let usual = self.0.get(witness).copied().unwrap_or_default();
            let ran = run(&binary, witness, AT_LEAST.max(usual * TIMES))?;
            if let TrialOutcome::Failed(test) = ran.outcome {
                let (folder, target) = (witness.folder(), &witness.target);
                return Ok(Outcome::Seen(format!("{folder} {target} {test}")));
            }
        }
        Ok(Outcome::Nobody)
    }
}

/// Returns cargo for the copy of the sources.
fn cargo(tree: &Tree) -> Command {
    let mut cargo = crate::command::cargo(&tree.copy);
    cargo.env("CARGO_TARGET_DIR", &tree.target);
    cargo
}

/// Returns a test's binary, built if necessary; `None` if it does not compile.
///
/// An integration test is built as part of the workspace, so that all share their dependencies.
/// Cargo cannot build the unit tests of one crate that way: it would build those of all crates.
/// They are built separately, with their crate's dependencies.
fn built(tree: &Tree, witness: &Witness) -> Result<Option<Binary>> {
    if witness.guest {
        let mut guest = cargo(tree);
        guest.args(["build", "--release", "--workspace", "--quiet"]);
        let status = guest.args(["--bin", "weirgate-guest"]).status()?;
        if !status.success() {
            return Ok(None);
        }
    }
    let what = match witness.test() {
        Some(name) => ["--workspace", "--test", name],
        None => ["--package", &witness.package, "--lib"],
    };
    let mut test = cargo(tree);
    test.args(["test", "--release", "--quiet"]).args(what);
    let Some(found) = binaries::built_by(&mut test)? else {
        return Ok(None);
    };
    let own = |one: &Binary| {
        let folder = one.folder.file_name().unwrap_or_default();
        folder == witness.folder() && one.integration == witness.test().is_some()
    };
    let binary = found.into_iter().find(own);
    let binary = binary.with_context(|| format!("cargo builds no test for {witness}"))?;
    Ok(Some(binary))
}

/// The outcome of tests.
#[derive(Debug, PartialEq, Eq)]
enum TrialOutcome {
    /// How many passed.
    Passed(u32),
    /// The first test that failed, and how many others did.
    Failed(String),
}

/// A run of tests.
struct Ran {
    outcome: TrialOutcome,
    time: Duration,
    text: String,
}

/// Runs the tests that a witness names, in the folder in which cargo runs them.
fn run(binary: &Binary, witness: &Witness, patience: Duration) -> Result<Ran> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("output");
    // Use a file: a pipe would have to be read concurrently.
    let output = File::create(&place)?;
    let start = Instant::now();
    let mut child = Command::new(&binary.executable)
        .arg(&witness.filter)
        .current_dir(&binary.folder)
        .env_remove("UPDATE_EXPECT")
        .envs(PROPTEST)
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()
        .with_context(|| witness.to_string())?;
    let status = ended(&mut child, start + patience)?;
    let text = String::from_utf8_lossy(&fs::read(&place)?).into_owned();
    Ok(Ran {
        outcome: outcome(status, &text, &witness.filter),
        time: start.elapsed(),
        text,
    })
}

/// Waits for a child's end; returns `None` if it was killed at its time limit.
fn ended(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    // The child was not waited for yet, so its process identifier is still valid.
    let own = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&own, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            Ok(_) => return child.wait().map(Some),
        }
    }
}

/// Interprets libtest's output and the program's exit status.
fn outcome(status: Option<ExitStatus>, text: &str, filter: &str) -> TrialOutcome {
    let Some(status) = status else {
        return TrialOutcome::Failed(format!("{filter}, which has no end"));
    };
    if status.success() {
        let [passed, ..] = total::counts(text);
        return TrialOutcome::Passed(passed);
    }
    let name = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.trim_end_matches(" - should panic").to_owned())
    };
    let failed: Vec<String> = text.lines().filter_map(name).collect();
    TrialOutcome::Failed(match failed.as_slice() {
        [] => format!("{filter}, which ends with {status}"),
        [one] => one.clone(),
        [one, others @ ..] => format!("{one} and {} more", others.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn judged(code: i32, text: &str) -> TrialOutcome {
        outcome(Some(ExitStatus::from_raw(code << 8)), text, "mod")
    }

    #[test]
    fn the_first_test_that_fails_is_named() {
        let text = "test mod::a ... ok\ntest mod::b ... FAILED\ntest mod::c ... FAILED\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n";
        let failed = |test: &str| TrialOutcome::Failed(test.to_owned());
        assert_eq!(judged(101, text), failed("mod::b and 1 more"));
        let one = text.replace("test mod::c ... FAILED\n", "");
        assert_eq!(judged(101, &one), failed("mod::b"));
        let crash = judged(101, "running 3 tests\n");
        assert_eq!(crash, failed("mod, which ends with exit status: 101"));
        assert_eq!(outcome(None, text, "mod"), failed("mod, which has no end"));
    }

    #[test]
    fn a_filter_that_nothing_passes_is_told_from_one_that_tests_do() {
        let line = |passed: u32| format!("test result: ok. {passed} passed; 0 failed; 0 ignored;");
        assert_eq!(judged(0, &line(0)), TrialOutcome::Passed(0));
        assert_eq!(judged(0, &line(3)), TrialOutcome::Passed(3));
    }

    #[test]
    fn a_program_without_an_end_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let until = Instant::now() + Duration::from_millis(30);
        assert_eq!(ended(&mut child, until).unwrap(), None);
        let mut child = Command::new("false").spawn().unwrap();
        let until = Instant::now() + Duration::from_mins(1);
        assert_eq!(ended(&mut child, until).unwrap().unwrap().code(), Some(1));
    }
}
