// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-lab prague`: the laboratory's congestion control on this machine.

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use std::fs;
use std::path::Path;
use weirgate_bpf::Prague;
use weirgate_console::exit::{Outcome, Status, wrong};
use weirgate_console::output;

/// The folder of its pins, which keep it loaded.
const FOLDER: &str = "/sys/fs/bpf/weirgate-prague";

/// Subcommands for the congestion control.
#[derive(Subcommand)]
pub enum Command {
    /// Load the congestion control `prague` for connections of this machine.
    ///
    /// Needs root and Linux 7.0. A connection selects it with TCP_CONGESTION; its packets leave
    /// through the named devices as ECT(1). Through other devices, and if the other end has no
    /// AccECN, it responds as Reno. The machine's default stays unchanged.
    Load {
        /// Devices through which its packets leave.
        #[arg(required = true)]
        devices: Vec<String>,
    },
    /// Unload it. Connections that use it keep it, without ECT(1).
    ///
    /// Exit status 1 if it was not loaded.
    Unload,
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Outcome {
    let folder = Path::new(FOLDER);
    match command {
        Command::Load { devices } => load(devices, folder),
        Command::Unload => {
            if Prague::unload(folder)? {
                return Ok(Status::Done);
            }
            output::note("weirgate: prague is not loaded");
            Ok(Status::Differs)
        }
    }
}

fn load(devices: &[String], folder: &Path) -> Outcome {
    let numbers = devices.iter().map(|device| {
        let file = format!("/sys/class/net/{device}/ifindex");
        let number = fs::read_to_string(file).ok()?;
        number.trim().parse::<u32>().ok()
    });
    let mut found = Vec::new();
    for (device, number) in devices.iter().zip(numbers) {
        found.push(number.ok_or_else(|| wrong(format!("there is no device `{device}`")))?);
    }
    if folder.exists() {
        return Err(
            anyhow!("prague is loaded already; `weirgate-lab prague unload` ends that").into(),
        );
    }
    let mut prague = Prague::load()?;
    for (device, number) in devices.iter().zip(found) {
        prague.attach(number).with_context(|| device.clone())?;
    }
    prague.pin(folder)?;
    Ok(Status::Done)
}
