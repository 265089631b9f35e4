// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a job in namespaces of the running kernel, for `weirgate lab run --here`: first checks
//! that this machine permits it, then runs the agent.

use anyhow::{Context, Result, bail};
use rustix::thread::{CapabilitySet, capabilities};
use std::fs::{self, File};
use std::path::Path;
use weirgate_experiment::{Job, seal};
use weirgate_guest::agent::{self, Machine};

/// The device through which the agent takes part in the emulated network.
const TUN: &str = "/dev/net/tun";

/// Runs a job and writes its result, sealed as in a virtual machine.
#[allow(clippy::print_stderr, reason = "progress is printed for a person")]
pub(crate) fn run(job: &Path, result: &Path) -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        bail!("this needs {}", missing.join("; it needs "));
    }
    let text = fs::read(job).with_context(|| job.display().to_string())?;
    let job: Job = serde_json::from_slice(&text).context("the job cannot be read")?;
    let recording = agent::run(&job, Machine::Shared, &mut |at_s, of_s, what| {
        eprintln!("{at_s}/{of_s} s {what}");
    })?;
    let bytes = recording
        .encode()
        .context("the recording cannot be encoded")?;
    fs::write(result, seal(bytes)).with_context(|| result.display().to_string())
}

/// Returns what this process lacks of the agent's requirements.
fn missing() -> Vec<String> {
    // This does not fail for the own process.
    let own = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let mut missing = Vec::new();
    for (capability, name, purpose) in [
        (
            CapabilitySet::SYS_ADMIN,
            "CAP_SYS_ADMIN",
            "to make network namespaces",
        ),
        (
            CapabilitySet::NET_ADMIN,
            "CAP_NET_ADMIN",
            "to make devices and shapers in them",
        ),
    ] {
        if !own.contains(capability) {
            missing.push(format!("{name}, {purpose}: run it as root"));
        }
    }
    if let Err(error) = File::options().read(true).write(true).open(TUN) {
        missing.push(format!(
            "{TUN}, to emulate the line: {error} (module `tun`)"
        ));
    }
    missing
}
