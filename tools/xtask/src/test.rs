// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests and checks, each part timed so that slow ones show.

use crate::{invariants, run};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Builds, prepares the lab's kernel and image, then runs every test.
pub fn tests(root: &Path) -> Result<()> {
    timed("build", || {
        run(cargo(root).args(["build", "--release", "--workspace", "--all-targets"]))
    })?;
    timed("guest kernel and image", || {
        run(Command::new(root.join("target/release/weirgate")).args(["lab", "prepare"]))
    })?;
    timed("reference", || {
        let reference = ["reference", "docs/reference", "--check"];
        let weirgate = root.join("target/release/weirgate");
        run(Command::new(weirgate).current_dir(root).args(reference))
    })?;
    timed("checks", || checks(root))?;
    timed("tests", || {
        run(cargo(root).args(["test", "--release", "--workspace", "--no-fail-fast"]))
    })
}

/// Formatting, lints, invariants; licences where cargo-deny is installed.
pub fn checks(root: &Path) -> Result<()> {
    timed("format", || {
        run(cargo(root).args(["fmt", "--all", "--check"]))
    })?;
    timed("invariants", || invariants::run(root))?;
    timed("lints", || {
        let lint = [
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        run(cargo(root).args(lint))
    })
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root);
    command
}

#[allow(clippy::print_stdout, reason = "what takes long is printed")]
fn timed(part: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    println!("== {part}");
    let outcome = work();
    println!("== {part}: {:.1} s", start.elapsed().as_secs_f64());
    outcome
}
