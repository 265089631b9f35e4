// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weirgate remembers between commands: what it applied, and what was
//! there before.
//!
//! Kept under /run, for each network namespace apart: it speaks of the running
//! kernel's devices and ends with it.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use weirgate_state::State;

const FOLDER: &str = "/run/weirgate";
/// The namespace that this process works in.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
const LOCK: &str = "/run/weirgate/lock";

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the shaped devices had before the first apply.
    pub former: State,
    /// What was applied last.
    pub applied: State,
}

/// Where the memory of this network namespace is: devices of one name in two
/// namespaces are two devices.
fn folder() -> anyhow::Result<PathBuf> {
    let namespace = fs::metadata(NAMESPACE).context(NAMESPACE)?;
    Ok(PathBuf::from(format!("{FOLDER}/net-{}", namespace.ino())))
}

fn file() -> anyhow::Result<PathBuf> {
    Ok(folder()?.join("state.json"))
}

/// Reads the memory; `None` if nothing is applied.
pub fn read() -> anyhow::Result<Option<Memory>> {
    let file = file()?;
    let bytes = match fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| file.display().to_string())?,
    };
    let memory = serde_json::from_slice(&bytes);
    Ok(Some(memory.with_context(|| {
        format!("{} is damaged; delete it, then apply again", file.display())
    })?))
}

/// Writes the memory, whole or not at all.
pub fn write(memory: &Memory) -> anyhow::Result<()> {
    let folder = folder()?;
    let named = || folder.display().to_string();
    fs::create_dir_all(&folder).with_context(named)?;
    let mut aside = tempfile::NamedTempFile::new_in(&folder).with_context(named)?;
    aside.write_all(&serde_json::to_vec(memory)?)?;
    aside.as_file().sync_all()?;
    aside.persist(file()?).with_context(named)?;
    Ok(())
}

/// Forgets everything.
pub fn forget() -> anyhow::Result<()> {
    let file = file()?;
    fs::remove_file(&file).with_context(|| file.display().to_string())?;
    let folder = folder()?;
    fs::remove_dir(&folder).with_context(|| folder.display().to_string())
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
