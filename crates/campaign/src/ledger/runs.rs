// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folders of single runs: one machine's part of a sweep.
//!
//! ```text
//! FOLDER/EXPERIMENT/ARM-SEED.json
//! ```
//!
//! Files are written atomically, so that several machines can write into one folder, and a killed
//! one can continue.

use crate::saved::replace;
use anyhow::ensure;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::source;
use weirgate_ledger::SingleRun;

/// The largest file that is read as a run, in bytes; the longest experiments need a hundredth of
/// it.
const LARGEST: u64 = 16 << 20;

/// Returns the file of an arm's run with a seed.
pub fn file(folder: &Path, experiment: &str, arm: &str, seed: u64) -> PathBuf {
    folder.join(experiment).join(format!("{arm}-{seed}.json"))
}

/// Writes a run.
pub fn write(folder: &Path, run: &SingleRun) -> anyhow::Result<()> {
    let file = file(folder, &run.experiment, &run.arm, run.seed);
    let bytes = serde_json::to_vec(run)?;
    // `serde_json` may read a number of more than 15 digits as its neighbour.
    let again: SingleRun = serde_json::from_slice(&bytes)?;
    ensure!(
        &again == run,
        "{}: a figure has too many digits to be kept",
        file.display()
    );
    replace(&file, &bytes)
}

/// Reads a run.
pub fn read(file: &Path) -> Result<SingleRun, Failure> {
    let text = source::read_up_to(file, LARGEST)?;
    serde_json::from_str(&text).map_err(|error| {
        wrong(format!(
            "{}: is not a run of `--shard`: {error}; remove it, and run its shard again",
            file.display()
        ))
    })
}

/// Returns the files of all runs in a folder, in order of name.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for experiment in entries(folder)? {
        if experiment.is_dir() {
            let runs = entries(&experiment)?.into_iter();
            files.extend(runs.filter(|file| file.extension().is_some_and(|it| it == "json")));
        }
    }
    if files.is_empty() {
        return Err(wrong(format!(
            "{}: has no runs; `results run --shard K/N --to FOLDER` writes them",
            folder.display()
        )));
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| wrong(format!("{}: {error}", folder.display()));
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let paths = entries.map(|entry| Ok(entry.map_err(unreadable)?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, Failure>>()?;
    paths.sort();
    Ok(paths)
}
