// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one program in place of a job, for tests that only the lab's kernel can run.

use anyhow::{Context, Result};
use std::process::{Command, Stdio};

/// The program's end and what it printed: `status: N` on the first line, then
/// its standard output, then its standard error. `words` are the program and
/// its arguments, separated by commas.
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
