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

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the shaped devices had before the first apply.
    pub former: State,
    /// What was applied last.
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

    /// Reads the memory, where the text of tables is known that are mostly the
    /// applied ones.
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

    /// The text of a memory of this state, whose tables have this text.
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

    /// Writes the memory, whole or not at all; `None` forgets everything. What
    /// was known of the tables holds no longer.
    ///
    /// The text is one that was read, or made by [`Memory::text`].
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

/// What the tables' version was when the kernel was found to hold what the memory
/// says is applied. Apart from the memory, because it is written when a change
/// is whole and gone before the next begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// The run of the kernel: folders may outlive it.
    boot: String,
    generation: u32,
    heads: u64,
    /// The numbers of the tables' rules.
    #[serde(default)]
    handles: Handles,
}

fn seen_file(folders: &Folders) -> PathBuf {
    folders.run.join("seen.json")
}

/// The version under which the tables of the memory's applied state were read, or
/// made and read back, with the numbers of their rules; `None` where they must
/// be read.
pub(crate) fn seen(folders: &Folders) -> Option<(TablesVersion, Handles)> {
    let read = sealed::read::<Seen>(&seen_file(folders), "it is written again");
    // What cannot be read is known no longer, which costs only time.
    let seen = read.ok().flatten()?;
    let version = TablesVersion {
        generation: seen.generation,
        heads: seen.heads,
    };
    (seen.boot == folders.boot).then_some((version, seen.handles))
}

/// Remembers under which version the kernel holds what the memory says.
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

/// Forgets the version: before anything changes that it vouches for.
pub(crate) fn forget(folders: &Folders) -> Result<(), KeepError> {
    let path = seen_file(folders);
    match fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(KeepError::file(&path)),
    }
}
