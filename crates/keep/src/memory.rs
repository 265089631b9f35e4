// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weirgate remembers of the running kernel: what it applied, and what
//! was there before. Kept under `/run`.

use crate::error::KeepError;
use crate::place::{self, Place};
use crate::sealed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use weirgate_state::State;

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the shaped devices had before the first apply.
    pub former: State,
    /// What was applied last.
    pub applied: State,
}

impl Memory {
    fn file(place: &Place) -> PathBuf {
        place.run.join("state.json")
    }

    /// Reads the memory; `None` if nothing is applied.
    pub fn read(place: &Place) -> Result<Option<Self>, KeepError> {
        sealed::read(&Self::file(place), "delete it, then apply again")
    }

    /// Writes the memory, whole or not at all; `None` forgets everything.
    pub fn write(place: &Place, memory: Option<&Self>) -> Result<(), KeepError> {
        let Some(memory) = memory else {
            let gone = fs::remove_dir_all(&place.run);
            return match gone {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                other => other.map_err(KeepError::file(&place.run)),
            };
        };
        place::folder(&place.run)?;
        sealed::write(&Self::file(place), memory)
    }
}
