// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results that a run which was interrupted left, so that the next one goes on there.
//!
//! They are kept in the cache by what they are made with: the program under test, this
//! program, and the part of the suite. Nothing else decides about them, because the
//! laboratory's machine repeats itself.

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use weirgate_lab::Cache;

/// Results of one suite.
pub struct Kept {
    folder: PathBuf,
    /// What every result of this run is made with.
    with: Sha256,
}

impl Kept {
    /// Results of a suite, made with weirgate's program, with this one, and with these
    /// words, such as the kernel's release.
    ///
    /// # Errors
    ///
    /// Where one of the programs cannot be read.
    pub fn of(suite: &str, words: &[&str]) -> Result<Self> {
        let mut with = Sha256::new();
        for program in crate::machine::own()? {
            with.update(fs::read(&program).with_context(|| program.display().to_string())?);
        }
        for word in words {
            with.update(word);
            with.update([0]);
        }
        Ok(Self {
            folder: Cache::of_user().root().join("outside").join(suite),
            with,
        })
    }

    fn place(&self, part: &[u8]) -> PathBuf {
        let mut with = self.with.clone();
        with.update(part);
        let mut name = String::new();
        for byte in &with.finalize()[..16] {
            let _ = write!(name, "{byte:02x}");
        }
        self.folder.join(name + ".json")
    }

    /// What was found of a part of the suite, given by its text.
    pub fn read<T: DeserializeOwned>(&self, part: &[u8]) -> Option<T> {
        serde_json::from_slice(&fs::read(self.place(part)).ok()?).ok()
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// Where the cache cannot be written to.
    pub fn write<T: Serialize>(&self, part: &[u8], found: &T) -> Result<()> {
        let place = self.place(part);
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        fs::write(&place, serde_json::to_vec(found)?).with_context(|| place.display().to_string())
    }
}
