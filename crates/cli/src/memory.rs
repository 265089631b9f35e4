// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weirgate remembers between commands: what it applied, and what was
//! there before.
//!
//! Kept under /run, for each network namespace apart: it speaks of the running
//! kernel's devices and ends with it. The kernel's number of a namespace is
//! never used again before the machine restarts, so what a dead namespace left
//! is not taken for another's.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use weirgate_kernel::namespace_cookie;
use weirgate_state::State;

const FOLDER: &str = "/run/weirgate";
/// The namespace that this process works in.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// The running kernel (random(4)).
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const LOCK: &str = "/run/weirgate/lock";

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the shaped devices had before the first apply.
    pub former: State,
    /// What was applied last.
    pub applied: State,
    /// The run of the kernel of which this speaks, where /run outlives one.
    pub boot: String,
}

/// Names this run of the kernel.
pub fn boot() -> anyhow::Result<String> {
    Ok(fs::read_to_string(BOOT).context(BOOT)?.trim().to_owned())
}

/// Where the memory of this network namespace is: devices of one name in two
/// namespaces are two devices.
fn folder() -> anyhow::Result<PathBuf> {
    let name = match namespace_cookie() {
        Ok(cookie) => cookie.to_string(),
        // Before Linux 5.14 nothing better is known than its inode.
        Err(_) => format!(
            "inode-{}",
            fs::metadata(NAMESPACE).context(NAMESPACE)?.ino()
        ),
    };
    Ok(PathBuf::from(format!("{FOLDER}/net-{name}")))
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
    let memory: Result<Memory, _> = serde_json::from_slice(&bytes);
    let memory = memory
        .with_context(|| format!("{} is damaged; delete it, then apply again", file.display()))?;
    Ok((memory.boot == boot()?).then_some(memory))
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

/// Keeps two commands from changing the kernel at once, until dropped.
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Drop for Lock {
    /// Takes the file away while the lock on it is held, and the folder where
    /// nothing else is in it. What fails to go is only left behind.
    fn drop(&mut self) {
        let _ = fs::remove_file(LOCK);
        let _ = fs::remove_dir(FOLDER);
    }
}

/// Takes the lock, or says that someone else has it.
pub fn lock() -> anyhow::Result<Lock> {
    loop {
        fs::create_dir_all(FOLDER).context(FOLDER)?;
        let file = match File::create(LOCK) {
            // The folder went away with the lock of someone who was done.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other.context(LOCK)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                anyhow::bail!("another weirgate is changing this kernel")
            }
            Err(TryLockError::Error(error)) => return Err(error).context(LOCK),
        }
        // Between opening and locking, its last owner may have removed it: a
        // lock on a file without a name keeps nobody out.
        let own = file.metadata().context(LOCK)?;
        if fs::metadata(LOCK).is_ok_and(|named| named.ino() == own.ino()) {
            return Ok(Lock(file));
        }
    }
}
