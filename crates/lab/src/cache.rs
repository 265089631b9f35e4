// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where fetched kernels and built images are kept between runs. Everything
//! in it can be made again, so it may be deleted at any time.

use crate::error::LabError;
use sha2::{Digest, Sha256};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache at a given place, made when something is first kept there.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's cache: `WEIRGATE_CACHE`, else `weirgate` in
    /// `XDG_CACHE_HOME`, else in `~/.cache`, else in the temporary directory.
    #[must_use]
    pub fn of_user() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(root) = set("WEIRGATE_CACHE") {
            return Self::at(root);
        }
        let base = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
            .unwrap_or_else(env::temp_dir);
        Self::at(base.join("weirgate"))
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where fetched kernels are.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// A directory inside the cache, made if need be.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(LabError::file("cannot be made", &path))?;
        Ok(path)
    }

    /// A file made by `make` unless it is kept already. Written aside and then
    /// renamed: a reader sees all of it or none, also when two processes make
    /// it at once or one is killed.
    pub(crate) fn keep(
        &self,
        directory: &str,
        name: &str,
        make: impl FnOnce() -> Result<Vec<u8>, LabError>,
    ) -> Result<PathBuf, LabError> {
        let directory = self.directory(directory)?;
        let path = directory.join(name);
        if path.is_file() {
            return Ok(path);
        }
        let content = make()?;
        let mut file = NamedTempFile::new_in(&directory)
            .map_err(LabError::file("cannot be written", &directory))?;
        file.write_all(&content)
            .map_err(LabError::file("cannot be written", &path))?;
        file.persist(&path)
            .map_err(|error| LabError::file("cannot be written", &path)(error.error))?;
        Ok(path)
    }
}

/// Names what a kept file was made from.
#[derive(Debug, Default)]
pub(crate) struct Key(Sha256);

impl Key {
    /// Adds one part; its length goes in too, so that parts cannot run
    /// together.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// The key as a file name.
    pub(crate) fn name(self) -> String {
        let digest = self.0.finalize();
        digest[..16].iter().fold(String::new(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        })
    }
}
