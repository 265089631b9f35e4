// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weirgate remembers between commands: what it applied, and what was
//! there before.
//!
//! Kept under /run: it speaks of the running kernel and ends with it.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::Path;
use weirgate_state::State;

const FOLDER: &str = "/run/weirgate";
const FILE: &str = "/run/weirgate/state.json";
const LOCK: &str = "/run/weirgate/lock";

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the shaped devices had before the first apply.
    pub former: State,
    /// What was applied last.
    pub applied: State,
}

/// Reads the memory; `None` if nothing is applied.
pub fn read() -> anyhow::Result<Option<Memory>> {
    let bytes = match fs::read(FILE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.context(FILE)?,
    };
    let memory = serde_json::from_slice(&bytes);
    Ok(Some(memory.with_context(|| {
        format!("{FILE} is damaged; delete it and weirgate's qdiscs, then apply again")
    })?))
}

/// Writes the memory, whole or not at all.
pub fn write(memory: &Memory) -> anyhow::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(FOLDER).context(FOLDER)?;
    file.write_all(&serde_json::to_vec(memory)?)?;
    file.as_file().sync_all()?;
    file.persist(Path::new(FILE)).context(FILE)?;
    Ok(())
}

/// Forgets everything.
pub fn forget() -> anyhow::Result<()> {
    fs::remove_file(FILE).context(FILE)
}

/// Keeps two commands from changing the kernel at once; held until dropped.
pub fn lock() -> anyhow::Result<File> {
    fs::create_dir_all(FOLDER).context(FOLDER)?;
    let file = File::create(LOCK).context(LOCK)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => anyhow::bail!("another weirgate is changing this kernel"),
        Err(TryLockError::Error(error)) => Err(error).context(LOCK),
    }
}
