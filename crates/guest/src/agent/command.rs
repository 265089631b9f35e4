// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs of an arm, without a shell.

use anyhow::{Context, Result, ensure};
use std::io;
use std::process::{Command, Output};

/// The search path of programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program in the calling thread's namespace, and fails if it does not succeed.
pub(super) fn execute(argv: &[String]) -> Result<()> {
    let what = argv.join(" ");
    let output = output(argv).with_context(|| format!("{what}: cannot be started"))?;
    succeeded(&what, &output)
}

/// Runs a program in the calling thread's namespace, and waits for it.
pub(super) fn output(argv: &[String]) -> io::Result<Output> {
    let empty = || io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
    let (program, arguments) = argv.split_first().ok_or_else(empty)?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .output()
}

/// Checks that a program succeeded. The error has its output.
pub(super) fn succeeded(what: &str, output: &Output) -> Result<()> {
    ensure!(
        output.status.success(),
        "{what}: {}: {}",
        output.status,
        output_of(output).trim_end()
    );
    Ok(())
}

/// Returns what a program printed, standard error last.
pub(super) fn output_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
