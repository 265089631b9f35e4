// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs of an arm, without a shell.

use anyhow::{Context, Result, ensure};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::process::{Child, Command, Output, Stdio};

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
    command(argv)?.output()
}

/// Starts a program in the calling thread's namespace. Returns it and the file of its output.
pub(super) fn begin(argv: &[String]) -> io::Result<(Child, File)> {
    let output = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
    let mut command = command(argv)?;
    command.stdin(Stdio::null());
    command.stdout(output.try_clone()?);
    command.stderr(output.try_clone()?);
    Ok((command.spawn()?, output))
}

fn command(argv: &[String]) -> io::Result<Command> {
    let empty = || io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
    let (program, arguments) = argv.split_first().ok_or_else(empty)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C");
    Ok(command)
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
