// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs have found to lead further: a folder for each target that git does not see
//! and that the next run begins with, and what of it is folded into the seeds.

use super::targets::{ANY, environment};
use crate::command::run;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a target's seeds, all together; `fuzz/tests/seeds.rs` holds them to it.
const MOST: u64 = 64 << 10;

/// The folder of what runs have found.
pub fn found(root: &Path, target: &str) -> Result<PathBuf> {
    let folder = root.join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Adds to a target's seeds what reaches branches that they do not, the smallest first,
/// as far as there is room; how many were added.
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

/// Files of a folder and their bytes, the smallest first.
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
