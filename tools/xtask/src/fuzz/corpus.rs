// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The corpus: a folder for each target, ignored by git, with inputs that reached new code. The
//! next run starts with it, and some of it is folded into the seeds.

use super::targets::{ANY, environment};
use crate::command::run;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum total size of a target's seeds in bytes; `fuzz/tests/seeds.rs` checks it.
const MOST: u64 = 64 << 10;

/// Returns the folder of a target's corpus.
pub fn found(root: &Path, target: &str) -> Result<PathBuf> {
    let folder = root.join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Adds inputs that reach new branches to a target's seeds, the smallest first, up to the maximum
/// size. Returns how many were added.
pub fn fold(root: &Path, target: &str) -> Result<usize> {
    let seeds = root.join("fuzz/seeds").join(target);
    let merged = tempfile::tempdir()?;
    for (path, _) in files(&seeds)? {
        let name = path.file_name().context("a file has a name")?;
        fs::copy(&path, merged.path().join(name))?;
    }
    let mut fuzzer = crate::command::cargo(root);
    fuzzer.args(["+nightly", "fuzz", "run", "--sanitizer", "none", ANY]);
    fuzzer.args(["--features", "fuzzing"]);
    fuzzer.arg(merged.path()).arg(found(root, target)?);
    fuzzer.args(["--", "-merge=1", "-timeout=30", "-rss_limit_mb=1024"]);
    run(environment(&mut fuzzer, root, target))?;
    let mut left = MOST.saturating_sub(files(&seeds)?.iter().map(|(_, bytes)| bytes).sum());
    let mut added = 0;
    for (path, bytes) in files(merged.path())? {
        let to = seeds.join(path.file_name().context("a file has a name")?);
        if to.exists() {
            continue;
        }
        if bytes > left {
            break;
        }
        fs::copy(&path, to)?;
        left -= bytes;
        added += 1;
    }
    Ok(added)
}

/// Returns the files of a folder with their sizes, the smallest first.
fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found = entries
        .map(|entry| {
            let entry = entry?;
            Ok((entry.path(), entry.metadata()?.len()))
        })
        .collect::<Result<Vec<_>>>()?;
    found.sort_by_key(|(path, bytes)| (*bytes, path.clone()));
    Ok(found)
}
