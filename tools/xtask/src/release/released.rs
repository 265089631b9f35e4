// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common properties of a release's files.

use crate::files::text;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A release: its name, its date, and the paths of its programs and of their tree.
pub struct Release<'a> {
    pub root: &'a Path,
    pub folder: &'a Path,
    /// Such as `weirgate-0.1.0`.
    pub name: String,
    pub version: String,
    /// Seconds since 1970.
    pub epoch: String,
    /// The processor's name in Debian and in the kernel.
    pub arch: String,
    pub machine: String,
    /// The router's package, unpacked.
    pub tree: PathBuf,
    /// The router's program for archive and image.
    pub program: PathBuf,
}

/// Returns the SHA-256 of a file.
pub fn sum(file: &Path) -> Result<String> {
    let line = text(Command::new("sha256sum").arg("-b").arg(file))?;
    let sum = line.split_whitespace().next().context("sha256sum(1)")?;
    Ok(sum.to_owned())
}
