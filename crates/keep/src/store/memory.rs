// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weirgate stores about the running kernel below `/run`: the applied state, and the state
//! before it.

use crate::error::KeepError;
use crate::store::folder::{self, Folders, Lock};
use crate::store::sealed;
use crate::store::table_text::{Unread, Written};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use weirgate_kernel::{Handles, TablesVersion};
use weirgate_state::{State, Table};

const HINT: &str = "delete it, then apply again";

/// The memory of one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the shaped devices had before the first apply.
    pub former: State,
    /// The state that was applied last.
    pub applied: State,
}

impl Memory {
    fn file(folders: &Folders) -> PathBuf {
        folders.run.join("state.json")
    }

    /// Reads the memory; `None` if nothing is applied.
    pub fn read(folders: &Folders) -> Result<Option<Self>, KeepError> {
        sealed::read(&Self::file(folders), HINT)
    }

    /// Reads the memory. `known` are tables with their text, which usually equal the applied ones;
    /// equal parts are shared and not parsed.
    pub(crate) fn read_knowing(
        folders: &Folders,
        known: &[Table],
        text: &RawValue,
    ) -> Result<Option<StoredMemory>, KeepError> {
        sealed::read_with(&Self::file(folders), HINT, |body| {
            let read = || -> serde_json::Result<Self> {
                let unread: MemoryUnread<'_> = serde_json::from_slice(body)?;
                Ok(Self {
                    former: unread.former,
                    applied: unread.applied.read(known, text)?,
                })
            };
            Ok(StoredMemory {
                memory: read().map_err(|error| error.to_string())?,
                text: body.into(),
            })
        })
    }

    /// Returns the text of a memory of this state, whose tables have the text `tables`.
    pub(crate) fn text(
        folders: &Folders,
        former: &State,
        applied: &State,
        tables: &RawValue,
    ) -> Result<Arc<[u8]>, KeepError> {
        let applied = Written::of(applied, tables);
        let text = sealed::json(&Self::file(folders), &MemoryWritten { former, applied })?;
        Ok(text.into())
    }

    /// Writes the memory, completely or not at all; `None` deletes it. Forgets the recorded version
    /// of the tables.
    ///
    /// `text` was read before, or comes from [`Memory::text`].
    pub(crate) fn write(folders: &Folders, _: &Lock, text: Option<&[u8]>) -> Result<(), KeepError> {
        forget(folders)?;
        let Some(text) = text else {
            let gone = fs::remove_dir_all(&folders.run);
            return match gone {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                other => other.map_err(KeepError::file(&folders.run)),
            };
        };
        folder::folder(&folders.run)?;
        sealed::write_body(&Self::file(folders), text)
    }
}

/// A memory with its text.
#[derive(Debug, Clone)]
pub(crate) struct StoredMemory {
    pub(crate) memory: Memory,
    pub(crate) text: Arc<[u8]>,
}

#[derive(Deserialize)]
struct MemoryUnread<'a> {
    former: State,
    #[serde(borrow)]
    applied: Unread<'a>,
}

#[derive(Serialize)]
struct MemoryWritten<'a> {
    former: &'a State,
    applied: Written<'a>,
}

/// The version of the kernel's tables at which they were found equal to the applied state. It has a
/// file of its own, because it is written after a change is complete, and deleted before the next
/// one begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// The boot, because the folder may outlive the kernel.
    boot: String,
    generation: u32,
    heads: u64,
    /// The handles of the tables' rules.
    #[serde(default)]
    handles: Handles,
}

fn seen_file(folders: &Folders) -> PathBuf {
    folders.run.join("seen.json")
}

/// Returns the version at which the kernel's tables were found equal to the applied state, with the
/// handles of their rules. Returns `None` if the tables have to be read.
pub(crate) fn seen(folders: &Folders) -> Option<(TablesVersion, Handles)> {
    let read = sealed::read::<Seen>(&seen_file(folders), "it is written again");
    // A record that cannot be read counts as unknown, which only costs time.
    let seen = read.ok().flatten()?;
    let version = TablesVersion {
        generation: seen.generation,
        heads: seen.heads,
    };
    (seen.boot == folders.boot).then_some((version, seen.handles))
}

/// Records the version at which the kernel's tables equal the applied state.
pub(crate) fn see(
    folders: &Folders,
    version: TablesVersion,
    handles: Handles,
) -> Result<(), KeepError> {
    let TablesVersion { generation, heads } = version;
    let seen = Seen {
        boot: folders.boot.clone(),
        generation,
        heads,
        handles,
    };
    sealed::write(&seen_file(folders), &seen)
}

/// Deletes the recorded version. Called before anything that it covers is changed.
pub(crate) fn forget(folders: &Folders) -> Result<(), KeepError> {
    let path = seen_file(folders);
    match fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(KeepError::file(&path)),
    }
}
