// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores results, so that an interrupted run can continue.
//!
//! The results are in the cache by their inputs: the program under test, this program, the guest's
//! program, and the part of the suite. They depend on nothing else, because the laboratory's machine is deterministic.

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use weirgate_lab::Cache;

/// The stored results of one suite.
pub struct Kept {
    folder: PathBuf,
    /// The hash of the inputs that all results of this run share.
    with: Sha256,
}

impl Kept {
    /// Opens the results of a suite for weirgate's program, this program, and further inputs in
    /// `words`, such as the kernel's release.
    ///
    /// # Errors
    ///
    /// Fails if one of the programs cannot be read.
    pub fn of(suite: &str, words: &[&str]) -> Result<Self> {
        let mut with = Sha256::new();
        let [own, weirgate] = crate::machine::own()?;
        // The laboratory takes the one beside this program.
        let guest = own.with_file_name("weirgate-guest");
        for program in [own, weirgate, guest] {
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

    /// Adds an input that all results of this run share.
    pub fn also(&mut self, input: &[u8]) {
        self.with.update(input.len().to_le_bytes());
        self.with.update(input);
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

    /// Returns the result of a part of the suite, given by its text.
    pub fn read<T: DeserializeOwned>(&self, part: &[u8]) -> Option<T> {
        serde_json::from_slice(&fs::read(self.place(part)).ok()?).ok()
    }

    /// Stores a result.
    ///
    /// # Errors
    ///
    /// Fails if the cache cannot be written.
    pub fn write<T: Serialize>(&self, part: &[u8], found: &T) -> Result<()> {
        let place = self.place(part);
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        fs::write(&place, serde_json::to_vec(found)?).with_context(|| place.display().to_string())
    }
}
