// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A soak test: hours of the dormitory's policy in the laboratory's machine, with every command in
//! turn and faults in between. Whatever grows from turn to turn is a leak.

mod commands;
mod files;
mod growth;
mod inside;
mod judge;
mod look;
mod network;
mod promises;
mod report;
mod steps;
mod traffic;

use crate::kept::Kept;
use crate::machine::{LIMITS, lab, lines};
use anyhow::{Context, Result};
use inside::Round;
use std::fs;
use std::path::Path;
use std::time::Duration;
use weirgate_lab::Limits;

pub use inside::run;

/// The programs that it uses.
const PROGRAMS: [&str; 8] = [
    "date", "ip", "kill", "mount", "nft", "sleep", "strace", "tc",
];

/// The limits of a run: most of its time, there is traffic of all classes.
const LONG: Limits = Limits {
    wall: Duration::from_hours(3),
    ..LIMITS
};

/// Makes `runs` runs of `seconds` virtual seconds, and returns a report, and the number of faults
/// and leaks. Completed runs are not repeated.
///
/// # Errors
///
/// Fails if there is no laboratory, or a run does not end.
pub fn soak(root: &Path, runs: u64, seconds: u64) -> Result<(String, usize)> {
    let lab = lab(PROGRAMS)?;
    let dormitory = root.join("policies/dormitory.toml");
    let text = fs::read_to_string(&dormitory).with_context(|| dormitory.display().to_string())?;
    let long = seconds.to_string();
    let kept = Kept::of("soak", &[&lab.kernel().release, &long, &text])?;
    let texts = files::all(&text)?;
    let files: Vec<(&str, &[u8])> = texts
        .iter()
        .map(|(path, text)| (*path, text.as_bytes()))
        .collect();
    let mut all: Vec<Vec<Round>> = Vec::new();
    for seed in 0..runs {
        let part = seed.to_string();
        let rounds: Vec<Round> = if let Some(rounds) = kept.read(part.as_bytes()) {
            rounds
        } else {
            let words = ["outside", "inside", "soak", &part, &long];
            let output = lab.execute(&words, &files, (seed + 1, LONG), &mut |_| ())?;
            let rounds = lines(&output)?;
            kept.write(part.as_bytes(), &rounds)?;
            rounds
        };
        all.push(rounds);
    }
    Ok((report::text(&all), report::wrong(&all)))
}
