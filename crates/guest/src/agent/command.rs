// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program of an arm, without a shell.

use anyhow::{Context, Result, ensure};
use std::io;
use std::process::{Command, Output};

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program where the calling thread is; it has to succeed.
pub(super) fn execute(argv: &[String]) -> Result<()> {
    let what = argv.join(" ");
    let output = output(argv).with_context(|| format!("{what}: cannot be started"))?;
    succeeded(&what, &output)
}

/// Runs a program where the calling thread is, to its end.
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

/// That a program succeeded; else what it printed.
pub(super) fn succeeded(what: &str, output: &Output) -> Result<()> {
    ensure!(
        output.status.success(),
        "{what}: {}: {}",
        output.status,
        output_of(output).trim_end()
    );
    Ok(())
}

/// What a program printed, errors last.
pub(super) fn output_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
