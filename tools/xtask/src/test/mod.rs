// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests and checks, with the time of each part.

pub mod binaries;
pub mod processor;
pub mod total;
mod unchanged;

use crate::command::{cargo, long, plain, run, some_test};
use crate::{dependencies, docs, files, invariants};
use anyhow::{Context, Result};
use binaries::Extent;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Builds, prepares the lab's kernel and image, then runs the tests.
pub fn tests(root: &Path, extent: Extent) -> Result<()> {
    timed("build", || {
        run(cargo(root).args(["build", "--release", "--workspace", "--all-targets"]))
    })?;
    timed("guest kernel and image", || {
        let prepare = |which: &[&str]| {
            let program = files::program(root, "weirgate");
            run(Command::new(program).args(["lab", "prepare"]).args(which))
        };
        prepare(&[])?;
        // This kernel has PPP.
        prepare(&["--kernel", "generic"])?;
        // The oldest kernel that weirgate supports.
        prepare(&["--kernel", "6.1"])
    })?;
    timed("reference", || {
        for program in ["weirgate", "weirgate-lab"] {
            let reference = ["reference", "docs/reference", "--check"];
            let mut weirgate = Command::new(files::program(root, program));
            run(weirgate.current_dir(root).args(reference))?;
        }
        docs::results(root, &["--check"])
    })?;
    timed("checks", || quick_checks(root))?;
    timed("disciplines under sanitizers", || {
        crate::aqm::short(root, extent)
    })?;
    let binaries = binaries::built(root)?;
    let lints = Lints::begin(root)?;
    let tests = timed("tests", || binaries::run(root, binaries, extent, &[]));
    let lints = timed("what is left of the lints", || lints.end());
    tests.and(lints)?;
    timed("examples of the documentation", || {
        run(cargo(root).args(["test", "--release", "--workspace", "--doc"]))
    })
}

/// Runs only the tests with one of these texts in their name.
pub fn some(root: &Path, only: &[String]) -> Result<()> {
    binaries::run(root, binaries::built(root)?, Extent::Short, only)
}

/// Runs every test, and the checks with separate commands because they take long.
pub fn all(root: &Path) -> Result<()> {
    timed("the router's program", || run(cargo(root).arg("router")))?;
    tests(root, Extent::All)?;
    timed("explain on random sequences", || explain_random(root, 1000))?;
    timed("forty lines", || probe_lines(root))?;
    timed("disciplines under load", || crate::aqm::cycles(root))?;
    timed("parity of disciplines", || crate::aqm::parity(root, 20_000))
}

/// Runs explain's random test for longer than `tests` does.
pub fn explain_random(root: &Path, sequences: u32) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--release", "--workspace", "--test", "explain"]);
    command.args(["random", "--", "--nocapture"]);
    some_test(command.env("WEIRGATE_SEQUENCES", sequences.to_string()))
}

/// Checks formatting, invariants, dependencies and lints.
pub fn checks(root: &Path) -> Result<()> {
    quick_checks(root)?;
    timed("lints", || run(&mut lints(cargo(root))))
}

/// Runs the checks that take seconds.
fn quick_checks(root: &Path) -> Result<()> {
    timed("format", || {
        run(cargo(root).args(["fmt", "--all", "--check"]))
    })?;
    timed("format of C", || crate::aqm::format(root))?;
    timed("invariants", || invariants::run(root))?;
    timed("documents", || docs::check(root))?;
    timed("dependencies", || dependencies::check(root))
}

/// Returns the lints of everything, with this cargo.
fn lints(mut cargo: Command) -> Command {
    cargo.args(["clippy", "--release", "--locked", "--workspace"]);
    // Include fuzz targets, which nothing else here builds, by their feature.
    cargo.args(["--all-targets", "--features", "weirgate-fuzz/fuzzing"]);
    // Nothing is linked here, so libFuzzer's C++ need not be compiled.
    cargo.env("CUSTOM_LIBFUZZER_PATH", "./libfuzzer.a");
    cargo.env("CUSTOM_LIBFUZZER_STD_CXX", "none");
    cargo.args(["--", "-D", "warnings"]);
    cargo
}

/// The lints, which run during the tests, because these wait for a tenth of their time. They have
/// idle priority, so that they delay no test.
struct Lints(Child);

impl Lints {
    fn begin(root: &Path) -> Result<Self> {
        let mut idle = Command::new("chrt");
        idle.args(["--idle", "0", "cargo"]);
        let mut command = lints(plain(idle, root));
        // Suppress messages about compilation between those of tests.
        command.env("CARGO_TERM_QUIET", "true").stdin(Stdio::null());
        Ok(Self(command.spawn().context("chrt")?))
    }

    fn end(mut self) -> Result<()> {
        let status = self.0.wait()?;
        anyhow::ensure!(status.success(), "the lints ended with {status}");
        Ok(())
    }
}

#[allow(clippy::print_stdout, reason = "what takes long is printed")]
fn timed(part: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    // The processor time of this process and its finished children.
    let busy = || {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        processor::busy(&stat).unwrap_or_default()
    };
    let (start, before) = (Instant::now(), busy());
    println!("== {part}");
    let outcome = work();
    let (wall, busy) = (start.elapsed().as_secs_f64(), busy() - before);
    println!("== {part}: {wall:.1} s, {busy:.1} s of the processors");
    outcome
}

/// Measures forty kinds of line in the lab with `weirgate probe`: with a cooperating end, then only
/// by echoes.
pub fn probe_lines(root: &Path) -> Result<()> {
    for name in [
        "forty_lines_are_measured",
        "forty_lines_are_measured_by_echoes",
    ] {
        long(root, "probe", name, &[])?;
    }
    Ok(())
}
