// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab run --here`: the guest's agent in namespaces of the running kernel.
//!
//! The agent is a process of its own, so that its namespaces end with it.

use crate::result::ArmResult;
use anyhow::{Context, bail};
use std::process::{Command, Stdio};
use std::time::Instant;
use weirgate_experiment::{Job, Recording, unseal};

/// Runs the jobs one after the other, in real time.
pub fn run<'j>(jobs: impl Iterator<Item = &'j Job>) -> anyhow::Result<Vec<ArmResult>> {
    let guest = std::env::current_exe()?.with_file_name("weirgate-guest");
    let folder = tempfile::tempdir()?;
    let (input, output) = (folder.path().join("job.json"), folder.path().join("result"));
    let mut results = Vec::new();
    for job in jobs {
        std::fs::write(&input, serde_json::to_vec(job)?)?;
        let started = Instant::now();
        let status = Command::new(&guest)
            .arg("--here")
            .args([&input, &output])
            .stdin(Stdio::null())
            .status()
            .with_context(|| guest.display().to_string())?;
        if !status.success() {
            bail!(
                "arm `{}` could not be run on this kernel ({status})",
                job.arm
            );
        }
        let bytes = std::fs::read(&output)?;
        results.push(ArmResult {
            arm: job.arm.clone(),
            parameters: job.parameters.clone(),
            recording: Recording::decode(&unseal(bytes)?)?,
            wall_seconds: started.elapsed().as_secs_f64(),
            boot_seconds: 0.0,
            traffic_seconds: None,
            memory_bytes: None,
            command: format!("{} --here", guest.display()),
        });
    }
    Ok(results)
}
