// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's machine for other projects' suites. This program runs in it, with weirgate and
//! the programs that a suite uses.

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};
use weirgate_lab::{ArmOutput, Lab, Limits, Options};

/// The limits of one part of a suite.
pub const LIMITS: Limits = Limits {
    wall: Duration::from_mins(40),
    memory_mib: 512,
    processors: 1,
    console_bytes: 4 << 20,
};

/// Returns this program and the tested weirgate: the program in `WEIRGATE_PROGRAM`, such as the
/// packaged one, otherwise the one beside this program.
///
/// # Errors
///
/// Fails if this program's path is unknown.
pub fn own() -> Result<[PathBuf; 2]> {
    let own = env::current_exe()?;
    let beside = || own.with_file_name("weirgate");
    let weirgate = env::var_os("WEIRGATE_PROGRAM").map_or_else(beside, PathBuf::from);
    Ok([own, weirgate])
}

/// Opens a machine with these programs, by name or path.
///
/// # Errors
///
/// Fails if this machine lacks a program, or there is no laboratory.
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

/// Parses this program's output in the machine: lines of JSON.
///
/// # Errors
///
/// Fails if the program failed, or printed something else.
pub fn lines<T: DeserializeOwned>(output: &ArmOutput) -> Result<Vec<T>> {
    let text = String::from_utf8_lossy(&output.result);
    ensure!(text.starts_with("status: 0\n"), "{text}");
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let read: Result<Vec<T>, _> = lines.map(serde_json::from_str).collect();
    read.with_context(|| text.clone().into_owned())
}

/// Returns the numbers of ematches, which tc reads: the file's path, the same in the guest, and its
/// contents.
///
/// # Errors
///
/// Fails if this machine has no such file.
pub fn ematches() -> Result<(&'static str, Vec<u8>)> {
    let place = "/etc/iproute2/ematch_map";
    Ok((place, fs::read(place).context(place)?))
}
