// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab run --here`: the guest's agent in namespaces of the running kernel.
//!
//! The agent is a separate process, so that its namespaces end with it.

use crate::result::ArmResult;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;
use weirgate_experiment::{Job, Recording, unseal};
use weirgate_ledger::Digest;

/// Runs the jobs one after the other, in real time.
pub fn run<'j>(jobs: impl Iterator<Item = &'j Job>) -> anyhow::Result<Vec<ArmResult>> {
    let guest = std::env::current_exe()?.with_file_name("weirgate-guest");
    let mut results = Vec::new();
    for job in jobs {
        // Use files without names, which never remain after a failure.
        let (mut input, mut output) = (unnamed()?, unnamed()?);
        input.write_all(&serde_json::to_vec(job)?)?;
        let started = Instant::now();
        // The agent ends with this process, and its namespaces with the agent.
        let status = Command::new("setpriv")
            .arg("--pdeathsig=KILL")
            .arg(&guest)
            .args(["--here", "/dev/stdin", "/dev/stdout"])
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output.try_clone()?))
            .status()
            .context("setpriv (package util-linux)")?;
        if !status.success() {
            bail!(
                "arm `{}` could not be run on this kernel ({status})",
                job.arm
            );
        }
        let mut bytes = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut bytes)?;
        let bytes = unseal(bytes)?;
        results.push(ArmResult {
            arm: job.arm.clone(),
            parameters: job.parameters.clone(),
            recording: Recording::decode(&bytes)?,
            digest: Digest::of(&bytes),
            wall_seconds: started.elapsed().as_secs_f64(),
            boot_seconds: 0.0,
            traffic_seconds: None,
            memory_bytes: None,
            command: format!("{} --here", guest.display()),
        });
    }
    Ok(results)
}

fn unnamed() -> anyhow::Result<File> {
    let folder = std::env::temp_dir();
    tempfile::tempfile().with_context(|| folder.display().to_string())
}
