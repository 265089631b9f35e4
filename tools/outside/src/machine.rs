// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's machine for suites of others: this program runs in it, beside
//! weirgate and the programs that a suite uses.

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};
use weirgate_lab::{ArmOutput, Lab, Limits, Options};

/// How long one part of a suite may take.
pub const LIMITS: Limits = Limits {
    wall: Duration::from_mins(40),
    memory_mib: 512,
    processors: 1,
    console_bytes: 4 << 20,
};

/// This program, and the weirgate that is tried: what `WEIRGATE_PROGRAM` names, such as the
/// packaged one, else what is beside this program.
///
/// # Errors
///
/// Where this program's path is not known.
pub fn own() -> Result<[PathBuf; 2]> {
    let own = env::current_exe()?;
    let beside = || own.with_file_name("weirgate");
    let weirgate = env::var_os("WEIRGATE_PROGRAM").map_or_else(beside, PathBuf::from);
    Ok([own, weirgate])
}

/// A machine with these programs, by name or path.
///
/// # Errors
///
/// Where this machine lacks one, or there is no laboratory.
pub fn lab<'a>(programs: impl IntoIterator<Item = &'a str>) -> Result<Lab> {
    let programs = programs
        .into_iter()
        .map(str::to_owned)
        .chain(own()?.map(|path| path.to_string_lossy().into_owned()))
        .collect();
    let options = Options {
        programs,
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |note| eprintln!("{note}"));
    lab.context("the laboratory (`target/release/weirgate-lab lab prepare`)")
}

/// What this program printed there: a line of JSON each.
///
/// # Errors
///
/// Where it failed, or printed something else.
pub fn lines<T: DeserializeOwned>(output: &ArmOutput) -> Result<Vec<T>> {
    let text = String::from_utf8_lossy(&output.result);
    ensure!(text.starts_with("status: 0\n"), "{text}");
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let read: Result<Vec<T>, _> = lines.map(serde_json::from_str).collect();
    read.with_context(|| text.clone().into_owned())
}

/// The numbers of ematches, which tc reads: the file's place in the guest as here, and what
/// is in it.
///
/// # Errors
///
/// Where this machine has no such file.
pub fn ematches() -> Result<(&'static str, Vec<u8>)> {
    let place = "/etc/iproute2/ematch_map";
    Ok((place, fs::read(place).context(place)?))
}
