// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one program instead of a job, for tests that need the lab's kernel.

use anyhow::{Context, Result};
use std::process::{Command, Stdio};

/// Returns the program's status and output: `status: N` on the first line, then its standard
/// output, then its standard error. `words` are the program and its arguments, separated by
/// commas.
pub(crate) fn run(words: &str) -> Result<Vec<u8>> {
    let mut words = words.split(',');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    let status = match output.status.code() {
        Some(code) => format!("status: {code}\n"),
        None => format!("status: {}\n", output.status),
    };
    Ok([status.into_bytes(), output.stdout, output.stderr].concat())
}
