// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests and checks, each part timed so that slow ones show.

pub mod binaries;
pub mod processor;
mod unchanged;

use crate::command::{cargo, long, run};
use crate::{dependencies, docs, invariants};
use anyhow::Result;
use binaries::Extent;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Builds, prepares the lab's kernel and image, then runs the tests.
pub fn tests(root: &Path, extent: Extent) -> Result<()> {
    timed("build", || {
        run(cargo(root).args(["build", "--release", "--workspace", "--all-targets"]))
    })?;
    timed("guest kernel and image", || {
        let prepare = |which: &[&str]| {
            let program = root.join("target/release/weirgate");
            run(Command::new(program).args(["lab", "prepare"]).args(which))
        };
        prepare(&[])?;
        // It has PPP.
        prepare(&["--kernel", "generic"])?;
        // The oldest that weirgate is for.
        prepare(&["--kernel", "6.1"])
    })?;
    timed("reference", || {
        for program in ["weirgate", "weirgate-lab"] {
            let reference = ["reference", "docs/reference", "--check"];
            let program = root.join("target/release").join(program);
            run(Command::new(program).current_dir(root).args(reference))?;
        }
        docs::results(root, &["--check"])
    })?;
    timed("checks", || checks(root))?;
    timed("disciplines under sanitizers", || {
        crate::aqm::short(root, extent)
    })?;
    timed("tests", || binaries::run(root, extent, &[]))?;
    timed("examples of the documentation", || {
        run(cargo(root).args(["test", "--release", "--workspace", "--doc"]))
    })
}

/// Every test, and what has a command of its own because it takes long.
pub fn all(root: &Path) -> Result<()> {
    timed("the router's program", || run(cargo(root).arg("router")))?;
    tests(root, Extent::All)?;
    timed("explain on random sequences", || explain_random(root, 1000))?;
    timed("forty lines", || probe_lines(root))?;
    timed("disciplines under load", || crate::aqm::cycles(root))?;
    timed("parity of disciplines", || crate::aqm::parity(root, 20_000))
}

/// The random test of explain, longer than `tests` runs it.
pub fn explain_random(root: &Path, sequences: u32) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--release", "--workspace", "--test", "explain"]);
    command.args(["random", "--", "--nocapture"]);
    run(command.env("WEIRGATE_SEQUENCES", sequences.to_string()))
}

/// Formatting, lints, invariants, dependencies.
pub fn checks(root: &Path) -> Result<()> {
    timed("format", || {
        run(cargo(root).args(["fmt", "--all", "--check"]))
    })?;
    timed("format of C", || crate::aqm::format(root))?;
    timed("invariants", || invariants::run(root))?;
    timed("documents", || docs::check(root))?;
    timed("lints", || {
        // Fuzz targets, which nothing else here builds, by their feature.
        let what = [
            "--workspace",
            "--all-targets",
            "--features",
            "weirgate-fuzz/fuzzing",
        ];
        let mut clippy = cargo(root);
        clippy.args(["clippy", "--release", "--locked"]).args(what);
        // Nothing is linked here, so libFuzzer's C++ need not be compiled.
        clippy.env("CUSTOM_LIBFUZZER_PATH", "./libfuzzer.a");
        clippy.env("CUSTOM_LIBFUZZER_STD_CXX", "none");
        run(clippy.args(["--", "-D", "warnings"]))
    })?;
    timed("dependencies", || dependencies::check(root))
}

#[allow(clippy::print_stdout, reason = "what takes long is printed")]
fn timed(part: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    // With all that it has started and waited for.
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

/// Forty kinds of line, measured by `weirgate probe` in the lab: with a
/// cooperating end, then by echoes alone.
pub fn probe_lines(root: &Path) -> Result<()> {
    for name in [
        "forty_lines_are_measured",
        "forty_lines_are_measured_by_echoes",
    ] {
        long(root, "probe", name, &[])?;
    }
    Ok(())
}
