// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs weirgate and other programs in the soak's machine.

use crate::process::direct;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Runs a command that must succeed.
pub fn asked(line: &str) -> Result<()> {
    let done = direct(&line.split(' ').collect::<Vec<_>>())?;
    if done.status != Some(0) {
        bail!("{line}: {}", done.message());
    }
    Ok(())
}

/// Runs weirgate, which must exit with one of these statuses. Returns its output.
pub fn weirgate(words: &[&str], statuses: &[i32]) -> Result<String> {
    let done = direct(&[&["weirgate"], words].concat())?;
    if !done.status.is_some_and(|status| statuses.contains(&status)) {
        bail!(
            "{} ends with {:?}: {}",
            words.join(" "),
            done.status,
            done.error
        );
    }
    Ok(done.output)
}

/// Starts weirgate.
pub fn begun(words: &[&str]) -> Result<Child> {
    let mut command = Command::new("weirgate");
    let quiet = command.args(words).stdin(Stdio::null());
    let said = fs::File::create(said(words[0])).context("what it says")?;
    let child = quiet.stdout(Stdio::null()).stderr(said).spawn();
    child.with_context(|| words.join(" "))
}

/// Returns the file of a command's messages.
pub fn said(command: &str) -> String {
    format!("/tmp/{command}.said")
}

/// Starts a service, and waits until it is probably ready.
pub fn started(words: &[&str]) -> Result<Child> {
    let child = begun(words)?;
    thread::sleep(Duration::from_secs(5));
    Ok(child)
}

/// Ends a service with SIGTERM, after which it must exit with status 0.
pub fn ended(mut service: Child, name: &str) -> Result<()> {
    kill_process(Pid::from_child(&service), Signal::TERM).context(name.to_owned())?;
    let status = service.wait()?;
    if !status.success() {
        let said = fs::read_to_string(said(name)).unwrap_or_default();
        bail!("{name} ends with {status} after SIGTERM: {said}");
    }
    Ok(())
}

/// Returns the processes with this program's name and first argument.
pub fn running(program: &str, argument: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        // It may have ended by now.
        let Ok(line) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let mut words = line.split(|byte| *byte == 0);
        let path = words.next().unwrap_or_default();
        let name = path.rsplit(|byte| *byte == b'/').next();
        if name == Some(program.as_bytes()) && words.next() == Some(argument.as_bytes()) {
            found.push(number);
        }
    }
    Ok(found)
}
