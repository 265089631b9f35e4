// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results in a folder: everything needed to draw them again or to repeat the
//! run, and apart from that, what differs from machine to machine.
//!
//! ```text
//! FOLDER/experiment.toml   the file that was run
//! FOLDER/outcome.json      the figures; equal for equal seeds, byte for byte
//! FOLDER/run.json          seed, policies, arms; wall time, virtual machine
//! FOLDER/N.recording       what arm N of run.json observed
//! FOLDER/N.pcapng          its packets, where the experiment asks for a capture
//! ```

use crate::exit::Failure;
use crate::result::{ArmResult, ExperimentResult};
use crate::{output, source};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weirgate_experiment::{Capture, Recording};
use weirgate_report::html::{Section, page};
use weirgate_report::pcapng;

/// `run.json`.
#[derive(Serialize, Deserialize)]
struct Saved {
    weirgate: String,
    seed: u64,
    files: BTreeMap<String, String>,
    arms: Vec<SavedArm>,
}

#[derive(Serialize, Deserialize)]
struct SavedArm {
    arm: String,
    parameters: BTreeMap<String, String>,
    wall_seconds: f64,
    boot_seconds: f64,
    traffic_seconds: Option<f64>,
    memory_bytes: Option<u64>,
    command: String,
    capture: Option<SavedCapture>,
}

/// How much of an arm's packets its capture has.
#[derive(Serialize, Deserialize)]
struct SavedCapture {
    packets: usize,
    without_room: usize,
}

/// Writes a result into a folder of its own.
pub fn write(folder: &Path, result: &ExperimentResult) -> anyhow::Result<()> {
    let place = |name: &str| folder.join(name);
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let put = |name: &str, bytes: &[u8]| {
        fs::write(place(name), bytes).with_context(|| place(name).display().to_string())
    };
    let mut arms = Vec::new();
    for (index, arm) in result.arms.iter().enumerate() {
        put(&format!("{index}.recording"), &arm.recording.encode()?)?;
        let name = format!("{index}.pcapng");
        let capture = match pcapng(&arm.recording)? {
            Some(file) => {
                put(&name, &file)?;
                Some(captured(&arm.arm, &place(&name), &arm.recording))
            }
            None => None,
        };
        arms.push(SavedArm {
            arm: arm.arm.clone(),
            parameters: arm.parameters.clone(),
            wall_seconds: arm.wall_seconds,
            boot_seconds: arm.boot_seconds,
            traffic_seconds: arm.traffic_seconds,
            memory_bytes: arm.memory_bytes,
            command: arm.command.clone(),
            capture,
        });
    }
    let saved = Saved {
        weirgate: env!("CARGO_PKG_VERSION").to_owned(),
        seed: result.seed,
        files: result.files.clone(),
        arms,
    };
    put("experiment.toml", result.text.as_bytes())?;
    put(
        "outcome.json",
        serde_json::to_string_pretty(&result.outcome)?.as_bytes(),
    )?;
    put("run.json", serde_json::to_string_pretty(&saved)?.as_bytes())
}

/// How much a capture has, and a note of what it does not have.
fn captured(arm: &str, file: &Path, recording: &Recording) -> SavedCapture {
    let without_room = recording.not_captured();
    let packets = recording.line.len() - without_room;
    if without_room > 0 {
        output::note(&format!(
            "{}: arm `{arm}` sent more packets than a capture has room for ({} MiB): the first \
             {packets} are in it, the last {without_room} are not",
            file.display(),
            Capture::MOST_BYTES >> 20
        ));
    }
    SavedCapture {
        packets,
        without_room,
    }
}

/// Reads a folder that [`write`] wrote, and measures and judges it anew.
pub fn read(folder: &Path) -> Result<ExperimentResult, Failure> {
    let file = folder.join("experiment.toml");
    let text = source::read(&file)?;
    let experiment = source::parse(&file, &text, weirgate_experiment::parse)?;
    let at = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).with_context(|| path.display().to_string())
    };
    let saved: Saved = serde_json::from_slice(&at("run.json")?)
        .with_context(|| format!("{}/run.json", folder.display()))?;
    if experiment.is_calculation() {
        return Ok(ExperimentResult::calculated(text, experiment, saved.seed)?);
    }
    let mut arms = Vec::new();
    for (index, arm) in saved.arms.into_iter().enumerate() {
        let name = format!("{index}.recording");
        let recording = Recording::decode(&at(&name)?)
            .with_context(|| format!("{}/{name}", folder.display()))?;
        arms.push(ArmResult {
            arm: arm.arm,
            parameters: arm.parameters,
            recording,
            wall_seconds: arm.wall_seconds,
            boot_seconds: arm.boot_seconds,
            traffic_seconds: arm.traffic_seconds,
            memory_bytes: arm.memory_bytes,
            command: arm.command,
        });
    }
    Ok(ExperimentResult::new(
        text,
        experiment,
        saved.seed,
        saved.files,
        &arms,
    )?)
}

/// Writes one HTML file of sections.
pub fn write_report(title: &str, sections: &[Section], file: &Path) -> anyhow::Result<()> {
    if let Some(folder) = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(file, page(title, sections)).with_context(|| file.display().to_string())?;
    output::note(&format!("report: {}", file.display()));
    Ok(())
}
