// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs for tasks.

use crate::test::total::counts;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns cargo at the project's root, without the variables that `cargo run` sets for the package
/// xtask. The build script of ring reads some of them. Otherwise cargo would rerun it, and rebuild
/// everything that depends on it, at each change between this and a plain `cargo build`.
pub fn cargo(root: &Path) -> Command {
    plain(Command::new("cargo"), root)
}

/// Removes these variables from a program that runs cargo.
pub fn plain(mut command: Command, root: &Path) -> Command {
    for (name, _) in std::env::vars_os() {
        let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if own
            .iter()
            .any(|own| name.to_string_lossy().starts_with(own))
        {
            command.env_remove(name);
        }
    }
    command.current_dir(root);
    command
}

/// Runs a program; an error has its command line.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| anyhow::anyhow!("{command:?}: {error}"))?;
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Runs a test that is ignored by default, and shows its output. Fails if there is none of this
/// name: the harness ends well if it runs nothing.
pub fn long(root: &Path, target: &str, name: &str, variables: &[(&str, &str)]) -> Result<()> {
    // Select the whole workspace, to use what is already built.
    let words = ["test", "--release", "--workspace", "--test", target, "--"];
    let how = ["--exact", name, "--ignored", "--nocapture"];
    let mut command = cargo(root);
    command.args(words).args(how);
    some_test(command.envs(variables.iter().copied()))
}

/// Runs a `cargo test` and shows its output; fails if a test fails, or if none runs.
#[allow(clippy::print_stdout, reason = "the tests' output is the result")]
pub fn some_test(command: &mut Command) -> Result<()> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("{command:?}"))?;
    let output = child.stdout.take().context("its output")?;
    let mut passed = 0;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let [own, ..] = counts(&line);
        passed += own;
        println!("{line}");
    }
    let status = child.wait()?;
    ensure!(status.success(), "{command:?} ended with {status}");
    ensure!(passed > 0, "{command:?} ran no test");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_test_is_an_error() {
        let says = |text: &str| some_test(Command::new("echo").arg(text));
        assert!(says("test result: ok. 0 passed; 0 failed; 0 ignored;").is_err());
        assert!(says("nothing").is_err());
        says("test result: ok. 0 passed; 0 failed;\ntest result: ok. 1 passed; 0 failed;").unwrap();
        assert!(some_test(&mut Command::new("false")).is_err());
    }
}
